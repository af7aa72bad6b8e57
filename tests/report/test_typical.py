"""The images that stand for a cluster are in its middle; borderline images are truly unclear."""

import numpy as np

from selfsort.report.map import Projection
from selfsort.report.typical import MAX_COMPARED, borderline, most_typical

SURE = np.ones(9, dtype=np.float32)


def on_a_line(*places: float) -> Projection:
    points = np.stack([np.array(places), np.zeros(len(places))], axis=1)
    return Projection(np.arange(len(places)), points.astype(np.float32))


def test_the_medoid_comes_first_however_sure_the_classifier_is_of_all() -> None:
    projection = on_a_line(0.0, 0.1, 0.2, 0.3, 1.0)
    assert most_typical(np.arange(5), SURE, projection).tolist() == [2, 1, 3, 0, 4]


def test_only_the_cluster_itself_counts() -> None:
    projection = on_a_line(0.0, 0.5, 0.1, 0.5, 0.3)
    assert most_typical(np.array([0, 2, 4]), SURE, projection)[0] == 2


def test_images_that_are_not_on_the_map_follow_by_confidence() -> None:
    confidence = np.array([0.1, 0.2, 0.3, 0.5, 0.4], dtype=np.float32)
    projection = Projection(np.array([1]), np.zeros((1, 2), dtype=np.float32))
    assert most_typical(np.arange(5), confidence, projection).tolist() == [1, 3, 4, 2, 0]
    assert most_typical(np.arange(5), confidence, None).tolist() == [3, 4, 2, 1, 0]
    assert most_typical(np.zeros(0, dtype=np.intp), confidence, projection).tolist() == []


def test_a_large_cluster_has_its_medoid_near_the_middle() -> None:
    count = 5 * MAX_COMPARED
    projection = on_a_line(*np.random.default_rng(0).permutation(count) / count)
    first = most_typical(np.arange(count), np.ones(count, dtype=np.float32), projection)[0]
    assert abs(projection.points[first, 0] - 0.5) < 0.05


def test_no_image_of_a_sure_cluster_is_borderline() -> None:
    confidence = np.array([1.0, 0.99, 1.0, 0.98, 1.0], dtype=np.float32)
    assert borderline(np.arange(5), confidence, 3).tolist() == []
    confidence[[1, 3]] = 0.6, 0.4
    assert borderline(np.arange(5), confidence, 3).tolist() == [3, 1]
    assert borderline(np.arange(5), confidence, 1).tolist() == [3]
    assert borderline(np.zeros(0, dtype=np.intp), confidence, 1).tolist() == []
