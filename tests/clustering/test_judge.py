"""The judge's numbers by hand, and what they are for: the right clustering before wrong ones."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from selfsort.clustering.judge import (
    RIDGE,
    Verdict,
    estimate_accuracy,
    foresee,
    information,
    judge,
    tightness,
)

TRUTH = np.repeat(np.arange(4), 25)


def test_tightness_is_that_of_a_slow_reference() -> None:
    draw = np.random.default_rng(0)
    graph = draw.random((12, 12)) * (draw.random((12, 12)) < 0.5)
    graph = graph + graph.T
    labels = draw.integers(3, size=12)
    shares = [
        graph[np.ix_(labels == one, labels == one)].sum() / graph[labels == one].sum()
        for one in range(3)
    ]
    assert tightness(labels, csr_array(graph), 3) == pytest.approx(np.mean(shares))


def test_an_empty_cluster_is_not_tight() -> None:
    pairs = csr_array(np.array([[0.0, 1], [1, 0]]))
    assert tightness(np.zeros(2, dtype=np.int64), pairs, 2) == 0.5


def test_what_is_foreseen_is_what_a_map_says_that_has_not_seen_the_image() -> None:
    draw = np.random.default_rng(0)
    vectors = draw.normal(size=(30, 5)).astype(np.float32)
    cuts = [draw.integers(3, size=30) for _ in range(2)]
    gram = vectors.T @ vectors
    ridge = RIDGE * gram.diagonal().mean() * np.eye(5)
    for labels, found in zip(cuts, foresee(cuts, vectors, 3), strict=True):
        members = np.eye(3)[labels]
        mean = members.mean(axis=0)
        for row in range(30):
            others = np.arange(30) != row
            seen = vectors[others]
            weights = np.linalg.solve(seen.T @ seen + ridge, seen.T @ (members - mean)[others])
            assert found[row] == (vectors[row] @ weights + mean).argmax()


def test_information_is_that_of_scikit_learn() -> None:
    from sklearn.metrics import mutual_info_score

    first, second = np.random.default_rng(0).integers(3, size=(2, 40))
    assert information(first, second, 3) == pytest.approx(mutual_info_score(first, second))


def test_the_truth_is_preferred_to_noise_to_a_merge_and_to_unequal_cuts() -> None:
    draw = np.random.default_rng(0)
    sources = []
    for _ in range(4):
        points = np.eye(4, 10)[TRUTH] + 0.2 * draw.normal(size=(100, 10))
        sources.append(points.astype(np.float32))
    merged = np.where(TRUTH == 3, 2, TRUTH)
    wrong = [draw.permutation(TRUTH), merged, np.where(TRUTH == 0, np.arange(100) % 2, TRUTH)]
    scores = judge([*wrong, TRUTH], sources, 4)
    assert int(scores.argmax()) == 3
    assert scores[0] < 0.2 < scores[1] < scores[3] <= 1


def test_the_estimate_of_the_accuracy_rises_with_both_and_stays_in_bounds() -> None:
    low = estimate_accuracy([Verdict(0.5, 0.7)])
    assert (
        0.05
        <= low
        < estimate_accuracy([Verdict(0.5, 0.9)])
        < estimate_accuracy([Verdict(0.7, 0.9)])
    )
    assert estimate_accuracy([Verdict(0.7, 0.9), Verdict(1.0, 1.0)]) <= 0.99
