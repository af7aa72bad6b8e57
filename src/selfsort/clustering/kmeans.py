"""F to clusters: k-means, with clusters numbered by a rule and a confidence for each image."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import euclidean_distances

from selfsort.data.image_set import chunks
from selfsort.errors import DataError


class Assignment(NamedTuple):
    """A cluster for each image and how clear it is, 0 to 1.

    With k-means: 1 − nearest/second nearest centre, 0 on the border; with a classifier: its
    calibrated probability.
    """

    labels: NDArray[np.int64]
    confidence: NDArray[np.float32]


@dataclass(frozen=True)
class Clustering:
    """Cluster centres, ordered by size (largest first), then by their coordinates."""

    centres: NDArray[np.float32]

    def assign(self, points: NDArray[np.float32]) -> Assignment:
        """The nearest centre of each point."""
        labels = []
        confidence = []
        for chunk in chunks(points):
            distances = euclidean_distances(chunk, self.centres)
            nearest = distances.argmin(axis=1)
            labels.append(nearest)
            if len(self.centres) == 1:
                confidence.append(np.ones(len(chunk)))
            else:
                first, second = np.partition(distances, 1, axis=1)[:, :2].T
                confidence.append(1 - first / np.maximum(second, np.finfo(np.float32).tiny))
        return Assignment(
            np.concatenate(labels).astype(np.int64), np.concatenate(confidence).astype(np.float32)
        )

    def nearness(self, points: NDArray[np.float32]) -> NDArray[np.float32]:
        """Shares of 1 / distance², (points, centre), largest for the nearest."""
        distances = euclidean_distances(points, self.centres, squared=True).astype(np.float64)
        nearness = 1 / np.maximum(distances, 1e-12)
        return np.asarray(nearness / nearness.sum(axis=1, keepdims=True), dtype=np.float32)


def order_by_size(labels: NDArray[np.int64], n_clusters: int) -> NDArray[np.intp]:
    """The clusters by size, the largest first, then by their first image: a rule that does not ask
    how they were found.

    >>> order_by_size(np.array([2, 0, 0, 1]), 4).tolist()
    [0, 2, 1, 3]
    """
    sizes = np.bincount(labels, minlength=n_clusters)
    first = np.full(n_clusters, len(labels))
    np.minimum.at(first, labels, np.arange(len(labels)))
    return np.lexsort((first, -sizes))


def cluster(
    points: NDArray[np.float32],
    n_clusters: int,
    *,
    n_init: int,
    seed: int,
    on_start: Callable[[int, int], None] | None = None,
) -> Clustering:
    """k-means, the tightest of `n_init` starts; `on_start(done, total)` tells progress.

    >>> points = np.repeat(np.eye(2, dtype=np.float32), [2, 3], axis=0)
    >>> cluster(points, 2, n_init=1, seed=0).assign(points).labels
    array([1, 1, 0, 0, 0])
    """
    if len(points) < n_clusters:
        raise DataError(f"n_samples={len(points)} should be >= n_clusters={n_clusters}.")
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", ConvergenceWarning
        )  # fewer distinct points than clusters: seen in the sizes
        draw = np.random.RandomState(seed)
        best: KMeans = None
        for done in range(1, n_init + 1):
            fitted = KMeans(n_clusters, n_init=1, random_state=draw).fit(points)
            best = fitted if best is None or fitted.inertia_ < best.inertia_ else best
            if on_start:
                on_start(done, n_init)
    centres = best.cluster_centers_.astype(np.float32)
    sizes = np.bincount(Clustering(centres).assign(points).labels, minlength=n_clusters)
    order = np.lexsort((*centres.T[:8][::-1], -sizes))
    return Clustering(centres[order])
