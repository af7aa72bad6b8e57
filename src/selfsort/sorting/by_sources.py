"""A trained network and images to clusters, by the network and all other sources together."""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from selfsort.clustering.fusion import MOST_NEIGHBOURS, Fusion, Neighbours
from selfsort.clustering.kmeans import Assignment, order_by_size
from selfsort.clustering.spectral import nearest
from selfsort.clustering.taught_fusion import fuse_known
from selfsort.data.image_set import ImageSet
from selfsort.data.taught import Teaching
from selfsort.method.encoders import ENCODER, load_chosen
from selfsort.method.inputs import Inputs
from selfsort.method.modality import AnyPreparation
from selfsort.method.representation import extract_views
from selfsort.method.sources import (
    SHAPES,
    Projection,
    Sources,
    image_describers,
    learn_sources,
    project,
)
from selfsort.sorting.assigners import Assigner
from selfsort.sorting.by_teaching import keep_known, known_of, sample_with_labels
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
    """What assigns images, how its clusters were found, and what it says of these images."""

    assigner: Assigner
    fusion: Fusion
    assignment: Assignment

    @classmethod
    def by_size(
        cls, assigner: Assigner, fusion: Fusion, assignment: Assignment, known: Teaching | None
    ) -> "SortedBySources":
        """With the largest cluster first; where something is known the clusters have their numbers,
        and labelled images their class.
        """
        if known is not None and fusion.taught is not None:
            kept = keep_known(assignment, known_of(known, fusion.taught))
            return cls(assigner, fusion, kept)
        order = order_by_size(assignment.labels, assigner.n_clusters)
        labels = np.argsort(order)[assignment.labels]
        return cls(assigner.reorder(order), fusion, assignment._replace(labels=labels))


class Compared(NamedTuple):
    """Images described in every way: who is near whom, their vectors side by side, and what new
    images need to get such vectors.
    """

    near: dict[str, Neighbours]
    vectors: torch.Tensor
    preparation: AnyPreparation
    sources: Sources
    projection: Projection | None


def sort_by_sources(
    trained: TrainedNetwork, images: ImageSet, n_clusters: int | None, hooks: Hooks
) -> SortedBySources:
    """Describe the images in every way, let the graphs of neighbours vote, learn the votes.

    `n_clusters=None` takes the number that the sum of all graphs shows. Of more than
    `sources.max_images` images a random sample is compared.
    """
    sample = sample_with_labels(images, trained.config.sources.max_images, trained.seed)
    if len(sample) < len(images):
        assigner, fusion, _ = sort_by_sources(trained, images.take(sample), n_clusters, hooks)
        return SortedBySources.by_size(
            assigner, fusion, assigner.assign(images, hooks), images.taught
        )
    return settle(trained, compare(trained, images, hooks), images.taught, n_clusters, hooks)


def compare(trained: TrainedNetwork, images: ImageSet, hooks: Hooks) -> Compared:
    """Describe the images in every way and find their neighbours."""
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
    sources = {
        name: Neighbours([nearest(vectors, MOST_NEIGHBOURS)], WEIGHTS.get(name, 1.0), vectors)
        for name, vectors in described.vectors.items()
    }
    vectors = [torch.from_numpy(values) for values in described.vectors.values()]
    projection = None
    if trained.learned >= trained.config.training.give_up:
        latent = trained.represent(images, hooks).latent
        projection, projected = project(latent, SHAPES[NETWORK])
        vectors.append(torch.from_numpy(projected))
        views = _views(trained, images, hooks)
        sources[NETWORK] = Neighbours(views, WEIGHTS[NETWORK], projected)
    together = torch.cat(vectors, dim=1)
    return Compared(sources, together, preparation, described.sources, projection)


def settle(
    trained: TrainedNetwork,
    compared: Compared,
    known: Teaching | None,
    n_clusters: int | None,
    hooks: Hooks,
) -> SortedBySources:
    """Let the graphs of neighbours vote, and learn the votes."""
    fusion = fuse_known(
        compared.near,
        n_clusters,
        known,
        max_clusters=trained.config.clustering.max_clusters,
        seed=trained.seed,
        on_step=hooks.stage("weighing sources"),
        on_count=hooks.stage("counting clusters"),
    )
    vote = LinearVote.fit(compared.vectors, torch.from_numpy(fusion.votes), fusion.accuracy)
    assigner = BySources(trained, compared.preparation, compared.sources, compared.projection, vote)
    return SortedBySources.by_size(assigner, fusion, assigner.decide(compared.vectors), known)


def _views(trained: TrainedNetwork, images: ImageSet, hooks: Hooks) -> list[NDArray[np.int64]]:
    """The neighbours under each transformation."""
    assert trained.transforms is not None, "the network was trained a moment ago"
    views = extract_views(
        trained.network,
        trained.inputs(images),
        transforms=trained.transforms,
        jitter_config=trained.config.jitter,
        seed=trained.seed,
        on_batch=hooks.stage("comparing views"),
    )
    return [nearest(project(view, SHAPES[NETWORK])[1], MOST_NEIGHBOURS) for view in views]
