"""A trained network and images to clusters that all views agree on; several clusterings to what
most of them say.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from selfsort.clustering.kmeans import cluster
from selfsort.clustering.spectral import (
    ClusterCount,
    Spectrum,
    agreement_graph,
    consensus_spectrum,
    count_clusters,
    embedding,
    neighbour_graph,
    spectrum,
)
from selfsort.config import Config
from selfsort.data.image_set import sample_rows
from selfsort.method.inputs import Inputs
from selfsort.method.network import AcolNetwork
from selfsort.method.representation import extract_views
from selfsort.method.transforms import TransformSet
from selfsort.settings import ClusteringConfig

NEIGHBOURS = "finding neighbours"
CUT = "cutting the graph"


class Agreement(NamedTuple):
    """Clusters (-1 for images that were left out of the graph), the graph's leading eigenvalues and
    what they tell.

    `is_over`: there are more clusters than asked for, to be learned and merged, because the graph
    shows another number.
    """

    labels: NDArray[np.int64]
    eigenvalues: list[float]
    cluster_count: ClusterCount
    is_over: bool


def agree(
    network: AcolNetwork,
    inputs: Inputs,
    n_clusters: int | None,
    *,
    transforms: TransformSet,
    config: Config,
    seed: int,
    on_stage: Callable[[str, int, int], None] = lambda stage, done, total: None,
) -> Agreement:
    """Cluster the graph of neighbours in all views; `n_clusters=None` takes the number that its
    spectrum shows.

    Of more than `clustering.max_samples` images a random sample is clustered; `on_stage(name, done,
    total)` tells progress.
    """
    settings = config.clustering
    chosen = sample_rows(len(inputs), settings.max_samples, seed)
    sample = inputs.take(chosen) if len(chosen) < len(inputs) else inputs
    graph = graph_of_views(
        network, sample, transforms=transforms, config=config, seed=seed, on_stage=on_stage
    )
    on_stage(CUT, 0, 2)
    most = max(settings.max_clusters, n_clusters or 0)
    n_over = config.recluster.factor * (n_clusters or 0)
    found = spectrum(graph, min(len(sample), max(most, n_over) + 1))
    on_stage(CUT, 1, 2)
    cluster_count = count_clusters(found.values[: most + 1])
    wanted = n_clusters or cluster_count.n_clusters
    is_over = wanted not in (1, cluster_count.n_clusters) and wanted < n_over <= len(sample)
    n_found = n_over if is_over else wanted
    labels = np.full(len(inputs), -1)
    labels[chosen] = spectral_clusters(found, n_found, n_init=settings.n_init, seed=seed)
    on_stage(CUT, 2, 2)
    return Agreement(
        labels, [round(float(value), 5) for value in found.values], cluster_count, is_over
    )


def graph_of_views(
    network: AcolNetwork,
    sample: Inputs,
    *,
    transforms: TransformSet,
    config: Config,
    seed: int,
    on_stage: Callable[[str, int, int], None] = lambda stage, done, total: None,
) -> csr_array:
    """The graph of neighbours in all views, in which edges of little support are weak."""
    settings = config.clustering
    views = extract_views(
        network,
        sample,
        transforms=transforms,
        jitter_config=config.jitter,
        seed=seed,
        on_batch=partial(on_stage, "comparing views"),
    )
    graphs = []
    for view, latent in enumerate(views):
        on_stage(NEIGHBOURS, view, len(transforms))
        graphs.append(
            neighbour_graph(
                latent,
                n_neighbours=settings.n_neighbours,
                n_components=settings.n_components,
                seed=seed,
            )
        )
        on_stage(NEIGHBOURS, view + 1, len(transforms))
    return agreement_graph(graphs, min_support=settings.min_support, floor=settings.floor)


def consensus(
    opinions: Sequence[NDArray[np.int64]], n_clusters: int, *, config: ClusteringConfig, seed: int
) -> NDArray[np.int64]:
    """Clusters in which those images are together that most of the clusterings have together.

    >>> opinions = [np.array([0, 0, 1, 1, 1]), np.array([1, 1, 0, 0, 0]), np.array([0, 1, 1, 1, 1])]
    >>> consensus(opinions, 2, config=ClusteringConfig(), seed=0)
    array([1, 1, 0, 0, 0])
    """
    found = consensus_spectrum(opinions, n_clusters)
    return spectral_clusters(found, n_clusters, n_init=config.n_init, seed=seed)


def spectral_clusters(
    found: Spectrum, n_clusters: int, *, n_init: int, seed: int
) -> NDArray[np.int64]:
    """k-means on the images as unit vectors of the leading eigenvectors."""
    points = embedding(found, n_clusters)
    return cluster(points, n_clusters, n_init=n_init, seed=seed).assign(points).labels
