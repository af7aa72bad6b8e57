"""The judge's numbers by hand, and what they are for: the right clustering before wrong ones."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array

from selfsort.clustering.judge import (
    Candidate,
    Verdict,
    estimate_accuracy,
    evenness,
    judge,
    support,
    tightness,
)
from selfsort.clustering.spectral import join, nearest

TRUTH = np.repeat(np.arange(4), 25)


def slow_support(labels: NDArray[np.int64], graph: NDArray[np.float64]) -> float:
    """The same, pair by pair."""
    inside = total = 0.0
    for first in range(len(labels)):
        for second in range(len(labels)):
            total += graph[first, second]
            inside += graph[first, second] * (labels[first] == labels[second])
    same = sum((labels == one).mean() ** 2 for one in np.unique(labels))
    return float((inside / total - same) / (1 - same))


def test_support_and_tightness_are_those_of_a_slow_reference() -> None:
    draw = np.random.default_rng(0)
    graph = draw.random((12, 12)) * (draw.random((12, 12)) < 0.5)
    graph = graph + graph.T
    labels = draw.integers(3, size=12)
    found = support(labels, csr_array(graph), 3)
    assert found == pytest.approx(slow_support(labels, graph))
    shares = [
        graph[np.ix_(labels == one, labels == one)].sum() / graph[labels == one].sum()
        for one in range(3)
    ]
    assert tightness(labels, csr_array(graph), 3) == pytest.approx(np.mean(shares))


def test_one_cluster_has_no_support_and_an_empty_one_is_not_tight() -> None:
    pairs = csr_array(np.array([[0.0, 1], [1, 0]]))
    one = np.zeros(2, dtype=np.int64)
    assert support(one, pairs, 1) == 0
    assert tightness(one, pairs, 2) == 0.5


def test_evenness_by_hand() -> None:
    assert evenness(np.array([0, 0, 0, 1]), 2) == pytest.approx(0.8112781, abs=1e-6)


def test_the_truth_is_preferred_to_noise_to_a_merge_and_to_unequal_cuts() -> None:
    draw = np.random.default_rng(0)
    graphs = []
    for _ in range(4):
        points = np.eye(4, 10)[TRUTH] + 0.2 * draw.normal(size=(100, 10))
        graphs.append(join(nearest(points.astype(np.float32), 7)))
    merged = np.where(TRUTH == 3, 2, TRUTH)
    wrong = [draw.permutation(TRUTH), merged, np.where(TRUTH == 0, np.arange(100) % 2, TRUTH)]
    candidates = [Candidate((labels, labels), 0.5) for labels in [*wrong, TRUTH]]
    scores = [verdict.score for verdict in judge(candidates, graphs, 4)]
    assert int(np.argmax(scores)) == 3


def test_the_estimate_of_the_accuracy_rises_with_agreement_and_stays_in_bounds() -> None:
    loose = [Verdict(0.5, 0.9, 0.5, 0.7, 0.5)]
    tight = [Verdict(0.9, 0.9, 0.9, 1.0, 0.9)]
    low = estimate_accuracy(loose, agreement=0.4)
    assert 0.05 <= low < estimate_accuracy(loose, agreement=0.8)
    assert low < estimate_accuracy(tight, agreement=1.0) <= 0.99
