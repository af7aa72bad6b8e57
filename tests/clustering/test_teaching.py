"""Labels that guide clusters: the equations against slow references, and what they are for."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from selfsort.clustering.fusion import Neighbours, cut
from selfsort.clustering.spectral import join, nearest
from selfsort.clustering.spreading import REACH, in_parents, match, reached_from, spread, to_shares
from selfsort.clustering.taught_fusion import fuse_taught
from selfsort.clustering.teaching import told_by_clusters, told_by_graph
from selfsort.data.taught import Teaching


def blobs(seed: int, *, n: int = 60, k: int = 3, spread_by: float = 0.4) -> np.ndarray:
    """Points around k corners, n of each."""
    draw = np.random.default_rng(seed)
    centres = np.eye(k, 8)
    points = np.repeat(centres, n, axis=0) + spread_by * draw.normal(size=(n * k, 8)) / 2
    return points.astype(np.float32)


def near(points: np.ndarray) -> Neighbours:
    """A source that has these points."""
    return Neighbours([nearest(points, 12)], vectors=points)


TRUTH = np.repeat(np.arange(3), 60)


def known(rows: list[int], classes: np.ndarray, n_names: int = 3) -> Teaching:
    given = np.full(len(TRUTH), -1)
    given[rows] = classes
    return Teaching(given, tuple("abc"[:n_names]))


def test_spreading_is_the_solution_of_its_equation() -> None:
    graph = join(nearest(blobs(0), 6))
    dense = graph.toarray()
    scale = 1 / np.sqrt(dense.sum(axis=1))
    walk = scale[:, None] * dense * scale
    seeds = np.zeros((len(TRUTH), 3), dtype=np.float32)
    seeds[[0, 70, 140], [0, 1, 2]] = 1
    exact = (1 - REACH) * np.linalg.solve(np.eye(len(dense)) - REACH * walk, seeds)
    found = spread(csr_array(graph), seeds)
    assert np.abs(found - exact).max() < 0.06 * exact.max()  # what 60 steps leave
    assert to_shares(found).sum(axis=1) == pytest.approx(1, abs=1e-5)


def test_each_label_is_told_from_the_others_only() -> None:
    """The quick way, one spreading for all, is that of leaving out each label in turn."""
    graph = csr_array(join(nearest(blobs(1), 6)))
    anchors = np.array([3, 20, 70, 90, 150, 170])
    classes = np.array([0, 0, 1, 1, 2, 2])
    quick = told_by_graph(graph, anchors, classes, 3).without
    for place in range(len(anchors)):
        rest = np.delete(np.arange(len(anchors)), place)
        seeds = np.zeros((len(TRUTH), 3), dtype=np.float32)
        seeds[anchors[rest], classes[rest]] = 1
        slow = to_shares(spread(graph, seeds))[anchors[place]]
        assert quick[place] == pytest.approx(slow, abs=2e-3)
    clusters = TRUTH.copy()
    told = told_by_clusters(clusters, anchors, classes, 3)
    assert told.without.argmax(axis=1).tolist() == classes.tolist()
    assert told.shares[TRUTH == 1].argmax(axis=1).tolist() == [1] * 60
    assert reached_from(graph, anchors).shape == (len(TRUTH), 6)


def test_labels_tell_which_source_is_right() -> None:
    """One source knows the classes; three others, which agree, know something else."""
    other = np.random.default_rng(0).permutation(len(TRUTH))
    misleading = blobs(3, spread_by=0.1)[other]
    sources = {"right": near(blobs(2))}
    for name in ("x", "y", "z"):
        sources[name] = near(misleading)
    draw = np.random.default_rng(0)
    rows = np.concatenate(
        [draw.choice(np.flatnonzero(c == TRUTH), 5, replace=False) for c in range(3)]
    )
    found = fuse_taught(sources, known(rows.tolist(), TRUTH[rows]), 3, max_clusters=5, seed=0)
    assert (found.labels == TRUTH).mean() > 0.9
    assert found.shares == {"right": 1.0}


def test_a_wrong_label_is_doubted_and_a_class_without_labels_is_found() -> None:
    sources = {
        "one": near(blobs(4)),
        "two": near(blobs(5)),
    }
    rows = [0, 5, 10, 15, 61, 66, 71, 76, 30]
    classes = np.array([0, 0, 0, 0, 1, 1, 1, 1, 1])  # the last one is wrong
    found = fuse_taught(sources, known(rows, classes, 2), 3, max_clusters=5, seed=0)
    assert found.taught is not None
    assert found.taught.doubted == (30,)
    assert found.taught.names == ("a", "b", "")
    rest = np.setdiff1d(np.arange(len(TRUTH)), rows)
    assert (found.labels[rest] == TRUTH[rest]).mean() > 0.95


def test_clusters_do_not_cross_parents() -> None:
    graph = csr_array(join(nearest(blobs(6, k=4, n=45), 6)))
    parents = np.repeat([0, 1], 90)
    given = np.full(180, -1)
    given[[50, 55]] = 0
    teaching = Teaching(given, ("dog",), parents, ("animals", "plants"))
    found = in_parents(graph, teaching, [2, 2], lambda part, k: cut(part, k, seed=0))
    truth = np.repeat([1, 0, 2, 3], 45)
    assert found.names == ("animals/dog", "animals/1", "plants/0", "plants/1")
    assert set(found.labels[parents == 0]) == {0, 1}
    assert set(found.labels[parents == 1]) == {2, 3}
    assert (found.labels == truth)[:90].mean() > 0.95
    assert len(set(map(tuple, np.unique(np.stack([found.labels, truth]), axis=1).T))) <= 6


def test_corrections_flip_the_group_that_they_are_in_and_no_other() -> None:
    points = np.concatenate([blobs(7), blobs(8, n=20, k=1) + np.eye(1, 8, 5, dtype=np.float32) * 2])
    sources = {"one": near(points)}
    weak = np.concatenate(
        [TRUTH, np.zeros(20, dtype=np.int64)]
    )  # a group that is with the wrong class
    given = np.full(200, -1)
    given[185] = 2
    found = fuse_taught(
        sources, Teaching(given, ("", "", ""), weak=weak), 3, max_clusters=5, seed=0
    )
    assert (found.labels[180:] == 2).mean() > 0.9
    assert (found.labels[:180] == TRUTH).mean() > 0.98


def test_match_numbers_nameless_clusters_by_size() -> None:
    found = np.array([0, 0, 1, 1, 1, 2, 2, 2, 2])
    classes = np.array([0, -1, -1, -1, -1, -1, -1, -1, -1])
    assert match(found, classes, 1, 3).tolist() == [-1, -1, 2, 2, 2, 1, 1, 1, 1]
