"""F to a map: t-SNE of a sample of the images. It is kept in the run's folder and computed once."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from selfsort.runs.arrays import load_arrays, save_arrays
from selfsort.runs.folder import RunFolder
from selfsort.runs.table import Assignments

MAX_FILE = 16 * 2**20
DEFAULT_POINTS = 5000
MAX_POINTS = 20_000
N_COMPONENTS = 50
PERPLEXITY = 30
EARLY_STEPS = 100
STEPS = 250
FFT = {"negative_gradient_method": "fft", "ints_in_interval": 2, "min_num_intervals": 20}
"""A grid half as fine as the default is good enough to look at and takes a third of the time."""

EXACT_NEIGHBOURS = 10_000
FEWEST = 8
"""Fewer images have no neighbourhoods; their map is the two leading components."""


class Projection(NamedTuple):
    """Where the images of these rows (ascending) lie on the map, both axes on one scale within [0,
    1].
    """

    rows: NDArray[np.int64]
    points: NDArray[np.float32]


def project(
    latent: NDArray[np.float32], *, seed: int, on_step: Callable[[int, int], None] | None = None
) -> NDArray[np.float32]:
    """Points (images × 2) of t-SNE (perplexity 30, 350 steps) after PCA to 50 components. The same
    seed gives the same map.
    """
    if on_step:
        on_step(0, EARLY_STEPS + STEPS)
    from openTSNE import TSNE  # slow to import, and reading a map does not need it
    from openTSNE.affinity import PerplexityBasedNN
    from openTSNE.initialization import jitter, rescale

    components = _principal_components(latent, seed)
    if len(latent) < FEWEST or not components.any():
        return _unit_square(components)
    n_neighbours = min(3 * PERPLEXITY, len(latent) - 1)
    affinities = PerplexityBasedNN(
        components,
        perplexity=n_neighbours / 3,
        method="exact" if len(latent) <= EXACT_NEIGHBOURS else "annoy",
        n_jobs=1,
        random_state=seed,
    )
    done = [0]

    def tell(step: int, *ignored: Any) -> None:
        done[0] += 10
        if on_step:
            on_step(done[0], EARLY_STEPS + STEPS)

    embedding = TSNE(
        # the jitter keeps equal images from lying exactly on each other
        initialization=jitter(rescale(components[:, :2]), random_state=seed),
        early_exaggeration_iter=EARLY_STEPS,
        n_iter=STEPS,
        n_jobs=1,
        random_state=seed,
        callbacks=tell,
        callbacks_every_iters=10,
        **FFT,
    ).fit(affinities=affinities)
    return _unit_square(np.asarray(embedding))


def _principal_components(latent: NDArray[np.float32], seed: int) -> NDArray[np.float64]:
    """The leading components, at least two."""
    from sklearn.utils.extmath import randomized_svd

    centred = (latent - latent.mean(axis=0)).astype(np.float64)
    n_components = min(N_COMPONENTS, *latent.shape)
    left, values, _ = randomized_svd(centred, n_components, n_iter=2, random_state=seed)
    return np.pad(left * values, ((0, 0), (0, max(0, 2 - n_components))))


def _unit_square(points: NDArray[Any]) -> NDArray[np.float32]:
    low = points[:, :2].min(axis=0)
    span = np.ptp(points[:, :2], axis=0)
    return np.asarray((points[:, :2] - low) / max(float(span.max()), 1e-12), dtype=np.float32)


def save_projection(folder: Path, projection: Projection, assignments: Assignments) -> Path:
    """Write `map.npz` into a run's folder."""
    return save_arrays(
        RunFolder(folder).map, assignments, rows=projection.rows, points=projection.points
    )


def load_projection(folder: Path, assignments: Assignments) -> Projection | None:
    """Read what `save_projection` wrote; None if there is none for these assignments."""
    found = load_arrays(RunFolder(folder).map, assignments, "rows", "points", limit=MAX_FILE)
    if found is None:
        return None
    rows, points = found
    fits = (
        rows.dtype == np.int64
        and points.dtype == np.float32
        and points.shape == (rows.size, 2)
        and rows.ndim == 1
        and rows.size <= MAX_POINTS
    )
    if not fits:
        return None
    projection = Projection(rows.astype(np.int64), points.astype(np.float32))
    is_inside = ((projection.points >= 0) & (projection.points <= 1)).all() and (
        (projection.rows >= 0) & (projection.rows < len(assignments.names))
    ).all()
    return projection if is_inside else None
