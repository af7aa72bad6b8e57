"""Assigns images by all sources at once: a linear map from their vectors to shares of votes."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from selfsort.clustering.kmeans import Assignment
from selfsort.data.image_set import ImageSet
from selfsort.errors import ConfigError, ModelFileError
from selfsort.method.encoders import ENCODER, Encoder, load_encoder
from selfsort.method.inputs import Inputs, infer_all
from selfsort.method.modality import AnyPreparation
from selfsort.method.sources import DESCRIBERS, SHAPES, Projection, Sources
from selfsort.sorting.assigners import ASSIGNERS, Order
from selfsort.sorting.trained import TrainedNetwork
from selfsort.training.checkpoint import load_weights
from selfsort.training.hooks import Hooks

CHUNK = 2048
"""Images that are described at a time."""

RIDGE = 0.2
"""Of the mean square of a direction: how much the linear map is held back."""

NETWORK = "network"


class LinearVote(nn.Module):
    """Vectors to the shares of votes of each cluster, by least squares with a ridge."""

    def __init__(self, n_values: int, n_clusters: int) -> None:
        super().__init__()
        self.register_buffer("weights", torch.zeros(n_values, n_clusters))
        self.register_buffer("shares", torch.zeros(n_clusters))
        self.weights: Tensor
        self.shares: Tensor

    def forward(self, vectors: Tensor) -> Tensor:
        """Probabilities, (images, cluster)."""
        return (vectors @ self.weights + self.shares).softmax(dim=1)

    def reorder(self, order: Order) -> "LinearVote":
        """The same with the clusters in this order."""
        vote = LinearVote(*self.weights.shape)
        vote.weights.copy_(self.weights[:, order])
        vote.shares.copy_(self.shares[order])
        return vote

    @classmethod
    def fit(cls, vectors: Tensor, votes: Tensor, accuracy: float) -> "LinearVote":
        """The map that comes closest to the votes, scaled so that the mean confidence is the
        accuracy to be expected.
        """
        found = cls(vectors.shape[1], votes.shape[1])
        gram = (vectors.T @ vectors).double()
        ridge = RIDGE * gram.diagonal().mean() * torch.eye(len(gram))
        centred = (votes - votes.mean(dim=0)).double()
        weights = torch.linalg.solve(gram + ridge, vectors.T.double() @ centred).float()
        raw = vectors @ weights + votes.mean(dim=0)
        low, high = 1e-3, 1e3
        for _ in range(60):  # the mean confidence rises with the scale
            scale = (low * high) ** 0.5
            too_sure = float((raw * scale).softmax(dim=1).amax(dim=1).mean()) > accuracy
            low, high = (low, scale) if too_sure else (scale, high)
        found.weights.copy_(weights * low)
        found.shares.copy_(votes.mean(dim=0) * low)
        return found


@dataclass(frozen=True)
class BySources:
    """The cluster with most of the votes that the images' vectors stand for."""

    trained: TrainedNetwork
    preparation: AnyPreparation
    sources: Sources
    network_projection: Projection | None
    vote: LinearVote
    kind: ClassVar[str] = "sources"

    @property
    def n_clusters(self) -> int:
        """How many clusters votes are for."""
        return len(self.vote.shares)

    @property
    def size(self) -> int:
        """The side of the images that are described."""
        return self.preparation.size

    def assign(self, images: ImageSet, hooks: Hooks) -> Assignment:
        """The most probable cluster of each image."""
        probable = self.probable(images, hooks)
        return Assignment(probable.argmax(axis=1), probable.max(axis=1))

    def probable(self, images: ImageSet, hooks: Hooks) -> NDArray[np.float32]:
        """The shares of votes that the images' vectors stand for."""
        on_batch = hooks.stage("assigning")
        pieces: list[NDArray[np.float32]] = []
        for start in range(0, len(images), CHUNK):
            stop = min(start + CHUNK, len(images))
            pieces.append(self.vote(self.vectors(images.take(np.arange(start, stop)))).numpy())
            if on_batch:
                on_batch(stop, len(images))
        return np.concatenate(pieces)

    def decide(self, vectors: Tensor) -> Assignment:
        """The most probable cluster for each of these vectors."""
        probable = self.vote(vectors).numpy()
        return Assignment(probable.argmax(axis=1), probable.max(axis=1))

    def vectors(self, images: ImageSet) -> Tensor:
        """The vectors of images in all sources, side by side."""
        inputs = Inputs(images, self.preparation.for_images(images), self.trained.modality)
        (described,) = infer_all(self.sources, lambda batch: (self.sources(batch),), inputs)
        if self.network_projection is None:
            return torch.from_numpy(described)
        latent = self.trained.represent(images, Hooks()).latent
        projected = self.network_projection(torch.from_numpy(latent))
        return torch.cat([torch.from_numpy(described), projected], dim=1)

    def reorder(self, order: Order) -> Self:
        """The clusters in this order."""
        return replace(self, vote=self.vote.reorder(order))

    def tensors(self) -> dict[str, Tensor]:
        """All that was learned, the size of the described images, and the encoder's hash."""
        parts: dict[str, nn.Module] = {"sources": self.sources, "vote": self.vote}
        if self.network_projection is not None:
            parts[NETWORK] = self.network_projection
        tensors = {
            f"described.{part}.{name}": tensor
            for part, module in parts.items()
            for name, tensor in module.state_dict().items()
        }
        tensors["described.shape"] = torch.tensor([self.preparation.channels, self.size])
        if ENCODER in self.sources.describers:
            encoder = self.sources.describers[ENCODER]
            assert isinstance(encoder, Encoder)
            digest = list(bytes.fromhex(encoder.sha256))
            tensors["described.encoder"] = torch.tensor(digest, dtype=torch.uint8)
        return tensors

    @classmethod
    def load(
        cls, file: Path, tensors: Mapping[str, Tensor], trained: TrainedNetwork, n_clusters: int
    ) -> Self:
        """The same modules, if they fit together."""
        channels, size = tensors["described.shape"].tolist()
        preparation = trained.source_preparation(channels, size)
        encoder = None
        if "described.encoder" in tensors:
            sha256 = bytes(tensors["described.encoder"].tolist()).hex()
            try:
                encoder = load_encoder(
                    str(trained.config.sources.encoder), sha256, beside=file.parent
                )
            except ConfigError as error:
                raise ModelFileError(f"{file}: {error}") from error
        sources = Sources(DESCRIBERS[trained.modality.name](channels, size, encoder))
        for name in SHAPES:
            key = f"described.sources.projections.{name}.axes"
            if key in tensors:
                sources.projections[name] = Projection(*tensors[key].shape)
        vote = LinearVote(tensors["described.vote.weights"].shape[0], n_clusters)
        parts: dict[str, nn.Module] = {"sources": sources, "vote": vote}
        projection = None
        if f"described.{NETWORK}.axes" in tensors:
            projection = Projection(*tensors[f"described.{NETWORK}.axes"].shape)
            parts[NETWORK] = projection
        for part, module in parts.items():
            load_weights(file, module, tensors, f"described.{part}")
        trained = replace(trained, learned=float(projection is not None))
        return cls(trained, preparation, sources, projection, vote)


ASSIGNERS[BySources.kind] = BySources
