"""Rows of features to clusters: neighbours in three views of them, the fusion of their graphs, and
a linear map that learns the votes. No network is trained.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from selfsort.clustering.fusion import MOST_NEIGHBOURS, Neighbours
from selfsort.clustering.kmeans import Assignment
from selfsort.clustering.spectral import nearest
from selfsort.clustering.taught_fusion import fuse_known
from selfsort.data.image_set import ImageSet
from selfsort.method.features import FeatureEncoder
from selfsort.method.seeds import derive_generator
from selfsort.method.sources import Projection, Shape
from selfsort.sorting.assigners import ASSIGNERS, Order
from selfsort.sorting.by_sources import SortedBySources
from selfsort.sorting.by_teaching import sample_with_labels
from selfsort.sorting.described import LinearVote
from selfsort.sorting.trained import TrainedNetwork
from selfsort.training.checkpoint import load_weights
from selfsort.training.hooks import Hooks

EVENED = Shape(128, 0.5)
FEW_VALUES = 16
N_WAVES = 512
WAVE_SAMPLE = 1000
SHARPNESS = 3.0
"""The waves that tell distances are so many times shorter than the median distance."""


class FeatureSources(nn.Module):
    """F in three ways, each as unit vectors: by the angle between rows, by the angle after all
    directions were evened out, and by the distance between rows. Angles between rows of a few
    values say little, so these have the distance alone.

    The last are random waves (Rahimi & Recht, 2007): their products fall with the distance.
    """

    def __init__(self, n_values: int, width: int, generator: torch.Generator) -> None:
        super().__init__()
        self.has_angles = n_values > FEW_VALUES
        self.evened = Projection(width, min(width, EVENED.n_directions))
        self.register_buffer("waves", torch.randn(width, N_WAVES, generator=generator))
        self.register_buffer("phases", 2 * torch.pi * torch.rand(N_WAVES, generator=generator))
        self.waves: Tensor
        self.phases: Tensor

    def learn(self, latent: Tensor) -> None:
        """Fit to F of some rows: the directions, and how long the waves are."""
        fitted = Projection.fit(latent, EVENED)
        self.evened.centre.copy_(fitted.centre)
        self.evened.axes.zero_()
        self.evened.axes[:, : fitted.axes.shape[1]] = fitted.axes
        sample = latent[:: max(1, len(latent) // WAVE_SAMPLE)]
        distances = torch.cdist(sample, sample)
        self.waves.div_(float(distances.median().clamp(min=1e-6)) / SHARPNESS)

    def split(self, latent: Tensor) -> dict[str, Tensor]:
        """The vectors by name."""
        waves = torch.cos(latent @ self.waves + self.phases) * (2 / N_WAVES) ** 0.5
        if not self.has_angles:
            return {"distances": waves}
        angles = nn.functional.normalize(latent, dim=1)
        return {"angles": angles, "evened": self.evened(latent), "distances": waves}

    def forward(self, latent: Tensor) -> Tensor:
        """All of them side by side."""
        return torch.cat(list(self.split(latent).values()), dim=1)


@dataclass(frozen=True)
class ByFeatures:
    """The cluster with most of the votes that the vectors of a row stand for."""

    trained: TrainedNetwork
    sources: FeatureSources
    vote: LinearVote
    kind: ClassVar[str] = "features"

    @property
    def n_clusters(self) -> int:
        """How many clusters votes are for."""
        return len(self.vote.shares)

    def assign(self, images: ImageSet, hooks: Hooks) -> Assignment:
        """The most probable cluster of each row."""
        probable = self.probable(images, hooks)
        return Assignment(probable.argmax(axis=1), probable.max(axis=1))

    def probable(self, images: ImageSet, hooks: Hooks) -> NDArray[np.float32]:
        """The shares of votes that the vectors of each row stand for."""
        batches = self.trained.represent_batches(images, hooks)
        vectors = (self.sources(torch.from_numpy(batch.latent)) for batch in batches)
        return np.concatenate([self.vote(part).numpy() for part in vectors])

    def reorder(self, order: Order) -> Self:
        """The clusters in this order."""
        return replace(self, vote=self.vote.reorder(order))

    def tensors(self) -> dict[str, Tensor]:
        """All that was learned."""
        parts = {"sources": self.sources, "vote": self.vote}
        return {
            f"features.{part}.{name}": tensor
            for part, module in parts.items()
            for name, tensor in module.state_dict().items()
        }

    @classmethod
    def load(
        cls, file: Path, tensors: Mapping[str, Tensor], trained: TrainedNetwork, n_clusters: int
    ) -> Self:
        """The same modules, if they fit together."""
        (n_values,) = trained.preparations.network.shape
        width = trained.config.network.latent_width
        sources = FeatureSources(n_values, width, torch.Generator())
        vote = LinearVote(tensors["features.vote.weights"].shape[0], n_clusters)
        load_weights(file, sources, tensors, "features.sources")
        load_weights(file, vote, tensors, "features.vote")
        return cls(trained, sources, vote)


ASSIGNERS[ByFeatures.kind] = ByFeatures


def sort_by_features(
    trained: TrainedNetwork, images: ImageSet, n_clusters: int | None, hooks: Hooks
) -> SortedBySources:
    """Find the clusters of at most `clustering.max_samples` rows, learn them, and assign all."""
    settings = trained.config.clustering
    rows = sample_with_labels(images, settings.max_samples, trained.seed)
    sample = images.take(rows) if len(rows) < len(images) else images
    encoder = trained.network.encoder
    assert isinstance(encoder, FeatureEncoder), "the encoder of this modality"
    width = trained.config.network.latent_width
    values = torch.from_numpy(sample.read(slice(None)))
    leading = Projection.fit(values, Shape(width, 0.0))
    encoder.learn(leading.centre, leading.axes, values)
    latent = torch.from_numpy(trained.represent(sample, hooks).latent)
    sources = FeatureSources(values.shape[1], width, derive_generator("waves", trained.seed))
    sources.learn(latent)
    fusion = fuse_known(
        {
            name: Neighbours([nearest(vectors.numpy(), MOST_NEIGHBOURS)], vectors=vectors.numpy())
            for name, vectors in sources.split(latent).items()
        },
        n_clusters,
        sample.taught,
        max_clusters=settings.max_clusters,
        seed=trained.seed,
        on_step=hooks.stage("weighing sources"),
        on_count=hooks.stage("counting clusters"),
    )
    vote = LinearVote.fit(sources(latent), torch.from_numpy(fusion.votes), fusion.accuracy)
    assigner = ByFeatures(trained, sources, vote)
    return SortedBySources.by_size(assigner, fusion, assigner.assign(images, hooks), images.taught)
