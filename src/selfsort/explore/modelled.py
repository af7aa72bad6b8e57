"""The edits and answers that need the model: splitting a cluster, and describing all images."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from selfsort.clustering.kmeans import Clustering, cluster
from selfsort.data.gallery import Gallery
from selfsort.errors import EditError
from selfsort.runs.edits import MAX_PARTS, Split, encode_centres
from selfsort.runs.state import State
from selfsort.sorting.estimator import SelfSort
from selfsort.sorting.vectors import describe_all

MAX_FITTED = 10_000
"""k-means sees at most this many images, so that memory stays bounded. The others go to the nearest
centre.
"""
CHUNK = 2048
STARTS = 10

OnStage = Callable[[str, int, int], None]


def describe(
    folder: Path, gallery: Gallery, n_images: int, on_stage: OnStage
) -> NDArray[np.float32]:
    """A vector for each image of the run, near each other where images are alike."""
    model = SelfSort.load(folder).model_
    return describe_all(model, gallery.images, n_images, on_stage)


def split_cluster(
    folder: Path,
    state: State,
    gallery: Gallery,
    number: int,
    n_parts: int,
    on_stage: OnStage,
) -> Split:
    """The split of a cluster into `n_parts` by k-means on its own images in the latent space F; the
    largest part keeps its number.
    """
    state.require(number)
    members = state.members(number)
    if not 2 <= n_parts <= min(MAX_PARTS, len(members)):
        limit = min(MAX_PARTS, len(members))
        raise EditError(
            f"{state.title(number)} has {len(members)} images: it can be split into 2 to "
            f"{limit}, not {n_parts}."
        )
    latent = _reader(folder, gallery, on_stage)
    is_all = len(members) <= MAX_FITTED
    sample = (
        members if is_all else np.random.default_rng(0).choice(members, MAX_FITTED, replace=False)
    )
    points = np.concatenate(list(latent(sample)))
    found: Clustering = cluster(
        points,
        n_parts,
        n_init=STARTS,
        seed=0,
        on_start=lambda done, n: on_stage("k-means", done, n),
    )
    if is_all:
        assigned = found.assign(points).labels
    else:
        assigned = np.concatenate([found.assign(chunk).labels for chunk in latent(members)])
    parts = [members[assigned == part].tolist() for part in range(n_parts)]
    if not all(parts):
        raise EditError(
            f"the images of {state.title(number)} are too alike for {n_parts} parts; ask for fewer."
        )
    return Split(
        number,
        list(range(state.free, state.free + n_parts - 1)),
        parts[1:],
        encode_centres(found.centres),
    )


def split_as_suggested(
    folder: Path,
    state: State,
    gallery: Gallery,
    number: int,
    halves: tuple[NDArray[np.intp], NDArray[np.intp]],
    on_stage: OnStage,
) -> Split:
    """The split of a cluster into halves that are known; images that come later go to the half
    whose mean in F is nearer.
    """
    latent = _reader(folder, gallery, on_stage)
    draw = np.random.default_rng(0)
    centres = []
    for rows in halves:
        sample = rows if len(rows) <= MAX_FITTED else draw.choice(rows, MAX_FITTED, replace=False)
        centres.append(np.concatenate(list(latent(sample))).mean(axis=0))
    return Split(number, [state.free], [halves[1].tolist()], encode_centres(np.stack(centres)))


def _reader(
    folder: Path, gallery: Gallery, on_stage: OnStage
) -> Callable[[NDArray[np.intp]], Iterator[NDArray[np.float32]]]:
    """What answers F of some images, a chunk of them at a time."""
    sorter = SelfSort.load(folder)

    def latent(rows: NDArray[np.intp]) -> Iterator[NDArray[np.float32]]:
        for start in range(0, len(rows), CHUNK):
            on_stage("computing features", start, len(rows))
            yield sorter.transform(gallery.images(rows[start : start + CHUNK]))

    return latent
