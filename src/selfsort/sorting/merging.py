"""Which images of too many clusters are clear, and which clusters are one; numbers only."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from selfsort.settings import ReclusterConfig

Probable = NDArray[np.float32]
"""Probabilities of the clusters, (images, cluster)."""


def most_confident(
    labels: NDArray[np.int64], confidence: NDArray[np.float32], share: float
) -> NDArray[np.bool_]:
    """Which images are among the most confident `share` of their cluster (-1: in none).

    >>> confidence = np.array([0.5, 0.9, 0.1, 1.0], dtype=np.float32)
    >>> most_confident(np.array([0, 0, 1, -1]), confidence, 0.5).tolist()
    [False, True, True, False]
    """
    chosen = np.zeros(len(labels), dtype=bool)
    for label in np.unique(labels[labels >= 0]):
        rows = np.flatnonzero(labels == label)
        best = rows[np.argsort(-confidence[rows], kind="stable")]
        chosen[best[: int(np.ceil(share * len(rows)))]] = True
    return chosen


def coherent_part(views: Sequence[Probable], config: ReclusterConfig) -> NDArray[np.intp]:
    """The clear images: the most confident share of each cluster, without clusters of low mean
    confidence.

    A cluster below `junk` times the median of the clusters' mean confidences gathers what belongs
    nowhere.
    """
    probable = np.mean(views, axis=0)
    labels, confidence = probable.argmax(axis=1), probable.max(axis=1)
    sizes = np.bincount(labels, minlength=probable.shape[1])
    means = np.bincount(labels, weights=confidence, minlength=probable.shape[1]) / np.maximum(
        sizes, 1
    )
    clear = means >= config.junk * np.quantile(means, 0.5, method="lower")
    return np.flatnonzero(most_confident(labels, confidence, config.share) & clear[labels])


def merge_views(
    views: Sequence[Probable], n_clusters: int, *, smoothing: float
) -> NDArray[np.int64]:
    """Labels of `n_clusters` clusters from the probabilities of more in several views of the
    images.

    The share of every label that smoothing spread over all clusters says nothing about two of them,
    so it is taken off.
    """
    probable = np.stack(views).astype(np.float64)
    over = probable.sum(axis=0).argmax(axis=1)
    probable = np.maximum(probable - smoothing / probable.shape[2], 0)
    probable /= np.maximum(probable.sum(axis=2, keepdims=True), 1e-300)
    total = probable.sum(axis=0)
    joint = total.T @ total - sum(
        view.T @ view for view in probable
    )  # of all pairs of different views
    labels: NDArray[np.int64] = merge(
        joint / joint.sum(), n_clusters, present=np.unique(over).tolist()
    )[over]
    return labels


def merge(
    joint: NDArray[np.float64], n_clusters: int, *, present: Sequence[int]
) -> NDArray[np.int64]:
    """The group of each cluster, -1 for those not present, from how probable each pair is in two
    views of one image.

    Again and again the two groups become one that are seen together most often, by what chance
    would give them.
    """
    groups = np.eye(len(joint))[list(present)]
    while len(groups) > n_clusters:
        both = groups @ joint @ groups.T
        shares = both.sum(axis=1)
        lift = np.triu(both / np.maximum(np.outer(shares, shares), 1e-300), k=1) - np.tri(len(both))
        first, second = np.unravel_index(lift.argmax(), lift.shape)
        groups[first] += groups[second]
        groups = np.delete(groups, second, axis=0)
    found: NDArray[np.int64] = np.where(groups.any(axis=0), groups.argmax(axis=0), -1)
    return found
