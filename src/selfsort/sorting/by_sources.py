"""A trained network and images to clusters, by the network and all other sources together."""

from typing import NamedTuple

import torch

from selfsort.clustering.fusion import MOST_NEIGHBOURS, Fusion, Neighbours, fuse
from selfsort.clustering.kmeans import order_by_size
from selfsort.clustering.spectral import nearest, nearest_in_subspace
from selfsort.data.image_set import ImageSet
from selfsort.method.encoders import ENCODER, load_chosen
from selfsort.method.inputs import Inputs
from selfsort.method.representation import extract_views
from selfsort.method.sources import SHAPES, image_describers, learn_sources, project
from selfsort.sorting.described import NETWORK, BySources, LinearVote
from selfsort.sorting.trained import TrainedNetwork
from selfsort.training.hooks import Hooks

MAX_SIDE = 128
"""Side of the images that are described, at most."""

WEIGHTS = {NETWORK: 2.0, ENCODER: 2.0}
"""c_s where it is not 1. The network's graph is a mean over many views, and an encoder has seen
many more images: their edges are surer than those of others.
"""


class SortedBySources(NamedTuple):
    """What assigns images, and how its clusters were found."""

    assigner: BySources
    fusion: Fusion


def sort_by_sources(
    trained: TrainedNetwork, images: ImageSet, n_clusters: int | None, hooks: Hooks
) -> SortedBySources:
    """Describe the images in every way, let the graphs of neighbours vote, learn the votes.

    `n_clusters=None` takes the number that the sum of all graphs shows.
    """
    channels, *sides = images.pixels.shape[1:]
    size = min(max(8, *sides), MAX_SIDE)
    preparation = trained.source_preparation(channels, size)
    inputs = Inputs(images, preparation.for_images(images), trained.modality)
    described = learn_sources(
        inputs,
        image_describers(channels, size, load_chosen(trained.config.sources)),
        seed=trained.seed,
        on_batch=hooks.stage("describing the images"),
    )
    assert trained.transforms is not None, "the network was trained a moment ago"
    views = extract_views(
        trained.network,
        trained.inputs(images),
        transforms=trained.transforms,
        jitter_config=trained.config.jitter,
        seed=trained.seed,
        on_batch=hooks.stage("comparing views"),
    )
    shape = SHAPES[NETWORK]
    sources = {
        name: Neighbours([nearest(vectors, MOST_NEIGHBOURS)], WEIGHTS.get(name, 1.0))
        for name, vectors in described.vectors.items()
    }
    assert described.pixels is not None, "images are described by their pixels, too"
    sources["subspace"] = Neighbours([nearest_in_subspace(described.pixels, MOST_NEIGHBOURS)])
    sources[NETWORK] = Neighbours(
        [nearest(project(view, shape)[1], MOST_NEIGHBOURS) for view in views], WEIGHTS[NETWORK]
    )
    fusion = fuse(
        sources,
        n_clusters,
        max_clusters=trained.config.clustering.max_clusters,
        seed=trained.seed,
        on_step=hooks.stage("weighing sources"),
    )
    n_clusters = fusion.votes.shape[1]
    latent = trained.represent(images, hooks).latent
    projection, _ = project(latent, shape)
    assigner = BySources(
        trained, preparation, described.sources, projection, LinearVote(0, n_clusters)
    )
    vectors = assigner.vectors(images)
    vote = LinearVote.fit(vectors, torch.from_numpy(fusion.votes))
    labels = vote(vectors).argmax(dim=1).numpy()
    assigner = BySources(trained, preparation, described.sources, projection, vote)
    return SortedBySources(assigner.reorder(order_by_size(labels, n_clusters)), fusion)
