"""Vectors in several sources to clusters: many of Ward's trees, and their consensus.

Ward joins, again and again, the two groups whose union grows least in variance. Unlike a cut of a
graph of neighbours it leaves small groups small and large ones large, and it asks for no number of
neighbours, which matters where there are some dozens of things. Each source alone has a tree, all
of them side by side have one, and so have all without one of them in turn. Each tree, cut at the
number of clusters, is an opinion. A last tree, over the opinions, finds the clusters; the votes for
them are the opinions, matched to it.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import cut_tree, linkage
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import squareform
from sklearn.metrics import adjusted_rand_score

from selfsort.clustering.fusion import MOST_NEIGHBOURS, Fusion, count_votes, neighbours_for
from selfsort.clustering.judge import Labels
from selfsort.clustering.spectral import (
    ClusterCount,
    count_clusters,
    count_roughly,
    embedding,
    join,
    nearest,
    spectrum,
)

N_NEIGHBOURS = 7
"""Neighbours of a thing in the graph by which clusters are counted."""

NEAR, FAR = 3, 5
"""The second graph of sounds has so many neighbours for so many of the first."""

Distances = NDArray[np.float32]
"""Squared distances of all pairs, as `scipy.spatial.distance` lists them."""

OnStep = Callable[[int, int], None]


def join_sources(
    vectors: Mapping[str, NDArray[np.float32]],
    n_clusters: int | None,
    *,
    max_clusters: int,
    on_step: OnStep | None = None,
) -> Fusion:
    """Clusters that the trees of most sources and sums of sources show.

    `n_clusters=None` takes the number, at most `max_clusters`, at which the trees of single sources
    agree most.
    """
    graphs = [join(nearest(each, N_NEIGHBOURS)) for each in vectors.values()]
    apart = [squared_distances(each) for each in vectors.values()]
    is_asked = n_clusters is None and len(apart) > 1
    agreed = count_agreed(apart, max_clusters) if is_asked else None
    found = _count(
        graphs, n_clusters, max_clusters, lambda values, n: agreed or count_clusters(values)
    )
    together = np.sum(apart, axis=0)
    kinds = apart if len(apart) < 2 else [*apart, together, *(together - each for each in apart)]
    return _agree(found, kinds, ward, on_step)


def count_agreed(apart: Sequence[Distances], max_clusters: int) -> ClusterCount:
    """The number of clusters at which the sources' trees are most alike, by the mean adjusted Rand
    index of all pairs (the largest such number); the clarity compares with the best number that is
    not within a quarter.
    """
    n_things = round((2 * len(apart[0])) ** 0.5) + 1
    numbers = np.arange(2, max(2, min(max_clusters, n_things // 4)) + 1)
    cuts = [cut_tree(_tree(distances), numbers) for distances in apart]
    alike = np.array(
        [
            np.mean(
                [adjusted_rand_score(a[:, place], b[:, place]) for a, b in combinations(cuts, 2)]
            )
            for place in range(len(numbers))
        ]
    )
    found = int(numbers[np.flatnonzero(alike >= alike.max() - 1e-6)[-1]])
    others = alike[np.abs(numbers - found) > found / 4]
    second = max(float(others.max()), 1e-9) if len(others) else 1e-9
    return ClusterCount(found, round(min(float(alike.max()) / second, 1e3), 3))


def join_graphs(
    vectors: Mapping[str, NDArray[np.float32]],
    n_clusters: int | None,
    *,
    max_clusters: int,
    on_step: OnStep | None = None,
) -> Fusion:
    """The same with neighbours instead of distances: the trees are of the leading eigenvectors of
    the sum of the sources' graphs, and of this sum without one of them in turn.

    Clips of one voice are much nearer to each other than to the same word in another voice. In a
    tree of distances a strange voice is a class; from neighbour to neighbour the ways through a
    word are short.
    """
    near = [nearest(each, FAR * MOST_NEIGHBOURS // NEAR) for each in vectors.values()]
    found = _count([join(each) for each in near], n_clusters, max_clusters, count_roughly)
    _, n_near = neighbours_for(len(near[0]) / found.n_clusters)
    kinds: list[csr_array] = []
    for n_neighbours in (n_near, FAR * n_near // NEAR):
        graphs = [join(each[:, :n_neighbours]) for each in near]
        whole = csr_array(sum(graphs))
        kinds += [whole, *(csr_array(whole - each) for each in graphs if len(graphs) > 1)]
    return _agree(found, kinds, _ward_of_graph, on_step)


class _Shown(NamedTuple):
    """How many clusters there are to be, and the spectrum that shows a number."""

    n_clusters: int
    cluster_count: ClusterCount
    eigenvalues: list[float]


def _count(
    graphs: Sequence[csr_array],
    n_clusters: int | None,
    max_clusters: int,
    count: Callable[[NDArray[np.float64], int], ClusterCount],
) -> _Shown:
    whole = csr_array(sum(graphs))
    n_things = whole.shape[0]
    shown = spectrum(whole, min(max(max_clusters, n_clusters or 0) + 1, n_things))
    found = count(shown.values, n_things)
    eigenvalues = [round(float(value), 5) for value in shown.values]
    return _Shown(n_clusters or found.n_clusters, found, eigenvalues)


def _agree(
    shown: _Shown, kinds: Sequence[Any], cut: Callable[[Any, int], Labels], on_step: OnStep | None
) -> Fusion:
    """Cut each of the kinds, and join those that most opinions have together."""
    n_clusters = shown.n_clusters
    opinions = []
    for kind in kinds:
        opinions.append(cut(kind, n_clusters))
        if on_step:
            on_step(len(opinions), len(kinds))
    members = np.concatenate([np.eye(n_clusters)[labels] for labels in opinions], axis=1)
    labels = ward(squared_distances(members.astype(np.float32)), n_clusters)
    votes = count_votes(opinions, labels, n_clusters)
    found = votes.argmax(axis=1)
    agreement = float(votes[np.arange(len(found)), found].mean())
    return Fusion(found, votes, agreement, [], shown.eigenvalues, shown.cluster_count)


def _ward_of_graph(graph: csr_array, n_clusters: int) -> Labels:
    points = embedding(spectrum(graph, min(n_clusters, graph.shape[0])), n_clusters)
    return ward(squared_distances(points), n_clusters)


def squared_distances(points: NDArray[np.float32]) -> Distances:
    """Of all pairs of points.

    >>> squared_distances(np.eye(3, dtype=np.float32)).tolist()
    [2.0, 2.0, 2.0]
    """
    squares = np.square(points).sum(axis=1)
    found = squares[:, None] + squares - 2 * points @ points.T
    np.maximum(found, 0, out=found)
    np.fill_diagonal(found, 0)
    condensed: Distances = squareform(found, checks=False)
    return condensed


def ward(distances: Distances, n_clusters: int) -> Labels:
    """Ward's tree, cut where it has so many clusters.

    >>> ward(squared_distances(np.float32([[0, 0], [9, 9], [0, 1]])), 2).tolist()
    [0, 1, 0]
    """
    tree = _tree(distances)
    n_points = len(tree) + 1
    n_joined = max(0, n_points - n_clusters)
    pairs = tree[:n_joined, :2].astype(np.int64)
    groups = np.arange(n_points, n_points + n_joined)
    edges = (np.ones(2 * n_joined), (pairs.ravel(), np.repeat(groups, 2)))
    size = n_points + n_joined
    _, labels = connected_components(coo_array(edges, shape=(size, size)), directed=False)
    # groups stand after the points, so that the points' labels count from 0
    return np.asarray(labels[:n_points], dtype=np.int64)


def _tree(distances: Distances) -> NDArray[np.float64]:
    found: NDArray[np.float64] = linkage(np.sqrt(np.maximum(distances, 0)), "ward")
    return found
