"""Neighbours in several sources to clusters that keep to what somebody knows of some images.

The labels judge, each told from the others (leave one out):

    which sources are right: each spreads the labels over its own graph, and its weight in the sum
    of all graphs is a power of the share of labels that it tells right;
    which clusterings are right: a cluster has the classes of the labelled images in it, and those
    clusterings count whose clusters tell the labels best;
    how much these count beside the graph: shares of the graph × (shares of the clusterings)^λ.

Of the powers and of λ those are taken that make the labels most probable.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from selfsort.clustering.spreading import Labels, Shares, reached_from, spread, to_shares
from selfsort.data.taught import Teaching

SHARPNESS = 2.5
"""γ: edges that several sources know weigh more than their sum."""

GUIDED = (0.0, 1.0, 2.0, 4.0, 8.0)
BESIDE = (0.0, 0.25, 0.5, 1.0, 2.0)
"""Powers that are tried: of a source's rate of right labels, and λ."""

MOST_ASKED = 300
"""Labelled images that judge, at most."""

HEARD = 12
"""Clusterings that are heard, those that tell the labels best."""

DOUBT = 0.3
"""Labels that a cluster has of no class in particular; so few do not make it sure."""

WEAK = 0.01
"""What an image counts for the cluster that was found before, where a label counts 1."""

DOUBTED = 0.02
"""A label whose class is less probable than this, told from all others, looks wrong."""


class Told(NamedTuple):
    """How probable each class is for all images, and for each labelled one without its label."""

    shares: Shares
    without: Shares

    def likelihood(self, classes: Labels) -> float:
        """The mean logarithm of how probable the right classes are."""
        right = self.without[np.arange(len(classes)), classes]
        return float(np.log(np.maximum(right, 1e-3)).mean())

    def times(self, other: "Told", power: float) -> "Told":
        """Both together: one times a power of the other."""
        pairs = zip(self, other, strict=True)
        return Told(
            *(_sum_to_1(np.maximum(a, 1e-4) * np.maximum(b, 1e-6) ** power) for a, b in pairs)
        )


def told_by_graph(
    graph: csr_array, anchors: NDArray[np.intp], classes: Labels, n_classes: int
) -> Told:
    """What a graph tells."""
    own = np.eye(n_classes, dtype=np.float32)[classes]
    reached = reached_from(graph, anchors)
    found = reached @ own
    inside = reached[anchors]
    np.fill_diagonal(inside, 0)
    totals = found.sum(axis=0) - own * reached.sum(axis=0)[:, None]
    return Told(
        _sum_to_1(found / np.maximum(found.sum(axis=0), 1e-12)),
        _sum_to_1(inside @ own / np.maximum(totals, 1e-12)),
    )


def told_by_clusters(
    clusters: Labels, anchors: NDArray[np.intp], classes: Labels, n_classes: int
) -> Told:
    """What a clustering tells: the classes of the labelled images in the same cluster."""
    counts = np.zeros((int(clusters.max()) + 1, n_classes), dtype=np.float32)
    np.add.at(counts, (clusters[anchors], classes), 1)
    others = counts[clusters[anchors]]
    others[np.arange(len(anchors)), classes] -= 1
    every = np.float32(DOUBT / n_classes)
    return Told(_sum_to_1(counts + every)[clusters], _sum_to_1(others + every))


def mean_of(told: Sequence[Told]) -> Told:
    """The mean of several."""
    return Told(*(np.mean(column, axis=0) for column in zip(*told, strict=True)))


def _product(one: Shares, other: Shares, power: float) -> Shares:
    return _sum_to_1(np.maximum(one, 1e-4) * np.maximum(other, 1e-6) ** power)


def _sum_to_1(shares: NDArray[np.floating]) -> Shares:
    total = np.maximum(shares.sum(axis=1, keepdims=True), 1e-12)
    return np.asarray(shares / total, dtype=np.float32)


class Guided(NamedTuple):
    """The graph that tells the labels best, what it tells, and the weights of the sources in it."""

    graph: csr_array
    told: Told
    weights: dict[str, float]


