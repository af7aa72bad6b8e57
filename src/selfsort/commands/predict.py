"""`selfsort predict`: new images to the clusters of a run."""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from selfsort.commands.common import assignments_of, base_name, load_model_and_images, new_file, source_options
from selfsort.console import print_scores, progress_bars
from selfsort.errors import SelfsortError

if TYPE_CHECKING:
    from selfsort.images import ImageSet

MAX_NAME = 240
"""Bytes of the names of copies; file systems allow 255."""


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
    """Assign the images in SOURCE to the clusters that `fit` wrote to RUN."""
    from dataclasses import asdict

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
    save_assignments(out, assignments_of(images, labels, confidence))
    written = [str(out)]
    if copy_to:
        _copy_files(images, labels, copy_to)
        written.append(str(copy_to))
    scores = {f"{images.source}, predicted": score(images.truth, labels)} if images.truth is not None else {}
    if as_json:
        report = {"scores": {name: asdict(table) for name, table in scores.items()}, "written": written}
        click.echo(json.dumps({**report, "clusters": labels.tolist(), "skipped": list(images.skipped)}))
    else:
        if scores:
            print_scores(scores, {})
        click.echo(f"{len(images):,} images assigned\nwrote " + "\n      ".join(written))


def _joined(name: str) -> str:
    """One file name of the folders and the name of a file; too long a one keeps its beginning, a hash and its ending."""
    import hashlib

    joined = name.replace(os.sep, "__")
    if len(os.fsencode(joined)) <= MAX_NAME:
        return joined
    stem, ending = os.path.splitext(joined)
    ending = f"-{hashlib.sha256(os.fsencode(joined)).hexdigest()[:16]}{ending if len(ending) <= 16 else ''}"
    while len(os.fsencode(stem + ending)) > MAX_NAME:
        stem = stem[:-1]
    return stem + ending


def _copy_files(images: "ImageSet", labels: Any, target: Path) -> None:
    """Copy each file to TARGET/cluster-N/, the folders of its name joined with `__`."""
    from selfsort.files import copy_file

    assert images.root is not None
    for name, label in zip(images.names, labels, strict=True):
        place = target / f"cluster-{label}" / _joined(name)
        while place.exists():
            place = place.with_name(f"_{place.name}")
        copy_file(images.root / name, place)
