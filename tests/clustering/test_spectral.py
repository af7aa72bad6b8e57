"""The agreement graph: neighbours by brute force, the spectrum of graphs known by hand, the count
of clusters.
"""

import numpy as np
import pytest
from scipy.sparse import csr_array

from selfsort.clustering.spectral import (
    agreement_graph,
    count_clusters,
    embedding,
    join,
    neighbour_graph,
    spectrum,
)


def test_neighbours_equal_brute_force() -> None:
    points = np.random.default_rng(0).normal(size=(60, 5)).astype(np.float32)
    graph = neighbour_graph(points, n_neighbours=4, n_components=99, seed=0).toarray()
    centred = points - points.mean(axis=0)
    unit = centred / np.linalg.norm(centred, axis=1, keepdims=True)
    expected = np.zeros((60, 60))
    for row in range(60):
        others = sorted(
            (j for j in range(60) if j != row), key=lambda j: -float(unit[row] @ unit[j])
        )
        expected[row, others[:4]] += 0.5
        expected[others[:4], row] += 0.5
    assert np.array_equal(graph, expected)


def test_pca_keeps_the_neighbours_of_flat_data() -> None:
    draw = np.random.default_rng(1)
    flat = draw.normal(size=(300, 3)).astype(np.float32)
    raised = flat @ np.linalg.qr(draw.normal(size=(50, 3)))[0].T.astype(np.float32)
    graphs = [
        neighbour_graph(points, n_neighbours=5, n_components=3, seed=0).toarray()
        for points in (flat, raised)
    ]
    assert np.mean(graphs[0] != graphs[1]) < 1e-3


def test_edges_that_few_views_support_are_weakened() -> None:
    views = [
        csr_array(np.array([[0, 1, a], [1, 0, 0], [a, 0, 0]], dtype=float)) for a in (0.5, 0, 0)
    ]
    graph = agreement_graph(views, min_support=1.5, floor=0.1).toarray()
    assert graph[0].tolist() == pytest.approx([0, 3, 0.05])


@pytest.mark.parametrize("n_values", [4, 28])  # by Lanczos and by the full decomposition
def test_the_spectrum_shows_separate_components(n_values: int) -> None:
    sizes = [8, 9, 12]
    block = np.zeros((29, 29))
    for stop, size in zip(np.cumsum(sizes), sizes, strict=True):
        block[stop - size : stop, stop - size : stop] = 1 - np.eye(size)
    found = spectrum(csr_array(block), n_values)
    assert found.values[:3] == pytest.approx([1, 1, 1])
    assert found.values[3] < 0
    assert count_clusters(found.values[:4]).n_clusters == 3
    points = embedding(found, 3)
    same = points @ points.T
    truth = np.repeat([0, 1, 2], sizes)
    assert np.allclose(same, truth[:, None] == truth, atol=1e-4)


def test_counting_clusters() -> None:
    assert count_clusters([1, 0.2, 0.1]).n_clusters == 2
    assert count_clusters([1.0, 0.9]).n_clusters == 2
    assert count_clusters([1.0]).n_clusters == 1
    assert count_clusters([1, 0.98, 0.97, 0.96, 0.7, 0.69]).n_clusters == 4


def test_every_separate_part_of_a_graph_has_its_eigenvalue() -> None:
    """Three parts, of which the iteration alone would miss one."""
    draw = np.random.default_rng(0)
    places = np.concatenate([draw.normal(4 * part, 0.4, (50, 2)) for part in range(3)])
    apart = np.linalg.norm(places[:, None] - places[None], axis=2)
    graph = join(np.argsort(apart, axis=1)[:, 1:13])
    found = spectrum(graph, 5)
    assert (found.values[:3] > 1 - 1e-9).all()
    assert found.values[3] < 0.999
    whole = np.linalg.eigvalsh(_normalised(graph))[::-1][:5]
    assert np.allclose(found.values, whole, atol=1e-4)
    assert count_clusters(found.values).n_clusters == 3


def _normalised(graph: csr_array) -> np.ndarray:
    weights = graph.toarray()
    scale = 1 / np.sqrt(weights.sum(axis=1))
    normalised: np.ndarray = scale[:, None] * weights * scale
    return normalised
