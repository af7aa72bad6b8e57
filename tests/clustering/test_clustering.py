"""k-means with a numbering rule, and the scores."""

import itertools

import numpy as np
import pytest

from selfsort.clustering.kmeans import Clustering, cluster, order_by_size
from selfsort.errors import DataError
from selfsort.metrics import align_clusters, score, score_without_truth


@pytest.fixture
def blobs() -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(0)
    truth = np.repeat([0, 1, 2], [30, 60, 45])
    return (5 * np.eye(3)[truth] + draw.normal(size=(135, 3)) * 0.3).astype(np.float32), truth


def test_clusters_are_numbered_by_size(blobs: tuple[np.ndarray, np.ndarray]) -> None:
    points, truth = blobs
    labels, confidence = cluster(points, 3, n_init=3, seed=0).assign(points)
    assert np.bincount(labels).tolist() == [60, 45, 30]
    assert score(truth, labels).accuracy == 1
    assert ((confidence > 0.5) & (confidence <= 1)).all()
    for seed in (1, 2):
        assert (cluster(points[::-1], 3, n_init=3, seed=seed).assign(points).labels == labels).all()


def test_the_order_of_clusters_does_not_depend_on_how_they_were_numbered() -> None:
    draw = np.random.default_rng(0)
    labels = draw.integers(0, 6, 40)
    expected = np.argsort(order_by_size(labels, 7))[labels]
    for _ in range(20):
        permuted = draw.permutation(7)[labels]
        assert (np.argsort(order_by_size(permuted, 7))[permuted] == expected).all()
    sizes = np.bincount(expected, minlength=7)
    assert (np.diff(sizes) <= 0).all()
    ties = [(np.flatnonzero(expected == number)[0], size) for number, size in enumerate(sizes[:6])]
    assert all(
        first < second
        for (first, size), (second, other) in itertools.pairwise(ties)
        if size == other
    )


def test_aligning_finds_the_best_of_all_numberings() -> None:
    draw = np.random.default_rng(1)
    for n_clusters in (2, 4, 5):
        labels, reference = draw.integers(0, n_clusters, 60), draw.integers(-1, 6, 60)
        order = align_clusters(labels, reference, n_clusters)
        assert sorted(order.tolist()) == list(range(n_clusters))
        best = max(
            (np.array(numbers)[labels] == reference).sum()
            for numbers in itertools.permutations(range(n_clusters))
        )
        assert (np.argsort(order)[labels] == reference).sum() == best


def test_aligning_gives_free_numbers_in_turn() -> None:
    labels = np.array([0, 0, 0, 1, 1, 2, 3])
    assert align_clusters(labels, np.array([-1, -1, -1, -1, -1, 0, -1]), 4).tolist() == [2, 0, 1, 3]
    assert align_clusters(labels, np.full(7, -1), 4).tolist() == [0, 1, 2, 3]
    assert align_clusters(labels, np.full(7, 99), 4).tolist() == [0, 1, 2, 3]
    with pytest.raises(DataError, match="3 reference labels for 7 images"):
        align_clusters(labels, np.zeros(3, dtype=int), 4)


def test_confidence_is_zero_on_the_border_and_one_at_a_centre() -> None:
    clustering = Clustering(np.array([[0.0, 0.0], [2.0, 0.0]], dtype=np.float32))
    assignment = clustering.assign(np.array([[0, 0], [1, 0], [2.1, 0]], dtype=np.float32))
    assert assignment.labels.tolist() == [0, 0, 1]
    assert assignment.confidence.tolist() == pytest.approx([1, 0, 1 - 0.1 / 2.1], abs=1e-4)


def test_one_cluster_and_too_few_points() -> None:
    points = np.ones((3, 2), dtype=np.float32)
    assert cluster(points, 1, n_init=1, seed=0).assign(points).labels.tolist() == [0, 0, 0]
    assert cluster(points, 2, n_init=1, seed=0).assign(points).labels.tolist() == [0, 0, 0]
    with pytest.raises(DataError, match=r"n_samples=3 should be >= n_clusters=4\."):
        cluster(points, 4, n_init=1, seed=0)


def test_accuracy_equals_trying_every_mapping() -> None:
    draw = np.random.default_rng(1)
    truth, labels = draw.integers(0, 4, 60), draw.integers(0, 4, 60)
    best = max(
        np.mean([mapping[label] for label in labels] == truth)
        for mapping in itertools.permutations(range(4))
    )
    assert score(truth, labels).accuracy == pytest.approx(best)


def test_scores_by_hand() -> None:
    scores = score(np.array([0, 0, 0, 1, 1, 1]), np.array([5, 5, 7, 7, 8, 8]))
    assert scores.accuracy == pytest.approx(4 / 6)
    assert scores.purity == pytest.approx(5 / 6)
    perfect = score(np.array(["a", "b", "a"]), np.array([1, 0, 1]))
    assert (perfect.accuracy, perfect.purity, perfect.nmi, perfect.ari) == pytest.approx(
        (1, 1, 1, 1)
    )
    with pytest.raises(DataError, match="as many"):
        score(np.array([1]), np.array([1, 2]))


def test_scores_without_truth(blobs: tuple[np.ndarray, np.ndarray]) -> None:
    points, truth = blobs
    logits = np.zeros((135, 2, 4), dtype=np.float32)
    logits[:, 0, 1] = 1
    logits[:40, 0, 2] = 2
    logits[0, 0, 3] = 3
    scores = score_without_truth(points, truth, 4, logits=logits)
    assert scores.silhouette is not None
    assert scores.silhouette > 0.8
    assert scores.cluster_sizes == [30, 60, 45, 0]
    assert scores.active_duplicates == 2
    assert score_without_truth(points, np.zeros(135, dtype=int), 1).silhouette is None
