"""Neighbours, likely clusters, suggestions and places on the map, without a browser."""

import numpy as np
import pytest
from numpy.typing import NDArray

from selfsort.explore.atlas import place_all
from selfsort.explore.likeness import likely_clusters, most_similar, neighbours, spread
from selfsort.explore.suggest import (
    halves_of,
    list_suggestions,
    next_coarser,
    suggest_merges,
    suggest_splits,
    why_split,
)
from selfsort.report.map import Projection
from selfsort.runs.state import State


def blobs(*groups: int, width: int = 5) -> NDArray[np.float32]:
    """30 points around each of these corners of a cube."""
    generator = np.random.default_rng(0)
    centres = np.eye(width)[list(groups)].repeat(30, axis=0)
    return (centres + 0.1 * generator.normal(size=centres.shape)).astype(np.float32)


def state_of(*sizes: int) -> State:
    return State.of(np.repeat(np.arange(len(sizes)), sizes), len(sizes))


def test_neighbours_are_those_of_a_full_comparison() -> None:
    points = np.random.default_rng(0).normal(size=(300, 6)).astype(np.float32)
    among = np.arange(0, 300, 2)
    rows = np.arange(300)
    exact = ((points[:, None] - points[among]) ** 2).sum(axis=2)
    exact[rows[:, None] == among] = np.inf
    wanted = among[np.argsort(exact, axis=1)[:, :10]]
    found = np.concatenate([near for _, near in neighbours(points, rows, among)])
    assert (found == wanted).mean() > 0.999  # but for rounding
    assert most_similar(points, 7, 5)[0] == 7
    whole = np.argsort(((points - points[7]) ** 2).sum(axis=1))
    assert most_similar(points, 7, 5).tolist() == whole[:6].tolist()
    assert most_similar(points, 7, 1000).tolist() == whole.tolist()


def test_few_images_have_few_neighbours() -> None:
    points = np.zeros((2, 3), dtype=np.float32)
    ((_, near),) = neighbours(points, np.arange(2), np.arange(2))
    assert near[:, 0].tolist() == [1, 0]
    assert most_similar(points, 1, 300)[0] == 1
    assert suggest_merges(points, state_of(1, 1)) == []
    assert suggest_splits(points, state_of(2)) == []


def test_the_cluster_of_the_neighbours_is_the_likeliest() -> None:
    points = blobs(0, 1, 2, 2)
    state = state_of(30, 30, 30, 30)
    assert likely_clusters(points, state, np.arange(90, 95))[0][0] in (2, 3)
    found = likely_clusters(points, state, np.arange(90, 120))  # the whole of cluster 3
    assert found[0] == (2, 1.0)
    assert [cluster for cluster, _ in found] == [2, 0, 1, 3]
    nowhere = np.full((120, 1), np.nan, dtype=np.float32)
    assert [cluster for cluster, _ in likely_clusters(nowhere, state, np.arange(3))] == [0, 1, 2, 3]
    everything = likely_clusters(points, state, np.arange(120))
    assert {share for _, share in everything} == {0.0}


def test_mixed_clusters_are_to_be_merged_and_double_ones_split() -> None:
    points = blobs(0, 0, 1, 2)
    state = state_of(25, 35, 60)
    (merge,) = suggest_merges(points, state)
    assert (merge.cluster, merge.into) == (0, 1)
    assert merge.share > 0.3
    (split,) = suggest_splits(points, state)
    assert split.cluster == 2
    assert sorted((split.is_second.sum(), (~split.is_second).sum())) == [30, 30]
    assert "100% of the 10 nearest neighbours" in why_split(split)


def test_where_nothing_is_wrong_the_next_coarser_and_finer_steps_are_offered() -> None:
    points = blobs(0, 1, 2) + np.array([0.1, 0.3, 0, 0, 0], dtype=np.float32)
    points[:60] += np.array([0, 0, 0, 0.7, 0], dtype=np.float32)
    state = state_of(30, 30, 30)
    assert suggest_merges(points, state) == []
    assert suggest_splits(points, state) == []
    assert next_coarser(points, state) in {(0, 1), (1, 0)}
    found = list_suggestions(points, state, lambda rows: rows[:2].tolist())
    (merge,) = found["merges"]
    assert merge["is_step"]
    assert {merge["cluster"], merge["into"]} == {0, 1}
    (split,) = found["splits"]
    assert split["is_step"]
    assert split["why"].endswith("finer clusters.")
    assert next_coarser(points, State.of(np.zeros(90, dtype=np.int64), 1)) is None


def test_one_even_cloud_is_not_to_be_split() -> None:
    for seed in range(3):
        cloud = np.random.default_rng(seed).normal(size=(200, 20)).astype(np.float32)
        assert suggest_splits(cloud, state_of(200)) == []
        assert halves_of(np.ones((200, 4), dtype=np.float32), state_of(200), 0) is None


def test_all_images_find_a_place_on_the_map() -> None:
    points = blobs(0, 1, 2)
    rows = np.arange(0, 90, 3)
    corners = np.array([[0, 0], [1, 0], [0, 1]], dtype=np.float32)
    placed = place_all(Projection(rows, corners[rows // 30]), points, seed=0)
    assert np.array_equal(placed[rows], corners[rows // 30])
    assert np.abs(placed - corners.repeat(30, axis=0)).max() < 0.05
    assert np.array_equal(placed, place_all(Projection(rows, corners[rows // 30]), points, seed=0))


@pytest.mark.parametrize("count", [1, 7, 100])
def test_a_sample_is_spread_over_all(count: int) -> None:
    rows = spread(np.arange(50), count)
    assert len(rows) == min(count, 50)
    assert rows[0] == 0
    assert len(set(rows.tolist())) == len(rows)
