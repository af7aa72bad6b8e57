"""Writes the report of a finished run; the map is computed once and kept beside it."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from selfsort.data.image_set import ImageSet, sample_rows
from selfsort.errors import DataError, ModelFileError, SelfsortError
from selfsort.files import save_text
from selfsort.report.map import (
    DEFAULT_POINTS,
    Projection,
    load_projection,
    project,
    save_projection,
)
from selfsort.report.page import render_report
from selfsort.runs.arrays import load_vectors, save_vectors
from selfsort.runs.folder import RunFolder
from selfsort.runs.record import Run
from selfsort.runs.results import Results, apply_edits, is_edited, load_edits, load_run
from selfsort.runs.table import load_columns
from selfsort.workflow.images import Callbacks, changed_since, read_run_images, with_images

if TYPE_CHECKING:
    from selfsort.sorting.estimator import SelfSort  # torch, which a report does not need


def write_report(
    folder: Path | str,
    *,
    out: Path | None = None,
    points: int | None = None,
    with_map: bool = True,
    edited: bool = True,
    images: ImageSet | Path | str | None = None,
    sorter: "SelfSort | None" = None,
    threads: int | None = None,
    callbacks: Callbacks | None = None,
) -> list[Path]:
    """Write the page of the run in `folder`, and its map if that is not there yet; returns the
    files written.

    With `edited` it shows the clusters after the edits made in `selfsort explore`. `images` are
    those of the run, or the place where they are now, and `sorter` is its model; both are read from
    disk unless they are given.
    Without images or model the page has no pictures or no map, and says why.
    """
    callbacks = callbacks or Callbacks()
    paths = RunFolder(Path(folder))
    found = load_run(folder, edited=False)
    _check(paths, found)
    if isinstance(images, Path | str):
        moved = with_images(found.run, Path(images), found.assignments.names)
        found = found._replace(run=moved)
        images = None
    run = found.run
    no_images = ""
    if images is None:
        try:
            images = _same_images(found, callbacks)
        except SelfsortError as error:
            no_images = str(error)
            callbacks.tell(f"without pictures: {no_images}")
    if changed := changed_since(run, found.assignments.names):
        callbacks.tell(f"warning: {changed}")
        run = replace(run, warnings=[*run.warnings, changed])
    written: list[Path] = []
    projection = None
    vectors = load_vectors(paths.path, found.assignments)
    no_map = no_images or "it was left out."
    if with_map:
        rows = sample_rows(run.n_samples, points or DEFAULT_POINTS, run.seed)
        projection = load_projection(paths.path, found.assignments)
        n_found = None if projection is None else len(projection.rows)
        is_good = n_found is not None and (points is None or n_found == len(rows))
        if not is_good and images is not None:
            try:
                if vectors is None:
                    sorter = sorter or _load_sorter(paths, threads)
                    vectors = _describe(sorter, images, callbacks)
                    file, vectors = save_vectors(paths.path, vectors, found.assignments)
                    written.append(file)
                places = project(
                    vectors[rows],
                    seed=run.seed,
                    on_step=lambda done, total: callbacks.on_stage("drawing the map", done, total),
                )
                projection = Projection(rows, places)
                written.append(save_projection(paths.path, projection, found.assignments))
            except SelfsortError as error:  # without a model there is no map, but all the rest
                no_map = str(error)
                callbacks.tell(f"without a new map: {no_map}")
    assignments = found.assignments
    if edited and is_edited(paths, found):
        history = load_edits(paths, found)
        assignments = apply_edits(assignments, history)
        run = replace(run, n_clusters=history.state.free)
    shorten = _shown(run, paths)
    callbacks.on_stage("writing the report", 0, 1)
    page = render_report(
        _public(run, shorten),
        assignments,
        images,
        projection,
        vectors,
        columns=load_columns(paths.metadata, run.n_samples),
        without_images=shorten(no_images),
        without_map=shorten(no_map),
        on_step=lambda done, total: callbacks.on_stage("writing the report", done, total),
    )
    target = out or paths.report
    save_text(target, page)
    return [target, *written]


def _shown(run: Run, folder: RunFolder) -> Callable[[str], str]:
    """A function that takes the folders above the source and the run out of a text: they are
    nobody's business who is sent the page.
    """
    places = [str(folder.path.resolve()), str(folder.path), run.source]
    places += [str(run.reading.get(name) or "") for name in ("source", "data_dir")]
    places += [str(run.alignment.get("to", ""))]
    above = {f"{os.path.dirname(place)}/" for place in places if os.path.isabs(place)} - {"//", "/"}

    def shorten(text: str) -> str:
        for prefix in sorted(above, key=len, reverse=True):
            text = text.replace(prefix, "")
        return text

    return shorten


def _public(run: Run, shorten: Callable[[str], str]) -> Run:
    """The record as the page shows it."""
    return replace(
        run,
        source=shorten(run.source),
        scores={shorten(name): table for name, table in run.scores.items()},
        skipped={shorten(name): reason for name, reason in run.skipped.items()},
        notes=list(map(shorten, run.notes)),
        warnings=list(map(shorten, run.warnings)),
        alignment=run.alignment and run.alignment | {"to": shorten(str(run.alignment["to"]))},
        reading={},
    )


def _describe(sorter: "SelfSort", images: ImageSet, callbacks: Callbacks) -> NDArray[np.float32]:
    """A vector for each image of a run, near each other where images are alike."""
    from selfsort.sorting.vectors import describe_all  # torch

    return describe_all(sorter.model_, images.take, len(images), callbacks.on_stage)


def _load_sorter(folder: RunFolder, threads: int | None) -> "SelfSort":
    from selfsort.method.devices import prepare_process  # torch, only when a map is drawn
    from selfsort.sorting.estimator import SelfSort

    prepare_process(threads)
    return SelfSort.load(folder.path)


def _check(folder: RunFolder, found: Results) -> None:
    """Both files can be read, but may have been edited or be of two runs."""
    labels = found.assignments.labels
    run = found.run
    if not (
        len(labels) == run.n_samples > 0 and labels.min() >= 0 and labels.max() < run.n_clusters
    ):
        raise ModelFileError(
            f"{folder.path}: {folder.record.name} and {folder.table.name} do not belong together; "
            "restore them or fit again."
        )


def _same_images(found: Results, callbacks: Callbacks) -> ImageSet:
    images = read_run_images(found.run, callbacks)
    if list(images.names) != list(found.assignments.names):
        raise DataError(
            f"{found.run.source}: has other files now than when it was sorted; fit again."
        )
    return images
