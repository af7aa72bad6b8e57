"""What tells the cluster of an image: centres in the network's space, or a classifier.

A new kind is a class with the members of `Assigner` and an entry in `ASSIGNERS`, by which model
files find it.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from selfsort.clustering.kmeans import Assignment, Clustering
from selfsort.data.image_set import ImageSet
from selfsort.method.encoder import device_of, place
from selfsort.method.inputs import Inputs
from selfsort.method.modality import AnyPreparation
from selfsort.settings import NetworkConfig, RefinementConfig
from selfsort.sorting.classifier import Classifier, build_classifier, probabilities
from selfsort.sorting.trained import TrainedNetwork
from selfsort.training.checkpoint import load_module
from selfsort.training.hooks import Hooks

Order = NDArray[np.integer[Any]]


class Assigner(Protocol):
    """Gives each image its cluster; knows its own preparation of them."""

    kind: ClassVar[str]

    @property
    def n_clusters(self) -> int:
        """How many clusters there are."""

    def assign(self, images: ImageSet, hooks: Hooks) -> Assignment:
        """Cluster and confidence of each image."""

    def probable(self, images: ImageSet, hooks: Hooks) -> NDArray[np.float32]:
        """How probable each cluster is for each image, (images, cluster)."""

    def reorder(self, order: Order) -> Self:
        """The same with other numbers: what was cluster `order[i]` is now i."""

    def tensors(self) -> Mapping[str, Tensor]:
        """What a model file keeps of it."""

    @classmethod
    def load(
        cls, file: Path, tensors: Mapping[str, Tensor], trained: TrainedNetwork, n_clusters: int
    ) -> Self:
        """The inverse of `tensors`, on the device of the network; a ValueError says what does not
        fit.
        """


@dataclass(frozen=True)
class Centres:
    """The nearest of k-means' centres in a space of the network."""

    trained: TrainedNetwork
    clustering: Clustering
    kind: ClassVar[str] = "centres"

    @property
    def n_clusters(self) -> int:
        """How many centres there are."""
        return len(self.clustering.centres)

    def assign(self, images: ImageSet, hooks: Hooks) -> Assignment:
        """The nearest centre of each image, a batch at a time."""
        space = self.trained.config.clustering.space
        batches = self.trained.represent_batches(images, hooks)
        pieces = [self.clustering.assign(batch.space(space)) for batch in batches]
        labels, confidence = (np.concatenate(column) for column in zip(*pieces, strict=True))
        return Assignment(labels, confidence)

    def probable(self, images: ImageSet, hooks: Hooks) -> NDArray[np.float32]:
        """Shares by 1 / distance² to each centre, which say no more than which are near."""
        space = self.trained.config.clustering.space
        batches = self.trained.represent_batches(images, hooks)
        return np.concatenate([self.clustering.nearness(batch.space(space)) for batch in batches])

    def reorder(self, order: Order) -> Self:
        """The centres in this order."""
        return replace(self, clustering=Clustering(self.clustering.centres[order]))

    def tensors(self) -> dict[str, Tensor]:
        """The centres."""
        return {"clusters.centres": torch.from_numpy(self.clustering.centres)}

    @classmethod
    def load(
        cls, file: Path, tensors: Mapping[str, Tensor], trained: TrainedNetwork, n_clusters: int
    ) -> Self:
        """Centres, if they are points of the network's space."""
        centres = tensors["clusters.centres"]
        is_latent = trained.config.clustering.space == "latent"
        n_nodes = math.prod(trained.network.head.nodes)
        width = trained.config.network.latent_width if is_latent else n_nodes
        if centres.shape != (n_clusters, width):
            raise ValueError("its centres do not fit its network")
        return cls(trained, Clustering(centres.float().numpy()))


@dataclass(frozen=True)
class Refined:
    """A small classifier of its own, which may see more detail than the network did."""

    trained: TrainedNetwork
    classifier: Classifier
    kind: ClassVar[str] = "refined"

    @property
    def n_clusters(self) -> int:
        """How many outputs the classifier has."""
        return self.classifier.head.out_features

    @staticmethod
    def preparation(trained: TrainedNetwork) -> AnyPreparation:
        """How its images are prepared."""
        return trained.preparations.refinement

    @staticmethod
    def settings(trained: TrainedNetwork) -> RefinementConfig | NetworkConfig:
        """What its classifier is built by."""
        return trained.config.refinement

    @classmethod
    def inputs(cls, trained: TrainedNetwork, images: ImageSet) -> Inputs:
        """Images as its classifier sees them."""
        return Inputs(images, cls.preparation(trained).for_images(images), trained.modality)

    def assign(self, images: ImageSet, hooks: Hooks) -> Assignment:
        """The most probable cluster of each image."""
        probable = self.probable(images, hooks)
        return Assignment(probable.argmax(axis=1), probable.max(axis=1))

    def probable(self, images: ImageSet, hooks: Hooks) -> NDArray[np.float32]:
        """What the classifier says, calibrated."""
        return probabilities(
            self.classifier,
            self.inputs(self.trained, images),
            both_signs=self.trained.config.refinement_jitter.invert,
            on_batch=hooks.stage("assigning"),
        )

    def reorder(self, order: Order) -> Self:
        """The outputs of the classifier in this order, in place."""
        self.classifier.reorder(order)
        return self

    def tensors(self) -> dict[str, Tensor]:
        """The classifier's weights."""
        weights = self.classifier.state_dict()
        return {f"classifier.{name}": tensor for name, tensor in weights.items()}

    @classmethod
    def load(
        cls, file: Path, tensors: Mapping[str, Tensor], trained: TrainedNetwork, n_clusters: int
    ) -> Self:
        """A classifier whose weights fit the configuration."""
        build = partial(
            build_classifier,
            cls.settings(trained),
            shape=cls.preparation(trained).shape,
            n_clusters=n_clusters,
            generator=torch.Generator(),
            modality=trained.modality,
            precision=trained.config.precision,
        )
        classifier = load_module(file, build, tensors, "classifier")
        place(classifier, device_of(trained.network))
        return cls(trained, classifier)


@dataclass(frozen=True)
class Reclustered(Refined):
    """A classifier that started from the network's encoder, so it sees what the network sees."""

    kind: ClassVar[str] = "reclustered"

    @staticmethod
    def preparation(trained: TrainedNetwork) -> AnyPreparation:
        """How its images are prepared."""
        return trained.preparations.network

    @staticmethod
    def settings(trained: TrainedNetwork) -> RefinementConfig | NetworkConfig:
        """What its classifier is built by."""
        return trained.config.network


ASSIGNERS: dict[str, type[Assigner]] = {one.kind: one for one in (Centres, Refined, Reclustered)}
"""By the names that model files have; `described.BySources` adds itself."""
