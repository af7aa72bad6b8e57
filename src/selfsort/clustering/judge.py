"""Which of several clusterings of the same images is likely to be right, without labels.

The clusterings may come from different sources, networks or cuts; all sources' graphs of neighbours
hear each of them as witnesses. Three numbers are ranked, and the ranks are added:

    stability    do two cuts of one selection of sources say the same (adjusted Rand index)
    balance      are the clusters of like size (entropy of the sizes p_c)
    support      how many edges of a source's graph stay inside clusters, beyond chance:
                 S_s = (share of the edges of A_s inside − Σ p_c²) / (1 − Σ p_c²);
                 the mean of the three largest S_s, for what is there is seen in several ways,
                 but seldom in all
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.stats import rankdata
from sklearn.metrics import adjusted_rand_score

Labels = NDArray[np.int64]

WITNESSES = 3
"""Sources whose support counts: those that give most of it."""

OF_AGREEMENT = 0.54
OF_TIGHTNESS = 2.03
OF_SUPPORT = -0.40
ALWAYS = -1.21
"""The line that comes closest to the accuracy of 34 clusterings of the development sets
(`benchmarks/LOG.md`).
"""


class Candidate(NamedTuple):
    """Cuts of two graphs of one selection of sources, and how tight the first is."""

    cuts: tuple[Labels, ...]
    tightness: float


class Verdict(NamedTuple):
    """What is known of a candidate; `score` compares it with the others, larger is better."""

    stability: float
    balance: float
    support: float
    tightness: float
    score: float


def judge(
    candidates: Sequence[Candidate], graphs: Sequence[csr_array], n_clusters: int
) -> list[Verdict]:
    """A verdict for each candidate; the graphs are those of all sources."""
    stability = [adjusted_rand_score(*one.cuts) for one in candidates]
    balance = [
        float(np.mean([evenness(labels, n_clusters) for labels in one.cuts])) for one in candidates
    ]
    supports = [
        np.mean(sorted(support(one.cuts[0], graph, n_clusters) for graph in graphs)[-WITNESSES:])
        for one in candidates
    ]
    score = rankdata([stability, balance, supports], axis=1).mean(axis=0) / len(candidates)
    tight = [one.tightness for one in candidates]
    columns = zip(stability, balance, supports, tight, score, strict=True)
    return [Verdict(*map(float, row)) for row in columns]


def estimate_accuracy(kept: Sequence[Verdict], *, agreement: float) -> float:
    """The share of images that are likely to be in the right cluster.

    `agreement` is the mean share of the cuts of those candidates that were kept that puts an image
    where it is.
    """
    line = (
        OF_AGREEMENT * agreement
        + OF_TIGHTNESS * float(np.mean([one.tightness for one in kept]))
        + OF_SUPPORT * float(np.mean([one.support for one in kept]))
        + ALWAYS
    )
    return min(max(line, 0.05), 0.99)


def tightness(labels: Labels, graph: csr_array, n_clusters: int) -> float:
    """The share of a cluster's edges that stay inside, mean over the clusters: 1 less the
    normalised cut.

    >>> pairs = csr_array(np.array([[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]]))
    >>> tightness(np.array([0, 0, 1, 1]), pairs, 2), tightness(np.array([0, 1, 0, 1]), pairs, 2)
    (1.0, 0.0)
    """
    members = csr_array((np.ones(len(labels)), (np.arange(len(labels)), labels)))
    members.resize((len(labels), n_clusters))
    joined = members.T @ graph @ members
    whole = np.asarray(joined.sum(axis=1)).ravel()
    shares = joined.diagonal() / np.maximum(whole, 1e-12)
    return float(shares.mean())


def support(labels: Labels, graph: csr_array, n_clusters: int) -> float:
    """How many of a graph's edges stay inside clusters: 0 what chance would give, 1 all.

    >>> pairs = csr_array(np.array([[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]]))
    >>> support(np.array([0, 0, 1, 1]), pairs, 2), support(np.array([0, 1, 0, 1]), pairs, 2)
    (1.0, -1.0)
    """
    edges = graph.tocoo()
    first, second = edges.coords
    inside = edges.data[labels[first] == labels[second]].sum() / edges.data.sum()
    chance = float(np.square(np.bincount(labels, minlength=n_clusters) / len(labels)).sum())
    return float((inside - chance) / max(1 - chance, 1e-9))


def evenness(labels: Labels, n_clusters: int) -> float:
    """The entropy of the clusters' sizes, 1 where all are alike.

    >>> evenness(np.array([0, 1, 0, 1]), 2), evenness(np.array([0, 0, 0]), 2)
    (1.0, 0.0)
    """
    shares = np.bincount(labels, minlength=n_clusters) / len(labels)
    shares = shares[shares > 0]
    return float(-(shares * np.log(shares)).sum() / np.log(max(n_clusters, 2))) + 0.0
