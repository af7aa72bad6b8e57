"""Images to short vectors that lie near each other where images are alike: the leading directions
of what the model's assigner looks at.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.extmath import randomized_svd

from selfsort.data.image_set import ImageSet, sample_rows
from selfsort.sorting.described import BySources
from selfsort.sorting.model import Model
from selfsort.training.hooks import Hooks, StageHook

N_DIRECTIONS = 48
CHUNK = 2048
SAMPLE = 8192
"""Images from which the directions are taken, at most."""

STAGE = "describing the images"

Read = Callable[[NDArray[np.int64]], ImageSet]
"""Answers the images in these rows."""


def describe_all(
    model: Model, read: Read, n_images: int, on_stage: StageHook | None = None
) -> NDArray[np.float32]:
    """A vector for each of the images that a model was fitted on (images × 48 at most)."""
    done = [0]
    total = n_images if n_images <= SAMPLE else n_images + SAMPLE

    def describe(rows: NDArray[np.int64]) -> NDArray[np.float32]:
        found = _describe(model, read(rows))
        done[0] += len(rows)
        if on_stage:
            on_stage(STAGE, done[0], total)
        return found

    def chunks(rows: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        return [rows[start : start + CHUNK] for start in range(0, len(rows), CHUNK)]

    sample = sample_rows(n_images, SAMPLE, model.trained.seed)
    whole = np.concatenate([describe(rows) for rows in chunks(sample)])
    centre = whole.mean(axis=0)
    n_directions = min(N_DIRECTIONS, *whole.shape)
    _, _, axes = randomized_svd(
        whole - centre, n_directions, n_iter=2, random_state=model.trained.seed
    )
    if len(sample) == n_images:
        return np.asarray((whole - centre) @ axes.T, dtype=np.float32)
    parts = [(describe(rows) - centre) @ axes.T for rows in chunks(np.arange(n_images))]
    return np.concatenate(parts).astype(np.float32)


def _describe(model: Model, images: ImageSet) -> NDArray[np.float32]:
    """What the assigner looks at: all sources side by side, or the network's F."""
    if isinstance(model.assigner, BySources):
        found: NDArray[np.float32] = model.assigner.vectors(images).numpy()
        return found
    return model.trained.represent(images, Hooks()).latent
