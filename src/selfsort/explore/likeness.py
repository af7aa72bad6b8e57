"""Which images are alike: nearest neighbours in the whole set, and the clusters they speak for."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from selfsort.report.typical import Points
from selfsort.runs.state import State

N_NEIGHBOURS = 10
MAX_ASKED = 100
"""Images of a selection that are asked for their neighbours, at most."""

CHUNK = 256

Rows = NDArray[np.intp]


def most_similar(points: Points, row: int, count: int) -> Rows:
    """The images nearest to one, that one first."""
    distances = ((points - points[row]) ** 2).sum(axis=1)
    distances[row] = -1
    nearest = np.argpartition(distances, min(count, len(points) - 1))[: count + 1]
    return nearest[np.argsort(distances[nearest], kind="stable")]


def neighbours(points: Points, rows: Rows, among: Rows) -> Iterator[tuple[Rows, Rows]]:
    """Some of `rows` at a time, and their nearest others in `among` (rows × N_NEIGHBOURS at
    most).
    """
    count = min(N_NEIGHBOURS + 1, len(among))
    others = points[among]
    squares = (others**2).sum(axis=1)
    for start in range(0, len(rows), CHUNK):
        part = rows[start : start + CHUNK]
        distances = squares - 2 * points[part] @ others.T
        distances[part[:, None] == among] = np.inf  # nobody is its own neighbour
        nearest = np.argpartition(distances, count - 1, axis=1)[:, :count]
        order = np.argsort(np.take_along_axis(distances, nearest, axis=1), axis=1, kind="stable")
        found = np.take_along_axis(nearest, order, axis=1)[:, :N_NEIGHBOURS]
        yield part, among[found]


def likely_clusters(points: Points, state: State, rows: Rows) -> list[tuple[int, float]]:
    """All clusters, the likeliest for these images first, each with the share of the images'
    neighbours that it has.

    Neighbours are sought outside of `rows`, or every image would speak for its own cluster.
    """
    is_asked = ~np.isnan(points[rows, 0])
    asked = spread(rows[is_asked], MAX_ASKED)
    is_other = ~state.outliers & ~np.isnan(points[:, 0])
    is_other[rows] = False
    others = np.flatnonzero(is_other)
    votes = np.zeros(state.free)
    if len(asked) and len(others):
        for _, near in neighbours(points, asked, others):
            votes += np.bincount(state.labels[near].ravel(), minlength=state.free)
    shares = votes / max(votes.sum(), 1)
    order = sorted(state.clusters, key=lambda cluster: (-shares[cluster], cluster))
    return [(cluster, round(float(shares[cluster]), 4)) for cluster in order]


def spread(rows: Rows, count: int) -> Rows:
    """At most `count` of these rows, evenly spread over them."""
    if len(rows) <= count:
        return rows
    return rows[np.linspace(0, len(rows) - 1, count).astype(np.intp)]
