"""Which images stand for a cluster, and which lie on its border.

Confidence cannot tell the most typical image: a good classifier is sure of most of them. So the
middle of a cluster is the median of its images' vectors or, without them, of their places on the
map.
"""

import numpy as np
from numpy.typing import NDArray

from selfsort.report.map import Projection

BORDER = 0.95
"""A borderline image has less than this share of its cluster's median confidence."""

Points = NDArray[np.float32]
"""A place for each image of the run, NaN where there is none."""


def places(n_images: int, projection: Projection | None, vectors: Points | None) -> Points | None:
    """Where images lie: their vectors, else their places on the map."""
    if vectors is not None:
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        return np.asarray(vectors / np.maximum(lengths, 1e-12), dtype=np.float32)
    if projection is None:
        return None
    points = np.full((n_images, 2), np.nan, dtype=np.float32)
    points[projection.rows] = projection.points
    return points


def most_typical(
    members: NDArray[np.intp], confidence: NDArray[np.float32], points: Points | None
) -> NDArray[np.intp]:
    """The members of a cluster, the most central first; those without a place follow, the most
    confident first.

    The most central is the member nearest to the median of all in each direction, which a few far
    members do not move.
    """
    clearest = members[np.argsort(-confidence[members], kind="stable")]
    if points is None:
        return clearest
    is_placed = ~np.isnan(points[clearest, 0])
    own = clearest[is_placed]
    middle = np.median(points[own], axis=0) if len(own) else 0
    distances = ((points[own] - middle) ** 2).sum(axis=1)
    return np.concatenate([own[np.argsort(distances, kind="stable")], clearest[~is_placed]])


def borderline(
    members: NDArray[np.intp], confidence: NDArray[np.float32], count: int
) -> NDArray[np.intp]:
    """Up to `count` members that are clearly less confident than the others, the least first."""
    if not len(members):
        return members
    lowest = members[np.argsort(confidence[members], kind="stable")[:count]]
    return lowest[confidence[lowest] < BORDER * np.median(confidence[members])]
