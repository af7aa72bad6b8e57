"""Clusters that should perhaps be one, and clusters that should perhaps be two, each with the
reason.

Both are told by neighbours. Two clusters belong together if the images of one have many of their
nearest neighbours in the other. A cluster falls apart if it has two halves whose images are hardly
ever neighbours.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans

from selfsort.explore.likeness import N_NEIGHBOURS, Rows, neighbours, spread
from selfsort.report.typical import Points
from selfsort.runs.state import State
from selfsort.runs.tree import joins

MAX_ASKED = 6000
FEWEST_ASKED = 20
MOST_ASKED = 200
"""Images that are asked for their neighbours: in all, and in each cluster."""

MIXED = 0.2
"""A share of neighbours in another cluster from which the two are suggested to be one."""

APART = 0.12
"""Neighbours across the halves of a cluster, as a share of what chance would give: below it the
halves are suggested to be two clusters.
"""

FEWEST = 6
SMALLEST_HALF = 0.08
"""Images of a half, and its share of the cluster, at least."""

MAX_FITTED = 1000
MAX_SHOWN = 8


class Merge(NamedTuple):
    """Put `cluster` into `into`, since so large a share of its images' neighbours is there."""

    cluster: int
    into: int
    share: float


class Halves(NamedTuple):
    """Split `cluster`: its images, which of them are in the smaller half, and the share of
    neighbours that are across.
    """

    cluster: int
    members: Rows
    is_second: NDArray[np.bool_]
    across: float


def list_suggestions(
    points: Points, state: State, examples: Callable[[Rows], list[int]]
) -> dict[str, Any]:
    """Merges and splits with their reasons, as the page gets them."""
    merges = [
        {"cluster": one.cluster, "into": one.into, "why": why_merge(one, state)}
        for one in suggest_merges(points, state)
    ]
    if not merges and (coarser := next_coarser(points, state)):
        why = "These two are most alike: the next step to coarser clusters."
        merges = [{"cluster": coarser[0], "into": coarser[1], "why": why, "is_step": True}]
    halves = all_halves(points, state)
    good = [found for found in halves if found.across < APART]
    splits = [
        {
            "cluster": one.cluster,
            "parts": [examples(one.members[~one.is_second]), examples(one.members[one.is_second])],
            "why": why_split(one) if good else f"{why_split(one)} The next step to finer clusters.",
            "is_step": not good,
        }
        for one in (good or halves[:1])[:MAX_SHOWN]
    ]
    return {"merges": merges, "splits": splits}


def next_coarser(points: Points, state: State) -> tuple[int, int] | None:
    """The cluster to merge first on the way to coarser ones, and the larger one it belongs to."""
    used = [cluster for cluster in state.clusters if len(state.members(cluster))]
    inner = ~state.outliers & ~np.isnan(points[:, 0])
    labels = np.where(inner, state.labels, -1)
    if len(used) < 2:
        return None
    first = joins(points, labels, used)[0]
    pair = sorted((used[first.first], used[first.second]), key=lambda one: (labels == one).sum())
    return pair[0], pair[1]


def suggest_merges(points: Points, state: State) -> list[Merge]:
    """Pairs of clusters whose images mix, the most mixed first: the smaller into the larger."""
    inner = np.flatnonzero(~state.outliers & ~np.isnan(points[:, 0]))
    used = [cluster for cluster in state.clusters if len(state.members(cluster))]
    per_cluster = min(MOST_ASKED, max(FEWEST_ASKED, MAX_ASKED // max(len(used), 1)))
    sizes = np.bincount(state.labels[inner], minlength=state.free)
    found = []
    for cluster in used:
        members = np.intersect1d(state.members(cluster), inner)
        asked = spread(members, per_cluster)
        votes = np.zeros(state.free)
        for _, near in neighbours(points, asked, inner):
            votes += np.bincount(state.labels[near].ravel(), minlength=state.free)
        shares = votes / max(votes.sum(), 1)
        for other in used:
            is_smaller = (sizes[cluster], -cluster) < (sizes[other], -other)
            by_chance = sizes[other] / max(len(inner), 1)
            if is_smaller and shares[other] >= max(MIXED, min(0.9, 1.5 * by_chance)):
                found.append(Merge(cluster, other, float(shares[other])))
    return sorted(found, key=lambda merge: -merge.share)[:MAX_SHOWN]


def suggest_splits(points: Points, state: State) -> list[Halves]:
    """Clusters that fall into two halves, those whose halves touch least first."""
    return [found for found in all_halves(points, state) if found.across < APART][:MAX_SHOWN]


def all_halves(points: Points, state: State) -> list[Halves]:
    """Every cluster that can be halved, those whose halves touch least first."""
    halves = [halves_of(points, state, cluster) for cluster in state.clusters]
    return sorted(filter(None, halves), key=lambda found: found.across)


def halves_of(points: Points, state: State, cluster: int) -> Halves | None:
    """The two halves of a cluster; None if it is too small or one half would be."""
    members = state.members(cluster)
    members = members[~np.isnan(points[members, 0])]
    if len(members) < 2 * FEWEST:
        return None
    sample = spread(members, MAX_FITTED)
    if len(np.unique(points[sample], axis=0)) < 2:
        return None
    fitted = KMeans(2, n_init=3, random_state=0).fit(points[sample])
    is_second = fitted.predict(points[members]) == 1
    if is_second.mean() > 0.5:
        is_second = ~is_second
    if is_second.sum() < max(FEWEST, SMALLEST_HALF * len(members)):
        return None
    side = dict(zip(members.tolist(), is_second.tolist(), strict=True))
    n_across = 0
    n_all = 0
    for rows, near in neighbours(points, sample, sample):
        own = np.array([side[row] for row in rows.tolist()])
        others = np.array([side[row] for row in near.ravel().tolist()]).reshape(near.shape)
        n_across += int((own[:, None] != others).sum())
        n_all += others.size
    share = is_second.mean()
    return Halves(cluster, members, is_second, float(n_across / n_all / (2 * share * (1 - share))))


def why_merge(merge: Merge, state: State) -> str:
    """The reason in a sentence."""
    return (
        f"{merge.share:.0%} of the nearest neighbours of the images in "
        f"{state.title(merge.cluster)} are in {state.title(merge.into)}."
    )


def why_split(found: Halves) -> str:
    """The reason in a sentence."""
    second = int(found.is_second.sum())
    share = found.is_second.mean()
    inside = 1 - found.across * 2 * share * (1 - share)
    return (
        f"It falls into groups of {len(found.members) - second:,} and {second:,} images: "
        f"{inside:.0%} of the {N_NEIGHBOURS} nearest neighbours of an image are in its own group."
    )
