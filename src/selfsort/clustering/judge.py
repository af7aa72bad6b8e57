"""Which of several clusterings of the same images is likely to be right, without labels.

The clusterings may come from different sources, networks or cuts. What is really there can be
learned: the cluster of an image can be told from those of all other images. So every source s that
has vectors X (unit rows) is asked for each clustering with clusters c as one-hot rows Y:

    Ŷ = X (XᵀX + r I)⁻¹ Xᵀ (Y − ȳ)          least squares with a ridge, ȳ the mean of Y
    P_i = (Ŷ_i − h_i (Y_i − ȳ)) / (1 − h_i) + ȳ     the same without image i
    L_s = I(c; argmax P) / log k

with h_i = x_iᵀ (XᵀX + r I)⁻¹ x_i. The mutual information I falls where clusters are unequal or
cannot be told apart. With the sources in the order of L_s, the largest first, the score is
Σ_j 0.2^j L_j / Σ_j 0.2^j: nobody knows which source is right, and one may be alone with it.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

Labels = NDArray[np.int64]
Vectors = NDArray[np.float32]

RIDGE = 0.2
"""r, as a share of the mean square of a direction."""

NEXT = 0.2
"""How much the next source counts, compared with the one before it."""

AT_ONCE = 1024
"""Clusters that are learned together."""

OF_TIGHTNESS = 6.3
OF_SCORE = 6.0
ALWAYS = -9.1
"""The estimate of the accuracy: what comes closest to it on the development sets
(`benchmarks/judge.md`).
"""

WITHIN = 0.17
"""So far the estimate is from the truth, at most, on four of five development sets, each of them
left out in turn; on the fifth it may be sure of something that is not the class.
"""


class Verdict(NamedTuple):
    """What is known of a clustering; a larger `score` is better, `tightness` is not part of it."""

    score: float
    tightness: float


def judge(
    clusterings: Sequence[Labels], sources: Sequence[Vectors], n_clusters: int
) -> NDArray[np.float64]:
    """The score of each clustering; `sources` are their vectors."""
    learned = [learnability(clusterings, vectors, n_clusters) for vectors in sources]
    weights = NEXT ** np.arange(len(learned))
    ordered = -np.sort(-np.array(learned), axis=0)
    scores: NDArray[np.float64] = weights @ ordered / weights.sum()
    return scores


def learnability(
    clusterings: Sequence[Labels], vectors: Vectors, n_clusters: int
) -> NDArray[np.float64]:
    """How much of each clustering one source can tell of images that it has not seen, 0 to 1."""
    told = foresee(clusterings, vectors, n_clusters)
    shared = [information(*pair, n_clusters) for pair in zip(clusterings, told, strict=True)]
    found: NDArray[np.float64] = np.array(shared) / np.log(max(n_clusters, 2))
    return found


def foresee(clusterings: Sequence[Labels], vectors: Vectors, n_clusters: int) -> Iterator[Labels]:
    """For each clustering, the cluster of each image by what all others say."""
    gram = (vectors.T @ vectors).astype(np.float64)
    ridge = RIDGE * max(float(gram.diagonal().mean()), 1e-12)
    inverse = np.linalg.inv(gram + ridge * np.eye(len(gram)))
    solved = np.asarray(inverse @ vectors.T, dtype=np.float32)
    own = np.einsum("ij,ji->i", vectors, solved)[:, None]
    size = max(1, AT_ONCE // n_clusters)
    for start in range(0, len(clusterings), size):
        labels = np.stack(clusterings[start : start + size], axis=1)
        members = np.eye(n_clusters, dtype=np.float32)[labels].reshape(len(labels), -1)
        mean = members.mean(axis=0)
        members -= mean
        found = (vectors @ (solved @ members) - own * members) / (1 - own) + mean
        yield from found.reshape(*labels.shape, n_clusters).argmax(axis=2).T


def information(first: Labels, second: Labels, n_clusters: int) -> float:
    """The mutual information of two clusterings, in nats.

    >>> information(np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1]), 2)
    0.0
    >>> round(information(np.array([0, 0, 1, 1]), np.array([1, 1, 0, 0]), 2), 4)
    0.6931
    """
    joint = np.bincount(first * n_clusters + second, minlength=n_clusters**2) / len(first)
    joint = joint.reshape(n_clusters, n_clusters)
    chance = np.outer(joint.sum(axis=1), joint.sum(axis=0))
    there = joint > 0
    return float((joint[there] * np.log(joint[there] / chance[there])).sum())


def estimate_accuracy(kept: Sequence[Verdict]) -> float:
    """The share of images that are likely to be in the right cluster, by the candidates that vote.

    >>> round(estimate_accuracy([Verdict(0.95, 0.98)]), 2)
    0.94
    """
    score, tight = np.mean(kept, axis=0).tolist()
    likely = 1 / (1 + np.exp(-(OF_TIGHTNESS * tight + OF_SCORE * score + ALWAYS)))
    return float(np.clip(likely, 0.05, 0.99))


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
