"""What several commands share: the options of a source of images, and reading it."""

import glob
import re
from collections.abc import Callable, Iterable
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from selfsort.errors import SelfsortError
from selfsort.runs.limits import MAX_THREADS

if TYPE_CHECKING:
    from selfsort.data.image_set import ImageSet
    from selfsort.sorting.estimator import SelfSort
    from selfsort.workflow.images import Callbacks

threads_option = click.option(
    "--threads",
    type=click.IntRange(1, MAX_THREADS),
    help="CPU threads.  [default: the cores this process may use]",
)

images_option = click.option(
    "--images",
    type=click.Path(path_type=Path),
    help="Where the images are now, if they have moved since the fit.",
)


def source_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of every command that reads images."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print the result as JSON."),
        threads_option,
        click.option(
            "--device",
            default="auto",
            show_default=True,
            help="Where to compute: auto, cpu, cuda, mps.",
        ),
        click.option(
            "--skip-broken",
            is_flag=True,
            help="Leave out image files that cannot be read, and list them.",
        ),
        click.option(
            "--folder-truth",
            is_flag=True,
            help="Take the names of sub-folders as truth (used to print scores only).",
        ),
        click.option(
            "--data-dir",
            type=click.Path(path_type=Path, file_okay=False),
            help="Where the files of named data sets are.",
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


def load_model_and_images(
    run: Path, source: str, options: dict[str, Any], callbacks: "Callbacks"
) -> "tuple[SelfSort, ImageSet]":
    """A fitted model and the images that it is to work on."""
    from selfsort.data.kinds import Reading
    from selfsort.method.devices import prepare_process
    from selfsort.sorting.estimator import SelfSort
    from selfsort.workflow.images import read_source

    prepare_process(options["threads"])
    sorter = SelfSort.load(run, device=options["device"])
    sorter.on_stage = callbacks.on_stage
    data_dir = options["data_dir"]
    reading = Reading(
        source=source,
        kind=sorter.kind,
        data_dir=str(data_dir) if data_dir else None,
        folder_truth=options["folder_truth"],
        skip_broken=options["skip_broken"],
        image_shape=list(sorter.image_shape) if sorter.image_shape else None,
    )
    return sorter, read_source(reading, sorter.model_.reading_size, callbacks)


def tell_of_edits(run: Path) -> None:
    """For commands that work with the clusters as a person has edited them."""
    from selfsort.cli.console import say
    from selfsort.runs.folder import RunFolder

    if RunFolder(run).journal.exists():
        say(f"edits in {RunFolder(run).journal} count")


def base_name(source: str) -> str:
    """What results are called after a source: a folder, a file, a pattern or a data set."""
    path = Path(source).resolve()
    if path.is_file():
        return path.name.partition(".")[0] or path.name
    if not path.exists():
        fixed = takewhile(lambda part: not glob.has_magic(part), Path(source).parts)
        path = Path(*fixed)
    return path.name.replace(":", "-") or "images"


def new_file(name: str) -> Path:
    if Path(name).exists():
        raise SelfsortError(f"{name}: exists already; choose another file with --out.")
    return Path(name)


def cluster_number(text: str | None) -> int | str | None:
    """A number, `auto`, or what each parent is to have."""
    if text is None or text == "auto" or "=" in text:
        return text
    if text.isascii() and text.isdecimal() and len(text) < 10 and int(text) >= 1:
        return int(text)
    raise click.UsageError(f"--clusters {text[:20]!r} should be a whole number >= 1, or auto.")


def shape_of(text: str | None) -> list[int] | None:
    """`28x28` or `3x32x32` as numbers."""
    if text is None:
        return None
    if not re.fullmatch(r"[1-9]\d{0,5}(x[1-9]\d{0,5}){1,2}", text, re.ASCII):
        raise click.UsageError(f"--image-shape {text[:20]!r} should look like 28x28 or 3x32x32.")
    return [int(side) for side in text.split("x")]
