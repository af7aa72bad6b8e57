"""A trained network and series or sounds to clusters, by Ward's trees in all sources."""

import numpy as np
import torch

from selfsort.clustering.fusion import MOST_NEIGHBOURS, Neighbours
from selfsort.clustering.joining import join_graphs, join_sources
from selfsort.clustering.spectral import nearest
from selfsort.clustering.taught_fusion import fuse_taught
from selfsort.data.image_set import ImageSet
from selfsort.method.inputs import Inputs
from selfsort.method.sources import DESCRIBERS, SHAPES, learn_sources, project
from selfsort.sorting.by_sources import SortedBySources
from selfsort.sorting.by_teaching import sample_with_labels
from selfsort.sorting.described import NETWORK, BySources, LinearVote
from selfsort.sorting.trained import TrainedNetwork
from selfsort.training.hooks import Hooks

JOINED = {"series": join_sources, "sounds": join_graphs}
"""How the sources of a modality find clusters together."""


def sort_by_joining(
    trained: TrainedNetwork, images: ImageSet, n_clusters: int | None, hooks: Hooks
) -> SortedBySources:
    """Describe them in every way, find the clusters of at most `clustering.max_samples` of them,
    learn these, and assign all.
    """
    settings = trained.config.clustering
    rows = sample_with_labels(images, settings.max_samples, trained.seed)
    sample = images.take(rows) if len(rows) < len(images) else images
    channels, *sides = images.pixels.shape[1:]
    preparation = trained.source_preparation(channels, max(sides))
    described = learn_sources(
        Inputs(sample, preparation.for_images(sample), trained.modality),
        DESCRIBERS[trained.modality.name](channels, preparation.size, None),
        seed=trained.seed,
        on_batch=hooks.stage(f"describing the {trained.modality.name}"),
    )
    projection, latent = project(trained.represent(sample, hooks).latent, SHAPES[NETWORK])
    vectors_of = described.vectors | {NETWORK: latent}
    on_step = hooks.stage("joining")
    if sample.taught is None:
        join = JOINED[trained.modality.name]
        fusion = join(vectors_of, n_clusters, max_clusters=settings.max_clusters, on_step=on_step)
    else:
        near = {
            name: Neighbours([nearest(found, MOST_NEIGHBOURS)], vectors=found)
            for name, found in vectors_of.items()
        }
        fusion = fuse_taught(
            near,
            sample.taught,
            n_clusters,
            max_clusters=settings.max_clusters,
            seed=trained.seed,
            on_step=on_step,
        )
    vectors = np.concatenate([*described.vectors.values(), latent], axis=1)
    votes = torch.from_numpy(fusion.votes)
    vote = LinearVote.fit(torch.from_numpy(vectors), votes, fusion.accuracy)
    assigner = BySources(trained, preparation, described.sources, projection, vote)
    return SortedBySources.by_size(assigner, fusion, assigner.assign(images, hooks), images.taught)
