"""`selfsort report`: a finished run to one HTML page."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from selfsort.commands.common import load_run_images, tell_of_edits
from selfsort.console import progress_bars, say
from selfsort.errors import DataError, ModelFileError, SelfsortError

if TYPE_CHECKING:
    from selfsort.images import ImageSet
    from selfsort.run import Assignments, Run

REPORT = "report.html"
StageHook = Callable[[str, int, int], None]


@click.command()
@click.argument("run_folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--points",
    type=click.IntRange(2, 20_000),
    help="Images on the map, drawn by the run's seed; 20,000 take a minute.  [default: those of the last report, or 5,000]",
)
@click.option("--no-map", is_flag=True, help="Leave the map out.")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="File to write.  [default: DIR/report.html]")
@click.option("--threads", type=click.IntRange(1), help="CPU threads.  [default: the cores this process may use]")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def report(run_folder: Path, points: int | None, no_map: bool, out: Path | None, threads: int | None, as_json: bool) -> None:
    """Write one self-contained HTML page about the run in DIR: its clusters, a map, training, warnings.

    The page needs no network and no server. The map is computed once and kept in DIR as map.npz.
    """
    from selfsort.run import load_run

    run, assignments = load_run(run_folder)
    _check(run_folder, run, assignments)
    tell_of_edits(run_folder)
    images, reason = None, ""
    try:
        images = _checked_images(run, assignments)
    except SelfsortError as error:
        reason = str(error)
        say(f"without pictures: {reason}")

    def represent(chosen: "ImageSet", on_stage: StageHook) -> Any:
        from selfsort.estimator import SelfSort
        from selfsort.machine import prepare_process

        prepare_process(threads)
        sorter = SelfSort.load(run_folder)
        sorter.on_stage = on_stage
        return sorter.transform(chosen)

    written = write_report(
        run_folder,
        run,
        assignments,
        images,
        represent,
        points=points,
        with_map=not no_map,
        without_images=reason,
        out=out,
    )
    click.echo(json.dumps({"written": written}) if as_json else "wrote " + "\n      ".join(written))


def write_report(
    folder: Path,
    run: "Run",
    assignments: "Assignments",
    images: "ImageSet | None",
    represent: Callable[["ImageSet", StageHook], Any],
    *,
    points: int | None = None,
    with_map: bool = True,
    without_images: str = "",
    out: Path | None = None,
) -> list[str]:
    """Write the page, and the map if it is not there yet; `represent` answers F of some images. Returns the files written."""
    from selfsort.files import save_text
    from selfsort.images import sample_rows
    from selfsort.projection import DEFAULT_POINTS, Projection, load_projection, project, save_projection
    from selfsort.report import render_report

    written: list[str] = []
    rows = sample_rows(run.n_samples, points or DEFAULT_POINTS, run.seed)
    projection = load_projection(folder, assignments) if with_map else None
    reason = without_images if with_map else "it was left out with --no-map."
    is_missing = projection is None or (points is not None and len(projection.rows) != len(rows))
    with progress_bars() as bars:
        if is_missing and with_map and images is not None:
            try:
                latent = represent(images.take(rows), bars.stage)
                places = project(latent, seed=run.seed, on_step=lambda done, total: bars.stage("drawing the map", done, total))
                projection = Projection(rows, places)
                written.append(str(save_projection(folder, projection, assignments)))
            except SelfsortError as error:  # without a model there is no map, but all the rest
                reason = str(error)
                say(f"without a new map: {reason}")
        page = render_report(
            run,
            assignments,
            images,
            projection,
            without_images=without_images,
            without_map=reason,
            on_step=lambda done, total: bars.stage("writing the report", done, total),
        )
    save_text(out or folder / REPORT, page)
    return [str(out or folder / REPORT), *written]


def _check(folder: Path, run: "Run", assignments: "Assignments") -> None:
    """Both files can be read, but may have been edited or be of two runs."""
    labels = assignments.labels
    if not (len(labels) == run.n_samples > 0 and labels.min() >= 0 and labels.max() < run.n_clusters):
        raise ModelFileError(f"{folder}: run.json and assignments.csv do not belong together; restore them or fit again.")


def _checked_images(run: "Run", assignments: "Assignments") -> "ImageSet":
    images = load_run_images(run)
    if list(images.names) != list(assignments.names):
        raise DataError(f"{run.source}: has other files now than when it was sorted; fit again.")
    return images
