"""Neighbours in several sources to clusters: many cuts of summed graphs, judged, and their
consensus.

Each source s has a graph A_s of nearest neighbours. For a selection S of sources the graph is

    W_ij = (Σ_{s ∈ S} c_s A_s,ij)^γ

so an edge that several sources know weighs more than their sum. Its eigenvectors v_1 … v_m with
eigenvalues λ, scaled as λ_j² v_j and with rows of length 1, are clustered by k-means. There are
more eigenvectors than clusters: a small tight group takes an eigenvector of its own, and with only
k of them a class would have none left.

No source is right for all images, and no labels say which are. So many selections are cut and
judged (`judge.py`). The best are cut once more, from a second graph, and the three best vote: the
consensus of their cuts are the clusters. How many of the best third say the same of an image is how
sure it is.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from selfsort.clustering.count import SMALLEST, count_by_learning
from selfsort.clustering.judge import (
    Labels,
    Vectors,
    Verdict,
    estimate_accuracy,
    judge,
    tightness,
)
from selfsort.clustering.kmeans import cluster
from selfsort.clustering.spectral import (
    ClusterCount,
    Spectrum,
    consensus_spectrum,
    join,
    spectrum,
)
from selfsort.clustering.spreading import Taught
from selfsort.metrics import align_clusters

FEWEST, MOST = 3, 7
"""Neighbours of an image in the first of the two graphs of a selection."""

OF_CLASS = 0.3
"""As many as this share of a class of mean size, between these two: among more than its own class
an image has none that are right.
"""

WIDER = 12 / 7
"""By how much more neighbours the second graph has."""

POWERS = (2.5, 1.5)
"""γ of the two graphs."""

MOST_NEIGHBOURS = round(WIDER * MOST)
TUPLES = 24
"""Selections of two and of three sources that are tried, at most, of each."""

KEPT = 3
"""Selections that vote."""

FEW = 12
"""Clusters by which selections are compared before it is known how many there are."""

HEARD = 1 / 3
"""Share of the selections that are heard on how sure the votes are."""

MORE_VECTORS = 30
DIFFUSION = 2
"""Eigenvectors beyond the k-th, at most, and the power of the eigenvalue that scales each."""


STARTS = 5
QUICK_STARTS = 2
"""Starts of k-means for each cut, and where clusters are only counted."""


@dataclass(frozen=True)
class Neighbours:
    """Who is near whom in one source: in each of its views the neighbours of every image, nearest
    first (images × MOST_NEIGHBOURS); `weight` is c_s, `vectors` (images × directions) is what the
    judge asks.
    """

    views: Sequence[NDArray[np.integer]]
    weight: float = 1.0
    vectors: Vectors | None = None

    def graph(self, n_neighbours: int) -> csr_array:
        """The mean graph of the views; a mutual edge in all of them weighs `weight`."""
        total = sum(join(view[:, :n_neighbours]) for view in self.views)
        return csr_array(total * (self.weight / len(self.views)))


class Selection(NamedTuple):
    """Some sources, the cut of their first graph, and the judge's verdict; `is_kept`: it is among
    those that vote.
    """

    sources: tuple[str, ...]
    labels: Labels
    verdict: Verdict
    is_kept: bool


@dataclass(frozen=True)
class Fusion:
    """The consensus: `labels` the clusters, `votes` (images × clusters) the shares of the cuts that
    put an image into a cluster, `accuracy` the share of images that is likely to be right,
    `selections` what was tried, `taught` how it keeps to what somebody knew. The eigenvalues are
    those of a graph that showed how many clusters there are; the curve says the same where the
    number was left to the sources.
    """

    labels: Labels
    votes: NDArray[np.float32]
    accuracy: float
    selections: list[Selection]
    eigenvalues: list[float] = field(default_factory=list)
    cluster_count: ClusterCount | None = None
    count_curve: list[tuple[int, float]] = field(default_factory=list)
    taught: Taught | None = None

    @property
    def shares(self) -> dict[str, float]:
        """Of the selections that vote, the share that each source is in; the largest first."""
        kept = [one.sources for one in self.selections if one.is_kept]
        counts = Counter(name for names in kept for name in names)
        return {name: count / len(kept) for name, count in counts.most_common()}


def fuse(
    sources: Mapping[str, Neighbours],
    n_clusters: int | None,
    *,
    max_clusters: int,
    seed: int,
    on_step: Callable[[int, int], None] | None = None,
    on_count: Callable[[int, int], None] | None = None,
) -> Fusion:
    """Cut many selections of the sources, judge them, and let the best vote.

    `n_clusters=None` takes the number, at most `max_clusters`, that the sources learn best.
    """
    tried = selections(list(sources))
    told = [source.vectors for source in sources.values() if source.vectors is not None]
    n_images = len(next(iter(sources.values())).views[0])
    curve = None
    if n_clusters is None:
        most = max(2, min(max_clusters, n_images // SMALLEST))
        cut_all = cut_for_count(sources, tried, most, seed=seed)
        curve = count_by_learning(cut_all, told, most=most, on_step=on_count)
        n_clusters = curve.best.n_clusters
    near, far = (
        {name: source.graph(n_neighbours) for name, source in sources.items()}
        for n_neighbours in neighbours_for(n_images / n_clusters)
    )
    n_heard = max(KEPT, round(HEARD * len(tried)))

    def tell(done: int) -> None:
        if on_step:
            on_step(done, len(tried) + n_heard)

    first: list[Labels] = []
    tight: list[float] = []
    for names in tried:
        graph = _graph([near[name] for name in names], POWERS[0])
        first.append(cut(graph, n_clusters, seed=seed))
        tight.append(tightness(first[-1], graph, n_clusters))
        tell(len(first))
    scores = judge(first, told, n_clusters)
    verdicts = [Verdict(*map(float, pair)) for pair in zip(scores, tight, strict=True)]
    order = np.argsort(-scores, kind="stable")[:n_heard]
    heard: list[Labels] = []
    for row in order:
        graph = _graph([far[name] for name in tried[row]], POWERS[1])
        heard += [first[row], cut(graph, n_clusters, seed=seed)]
        tell(len(first) + len(heard) // 2)
    kept = heard[: 2 * KEPT]
    n_values = n_clusters + min(2 * n_clusters, MORE_VECTORS)
    labels = diffused_clusters(consensus_spectrum(kept, n_values), n_clusters, seed=seed)
    votes = count_votes(kept, labels, n_clusters)
    accuracy = estimate_accuracy([verdicts[row] for row in order[:KEPT]])
    judged = [
        Selection(names, labels, verdict, row in order[:KEPT])
        for row, (names, labels, verdict) in enumerate(zip(tried, first, verdicts, strict=True))
    ]
    return Fusion(
        labels,
        (votes + count_votes(heard, labels, n_clusters)) / np.float32(2),
        accuracy,
        judged,
        cluster_count=curve.best if curve else None,
        count_curve=curve.points if curve else [],
    )


def cut_for_count(
    sources: Mapping[str, Neighbours], tried: Sequence[tuple[str, ...]], most: int, *, seed: int
) -> Callable[[int], list[Labels]]:
    """A function that cuts several graphs into k clusters: that of all sources, and those of the
    selections that the judge likes best where their clusters are few.
    """
    graphs = {name: source.graph(MOST) for name, source in sources.items()}
    told = [source.vectors for source in sources.values() if source.vectors is not None]
    simple = [names for names in tried if len(names) in (1, len(graphs) - 1, len(graphs))]
    looks = {names: _graph([graphs[name] for name in names], POWERS[0]) for names in simple}
    few = min(FEW, most)
    scores = judge([cut(look, few, seed=seed) for look in looks.values()], told, few)
    best = [simple[row] for row in np.argsort(-scores, kind="stable")[:KEPT]]
    n_values = min(most + min(2 * most, MORE_VECTORS), len(next(iter(sources.values())).views[0]))
    found = [spectrum(looks[names], n_values) for names in dict.fromkeys([simple[0], *best])]

    def cut_all(n_clusters: int) -> list[Labels]:
        n_leading = n_clusters + min(2 * n_clusters, MORE_VECTORS)
        return [
            diffused_clusters(one.leading(n_leading), n_clusters, seed=seed, starts=QUICK_STARTS)
            for one in found
        ]

    return cut_all


def neighbours_for(class_size: float) -> tuple[int, int]:
    """Neighbours in the two graphs of a selection, for classes of such a mean size.

    >>> neighbours_for(300), neighbours_for(10)
    ((7, 12), (3, 5))
    """
    first = min(max(round(OF_CLASS * class_size), FEWEST), MOST)
    return first, round(WIDER * first)


def _graph(graphs: Sequence[csr_array], power: float) -> csr_array:
    """The sum of some sources' graphs, to a power."""
    return csr_array(csr_array(sum(graphs)).power(power))


