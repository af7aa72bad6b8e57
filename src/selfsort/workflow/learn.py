"""Learns from what a person has changed in a run: a new version of it, to be accepted or not."""

import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from selfsort.data.image_set import ImageSet
from selfsort.data.pictures import render_clusters
from selfsort.data.taught import UNKNOWN, Teaching
from selfsort.errors import DataError, SelfsortError
from selfsort.files import copy_file, make_folder, save_bytes
from selfsort.method.devices import prepare_process
from selfsort.metrics import score
from selfsort.report.map import load_projection, save_projection
from selfsort.runs.arrays import load_vectors, save_vectors
from selfsort.runs.copies import whole_folder
from selfsort.runs.folder import RunFolder
from selfsort.runs.given import save_given
from selfsort.runs.results import Results, load_edits, load_run, save_run
from selfsort.runs.state import State
from selfsort.runs.table import Assignments
from selfsort.runs.versions import digest_of_edits, new_number, reject, version_folder, waiting
from selfsort.sorting.by_sources import Compared
from selfsort.sorting.diagnosis import judge
from selfsort.sorting.estimator import SelfSort
from selfsort.sorting.relearning import compare_again, relearn
from selfsort.training.hooks import Hooks
from selfsort.workflow.images import Callbacks, read_run_images, with_images
from selfsort.workflow.results import name_clusters


class Learned(NamedTuple):
    """A new version of a run: its number, its folder, and the images that it puts elsewhere."""

    version: int
    folder: Path
    moved: NDArray[np.intp]


class Pupil:
    """A run that learns again and again: its images and what takes longest are kept in memory."""

    def __init__(self, folder: Path, *, images: Path | None = None, device: str = "auto") -> None:
        self.folder = RunFolder(folder)
        self.place = images
        self.device = device
        self.images: ImageSet | None = None
        self.compared: Compared | None = None
        self.is_compared = False

    def learn(
        self, callbacks: Callbacks, is_stopped: Callable[[], bool] = lambda: False
    ) -> Learned:
        """Learn from the edits that the run has now; the run itself stays as it is.

        `is_stopped` is asked all the time; if it says so, nothing is left behind.
        """

        def on_stage(name: str, done: int, total: int) -> None:
            if is_stopped():
                raise SelfsortError("stopped; the run is as it was.")
            callbacks.on_stage(name, done, total)

        begin = time.monotonic()
        hooks = Hooks(
            on_progress=lambda progress: is_stopped() or callbacks.on_progress(progress),
            on_stage=on_stage,
            device=self.device,
        )
        found = load_run(self.folder.path, edited=False)
        edits = digest_of_edits(self.folder.path)
        state = load_edits(self.folder, found).state
        taught = teaching_of(self.folder, found, state)
        images = replace(self._read(found, callbacks), taught=taught)
        model = SelfSort.load(self.folder.path, device=self.device).model_
        if not self.is_compared:
            self.compared = compare_again(model, images, hooks)
            self.is_compared = True
        model = relearn(model, images, hooks, self.compared)
        assert model.assignment is not None, "it has just sorted them"
        labels = np.where(state.outliers, state.labels, model.assignment.labels)
        sorter = SelfSort(model.n_clusters, device=self.device)
        sorter._adopt(model)
        sorter.recipe = found.run.recipe
        sorter.image_shape_ = images.pixels.shape[1:]
        old = found.run
        names = [state.names.get(number, "") for number in range(state.free)]
        run = replace(
            old,
            n_clusters=state.free,
            history=old.history + [asdict(record) for record in model.history],
            scores=_scores(images, labels),
            label_free=asdict(judge(model, images, labels, hooks)),
            seconds=round(time.monotonic() - begin, 1),
            warnings=[],
            alignment={},
            estimate={},
            count_curve=[],
            names=names if any(names) else [],
            retired=[one for one in range(state.free) if one not in state.clusters],
            given={"labels": len(taught.anchors), "edits": edits},
            version=new_number(self.folder.path),
            learned_from=old.version,
        )
        assignments = replace(
            name_clusters(
                Assignments(
                    found.assignments.names,
                    labels,
                    model.assignment.confidence,
                    found.assignments.truth,
                ),
                names,
            ),
            outliers=state.outliers if state.outliers.any() else None,
        )
        on_stage("writing the version", 0, 1)
        target = self._write(sorter, images, state, Results(run, assignments), found)
        return Learned(run.version, target, np.flatnonzero(labels != state.labels))

    def _read(self, found: Results, callbacks: Callbacks) -> ImageSet:
        if self.images is None:
            run = with_images(found.run, self.place, found.assignments.names)
            images = read_run_images(run, callbacks)
            if list(images.names) != list(found.assignments.names):
                raise DataError(
                    f"{run.source}: has other files now than when it was sorted; fit again."
                )
            self.images = images
        return self.images

    def _write(
        self, sorter: SelfSort, images: ImageSet, state: State, new: Results, old: Results
    ) -> Path:
        """The version in a folder of its own, which appears whole; one that was waiting goes."""
        folder = self.folder
        former = waiting(folder.path)
        target = version_folder(folder.path, new.run.version)
        make_folder(target.parent)
        with whole_folder(target) as unfinished:
            place = RunFolder(unfinished)
            sorter.save(unfinished)
            confidence = new.assignments.confidence
            picture = render_clusters(
                images, new.assignments.labels, confidence, new.run.n_clusters
            )
            save_bytes(place.picture, picture)
            assert images.taught is not None, "it has just learned"
            titled = tuple(state.title(number) for number in range(state.free))
            known = replace(images.taught, names=titled)
            save_given(place.given, images.names, known)
            beside = [place.model.name, place.picture.name, place.given.name]
            if folder.metadata.exists():
                copy_file(folder.metadata, place.metadata)
                beside.append(place.metadata.name)
            save_run(unfinished, new.run, new.assignments, beside=beside)
            # where images lie has not changed
            vectors = load_vectors(folder.path, old.assignments)
            if vectors is not None:
                save_vectors(unfinished, vectors, new.assignments)
            if (drawn := load_projection(folder.path, old.assignments)) is not None:
                save_projection(unfinished, drawn, new.assignments)
        if former is not None:
            reject(folder.path, former)
        return target


