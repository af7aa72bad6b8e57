"""Which images are neighbours in every view: the graph on which images of one class hang together.

Each view (a transformation, freshly jittered) has its own latent space and its own graph of nearest
neighbours. The sum of these graphs, without the edges that few views support, falls into the
classes; its leading eigenvectors find them.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import eigsh
from sklearn.utils.extmath import randomized_svd

PCA_SAMPLE = 4000
SMALLEST_DISTANCE = 1e-6
"""Eigenvalues nearer to 1 than this are 1: separate components of the graph."""

CHUNK = 256
GROUP = 64
"""Rows of similarities that are computed together, and columns of which the largest comes first."""


class Spectrum(NamedTuple):
    """Leading eigenvalues (1 first) and eigenvectors (images × values) of the normalised graph."""

    values: NDArray[np.float64]
    vectors: NDArray[np.float64]

    def leading(self, n_values: int) -> "Spectrum":
        """The first of them."""
        return Spectrum(self.values[:n_values], self.vectors[:, :n_values])


class ClusterCount(NamedTuple):
    """How many clusters the spectrum shows, and how clear that is: the largest factor over the
    second largest.
    """

    n_clusters: int
    clarity: float


def neighbour_graph(
    latent: NDArray[np.float32], *, n_neighbours: int, n_components: int, seed: int
) -> csr_array:
    """The symmetric graph of nearest neighbours by cosine similarity after PCA; a mutual edge
    weighs 1, a one-sided one ½.
    """
    return join(nearest(_reduce(latent, n_components, seed), n_neighbours))


def nearest(points: NDArray[np.float32], n_neighbours: int) -> NDArray[np.int64]:
    """The nearest others of each point by cosine similarity, nearest first.

    >>> nearest(np.array([[1, 0], [1, 0.1], [0, 1]], dtype=np.float32), 1).tolist()
    [[1], [0], [1]]
    """
    n_samples = len(points)
    n_neighbours = min(n_neighbours, n_samples - 1)
    units = torch.nn.functional.normalize(torch.from_numpy(points), dim=1)
    n_groups = -(-n_samples // GROUP)
    similarity = torch.full((min(CHUNK, n_samples), GROUP * n_groups), -torch.inf)
    found = []
    for start in range(0, n_samples, CHUNK):
        rows = similarity[: n_samples - start]
        torch.mm(units[start : start + CHUNK], units.T, out=rows[:, :n_samples])
        # nobody is its own neighbour
        rows.diagonal(start).fill_(-torch.inf)
        found.append(_largest(rows, n_neighbours))
    return torch.cat(found).numpy()


def _largest(rows: torch.Tensor, count: int) -> torch.Tensor:
    """Where the largest values of each row are, the largest first.

    They are in those groups of columns whose own largest values are the largest: few are left to
    be compared one by one. Group g has the columns g, g + number of groups, …
    """
    grouped = rows.view(len(rows), GROUP, -1)
    n_groups = grouped.shape[2]
    if n_groups <= count:
        return rows.topk(count, dim=1).indices
    groups = grouped.amax(dim=1).topk(count, dim=1).indices
    candidates = grouped.gather(2, groups[:, None, :].expand(-1, GROUP, -1)).flatten(1)
    places = candidates.topk(count, dim=1).indices
    return places // count * n_groups + groups.gather(1, places % count)


def join(neighbours: NDArray[np.integer[Any]]) -> csr_array:
    """The symmetric graph of lists of neighbours (images × neighbours)."""
    n_samples, n_neighbours = neighbours.shape
    rows = np.repeat(np.arange(n_samples), n_neighbours)
    half = np.full(len(rows), 0.5)
    directed = csr_array((half, (rows, neighbours.ravel())), shape=(n_samples, n_samples))
    return csr_array(directed + directed.T)


def _reduce(latent: NDArray[np.float32], n_components: int, seed: int) -> NDArray[np.float32]:
    mean = latent.mean(axis=0)
    if n_components >= min(latent.shape):
        return np.asarray(latent - mean, dtype=np.float32)
    sample = np.random.default_rng(seed).permutation(len(latent))[:PCA_SAMPLE]
    centred = latent[sample] - mean
    _, _, axes = randomized_svd(centred, n_components, n_iter=2, random_state=seed)
    # not the whole centred: that would be a copy of all
    reduced = torch.from_numpy(latent) @ torch.from_numpy(axes.T) - torch.from_numpy(axes @ mean)
    return np.asarray(reduced.numpy(), dtype=np.float32)


def agreement_graph(graphs: Iterable[csr_array], *, min_support: float, floor: float) -> csr_array:
    """The sum of the views' graphs; edges below `min_support` keep only the share `floor`, so that
    it stays connected.
    """
    total = csr_array(sum(graphs))
    supported = total.copy()
    supported.data = np.where(total.data >= min_support, total.data, floor * total.data)
    return supported


def spectrum(graph: csr_array, n_values: int) -> Spectrum:
    """Eigenvalues and eigenvectors of D^-½ W D^-½, largest first; those of separate components are
    found one by one, as each has an eigenvalue 1 and the iteration would miss some of them.
    """
    n_parts, part = connected_components(graph, directed=False)
    if n_parts > 1:
        return _join_spectra(graph, part, n_values)
    degrees = np.asarray(graph.sum(axis=1)).ravel()
    scale = diags_array(1 / np.sqrt(np.maximum(degrees, np.finfo(float).tiny)))
    normalised = scale @ graph @ scale
    if n_values >= graph.shape[0] - 1:
        values, vectors = np.linalg.eigh(normalised.toarray())
    else:
        # with a looser tolerance one of several components, whose eigenvalues are equal, is missed
        values, vectors = eigsh(normalised, k=n_values, which="LA", v0=np.sqrt(degrees), tol=1e-5)
    order = np.argsort(-values)[:n_values]
    return Spectrum(values[order], vectors[:, order])


def _join_spectra(graph: csr_array, part: NDArray[np.integer[Any]], n_values: int) -> Spectrum:
    """The leading eigenvalues of all components, the eigenvectors of each on its own images."""
    pieces = []
    for number in np.unique(part):
        rows = np.flatnonzero(part == number)
        found = spectrum(csr_array(graph[rows][:, rows]), min(n_values, len(rows)))
        pieces += [(value, rows, found.vectors[:, k]) for k, value in enumerate(found.values)]
    pieces = sorted(pieces, key=lambda piece: -piece[0])[:n_values]
    vectors = np.zeros((len(part), len(pieces)))
    for column, (_, rows, vector) in enumerate(pieces):
        vectors[rows, column] = vector
    return Spectrum(np.array([value for value, _, _ in pieces]), vectors)


def consensus_spectrum(opinions: Sequence[NDArray[np.int64]], n_values: int) -> Spectrum:
    """The same for the graph C D⁻¹ Cᵀ, which joins the images that several clusterings have
    together; it is not formed.

    C has a column for each cluster of each clustering, each image shares a 1 among those it is in,
    and D are the column sums. There may be fewer values: the clusterings have no more to tell.

    >>> consensus_spectrum([np.array([0, 0, 1]), np.array([1, 1, 0])], 2).values.round(6).tolist()
    [1.0, 1.0]
    """
    columns = np.concatenate(
        [labels[:, None] == np.unique(labels) for labels in opinions], axis=1
    ) / len(opinions)
    scaled = columns / np.sqrt(columns.sum(axis=0))
    # there are fewer clusters than images: the smaller matrix has the same eigenvalues
    values, weights = np.linalg.eigh(scaled.T @ scaled)
    kept = [row for row in np.argsort(-values)[:n_values] if values[row] > SMALLEST_DISTANCE]
    return Spectrum(values[kept], scaled @ (weights[:, kept] / np.sqrt(values[kept])))


def embedding(found: Spectrum, n_clusters: int) -> NDArray[np.float32]:
    """The images as unit vectors of the leading eigenvectors: images of one cluster come to lie
    together.
    """
    leading = found.vectors[:, :n_clusters]
    lengths = np.maximum(np.linalg.norm(leading, axis=1, keepdims=True), 1e-12)
    return np.asarray(leading / lengths, dtype=np.float32)


def count_clusters(values: Sequence[float] | NDArray[np.float64]) -> ClusterCount:
    """The number of clusters, at least 2, after which the distance of the eigenvalues from 1 grows
    by the largest factor.

    >>> count_clusters([1, 0.99, 0.98, 0.6, 0.55, 0.5])
    ClusterCount(n_clusters=3, clarity=10.0)
    """
    distances = np.maximum(1 - np.asarray(values, dtype=float), SMALLEST_DISTANCE)
    factors = distances[2:] / distances[1:-1]
    if len(factors) == 0:
        return ClusterCount(min(2, len(values)), 1.0)
    second, first = np.sort(factors)[-2:] if len(factors) > 1 else (1.0, factors[0])
    return ClusterCount(int(factors.argmax()) + 2, round(float(first / second), 3))


def count_roughly(values: Sequence[float] | NDArray[np.float64], n_samples: int) -> ClusterCount:
    """The number of clusters where classes are not cleanly apart: the distance d of the eigenvalues
    from 1 then grows over several of them and not at one.

    The largest k^0.3 · log(d_⌊1.1 k⌋₊₂ / d_⌈0.9 k⌉), for k up to a twelfth of the images. The power
    makes up for what a random graph would show: there the growth from one to the next falls with k.
    The clarity compares with the best k that is not within a quarter of this one.

    >>> values = [1 - 0.01 * k for k in range(10)] + [0.3 - 0.002 * k for k in range(12)]
    >>> count_roughly(values, 300).n_clusters
    10
    """
    distances = np.log(np.maximum(1 - np.asarray(values, dtype=float), 1e-4))
    last = len(distances) - 1
    numbers = np.arange(2, max(3, min(last, n_samples // 12 + 1)))
    after = np.minimum((1.1 * numbers).astype(int) + 1, last)
    before = np.minimum(np.maximum(np.ceil(0.9 * numbers).astype(int) - 1, 1), last)
    growth = numbers**0.3 * (distances[after] - distances[before])
    found = int(numbers[growth.argmax()])
    others = growth[np.abs(numbers - found) > found / 4]
    second = max(float(others.max()), 1e-9) if len(others) else 1e-9
    return ClusterCount(found, round(min(float(growth.max()) / second, 1e3), 3))
