"""Neighbours in several sources to clusters that keep to what somebody knows of the images."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from selfsort.clustering.count import SMALLEST, count_by_learning
from selfsort.clustering.fusion import Fusion, Neighbours, Selection, cut, fuse, neighbours_for
from selfsort.clustering.judge import Verdict
from selfsort.clustering.spreading import Labels, Taught, count_each, in_parents, match
from selfsort.clustering.teaching import (
    MOST_ASKED,
    Spread,
    guide,
    spread_corrections,
    spread_labels,
)
from selfsort.data.taught import Teaching

OnStep = Callable[[int, int], None]


def fuse_known(
    sources: Mapping[str, Neighbours],
    n_clusters: int | None,
    known: Teaching | None,
    *,
    max_clusters: int,
    seed: int,
    on_step: OnStep | None = None,
    on_count: OnStep | None = None,
) -> Fusion:
    """The fusion of all sources, with what is known or without."""
    if known is None:
        return fuse(
            sources,
            n_clusters,
            max_clusters=max_clusters,
            seed=seed,
            on_step=on_step,
            on_count=on_count,
        )
    return fuse_taught(
        sources, known, n_clusters, max_clusters=max_clusters, seed=seed, on_step=on_step
    )


def fuse_taught(
    sources: Mapping[str, Neighbours],
    known: Teaching,
    n_clusters: int | None,
    *,
    max_clusters: int,
    seed: int,
    on_step: OnStep | None = None,
) -> Fusion:
    """Clusters that keep to what is known; their shares are the votes."""
    if known.parents is not None:
        return _fuse_in_parents(sources, known, max_clusters, seed, on_step)
    if known.weak is not None:  # they were sorted before
        n_found = len(known.names)
        found = spread_corrections(_graphs(sources, known, n_found), known, n_found)
        return _as_fusion(found, known.names)
    free = fuse(sources, n_clusters, max_clusters=max_clusters, seed=seed, on_step=on_step)
    n_named = len(known.names)
    n_found = max(free.votes.shape[1], n_named)
    known = replace(known, weak=match(free.labels, known.classes, n_named, n_found))
    cuts = [one.labels for one in free.selections]
    found = _spread(sources, known, cuts, n_found, seed, None)
    fusion = _as_fusion(found, (*known.names, *[""] * (n_found - n_named)))
    return replace(fusion, cluster_count=free.cluster_count, count_curve=free.count_curve)


def _spread(
    sources: Mapping[str, Neighbours],
    known: Teaching,
    clusterings: list[Labels],
    n_clusters: int,
    seed: int,
    on_step: OnStep | None,
) -> Spread:
    graphs = _graphs(sources, known, n_clusters)
    return spread_labels(graphs, known, clusterings, n_clusters, seed=seed, on_step=on_step)


def _graphs(
    sources: Mapping[str, Neighbours], known: Teaching, n_clusters: int
) -> dict[str, csr_array]:
    n_near = neighbours_for(len(known.classes) / n_clusters)[0]
    return {name: source.graph(n_near) for name, source in sources.items()}


def _as_fusion(found: Spread, names: tuple[str, ...]) -> Fusion:
    taught = Taught(
        found.shares, tuple(range(len(names))), names, doubted=tuple(found.doubted.tolist())
    )
    return _fusion_of(taught, found.weights, found.accuracy)


def _fusion_of(taught: Taught, weights: Mapping[str, float], accuracy: float) -> Fusion:
    """What a fusion without labels gives; no cuts were judged."""
    kept = tuple(name for name, weight in weights.items() if weight >= 1) or tuple(weights)
    verdict = Verdict(accuracy, 1.0)
    return Fusion(
        taught.labels,
        taught.shares,
        min(max(accuracy, 0.05), 0.99),
        [Selection(kept, taught.labels, verdict, True)],
        taught=taught,
    )


def _fuse_in_parents(
    sources: Mapping[str, Neighbours],
    known: Teaching,
    max_clusters: int,
    seed: int,
    on_step: OnStep | None,
) -> Fusion:
    """Clusters inside each parent; the parents say which sources are right."""
    assert known.parents is not None, "there are parents"
    draw = np.random.default_rng(seed)
    asked = np.sort(draw.permutation(len(known.parents))[:MOST_ASKED])
    n_clusters = max(sum(known.counts), len(known.names), len(known.parent_names))
    graphs = _graphs(sources, known, n_clusters)
    parents = known.parents[asked]
    guided = guide(graphs, asked, parents, len(known.parent_names), on_step)
    told = [source.vectors for source in sources.values() if source.vectors is not None]

    def count(graph: csr_array, rows: NDArray[np.intp]) -> int:
        most = max(2, min(max_clusters, len(rows) // SMALLEST))
        inner = [vectors[rows] for vectors in told]
        cut_all = partial(_cut_all, graph, seed=seed)
        return count_by_learning(cut_all, inner, most=most).best.n_clusters

    counts = count_each(guided.graph, known, None, count)
    taught = in_parents(guided.graph, known, counts, partial(cut, seed=seed))
    accuracy = float((guided.told.without.argmax(axis=1) == parents).mean())
    return _fusion_of(taught, guided.weights, accuracy)


def _cut_all(graph: csr_array, n_clusters: int, *, seed: int) -> list[Labels]:
    return [cut(graph, n_clusters, seed=seed)]
