"""Neighbours in several sources to clusters: many cuts of summed graphs, judged, and their
consensus.

Each source s has a graph A_s of nearest neighbours. For a selection S of sources the graph is

    W_ij = (Σ_{s ∈ S} c_s A_s,ij)^γ

so an edge that several sources know weighs more than their sum. Its eigenvectors v_1 … v_m with
eigenvalues λ, scaled as λ_j² v_j and with rows of length 1, are clustered by k-means. There are
more eigenvectors than clusters: a small tight group takes an eigenvector of its own, and with only
k of them a class would have none left.

No source is right for all images, and no labels say which are. So many selections are cut, each
from two graphs, and judged by three numbers that need no labels:

    stability    do the two graphs give the same clusters (adjusted Rand index)
    balance      are the clusters of like size (entropy)
    popularity   do the cuts of other selections say the same (mutual information, mean over them)

The ranks are added. The best third vote, and the consensus of their cuts are the clusters.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.metrics import adjusted_rand_score

from selfsort.clustering.kmeans import cluster
from selfsort.clustering.spectral import (
    ClusterCount,
    Spectrum,
    consensus_spectrum,
    count_clusters,
    join,
    spectrum,
)
from selfsort.metrics import align_clusters

Labels = NDArray[np.int64]

GRAPHS = ((7, 2.5), (12, 1.5))
"""Neighbours of an image, and γ: two different looks at one selection of sources."""

MOST_NEIGHBOURS = max(n_neighbours for n_neighbours, _ in GRAPHS)
TRIPLES = 32
"""Selections of three sources that are tried, at most."""

KEPT = 1 / 3
"""Share of the selections that vote."""

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
    """Some sources, and what their cuts are like; `is_kept`: it is among those that vote."""

    sources: tuple[str, ...]
    stability: float
    balance: float
    popularity: float
    is_kept: bool


@dataclass(frozen=True)
class Fusion:
    """The consensus: `votes` (images × clusters) are the shares of the cuts that put an image into
    a cluster, `labels` the clusters, `selections` what was tried. The eigenvalues are those of the
    sum of all sources, and the count is the number of clusters that they show.
    """

    labels: Labels
    votes: NDArray[np.float32]
    selections: list[Selection]
    eigenvalues: list[float]
    cluster_count: ClusterCount

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
    graphs = {
        n_neighbours: {name: source.graph(n_neighbours) for name, source in sources.items()}
        for n_neighbours, _ in GRAPHS
    }
    tried = selections(list(sources), seed)
    whole = _graph(graphs, tried[0], *GRAPHS[0])
    shown = spectrum(whole, min(max(max_clusters, n_clusters or 0) + 1, whole.shape[0]))
    count = count_clusters(shown.values)
    n_clusters = n_clusters or count.n_clusters
    cuts: list[list[Labels]] = []
    for names in tried:
        pair = [_graph(graphs, names, *kind) for kind in GRAPHS]
        cuts.append([cut(graph, n_clusters, seed=seed) for graph in pair])
        if on_step:
            on_step(len(cuts), len(tried))
    stability = np.array([adjusted_rand_score(*pair) for pair in cuts])
    balance = [sum(evenness(one, n_clusters) for one in pair) / len(pair) for pair in cuts]
    popularity = shared_information([pair[0] for pair in cuts])
    score = _rank(stability) + _rank(np.array(balance)) + _rank(popularity)
    n_kept = max(1, round(KEPT * len(tried)))
    kept = np.argsort(-score, kind="stable")[:n_kept]
    voters = [labels for row in kept for labels in cuts[row]]
    labels = diffused_clusters(
        consensus_spectrum(voters, n_clusters + min(2 * n_clusters, MORE_VECTORS)),
        n_clusters,
        seed=seed,
    )
    judged = [
        Selection(names, float(stability[row]), balance[row], float(popularity[row]), row in kept)
        for row, names in enumerate(tried)
    ]
    eigenvalues = [round(float(value), 5) for value in shown.values]
    return Fusion(labels, count_votes(voters, labels, n_clusters), judged, eigenvalues, count)


def _graph(
    graphs: Mapping[int, Mapping[str, csr_array]],
    names: Sequence[str],
    n_neighbours: int,
    power: float,
) -> csr_array:
    """The graph of some sources."""
    total = csr_array(sum(graphs[n_neighbours][name] for name in names))
    return csr_array(total.power(power))


def selections(names: Sequence[str], seed: int) -> list[tuple[str, ...]]:
    """All sources, all but one, and three at a time (of many triples a random sample).

    >>> selections(["a", "b", "c"], 0)
    [('a', 'b', 'c'), ('b', 'c'), ('a', 'c'), ('a', 'b')]
    """
    found = [tuple(names)]
    if len(names) > 2:
        found += [tuple(one for one in names if one != left_out) for left_out in names]
    triples = list(combinations(names, 3))
    chosen = np.random.default_rng(seed).permutation(len(triples))[:TRIPLES]
    found += [triples[row] for row in np.sort(chosen)]
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


def evenness(labels: Labels, n_clusters: int) -> float:
    """The entropy of the clusters' sizes, 1 where all are alike.

    >>> evenness(np.array([0, 1, 0, 1]), 2), evenness(np.array([0, 0, 0]), 2)
    (1.0, 0.0)
    """
    shares = np.bincount(labels, minlength=n_clusters) / len(labels)
    shares = shares[shares > 0]
    return float(-(shares * np.log(shares)).sum() / np.log(max(n_clusters, 2))) + 0.0


def shared_information(clusterings: Sequence[Labels]) -> NDArray[np.float64]:
    """For each clustering, the mean of its mutual information with all of them (in nats)."""
    columns = [labels[:, None] == np.unique(labels) for labels in clusterings]
    ends = np.cumsum([column.shape[1] for column in columns])
    members = np.concatenate(columns, axis=1).astype(np.float32)
    joint = (members.T @ members).astype(np.float64) / len(members)
    shares = np.diag(joint)
    chance = np.outer(shares, shares)
    terms = np.where(joint > 0, joint * np.log(np.where(joint > 0, joint, 1) / chance), 0)
    starts = np.concatenate([[0], ends[:-1]])
    information = np.add.reduceat(np.add.reduceat(terms, starts, axis=0), starts, axis=1)
    means: NDArray[np.float64] = information.mean(axis=1)
    return means


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


def _rank(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.argsort(np.argsort(values, kind="stable"), kind="stable") / max(len(values) - 1, 1)