def guide(
    graphs: Mapping[str, csr_array],
    anchors: NDArray[np.intp],
    classes: Labels,
    n_classes: int,
    on_step: Callable[[int, int], None] | None = None,
) -> Guided:
    """Weigh the sources by the labels that they tell right."""
    n_steps = len(graphs) + len(GUIDED)
    chance = 1 / n_classes
    rates: dict[str, float] = {}
    for name, graph in graphs.items():
        found = told_by_graph(graph, anchors, classes, n_classes).without.argmax(axis=1)
        rates[name] = max(float((found == classes).mean()) - chance, 1e-3)
        if on_step:
            on_step(len(rates), n_steps)
    tried = []
    for power in GUIDED if len(graphs) > 1 else GUIDED[:1]:
        weights = weights_of(rates, power)
        graph = together(graphs, weights)
        tried.append(Guided(graph, told_by_graph(graph, anchors, classes, n_classes), weights))
        if on_step:
            on_step(len(graphs) + len(tried), n_steps)
    return max(tried, key=lambda one: one.told.likelihood(classes))


def weights_of(rates: Mapping[str, float], power: float) -> dict[str, float]:
    """Powers of the rates, with a mean of 1."""
    most = max(rates.values())
    raised = {name: (rate / most) ** power for name, rate in rates.items()}
    total = sum(raised.values())
    return {name: value * len(raised) / total for name, value in raised.items()}


def together(graphs: Mapping[str, csr_array], weights: Mapping[str, float]) -> csr_array:
    """The weighted sum of the graphs, to the power that makes common edges strong."""
    total = sum(weights[name] * graph for name, graph in graphs.items())
    return csr_array(csr_array(total).power(SHARPNESS))


class Spread(NamedTuple):
    """Shares of all clusters in each image, the weights of the sources, the share of labels that
    are told right from the others, and the labels that look wrong (rows).
    """

    shares: Shares
    weights: dict[str, float]
    accuracy: float
    doubted: NDArray[np.intp]


def spread_labels(
    graphs: Mapping[str, csr_array],
    known: Teaching,
    clusterings: Sequence[Labels],
    n_clusters: int,
    *,
    seed: int,
    on_step: Callable[[int, int], None] | None = None,
) -> Spread:
    """Clusters of all images from the labels of some, and from `known.weak` where there are none.

    A cluster without a label has all images of the weak one.
    """
    rows = known.anchors if known.weak is None else np.flatnonzero(_first(known) >= 0)
    own = _first(known)[rows]
    # numbers without gaps: no image may show a class any more
    numbers, local = np.unique(own, return_inverse=True)
    draw = np.random.default_rng(seed)
    judges = draw.permutation(len(rows))[:MOST_ASKED]
    guided = guide(graphs, rows[judges], local[judges], len(numbers), on_step)
    told = Told(to_shares(_from_all(guided.graph, rows, local, len(numbers))), guided.told.without)
    if clusterings:
        heard = [
            told_by_clusters(clusters, rows[judges], local[judges], len(numbers))
            for clusters in clusterings
        ]
        heard.sort(key=lambda one: -one.likelihood(local[judges]))
        beside = mean_of(heard[:HEARD])
        mixed = [told.times(beside, power) for power in BESIDE]
        told = max(mixed, key=lambda one: one.likelihood(local[judges]))
    right = told.without[np.arange(len(judges)), local[judges]]
    doubted = rows[judges][(right < DOUBTED) & (judges < len(known.anchors))]
    shares = np.zeros((len(known.classes), n_clusters), dtype=np.float32)
    shares[:, numbers] = told.shares
    accuracy = float((told.without.argmax(axis=1) == local[judges]).mean())
    return Spread(shares, guided.weights, accuracy, np.sort(doubted))


def _first(known: Teaching) -> Labels:
    """What somebody has said, else what was found."""
    return (
        known.classes
        if known.weak is None
        else np.where(known.classes >= 0, known.classes, known.weak)
    )


def _from_all(graph: csr_array, rows: NDArray[np.intp], classes: Labels, n_classes: int) -> Shares:
    """What all labels together tell."""
    seeds = np.zeros((graph.shape[0], n_classes), dtype=np.float32)
    seeds[rows, classes] = 1
    return spread(graph, seeds)


def spread_corrections(graphs: Mapping[str, csr_array], known: Teaching, n_clusters: int) -> Spread:
    """Clusters of images that were sorted before and corrected here and there: what somebody has
    said counts 1, what was found before WEAK.
    """
    assert known.weak is not None, "they were sorted before"
    every = _first(known)
    rows = np.flatnonzero(every >= 0)
    seeds = np.zeros((len(every), n_clusters), dtype=np.float32)
    seeds[rows, every[rows]] = np.where(known.classes[rows] >= 0, 1, WEAK)
    weights = dict.fromkeys(graphs, 1.0)
    shares = _sum_to_1(spread(together(graphs, weights), seeds))
    kept = float((shares.argmax(axis=1)[rows] == every[rows]).mean())
    return Spread(shares, weights, kept, np.zeros(0, dtype=np.intp))
