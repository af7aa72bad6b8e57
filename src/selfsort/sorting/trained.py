"""A trained network and how it is used: its preparation, transformations and settings."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch

from selfsort.config import Config
from selfsort.data.image_set import ImageSet
from selfsort.method.devices import choose_device, choose_precision
from selfsort.method.encoder import place
from selfsort.method.inputs import Inputs
from selfsort.method.modality import MODALITIES, AnyPreparation, Modality, Preparations
from selfsort.method.network import AcolNetwork, build_network
from selfsort.method.representation import Representation, extract, extract_batches
from selfsort.method.symmetry import distinct
from selfsort.method.transforms import TransformSet
from selfsort.training.hooks import Hooks
from selfsort.training.loop import EpochRecord, training_flops
from selfsort.training.pretrain import train


@dataclass(frozen=True)
class TrainedNetwork:
    """A network with all that its training and its use depend on; `transforms` is None where a
    model file does not hold them. `learned` is how far it came from chance to telling all
    transformations.
    """

    network: AcolNetwork
    preparations: Preparations
    transforms: TransformSet | None
    config: Config
    seed: int
    modality: Modality
    learned: float = 1.0

    def inputs(self, images: ImageSet) -> Inputs:
        """Images as the network sees them."""
        return Inputs(images, self.preparations.network.for_images(images), self.modality)

    def source_preparation(self, channels: int, size: int) -> AnyPreparation:
        """Images of this shape as describers see them."""
        return self.modality.source_preparation(self.preparations.network, channels, size)

    @property
    def has_task(self) -> bool:
        """Whether there are transformations to tell apart; else there is nothing to train on."""
        return self.transforms is None or self.network.head.nodes[0] > 1

    def train(self, images: ImageSet, hooks: Hooks) -> list[EpochRecord]:
        """Train the network in place."""
        assert self.transforms is not None, "a network that was loaded is trained already"
        return train(
            self.network,
            self.inputs(images),
            transforms=self.transforms,
            config=self.config,
            seed=self.seed,
            hooks=hooks,
        )

    def represent(self, images: ImageSet, hooks: Hooks) -> Representation:
        """F and Z of each image."""
        on_batch = hooks.stage("computing features")
        return extract(self.network, self.inputs(images), on_batch=on_batch)

    def represent_batches(self, images: ImageSet, hooks: Hooks) -> Iterator[Representation]:
        """The same, a batch at a time, for more images than fit into memory."""
        on_batch = hooks.stage("computing features")
        return extract_batches(self.network, self.inputs(images), on_batch=on_batch)

    def training_flops(self, n_shown: int) -> int:
        """What its training has cost, in floating-point operations, if it saw so many images,
        repetitions counted.
        """
        return training_flops(self.network, self.preparations.network.shape) * n_shown


def start_network(images: ImageSet, *, config: Config, seed: int, hooks: Hooks) -> TrainedNetwork:
    """A network with fresh weights for these images, ready to be trained; its configuration says
    which precision `auto` stands for.
    """
    modality = MODALITIES[images.modality]
    preparations = modality.prepare(images, config)
    if modality.may_be_symmetric and hooks.transforms is None:
        inputs = Inputs(images, preparations.network, modality)
        config = without_symmetric(inputs, config, seed)
    transforms = hooks.transforms or modality.get_transforms(config.transforms)
    device = choose_device(hooks.device)
    config = replace(config, precision=choose_precision(config.precision, device))
    network = build_network(
        config.network,
        shape=preparations.network.shape,
        n_parents=len(transforms) * n_real_parents(images),
        generator=torch.Generator().manual_seed(seed),
        modality=modality,
        precision=config.precision,
    )
    place(network, device)
    return TrainedNetwork(network, preparations, transforms, config, seed, modality)


def n_real_parents(images: ImageSet) -> int:
    """How many parents the images have that are no transformations; 1: none are known."""
    return len(images.taught.parent_names) or 1 if images.taught else 1


def without_symmetric(inputs: Inputs, config: Config, seed: int) -> Config:
    """The configuration with the transformations that change the look of these data; if none does,
    as it is.
    """
    names = distinct(inputs, inputs.modality.get_transforms(config.transforms), seed)
    return replace(config, transforms=",".join(names)) if len(names) > 1 else config
