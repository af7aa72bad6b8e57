"""Cuts, votes and their judge on graphs whose classes are known."""

import numpy as np
from numpy.typing import NDArray

from selfsort.clustering.fusion import (
    MOST_NEIGHBOURS,
    Neighbours,
    count_votes,
    cut,
    fuse,
    selections,
)
from selfsort.clustering.spectral import join, nearest
from selfsort.metrics import score

TRUTH = np.repeat(np.arange(4), 30)


def points(noise: float, seed: int) -> NDArray[np.float32]:
    draw = np.random.default_rng(seed)
    centres = np.eye(4, 12)
    found = centres[TRUTH] + noise * draw.normal(size=(len(TRUTH), 12))
    return found.astype(np.float32)


def source(noise: float, seed: int) -> Neighbours:
    vectors = points(noise, seed)
    return Neighbours([nearest(vectors, MOST_NEIGHBOURS)], vectors=vectors)


def test_a_clear_graph_is_cut_into_its_classes() -> None:
    labels = cut(join(nearest(points(0.1, 0), 7)), 4, seed=0)
    assert score(TRUTH, labels).accuracy == 1


def test_good_sources_win_over_one_that_knows_nothing() -> None:
    sources = {str(seed): source(0.35, seed) for seed in range(4)}
    sources["noise"] = Neighbours(
        [np.random.default_rng(9).integers(len(TRUTH), size=(len(TRUTH), MOST_NEIGHBOURS))],
        vectors=np.random.default_rng(9).normal(size=(len(TRUTH), 12)).astype(np.float32),
    )
    found = fuse(sources, 4, max_clusters=8, seed=0)
    alone = cut(sources["noise"].graph(7), 4, seed=0)
    assert score(TRUTH, found.labels).accuracy > 0.95 > 0.6 > score(TRUTH, alone).accuracy
    kept = [one for one in found.selections if one.is_kept]
    assert len(kept) < len(found.selections)
    assert not any(one.sources == ("noise",) for one in kept)
    assert 0.6 < found.accuracy < 1
    np.testing.assert_allclose(found.votes.sum(axis=1), 1, rtol=1e-5)
    again = fuse(sources, 4, max_clusters=8, seed=0)
    assert (again.labels == found.labels).all()
    assert (again.votes == found.votes).all()


def test_the_number_of_clusters_can_be_left_to_the_graph() -> None:
    sources = {str(seed): source(0.15, seed) for seed in range(3)}
    found = fuse(sources, None, max_clusters=8, seed=0)
    assert found.cluster_count is not None
    assert found.votes.shape[1] == found.cluster_count.n_clusters == 4


def test_one_source_of_few_images_is_enough() -> None:
    vectors = points(0.1, 0)[::10]
    few = Neighbours([nearest(vectors, MOST_NEIGHBOURS)], vectors=vectors)
    found = fuse({"only": few}, 2, max_clusters=40, seed=0)
    assert len(found.labels) == 12


def test_votes_follow_the_clusters_whatever_their_numbers() -> None:
    labels = np.array([0, 0, 1, 1])
    votes = count_votes([np.array([1, 1, 0, 0]), np.array([0, 1, 1, 1])], labels, 2)
    assert votes.tolist() == [[1, 0], [0.5, 0.5], [0, 1], [0, 1]]


def test_selections_are_all_sources_each_alone_all_but_one_pairs_and_triples() -> None:
    found = selections(list("abcdef"))
    assert found[0] == tuple("abcdef")
    assert [sum(len(one) == size for one in found) for size in (1, 2, 3, 5)] == [6, 15, 20, 6]
    assert len(found) == len(set(found))
    many = selections(list("abcdefghi"))
    assert many == selections(list("abcdefghi"))
    assert [sum(len(one) == size for one in many) for size in (2, 3)] == [24, 24]
