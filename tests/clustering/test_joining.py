"""Ward's trees over several sources."""

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from sklearn.metrics import adjusted_rand_score

from selfsort.clustering.joining import (
    join_graphs,
    join_sources,
    squared_distances,
    ward,
)

RNG = np.random.default_rng(0)
TRUTH = np.repeat([0, 1, 2], [40, 30, 6])


def blobs(centres: np.ndarray, noise: float) -> np.ndarray:
    points = centres[TRUTH] + noise * RNG.normal(size=(len(TRUTH), centres.shape[1]))
    return np.asarray(points / np.linalg.norm(points, axis=1, keepdims=True), dtype=np.float32)


def test_ward_is_that_of_scipy_and_gives_the_number_asked_for() -> None:
    points = RNG.normal(size=(50, 4)).astype(np.float32)
    expected = fcluster(linkage(points.astype(float), "ward"), 7, "maxclust")
    assert adjusted_rand_score(expected, ward(squared_distances(points), 7)) == 1
    same = np.ones((10, 3), dtype=np.float32)
    assert len(set(ward(squared_distances(same), 4))) == 4
    assert ward(squared_distances(points), 1).max() == 0


def test_sources_together_find_what_none_shows_alone() -> None:
    eye = np.eye(4, dtype=np.float32)
    sources = {  # each sees one class well, and none all three
        "a": blobs(eye[[0, 1, 1]], 0.05),
        "b": blobs(eye[[0, 0, 1]], 0.05),
        "noise": blobs(eye[[0, 0, 0]], 0.5),
    }
    steps: list[tuple[int, int]] = []
    found = join_sources(sources, 3, max_clusters=10, on_step=lambda *step: steps.append(step))
    assert adjusted_rand_score(TRUTH, found.labels) > 0.95
    assert np.allclose(found.votes.sum(axis=1), 1, atol=1e-5)
    assert steps[-1] == (7, 7)  # three alone, all, three without one


def test_the_number_of_clusters_can_be_counted() -> None:
    many = np.repeat(np.eye(3, dtype=np.float32), 25, axis=0)
    points = many + 0.05 * RNG.normal(size=many.shape).astype(np.float32)
    found = join_sources({"a": points}, None, max_clusters=10)
    assert found.cluster_count is not None
    assert found.cluster_count.n_clusters == 3
    assert len(found.count_curve) > 3
    assert found.votes.shape == (75, 3)


def test_voices_that_are_nearer_than_words_do_not_hide_them_from_graphs() -> None:
    """Two words in five voices: in each source a voice's clips are a tight group, and neighbours
    beyond it say the same word.
    """
    draw = np.random.default_rng(1)
    word = np.repeat([0, 1], 50)
    voice = np.tile(np.repeat(np.arange(5), 10), 2)
    sources = {}
    for name in "abc":
        centres = draw.normal(size=(10, 5)) + 4 * np.repeat(draw.normal(size=(2, 5)), 5, axis=0)
        centres[voice[word == 1].max()] *= 3  # a strange voice
        points = centres[word * 5 + voice] + 0.1 * draw.normal(size=(100, 5))
        sources[name] = np.asarray(points, dtype=np.float32)
    found = join_graphs(sources, 2, max_clusters=10)
    assert adjusted_rand_score(word, found.labels) == 1
    assert np.allclose(found.votes.sum(axis=1), 1, atol=1e-5)