def learn_folder(
    folder: str | Path,
    *,
    images: str | Path | None = None,
    device: str = "auto",
    threads: int | None = None,
    callbacks: Callbacks | None = None,
) -> Learned:
    """Learn from what was changed in the run in a folder since it was sorted, or learned last: the
    result is a new version below `versions`, which takes the run's place when it is accepted.
    """
    prepare_process(threads)
    path = RunFolder(Path(folder))
    with path.locked():
        pupil = Pupil(path.path, images=Path(images) if images else None, device=device)
        return pupil.learn(callbacks or Callbacks())


def teaching_of(folder: RunFolder, found: Results, state: State) -> Teaching:
    """What the edits of a run say: images that somebody has decided on keep their cluster, all
    others were only found there, and outliers belong to none.
    """
    is_decided = state.reviewed & ~state.outliers
    has_changed = bool((state.labels != found.assignments.labels).any())
    if not is_decided.any() and not has_changed and not state.outliers.any():
        raise SelfsortError(
            f"{folder.path}: there is nothing to learn from; change clusters with `selfsort "
            "explore`, or answer questions there (Ask me), and learn then."
        )
    in_use = np.unique(state.labels[~state.outliers])
    if len(in_use) < 2:
        raise SelfsortError(
            f"{folder.path}: all images are in one cluster now, so there is nothing to tell "
            "apart; split it, or undo a merge."
        )
    return Teaching(
        np.where(is_decided, state.labels, UNKNOWN),
        tuple(state.names.get(number, "") for number in range(state.free)),
        weak=np.where(state.outliers, UNKNOWN, state.labels),
    )


def _scores(images: ImageSet, labels: NDArray[np.int64]) -> dict[str, dict[str, float]]:
    """Of the images that nobody has decided on, where truth is known."""
    assert images.taught is not None, "it has just learned"
    rest = np.flatnonzero(images.taught.classes < 0)
    if images.truth is None or not len(rest):
        return {}
    name = f"{images.source}, those that nobody has decided on"
    return {name: asdict(score(images.truth[rest], labels[rest]))}
