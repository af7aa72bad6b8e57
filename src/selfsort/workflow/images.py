"""Reads the images of a job or of a finished run, and tells how far it is."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from selfsort.data.datasets import DATASETS
from selfsort.data.folder import FOLDER_SIZE
from selfsort.data.image_set import ImageSet
from selfsort.data.kinds import Reading, read
from selfsort.errors import DataError, SelfsortError
from selfsort.files import inside
from selfsort.runs.record import Run
from selfsort.runs.table import Assignments

if TYPE_CHECKING:
    from selfsort.training.loop import Progress  # torch, which a report does not need


def _ignore(*values: Any) -> None:
    """Nobody listens."""


class Callbacks(NamedTuple):
    """Who is told what: each training step (True stops), each stage as (name, done, total), and
    notices of one line.
    """

    on_progress: Callable[["Progress"], bool | None] = _ignore
    on_stage: Callable[[str, int, int], None] = _ignore
    tell: Callable[[str], None] = _ignore


def read_source(reading: Reading, size: int | None, callbacks: Callbacks) -> ImageSet:
    """The images of a source; files are read at a size that can be looked at, also where the
    network works on a smaller one.
    """
    callbacks.on_stage("reading images", 0, 1)
    images = read(
        replace(reading, size=max(size or 0, FOLDER_SIZE)),
        lambda done, total: callbacks.on_stage("reading images", done, total),
    )
    callbacks.on_stage("reading images", len(images), len(images))
    if images.skipped:
        callbacks.tell(f"left out {len(images.skipped)} files that cannot be read:")
        for name, reason in images.skipped.items():
            callbacks.tell(f"  {name!r}: {reason}")
    for note in images.notes:
        callbacks.tell(f"{images.source}: {note}")
    if images.dropped:
        callbacks.tell(
            f"{images.source}: {len(images.dropped):,} copies left out (run.json lists them)"
        )
    return images


def read_test(
    images: ImageSet,
    test_source: str | None,
    reading: Reading,
    size: int,
    callbacks: Callbacks,
) -> ImageSet | None:
    """The images of `test_source`, else the test split of a named data set if its files can be
    had.
    """
    if test_source:
        reading = replace(reading, source=test_source, drop_duplicates=False)
        test = read_source(reading, size, callbacks)
        if test.truth is None:
            raise DataError(
                f"{test.source}: has no truth to score with; use `folder_truth=True` to take it "
                "from sub-folders."
            )
        return test
    name, _, split = images.source.partition(":")
    if name not in DATASETS or split != "train":
        return None
    try:
        return read_source(replace(reading, source=f"{name}:test"), size, callbacks)
    except DataError as error:
        callbacks.tell(f"not scored on {name}:test: {error}")
        return None


def with_images(run: Run, place: Path | None, names: Sequence[str]) -> Run:
    """The run with its images read from another folder or file than it was fitted on, if one is
    given.
    """
    if place is None:
        return run
    if not run.reading:
        raise DataError(f"{run.source}: the run does not say how its images are read; fit again.")
    if not place.exists():
        raise DataError(f"{place}: no such file or folder; say where the images are now.")
    if place.is_dir():
        missing = [name for name in names if not inside(place, name).is_file()]
        if missing:
            raise DataError(
                f"{place}: {len(missing):,} of the {len(names):,} images of the run are not in it "
                f"({missing[0]!r}); give the folder that holds what {run.source} held."
            )
    part = "images" if run.reading.get("images") else "source"
    return replace(run, reading=run.reading | {part: str(place.resolve())})


def read_run_images(run: Run, callbacks: Callbacks) -> ImageSet:
    """The images that a run was fitted on, read again."""
    if not run.reading:
        raise DataError(f"{run.source}: the run does not say where its images are; fit again.")
    try:
        reading = Reading(**run.reading)
        images = read_source(reading, reading.size, callbacks)
    except DataError as error:
        raise DataError(
            "the images of the run cannot be read; put them back to where they were, or name the "
            f"place with `images` ({error})"
        ) from error
    if len(images) != run.n_samples:
        raise DataError(
            f"{run.source}: has {len(images):,} images now and had {run.n_samples:,} when it was "
            "sorted; fit again."
        )
    return images


def refuse_inside(out: Path, source: str) -> None:
    """Results inside the folder that is sorted would be sorted themselves the next time."""
    folder = Path(source)
    if folder.is_dir() and out.resolve().is_relative_to(folder.resolve()):
        raise SelfsortError(
            f"{out}: is inside {source}, whose images are sorted; choose a folder outside of it."
        )


def stamp_of(source: str, names: Sequence[str]) -> str:
    """A hash of the names and sizes of the files that images come from, so that others in their
    place are noticed; nothing for a named data set, whose files have hashes of their own.
    """
    root = Path(source)
    files = [root / name for name in names] if root.is_dir() else [root]
    digest = hashlib.sha256()
    try:
        for file in files:
            digest.update(f"{file.name}\0{file.stat().st_size}\0".encode(errors="surrogateescape"))
    except OSError:
        return ""
    return digest.hexdigest()


def changed_since(run: Run, names: Sequence[str]) -> str:
    """One line if the files are not those that were sorted; empty if they are, or if the run does
    not know.
    """
    if not run.stamp or stamp_of(run.reading.get("source", ""), names) == run.stamp:
        return ""
    return "the image files are not those that were sorted (other sizes); fit again."


def assignments_of(images: ImageSet, labels: Any, confidence: Any) -> Assignments:
    """The table of these images."""
    truth = None
    if images.truth is not None:
        truth = [images.truth_names[label] for label in images.truth]
    return Assignments(images.names, labels, confidence, truth)
