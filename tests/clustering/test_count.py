"""How many clusters there are, where it is known."""

import numpy as np
import pytest
from numpy.typing import NDArray

from selfsort.clustering.count import TRIED, count_by_learning
from selfsort.clustering.fusion import MOST_NEIGHBOURS, Neighbours, fuse
from selfsort.clustering.kmeans import cluster
from selfsort.clustering.spectral import nearest


def points(n_classes: int, seed: int, noise: float = 0.15) -> NDArray[np.float32]:
    draw = np.random.default_rng(seed)
    truth = np.repeat(np.arange(n_classes), 30)
    found = np.eye(n_classes, 24)[truth] + noise * draw.normal(size=(len(truth), 24))
    return found.astype(np.float32)


@pytest.mark.parametrize("n_classes", [4, 9])
def test_the_number_is_found_also_where_it_was_not_tried_at_first(n_classes: int) -> None:
    assert (n_classes in TRIED) == (n_classes == 4)
    seen = points(n_classes, 0)
    told: list[float] = []
    curve = count_by_learning(
        lambda k: [cluster(seen, k, n_init=2, seed=0).assign(seen).labels],
        [seen, points(n_classes, 1)],
        most=20,
        on_step=lambda done, total: told.append(done / total),
    )
    assert curve.best.n_clusters == n_classes
    assert curve.best.clarity > 1.2
    assert {k for k, _ in curve.points} >= {k for k in TRIED if k <= 20} | {n_classes}
    assert told[-1] == 1
    assert told == sorted(told)


def test_fusion_counts_by_its_sources_and_keeps_the_curve() -> None:
    vectors = [points(6, seed, 0.2) for seed in range(3)]
    sources = {
        str(number): Neighbours([nearest(each, MOST_NEIGHBOURS)], vectors=each)
        for number, each in enumerate(vectors)
    }
    found = fuse(sources, None, max_clusters=15, seed=0)
    assert found.cluster_count is not None
    assert found.votes.shape[1] == found.cluster_count.n_clusters == 6
    assert max(found.count_curve, key=lambda point: point[1])[0] == 6
    asked = fuse(sources, 4, max_clusters=15, seed=0)
    assert asked.cluster_count is None
    assert asked.count_curve == []
