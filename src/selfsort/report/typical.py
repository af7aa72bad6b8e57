"""Which images stand for a cluster, and which lie on its border.

Confidence cannot tell the most typical image: a good classifier is sure of most of them. So the
middle of a cluster is its medoid on the map.
"""

import numpy as np
from numpy.typing import NDArray

from selfsort.report.map import Projection

MAX_COMPARED = 500
"""Each image is compared with at most this many of its cluster."""

BORDER = 0.95
"""A borderline image has less than this share of its cluster's median confidence."""


def most_typical(
    members: NDArray[np.intp], confidence: NDArray[np.float32], projection: Projection | None
) -> NDArray[np.intp]:
    """The members of a cluster, the most central on the map first; those that are not on the map
    follow, the most confident first.
    """
    clearest = members[np.argsort(-confidence[members], kind="stable")]
    if projection is None:
        return clearest
    mapped, places, _ = np.intersect1d(projection.rows, members, return_indices=True)
    points = projection.points[places].astype(np.float64)
    compared = points[:: max(1, -(-len(points) // MAX_COMPARED))]
    distances = np.zeros(len(points))
    for x, y in compared:
        distances += np.hypot(points[:, 0] - x, points[:, 1] - y)
    central = mapped[np.argsort(distances, kind="stable")].astype(np.intp)
    return np.concatenate([central, clearest[~np.isin(clearest, central)]])


def borderline(
    members: NDArray[np.intp], confidence: NDArray[np.float32], count: int
) -> NDArray[np.intp]:
    """Up to `count` members that are clearly less confident than the others, the least first."""
    if not len(members):
        return members
    lowest = members[np.argsort(confidence[members], kind="stable")[:count]]
    return lowest[confidence[lowest] < BORDER * np.median(confidence[members])]
