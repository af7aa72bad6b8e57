"""Coarser and finer clusters, against slow references."""

import numpy as np
import pytest

from selfsort.runs.counts import alternatives, say_number
from selfsort.runs.tree import groups_at, halves, joins

DRAW = np.random.default_rng(0)
CENTRES = np.eye(6)[[0, 0, 1, 2, 3, 3]] + 0.4 * np.eye(6)[[4, 5, 4, 4, 4, 5]]
TRUTH = np.repeat(np.arange(6), 20)
VECTORS = (CENTRES[TRUTH] + 0.1 * DRAW.normal(size=(120, 6))).astype(np.float32)


def test_clusters_are_joined_where_that_adds_least_to_the_spread() -> None:
    found = joins(VECTORS, TRUTH, range(6))
    units = VECTORS / np.linalg.norm(VECTORS, axis=1, keepdims=True)
    members = [np.flatnonzero(cluster == TRUTH) for cluster in range(6)]
    for one in found:
        pair = members[one.first], members[one.second]
        members.append(np.concatenate(pair))
        spread = [float(units[rows].var(axis=0).sum() * len(rows)) for rows in (members[-1], *pair)]
        assert one.cost == pytest.approx(spread[0] - spread[1] - spread[2], rel=1e-3)
    assert [one.cost for one in found] == sorted(one.cost for one in found)
    assert {frozenset(group) for group in groups_at(found, 6, 4)} == {
        frozenset(group) for group in ([0, 1], [2], [3], [4, 5])
    }
    assert len(groups_at(found, 6, 6)) == 6
    assert groups_at(found, 6, 1) == [[0, 1, 2, 3, 4, 5]]


def test_images_without_a_vector_are_left_out() -> None:
    gone = VECTORS.copy()
    gone[::3] = np.nan
    found = joins(gone, TRUTH, range(6))
    assert all(np.isfinite(one.cost) for one in found)
    assert all((part % 3 > 0).all() for one in halves(gone, TRUTH, range(6)) for part in one.parts)


def test_the_cluster_of_two_kinds_falls_apart_first_and_into_them() -> None:
    coarse = np.array([0, 1, 2, 2, 3, 3])[TRUTH]
    first = halves(VECTORS, coarse, range(4))[0]
    assert first.cluster == 2
    assert {tuple(np.unique(TRUTH[part])) for part in first.parts} == {(2,), (3,)}
    assert halves(VECTORS[:5], coarse[:5], range(4)) == []


def test_alternatives_are_peaks_far_from_the_number_that_was_taken() -> None:
    curve = [(2, 0.9), (4, 0.1), (7, 0.6), (8, 0.2), (10, 0.9), (12, 0.8), (20, 0.3), (30, 0.2)]
    assert alternatives(curve, 10) == (7, None)
    curve += [(40, 0.4), (50, 0.1)]
    assert say_number(curve, 10) == (
        "10, or 7 if you want coarser groups, or 40 if you want finer groups"
    )
    assert say_number([], 3) == "3"
