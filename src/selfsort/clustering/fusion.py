"""Neighbours in several sources to clusters: many cuts of summed graphs, judged, and their
consensus.

Each source s has a graph A_s of nearest neighbours. For a selection S of sources the graph is

    W_ij = (Σ_{s ∈ S} c_s A_s,ij)^γ

so an edge that several sources know weighs more than their sum. Its eigenvectors v_1 … v_m with
eigenvalues λ, scaled as λ_j² v_j and with rows of length 1, are clustered by k-means. There are
more eigenvectors than clusters: a small tight group takes an eigenvector of its own, and with only
k of them a class would have none left.

No source is right for all images, and no labels say which are. So many selections are cut, each
from two graphs, and judged (`judge.py`). The three best vote: the consensus of their cuts are the
clusters. How many of the selections say the same of an image is how sure it is.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from selfsort.clustering.judge import (
    Candidate,
    Labels,
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
    count_roughly,
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

HEARD = 1 / 3
"""Share of the selections that are heard on how sure the votes are."""

MORE_VECTORS = 30
DIFFUSION = 2
"""Eigenvectors beyond the k-th, at most, and the power of the eigenvalue that scales each."""


STARTS = 5
"""Starts of k-means for each cut."""


@dataclass(frozen=True)
class Neighbours:
    """Who is near whom in one source: in each of its views the neighbours of every image, nearest
    first (images × MOST_NEIGHBOURS); `weight` is c_s.
    """

    views: Sequence[NDArray[np.integer]]
    weight: float = 1.0

    def graph(self, n_neighbours: int) -> csr_array:
        """The mean graph of the views; a mutual edge in all of them weighs `weight`."""
        total = sum(join(view[:, :n_neighbours]) for view in self.views)
        return csr_array(total * (self.weight / len(self.views)))


class Selection(NamedTuple):
    """Some sources, their two cuts, and the judge's verdict; `is_kept`: it is among those that
    vote.
    """

    sources: tuple[str, ...]
    cuts: tuple[Labels, ...]
    verdict: Verdict
    is_kept: bool


@dataclass(frozen=True)
class Fusion:
    """The consensus: `labels` the clusters, `votes` (images × clusters) the shares of the cuts that
    put an image into a cluster, `accuracy` the share of images that is likely to be right,
    `selections` what was tried, `taught` how it keeps to what somebody knew. The eigenvalues are
    those of the sum of all sources, and the count is the number of clusters that they show.
    """

    labels: Labels
    votes: NDArray[np.float32]
    accuracy: float
    selections: list[Selection]
    eigenvalues: list[float]
    cluster_count: ClusterCount
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
) -> Fusion:
    """Cut many selections of the sources, judge them, and let the best vote.

    `n_clusters=None` takes the number, at most `max_clusters`, that the sum of all graphs shows.
    """
    tried = selections(list(sources), seed)
    whole = _graph([source.graph(MOST) for source in sources.values()], POWERS[0])
    shown = spectrum(whole, min(max(max_clusters, n_clusters or 0) + 1, whole.shape[0]))
    count = count_roughly(shown.values, whole.shape[0])
    n_clusters = n_clusters or count.n_clusters
    looks = [
        {name: source.graph(n_neighbours) for name, source in sources.items()}
        for n_neighbours in neighbours_for(whole.shape[0] / n_clusters)
    ]
    candidates: list[Candidate] = []
    for names in tried:
        pair = [
            _graph([graphs[name] for name in names], power)
            for graphs, power in zip(looks, POWERS, strict=True)
        ]
        cuts = tuple(cut(graph, n_clusters, seed=seed) for graph in pair)
        candidates.append(Candidate(cuts, tightness(cuts[0], pair[0], n_clusters)))
        if on_step:
            on_step(len(candidates), len(tried))
    verdicts = judge(candidates, list(looks[0].values()), n_clusters)
    order = np.argsort([-verdict.score for verdict in verdicts], kind="stable")
    n_heard = max(KEPT, round(HEARD * len(order)))
    kept, heard = (
        [labels for row in order[:n] for labels in candidates[row].cuts] for n in (KEPT, n_heard)
    )
    n_values = n_clusters + min(2 * n_clusters, MORE_VECTORS)
    labels = diffused_clusters(consensus_spectrum(kept, n_values), n_clusters, seed=seed)
    votes = count_votes(kept, labels, n_clusters)
    accuracy = estimate_accuracy(
        [verdicts[row] for row in order[:KEPT]],
        agreement=float(votes[np.arange(len(labels)), labels].mean()),
    )
    judged = [
        Selection(names, candidate.cuts, verdict, row in order[:KEPT])
        for row, (names, candidate, verdict) in enumerate(
            zip(tried, candidates, verdicts, strict=True)
        )
    ]
    return Fusion(
        labels,
        (votes + count_votes(heard, labels, n_clusters)) / np.float32(2),
        accuracy,
        judged,
        [round(float(value), 5) for value in shown.values],
        count,
    )


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


def selections(names: Sequence[str], seed: int) -> list[tuple[str, ...]]:
    """All sources, each alone, all but one, and two or three at a time (a random sample of many).

    >>> selections(["a", "b", "c"], 0)
    [('a', 'b', 'c'), ('a',), ('b',), ('c',), ('b', 'c'), ('a', 'c'), ('a', 'b')]
    """
    found = [tuple(names), *((name,) for name in names)]
    if len(names) > 2:
        found += [tuple(one for one in names if one != left_out) for left_out in names]
    draw = np.random.default_rng(seed)
    for size in (2, 3):
        tuples = list(combinations(names, size))
        found += [tuples[row] for row in np.sort(draw.permutation(len(tuples))[:TUPLES])]
    return list(dict.fromkeys(found))


def cut(graph: csr_array, n_clusters: int, *, seed: int) -> Labels:
    """Clusters of a graph."""
    n_values = min(n_clusters + min(2 * n_clusters, MORE_VECTORS), graph.shape[0])
    return diffused_clusters(spectrum(graph, n_values), n_clusters, seed=seed)


def diffused_clusters(found: Spectrum, n_clusters: int, *, seed: int) -> Labels:
    """k-means on the eigenvectors, each scaled by a power of its eigenvalue."""
    points = found.vectors * np.clip(found.values, 0, 1) ** DIFFUSION
    lengths = np.maximum(np.linalg.norm(points, axis=1, keepdims=True), 1e-12)
    units = np.asarray(points / lengths, dtype=np.float32)
    return cluster(units, n_clusters, n_init=STARTS, seed=seed).assign(units).labels


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
