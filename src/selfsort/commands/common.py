"""What several commands share: the options of a source of images, and reading it."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from selfsort.console import progress_bars, say
from selfsort.errors import SelfsortError

if TYPE_CHECKING:
    from selfsort.images import ImageSet
    from selfsort.run import Run

MAX_SEED = 2**31 - 1


def source_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of every command that reads images."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print the result as JSON."),
        click.option("--threads", type=click.IntRange(1), help="CPU threads.  [default: the cores this process may use]"),
        click.option("--device", default="auto", show_default=True, help="Where to compute: auto, cpu, cuda, mps."),
        click.option("--skip-broken", is_flag=True, help="Leave out image files that cannot be read, and list them."),
        click.option("--folder-truth", is_flag=True, help="Take the names of sub-folders as truth (used to print scores only)."),
        click.option(
            "--data-dir", type=click.Path(path_type=Path, file_okay=False), help="Where the files of named data sets are."
        ),
    ):
        command = option(command)
    return command


def parse_changes(changes: Iterable[str]) -> dict[str, Any]:
    """What `--set NAME=VALUE` asks for."""
    from selfsort.config import parse_value

    settings = {}
    for change in changes:
        name, equals, value = change.partition("=")
        if not equals:
            raise click.UsageError(f"--set {change!r} should look like training.batch_size=200.")
        settings[name.strip()] = parse_value(value.strip())
    return settings


def load_source_images(source: str, options: dict[str, Any], size: int | None) -> "ImageSet":
    """Images of a source; files are read at a size that can be looked at, also where the network works on a smaller one."""
    from selfsort.datasets import load_source
    from selfsort.images import FOLDER_SIZE

    with progress_bars() as bars:
        images = load_source(
            source,
            data_dir=Path(options["data_dir"]) if options["data_dir"] else None,
            size=max(size or 0, FOLDER_SIZE),
            truth_from_folders=options["folder_truth"],
            skip_broken=options["skip_broken"],
            on_file=lambda done, total: bars.stage("reading images", done, total),
        )
    if images.skipped:
        say(f"left out {len(images.skipped)} files that cannot be read:\n  " + "\n  ".join(map(repr, images.skipped)))
    return images


def load_run_images(run: "Run") -> "ImageSet":
    """The images that a run was fitted on, read again."""
    from selfsort.errors import DataError

    if not run.reading:
        raise DataError(f"{run.source}: the run does not say where its images are; fit again.")
    try:
        images = load_source_images(run.reading["source"], run.reading, run.reading["size"])
    except DataError as error:
        raise DataError(f"the images of the run cannot be read; put them back to where they were ({error})") from error
    if len(images) != run.n_samples:
        raise DataError(f"{run.source}: has {len(images):,} images now and had {run.n_samples:,} when it was sorted; fit again.")
    return images


def tell_of_edits(folder: Path) -> None:
    """For commands that work with the clusters as `fit` has found them."""
    from selfsort.journal import JOURNAL

    if (folder / JOURNAL).exists():
        say(f"edits in {folder / JOURNAL} are not used here; export them in `selfsort explore` and give that table instead")


def load_model_and_images(run: Path, source: str, options: dict[str, Any]) -> tuple[Any, "ImageSet"]:
    from selfsort.estimator import SelfSort

    sorter = SelfSort.load(run, device=options["device"])
    return sorter, load_source_images(source, options, sorter.refinement_preparation_.size)


def assignments_of(images: "ImageSet", labels: Any, confidence: Any) -> Any:
    from selfsort.run import Assignments

    truth = [images.truth_names[label] for label in images.truth] if images.truth is not None else None
    return Assignments(images.names, labels, confidence, truth)


def base_name(source: str) -> str:
    path = Path(source).resolve()
    return path.name if path.is_dir() else path.stem if path.exists() else source.replace(":", "-")


def new_file(name: str) -> Path:
    if Path(name).exists():
        raise SelfsortError(f"{name}: exists already; choose another file with --out.")
    return Path(name)
