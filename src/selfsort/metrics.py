"""Labels against truth, and scores that need no truth."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score, silhouette_score
from sklearn.metrics.cluster import contingency_matrix

from selfsort.errors import DataError


@dataclass(frozen=True)
class Scores:
    """Agreement of clusters with truth, each in [0, 1] (ARI may be below 0)."""

    accuracy: float
    purity: float
    nmi: float
    ari: float


@dataclass(frozen=True)
class LabelFreeScores:
    """What can be said of a clustering without truth."""

    silhouette: float | None
    cluster_sizes: list[int]
    active_duplicates: int | None = None


def score(truth: NDArray[Any], labels: NDArray[Any]) -> Scores:
    """ACC (the best one-to-one mapping of clusters to classes), purity (majority vote), NMI and
    ARI.

    >>> score(np.array([0, 0, 1, 1]), np.array([7, 7, 7, 3])).accuracy
    0.75
    """
    if len(truth) != len(labels) or len(truth) == 0:
        raise DataError(
            f"{len(labels)} cluster labels for {len(truth)} truth labels; there should be as "
            "many, and at least one."
        )
    table = contingency_matrix(truth, labels)
    matched = table[linear_sum_assignment(table, maximize=True)].sum()
    return Scores(
        accuracy=float(matched / len(truth)),
        purity=float(table.max(axis=0).sum() / len(truth)),
        nmi=float(normalized_mutual_info_score(truth, labels)),
        ari=float(adjusted_rand_score(truth, labels)),
    )


def align_clusters(
    labels: NDArray[np.int64], reference: NDArray[np.int64], n_clusters: int
) -> NDArray[np.int64]:
    """The order in which clusters should be numbered to agree with `reference` (-1: unknown) on as
    many images as possible.

    What was `order[i]` becomes i. Numbers that nothing in the reference speaks for go to the other
    clusters in turn.

    >>> align_clusters(np.array([0, 0, 1, 2, 2]), np.array([2, 2, -1, 0, 0]), 3).tolist()
    [2, 1, 0]
    """
    if len(labels) != len(reference):
        raise DataError(
            f"{len(reference)} reference labels for {len(labels)} images; there should be as many."
        )
    known = (reference >= 0) & (reference < n_clusters)
    common = np.zeros((n_clusters, n_clusters), dtype=np.int64)
    np.add.at(common, (labels[known], reference[known]), 1)
    order = np.full(n_clusters, -1)
    for cluster, number in zip(*linear_sum_assignment(common, maximize=True), strict=True):
        if common[cluster, number]:
            order[number] = cluster
    order[order < 0] = np.setdiff1d(np.arange(n_clusters), order)
    return order


def score_without_truth(
    points: NDArray[np.float32],
    labels: NDArray[Any],
    n_clusters: int,
    *,
    logits: NDArray[np.float32] | None = None,
    seed: int = 0,
) -> LabelFreeScores:
    """Silhouette (of at most 2000 images), cluster sizes and how many duplicates of the first
    parent are in use.

    A duplicate is in use if it wins for at least a tenth of its fair share of the images.
    """
    sample = np.random.default_rng(seed).permutation(len(points))[:2000]
    n_found = len(np.unique(labels[sample]))
    silhouette = (
        float(silhouette_score(points[sample], labels[sample]))
        if 1 < n_found < len(sample)
        else None
    )
    active = None
    if logits is not None:
        wins = np.bincount(logits[:, 0].argmax(axis=1), minlength=logits.shape[2])
        active = int((wins * logits.shape[2] >= 0.1 * len(logits)).sum())
    return LabelFreeScores(silhouette, np.bincount(labels, minlength=n_clusters).tolist(), active)
