"""Labels spread over a graph of neighbours, and clusters that keep to what somebody knows."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_array, diags_array

from selfsort.data.taught import UNKNOWN, Teaching

Labels = NDArray[np.int64]
Shares = NDArray[np.float32]
"""How much each cluster has of each image, (images, cluster)."""

REACH = 0.95
"""Share of what an image believes that comes from its neighbours."""

STEPS = 60

CutGraph = Callable[[csr_array, int], Labels]
"""Cuts a graph into so many clusters."""


class Taught(NamedTuple):
    """Clusters that keep to what is known: `place` has the cluster of each class (those of named
    classes come first, in each parent if there are parents), `parent_of` the parent of each
    cluster, `names` what each is called; nothing for those without a name.
    """

    shares: Shares
    place: tuple[int, ...]
    names: tuple[str, ...]
    parent_of: tuple[int, ...] = ()
    doubted: tuple[int, ...] = ()
    accuracy: float = 0.9
    """`doubted` are images whose label looks wrong, `accuracy` is the share that is likely to be
    right.
    """

    @property
    def labels(self) -> Labels:
        """The cluster of each image."""
        found: Labels = self.shares.argmax(axis=1)
        return found


def spread(graph: csr_array, seeds: Shares) -> Shares:
    """Label spreading (Zhou et al., 2004): Y ← REACH · D^-½ W D^-½ Y + (1 − REACH) · seeds, again
    and again.
    """
    degrees = np.maximum(np.asarray(graph.sum(axis=1)).ravel(), 1e-9)
    scale = diags_array(1 / np.sqrt(degrees))
    walk = csr_array(scale @ graph @ scale).astype(np.float32)
    found = seeds.astype(np.float32)
    for _ in range(STEPS):
        found = REACH * (walk @ found) + (1 - REACH) * seeds
    return found


def reached_from(graph: csr_array, anchors: NDArray[np.intp]) -> Shares:
    """How much of each anchor comes to each image (images × anchors)."""
    seeds = np.zeros((graph.shape[0], len(anchors)), dtype=np.float32)
    seeds[anchors, np.arange(len(anchors))] = 1
    return spread(graph, seeds)


def to_shares(found: Shares) -> Shares:
    """Each cluster with the same weight in all, then each image with a sum of 1."""
    even = found / np.maximum(found.sum(axis=0), 1e-12)
    return np.asarray(even / np.maximum(even.sum(axis=1, keepdims=True), 1e-12), np.float32)


def in_parents(graph: csr_array, known: Teaching, counts: list[int], cut: CutGraph) -> Taught:
    """So many clusters of each parent's own part of a graph, which keep to its labels."""
    shares = np.zeros((graph.shape[0], sum(counts)), dtype=np.float32)
    parent_of = np.repeat(np.arange(len(counts)), counts)
    place = np.zeros(len(known.names), dtype=np.int64)
    names: list[str] = []
    for parent, title in enumerate(known.parent_names):
        rows = np.flatnonzero(known.parents == parent)
        columns = np.flatnonzero(parent_of == parent)
        inner = csr_array(graph[rows][:, rows])
        classes = known.classes[rows]
        named, local = np.unique(classes[classes >= 0], return_inverse=True)
        place[named] = columns[: len(named)]
        numbers = np.full(len(rows), UNKNOWN)
        numbers[classes >= 0] = local
        shares[np.ix_(rows, columns)] = _clusters(inner, numbers, len(named), len(columns), cut)
        own = [known.names[one] for one in named]
        own += [str(number) for number in range(len(named), len(columns))]
        names += [f"{title}/{one}" for one in own]
    return Taught(shares, tuple(place.tolist()), tuple(names), tuple(parent_of.tolist()))


def count_each(
    graph: csr_array,
    known: Teaching,
    n_clusters: int | None,
    count: Callable[[csr_array, NDArray[np.intp]], int],
) -> list[int]:
    """How many clusters each parent is to have; `count` says how many the graph of some rows
    shows.
    """
    assert known.parents is not None, "there are parents"
    wanted = known.counts or (n_clusters or 0,) * len(known.parent_names)
    found = []
    for parent, number in enumerate(wanted):
        rows = np.flatnonzero(known.parents == parent)
        named = np.unique(known.classes[rows][known.classes[rows] >= 0])
        inner = csr_array(graph[rows][:, rows])
        found.append(number or max(count(inner, rows), len(named)))
    return found


def _clusters(
    graph: csr_array, classes: Labels, n_named: int, n_clusters: int, cut: CutGraph
) -> Shares:
    """Named classes from their labels; clusters beside them from a cut of the graph."""
    seeds = np.zeros((len(classes), n_clusters), dtype=np.float32)
    if n_clusters > n_named:
        weak = match(cut(graph, n_clusters), classes, n_named, n_clusters)
        members = np.flatnonzero(weak >= 0)
        sizes = np.bincount(weak[members], minlength=n_clusters)
        mass = (classes >= 0).sum() / n_named if n_named else 1.0
        seeds[members, weak[members]] = mass / sizes[weak[members]]
    anchors = np.flatnonzero(classes >= 0)
    seeds[anchors, classes[anchors]] = 1
    return to_shares(spread(graph, seeds)) if n_named else seeds


def match(found: Labels, classes: Labels, n_named: int, n_clusters: int) -> Labels:
    """The clusters that stand for no named class, numbered from `n_named` on, the largest first;
    -1 for the other images, and those with a label. Each class is given the cluster that has most
    of its labels.
    """
    anchors = np.flatnonzero(classes >= 0)
    common = np.zeros((n_named, n_clusters))
    np.add.at(common, (classes[anchors], found[anchors]), 1)
    common /= np.maximum(common.sum(axis=1, keepdims=True), 1)
    _, taken = linear_sum_assignment(common, maximize=True)
    others = np.setdiff1d(np.arange(n_clusters), taken)
    sizes = np.bincount(found, minlength=n_clusters)
    number = np.full(n_clusters, UNKNOWN)
    number[others[np.argsort(-sizes[others], kind="stable")]] = np.arange(n_named, n_clusters)
    return np.where(classes >= 0, UNKNOWN, number[found])
