"""Coarser and finer clusters without fitting again: which clusters are most alike, step by step,
and where each falls apart. No torch.

Clusters are joined as Ward does it: the two first whose union adds least to the spread of the
images' unit vectors, n_a n_b / (n_a + n_b) |m_a − m_b|² with sizes n and means m. A cluster's
halves are those of k-means.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans

MAX_FITTED = 1000
FEWEST = 12
"""Images of a cluster that is halved, at least; and those that k-means sees, at most."""


class Join(NamedTuple):
    """Two groups become one, which is numbered after all groups that are there; `cost` is what
    that adds to the spread.
    """

    first: int
    second: int
    cost: float


class Halves(NamedTuple):
    """A cluster and its images in two halves; `likeness` is the mean cosine between these."""

    cluster: int
    parts: tuple[NDArray[np.intp], NDArray[np.intp]]
    likeness: float


def joins(
    vectors: NDArray[np.float32], labels: NDArray[np.int64], clusters: Sequence[int]
) -> list[Join]:
    """From these clusters to one: group i is `clusters[i]`, the first join makes group
    `len(clusters)`, and so on. Images whose vector is NaN are left out.

    >>> points = np.array([[1, 0], [1, 0.1], [0, 1], [-1, -1]], dtype=np.float32)
    >>> [(one.first, one.second) for one in joins(points, np.arange(4), range(4))]
    [(0, 1), (2, 4), (3, 5)]
    """
    units = _units(vectors)
    sums = [np.nansum(units[labels == cluster], axis=0) for cluster in clusters]
    counts = [max(int((labels == cluster).sum()), 1) for cluster in clusters]
    means = [total / count for total, count in zip(sums, counts, strict=True)]
    there = list(range(len(clusters)))
    found = []
    while len(there) > 1:
        matrix = np.stack([means[group] for group in there])
        sizes = np.array([counts[group] for group in there])
        apart = np.square(matrix[:, None] - matrix).sum(axis=2)
        cost = apart * np.outer(sizes, sizes) / np.add.outer(sizes, sizes)
        cost[np.triu_indices(len(there))] = np.inf
        second, first = np.unravel_index(cost.argmin(), cost.shape)
        pair = there[first], there[second]
        found.append(Join(*pair, float(cost[second, first])))
        counts.append(counts[pair[0]] + counts[pair[1]])
        whole = sum(counts[group] * means[group] for group in pair)
        means.append(np.asarray(whole / counts[-1]))
        there = [group for group in there if group not in pair] + [len(means) - 1]
    return found


def groups_at(found: Sequence[Join], n_clusters: int, n_groups: int) -> list[list[int]]:
    """Which clusters are together when so many groups are left, by their places.

    >>> groups_at([Join(0, 2, 0.2), Join(1, 3, 0.9)], 3, 2)
    [[1], [0, 2]]
    """
    groups = {place: [place] for place in range(n_clusters)}
    for number, one in enumerate(found[: max(n_clusters - n_groups, 0)], start=n_clusters):
        groups[number] = sorted(groups.pop(one.first) + groups.pop(one.second))
    return list(groups.values())


def halves(
    vectors: NDArray[np.float32], labels: NDArray[np.int64], clusters: Sequence[int]
) -> list[Halves]:
    """Each cluster that is large enough in two, the one first whose halves are least alike."""
    units = _units(vectors)
    there = ~np.isnan(units[:, 0])
    found = []
    for cluster in clusters:
        members = np.flatnonzero((labels == cluster) & there)
        step = -(-len(members) // MAX_FITTED) if len(members) else 1
        sample = units[members[::step]]
        if len(members) < FEWEST or len(np.unique(sample, axis=0)) < 2:
            continue
        side = KMeans(2, n_init=3, random_state=0).fit(sample).predict(units[members]).astype(bool)
        parts = (members[~side], members[side])
        means = [units[part].mean(axis=0) for part in parts]
        found.append(Halves(int(cluster), parts, float(means[0] @ means[1])))
    return sorted(found, key=lambda one: one.likeness)


def _units(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    units: NDArray[np.float32] = vectors / np.maximum(lengths, 1e-12)
    return units
