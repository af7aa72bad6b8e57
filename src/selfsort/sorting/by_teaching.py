"""Clusters that keep to what somebody knows of the images, found by the network alone."""

from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from selfsort.clustering.kmeans import Assignment
from selfsort.clustering.spectral import count_clusters, spectrum
from selfsort.clustering.spreading import CutGraph, Labels, Taught, count_each, in_parents, match
from selfsort.clustering.teaching import spread_corrections, spread_labels
from selfsort.clustering.views import CUT, graph_of_views, spectral_clusters
from selfsort.data.image_set import ImageSet, sample_rows
from selfsort.data.taught import Teaching
from selfsort.errors import ConfigError
from selfsort.sorting.refine import Known, keep_to
from selfsort.sorting.trained import TrainedNetwork
from selfsort.training.hooks import Hooks

OVER = 2
"""The graph is also cut into so many times the clusters, which are purer."""


class FoundTaught(NamedTuple):
    """A cluster for the clear images (-1: none yet), and what is known of all."""

    labels: Labels
    names: tuple[str, ...]
    known: Known

    @property
    def n_clusters(self) -> int:
        """How many clusters there are to be."""
        return len(self.names)


def find_taught(
    trained: TrainedNetwork, images: ImageSet, n_clusters: int | None, hooks: Hooks
) -> FoundTaught:
    """Spread what is known over the graph of all views."""
    assert images.taught is not None, "somebody knows something"
    if trained.transforms is None:
        raise ConfigError(
            f"transforms={trained.config.transforms!r} are not in the model file; learning from "
            "labels needs them."
        )
    settings = trained.config.clustering
    chosen = sample_with_labels(images, settings.max_samples, trained.seed)
    graph = graph_of_views(
        trained.network,
        trained.inputs(images).take(chosen),
        transforms=trained.transforms,
        config=trained.config,
        seed=trained.seed,
        on_stage=hooks.tell,
    )
    known = images.taught.take(chosen)
    hooks.tell(CUT, 0, 1)
    cut = partial(_cut, n_init=settings.n_init, seed=trained.seed)
    count = partial(_count, most=settings.max_clusters)
    if known.weak is not None:
        spread = spread_corrections({"network": graph}, known, len(known.names))
        found = Taught(
            spread.shares, tuple(range(len(known.names))), known.names, accuracy=spread.accuracy
        )
    elif known.parents is not None:
        found = in_parents(
            graph,
            known,
            count_each(graph, known, n_clusters, lambda inner, rows: count(inner)),
            cut,
        )
    else:
        number = n_clusters or max(count(graph), len(known.names))
        found = _spread(graph, known, number, cut, trained.seed)
    hooks.tell(CUT, 1, 1)
    labels = np.full(len(images), -1)
    of_all = known_of(images.taught, found)
    first = keep_to(of_all, found.shares, chosen, 0.0)
    labels[chosen] = first
    return FoundTaught(labels, found.names, of_all)


def _spread(graph: csr_array, known: Teaching, n_clusters: int, cut: CutGraph, seed: int) -> Taught:
    """Named classes from their labels, and clusters beside them from a cut of the graph."""
    n_named = len(known.names)
    cuts = [cut(graph, n_clusters), cut(graph, OVER * n_clusters)]
    known = replace(known, weak=match(cuts[0], known.classes, n_named, n_clusters))
    found = spread_labels({"network": graph}, known, cuts, n_clusters, seed=seed)
    names = (*known.names, *[""] * (n_clusters - n_named))
    doubted = tuple(found.doubted.tolist())
    return Taught(
        found.shares, tuple(range(n_named)), names, doubted=doubted, accuracy=found.accuracy
    )


def known_of(taught: Teaching, found: Taught) -> Known:
    """Which clusters each image may belong to."""
    n_clusters = len(found.names)
    allowed = np.ones((len(taught.classes), n_clusters), dtype=bool)
    if taught.parents is not None:
        allowed = taught.parents[:, None] == np.array(found.parent_of)
    anchors = taught.anchors
    own = np.array(found.place, dtype=np.int64)[taught.classes[anchors]]
    allowed[anchors] = np.eye(n_clusters, dtype=bool)[own]
    return Known(allowed, anchors, found.accuracy)


def keep_known(assignment: Assignment, known: Known) -> Assignment:
    """The assignment with the class of those images whose class is known."""
    labels = assignment.labels.copy()
    confidence = assignment.confidence.copy()
    labels[known.anchors] = known.allowed[known.anchors].argmax(axis=1)
    confidence[known.anchors] = 1
    return Assignment(labels, confidence)


def sample_with_labels(images: ImageSet, n_wanted: int, seed: int) -> NDArray[np.int64]:
    """At most `n_wanted` rows, drawn by `seed`, and all with a label; ascending."""
    rows = sample_rows(len(images), n_wanted, seed)
    return rows if images.taught is None else np.union1d(rows, images.taught.anchors)


def _count(graph: csr_array, *, most: int) -> int:
    return count_clusters(spectrum(graph, min(most + 1, graph.shape[0])).values).n_clusters


def _cut(graph: csr_array, n_clusters: int, *, n_init: int, seed: int) -> NDArray[np.int64]:
    found = spectrum(graph, min(n_clusters, graph.shape[0]))
    return spectral_clusters(found, n_clusters, n_init=n_init, seed=seed)
