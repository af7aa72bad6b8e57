"""Which images are neighbours in every view: the graph on which images of one class hang together.

Each view (a transformation, freshly jittered) has its own latent space and its own graph of nearest neighbours. The sum of
these graphs, without the edges that few views support, falls into the classes; its leading eigenvectors find them.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array
from scipy.sparse.linalg import eigsh
from sklearn.utils.extmath import randomized_svd

PCA_SAMPLE = 4000
SMALLEST_DISTANCE = 1e-6
"""Eigenvalues nearer to 1 than this are 1: separate components of the graph."""

CHUNK = 512


class Spectrum(NamedTuple):
    """Leading eigenvalues (1 first) and eigenvectors (images × values) of the normalised graph."""

    values: NDArray[np.float64]
    vectors: NDArray[np.float64]


class ClusterCount(NamedTuple):
    """How many clusters the spectrum shows, and how clear that is: the largest factor over the second largest."""

    n_clusters: int
    clarity: float


def neighbour_graph(latent: NDArray[np.float32], *, n_neighbours: int, n_components: int, seed: int) -> csr_array:
    """The symmetric graph of nearest neighbours by cosine similarity after PCA; a mutual edge weighs 1, a one-sided one ½."""
    n_samples = len(latent)
    n_neighbours = min(n_neighbours, n_samples - 1)
    points = torch.from_numpy(_reduce(latent, n_components, seed))
    points = torch.nn.functional.normalize(points, dim=1)
    found = []
    for start in range(0, n_samples, CHUNK):
        similarity = points[start : start + CHUNK] @ points.T
        similarity[range(len(similarity)), range(start, start + len(similarity))] = -torch.inf  # nobody is its own neighbour
        found.append(similarity.topk(n_neighbours, dim=1).indices)
    columns = torch.cat(found).numpy().ravel()
    rows = np.repeat(np.arange(n_samples), n_neighbours)
    directed = csr_array((np.full(len(rows), 0.5), (rows, columns)), shape=(n_samples, n_samples))
    return csr_array(directed + directed.T)


def _reduce(latent: NDArray[np.float32], n_components: int, seed: int) -> NDArray[np.float32]:
    centred = latent - latent.mean(axis=0)
    if n_components >= min(latent.shape):
        return np.asarray(centred, dtype=np.float32)
    sample = np.random.default_rng(seed).permutation(len(latent))[:PCA_SAMPLE]
    _, _, axes = randomized_svd(centred[sample], n_components, n_iter=2, random_state=seed)
    return np.asarray(centred @ axes.T, dtype=np.float32)


def agreement_graph(graphs: Iterable[csr_array], *, min_support: float, floor: float) -> csr_array:
    """The sum of the views' graphs; edges below `min_support` keep only the share `floor`, so that it stays connected."""
    total = csr_array(sum(graphs))
    supported = total.copy()
    supported.data = np.where(total.data >= min_support, total.data, floor * total.data)
    return supported


def spectrum(graph: csr_array, n_values: int) -> Spectrum:
    """Eigenvalues and eigenvectors of D^-½ W D^-½, largest first."""
    degrees = np.asarray(graph.sum(axis=1)).ravel()
    scale = diags_array(1 / np.sqrt(np.maximum(degrees, np.finfo(float).tiny)))
    normalised = scale @ graph @ scale
    if n_values >= graph.shape[0] - 1:
        values, vectors = np.linalg.eigh(normalised.toarray())
    else:
        values, vectors = eigsh(normalised, k=n_values, which="LA", v0=np.sqrt(degrees), tol=1e-5)
    order = np.argsort(-values)[:n_values]
    return Spectrum(values[order], vectors[:, order])


def consensus_spectrum(opinions: Sequence[NDArray[np.int64]], n_values: int) -> Spectrum:
    """The same for the graph C D⁻¹ Cᵀ, which joins the images that several clusterings have together; it is not formed.

    C has a column for each cluster of each clustering, each image shares a 1 among those it is in, and D are the column sums.
    There may be fewer values: the clusterings have no more to tell.

    >>> consensus_spectrum([np.array([0, 0, 1]), np.array([1, 1, 0])], 2).values.round(6).tolist()
    [1.0, 1.0]
    """
    columns = np.concatenate([labels[:, None] == np.unique(labels) for labels in opinions], axis=1) / len(opinions)
    vectors, roots, _ = np.linalg.svd(columns / np.sqrt(columns.sum(axis=0)), full_matrices=False)
    kept = np.flatnonzero(roots[:n_values] > SMALLEST_DISTANCE)
    return Spectrum(roots[kept] ** 2, vectors[:, kept])


def embedding(found: Spectrum, n_clusters: int) -> NDArray[np.float32]:
    """The images as unit vectors of the leading eigenvectors: images of one cluster come to lie together."""
    leading = found.vectors[:, :n_clusters]
    lengths = np.maximum(np.linalg.norm(leading, axis=1, keepdims=True), 1e-12)
    return np.asarray(leading / lengths, dtype=np.float32)


def count_clusters(values: Sequence[float] | NDArray[np.float64]) -> ClusterCount:
    """The number of clusters, at least 2, after which the distance of the eigenvalues from 1 grows by the largest factor.

    >>> count_clusters([1, 0.99, 0.98, 0.6, 0.55, 0.5])
    ClusterCount(n_clusters=3, clarity=10.0)
    """
    distances = np.maximum(1 - np.asarray(values, dtype=float), SMALLEST_DISTANCE)
    factors = distances[2:] / distances[1:-1]
    if len(factors) == 0:
        return ClusterCount(min(2, len(values)), 1.0)
    second, first = np.sort(factors)[-2:] if len(factors) > 1 else (1.0, factors[0])
    return ClusterCount(int(factors.argmax()) + 2, round(float(first / second), 3))
