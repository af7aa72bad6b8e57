"""Vectors in several sources to clusters: many of Ward's trees, and their consensus.

Ward joins, again and again, the two groups whose union grows least in variance. Unlike a cut of a
graph of neighbours it leaves small groups small and large ones large, and it asks for no number of
neighbours, which matters where there are some dozens of things. Each source alone has a tree, all
of them side by side have one, and so have all without one of them in turn. Each tree, cut at the
number of clusters, is an opinion. A last tree, over the opinions, finds the clusters; the votes for
them are the opinions, matched to it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import linkage
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import squareform

from selfsort.clustering.count import SMALLEST, count_by_learning
from selfsort.clustering.fusion import MOST_NEIGHBOURS, Fusion, count_votes, neighbours_for
from selfsort.clustering.judge import Labels
from selfsort.clustering.spectral import count_roughly, embedding, join, nearest, spectrum

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

    `n_clusters=None` takes the number, at most `max_clusters`, whose clusters the sources can learn
    best.
    """
    apart = [squared_distances(each) for each in vectors.values()]
    together = np.sum(apart, axis=0)
    kinds = apart if len(apart) < 2 else [*apart, together, *(together - each for each in apart)]
    curve = None
    if n_clusters is None:
        trees = [_tree(distances) for distances in kinds[: len(apart) + 1]]
        curve = count_by_learning(
            lambda k: [cut(tree, k) for tree in trees],
            list(vectors.values()),
            most=max(2, min(max_clusters, len(trees[0]) // SMALLEST)),
        )
        n_clusters = curve.best.n_clusters
    fusion = _agree(n_clusters, kinds, ward, on_step)
    return replace(fusion, cluster_count=curve.best, count_curve=curve.points) if curve else fusion


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
    whole = csr_array(sum(join(each) for each in near))
    n_things = whole.shape[0]
    shown = spectrum(whole, min(max(max_clusters, n_clusters or 0) + 1, n_things))
    count = count_roughly(shown.values, n_things)
    n_clusters = n_clusters or count.n_clusters
    _, n_near = neighbours_for(n_things / n_clusters)
    kinds: list[csr_array] = []
    for n_neighbours in (n_near, FAR * n_near // NEAR):
        graphs = [join(each[:, :n_neighbours]) for each in near]
        whole = csr_array(sum(graphs))
        kinds += [whole, *(csr_array(whole - each) for each in graphs if len(graphs) > 1)]
    fusion = _agree(n_clusters, kinds, _ward_of_graph, on_step)
    eigenvalues = [round(float(value), 5) for value in shown.values]
    return replace(fusion, cluster_count=count, eigenvalues=eigenvalues)


def _agree(
    n_clusters: int,
    kinds: Sequence[Any],
    cut_one: Callable[[Any, int], Labels],
    on_step: OnStep | None,
) -> Fusion:
    """Cut each of the kinds, and join those that most opinions have together."""
    opinions = []
    for kind in kinds:
        opinions.append(cut_one(kind, n_clusters))
        if on_step:
            on_step(len(opinions), len(kinds))
    members = np.concatenate([np.eye(n_clusters)[labels] for labels in opinions], axis=1)
    labels = ward(squared_distances(members.astype(np.float32)), n_clusters)
    votes = count_votes(opinions, labels, n_clusters)
    found = votes.argmax(axis=1)
    agreement = float(votes[np.arange(len(found)), found].mean())
    return Fusion(found, votes, agreement, [])


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
    return cut(_tree(distances), n_clusters)


def cut(tree: NDArray[np.float64], n_clusters: int) -> Labels:
    """A tree, as scipy writes it, cut where it has so many clusters."""
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
