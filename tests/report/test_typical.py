"""The images that stand for a cluster are in its middle; borderline images are truly unclear."""

import numpy as np

from selfsort.report.map import Projection
from selfsort.report.typical import Points, borderline, most_typical, places

SURE = np.ones(9, dtype=np.float32)


def on_a_line(*values: float) -> Points:
    return np.stack([np.array(values), np.zeros(len(values))], axis=1).astype(np.float32)


def test_the_middle_comes_first_however_sure_the_classifier_is_of_all() -> None:
    points = on_a_line(0.0, 0.1, 0.2, 0.3, 1.0)
    order = most_typical(np.arange(5), SURE, points).tolist()
    assert (order[0], order[-1]) == (2, 4)


def test_only_the_cluster_itself_counts() -> None:
    points = on_a_line(0.0, 0.5, 0.1, 0.5, 0.3)
    assert most_typical(np.array([0, 2, 4]), SURE, points)[0] == 2


def test_images_that_are_not_on_the_map_follow_by_confidence() -> None:
    confidence = np.array([0.1, 0.2, 0.3, 0.5, 0.4], dtype=np.float32)
    points = places(5, Projection(np.array([1]), np.zeros((1, 2), dtype=np.float32)), None)
    assert most_typical(np.arange(5), confidence, points).tolist() == [1, 3, 4, 2, 0]
    assert most_typical(np.arange(5), confidence, None).tolist() == [3, 4, 2, 1, 0]
    assert most_typical(np.zeros(0, dtype=np.intp), confidence, points).tolist() == []


def test_a_large_cluster() -> None:
    count = 2500
    points = on_a_line(*np.random.default_rng(0).permutation(count) / count)
    first = most_typical(np.arange(count), np.ones(count, dtype=np.float32), points)[0]
    assert abs(points[first, 0] - 0.5) < 0.05


def test_vectors_count_more_than_the_map_and_by_their_direction() -> None:
    vectors = np.array([[1, 0], [9, 9], [0, 1]], dtype=np.float32)
    projection = Projection(np.arange(3), on_a_line(0.5, 0.0, 1.0))
    assert most_typical(np.arange(3), SURE, places(3, projection, None))[0] == 0
    assert most_typical(np.arange(3), SURE, places(3, projection, vectors))[0] == 1
    assert places(3, None, None) is None


def test_no_image_of_a_sure_cluster_is_borderline() -> None:
    confidence = np.array([1.0, 0.99, 1.0, 0.98, 1.0], dtype=np.float32)
    assert borderline(np.arange(5), confidence, 3).tolist() == []
    confidence[[1, 3]] = 0.6, 0.4
    assert borderline(np.arange(5), confidence, 3).tolist() == [3, 1]
    assert borderline(np.arange(5), confidence, 1).tolist() == [3]
    assert borderline(np.zeros(0, dtype=np.intp), confidence, 1).tolist() == []
