"""`selfsort predict`: new images to the clusters of a run."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from selfsort.commands.common import assignments_of, base_name, load_model_and_images, new_file, source_options
from selfsort.console import print_scores, progress_bars
from selfsort.errors import SelfsortError

if TYPE_CHECKING:
    from selfsort.images import ImageSet


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.argument("source")
@click.option(
    "--out", type=click.Path(path_type=Path, dir_okay=False), help="CSV file to write.  [default: NAME-assignments.csv]"
)
@click.option(
    "--copy-to", type=click.Path(path_type=Path, file_okay=False), help="Copy the files into one sub-folder per cluster."
)
@source_options
def predict(run: Path, source: str, out: Path | None, copy_to: Path | None, as_json: bool, **options: Any) -> None:
    """Assign the images in SOURCE to the clusters that `fit` wrote to RUN.

    Names, merges and splits that were made with `selfsort explore RUN` count.
    """
    from dataclasses import asdict, replace

    from selfsort.export import copy_files, folder_names
    from selfsort.machine import prepare_process
    from selfsort.metrics import score
    from selfsort.run import save_assignments

    if copy_to:
        if not Path(source).is_dir():
            raise click.UsageError("--copy-to needs a SOURCE that is a folder of image files.")
        if copy_to.exists() and any(copy_to.iterdir()):
            raise SelfsortError(f"{copy_to}: is not empty; choose a new folder, so that nothing is overwritten.")
    out = out or new_file(f"{base_name(source)}-assignments.csv")
    prepare_process(options["threads"])
    sorter, images = load_model_and_images(run, source, options)
    with progress_bars() as bars:
        sorter.on_stage = bars.stage
        labels, confidence = sorter.assign(images)
        labels, names = _edited(run, sorter, images, labels)
    cluster_names = [names.get(int(label), "") for label in labels] if names else None
    save_assignments(out, replace(assignments_of(images, labels, confidence), cluster_names=cluster_names))
    written = [str(out)]
    if copy_to:
        assert images.root is not None
        folders = folder_names(names, sorted({*names, *labels.tolist()}))
        copy_files(images.root, images.names, [folders[int(label)] for label in labels], copy_to)
        written.append(str(copy_to))
    scores = {f"{images.source}, predicted": score(images.truth, labels)} if images.truth is not None else {}
    if as_json:
        report = {"scores": {name: asdict(table) for name, table in scores.items()}, "written": written}
        click.echo(json.dumps({**report, "clusters": labels.tolist(), "skipped": list(images.skipped)}))
    else:
        if scores:
            print_scores(scores, {})
        click.echo(f"{len(images):,} images assigned\nwrote " + "\n      ".join(written))


def _edited(run: Path, sorter: Any, images: "ImageSet", labels: Any) -> tuple[Any, Mapping[int, str]]:
    """The clusters after the merges and splits that `explore` has kept beside the run, and the names given there."""
    from selfsort.edits import State
    from selfsort.journal import JOURNAL, load_history
    from selfsort.run import load_run

    folder = run if run.is_dir() else run.parent
    if not (folder / JOURNAL).exists():
        return labels, {}
    record, assignments = load_run(folder)
    history = load_history(folder, State.of(assignments.labels, record.n_clusters))
    return history.relabel(labels, lambda rows: sorter.transform(images.take(rows))), history.state.names