def selections(names: Sequence[str]) -> list[tuple[str, ...]]:
    """All sources, each alone, all but one, and two or three at a time: of many, always the same
    sample.

    >>> selections(["a", "b", "c"])
    [('a', 'b', 'c'), ('a',), ('b',), ('c',), ('b', 'c'), ('a', 'c'), ('a', 'b')]
    """
    found = [tuple(names), *((name,) for name in names)]
    if len(names) > 2:
        found += [tuple(one for one in names if one != left_out) for left_out in names]
    draw = np.random.default_rng(0)
    for size in (2, 3):
        tuples = list(combinations(names, size))
        found += [tuples[row] for row in np.sort(draw.permutation(len(tuples))[:TUPLES])]
    return list(dict.fromkeys(found))


def cut(graph: csr_array, n_clusters: int, *, seed: int) -> Labels:
    """Clusters of a graph."""
    n_values = min(n_clusters + min(2 * n_clusters, MORE_VECTORS), graph.shape[0])
    return diffused_clusters(spectrum(graph, n_values), n_clusters, seed=seed)


def diffused_clusters(
    found: Spectrum, n_clusters: int, *, seed: int, starts: int = STARTS
) -> Labels:
    """k-means on the eigenvectors, each scaled by a power of its eigenvalue."""
    points = found.vectors * np.clip(found.values, 0, 1) ** DIFFUSION
    lengths = np.maximum(np.linalg.norm(points, axis=1, keepdims=True), 1e-12)
    units = np.asarray(points / lengths, dtype=np.float32)
    return cluster(units, n_clusters, n_init=starts, seed=seed).assign(units).labels


def count_votes(voters: Sequence[Labels], labels: Labels, n_clusters: int) -> NDArray[np.float32]:
    """The share of the clusterings that put each image into each cluster of `labels`, after their
    numbers are matched to these.
    """
    votes = np.zeros((len(labels), n_clusters), dtype=np.float32)
    rows = np.arange(len(labels))
    for voter in voters:
        matched = np.argsort(align_clusters(voter, labels, n_clusters))[voter]
        votes[rows, matched] += 1 / len(voters)
    return votes
