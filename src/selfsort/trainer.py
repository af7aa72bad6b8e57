"""Pseudo-supervised training: the network learns which transformation each image has had."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from selfsort.config import Config, TrainingConfig
from selfsort.encoder import device_of
from selfsort.images import ImageSet
from selfsort.loop import EpochRecord, Hook, Task, one_cycle, run_loop
from selfsort.machine import mixed_precision
from selfsort.network import AcolNetwork
from selfsort.objective import objective
from selfsort.preparation import Preparation
from selfsort.pseudo import PseudoBatch, n_batches, pseudo_batches
from selfsort.transforms import TransformSet

STAGE = "training"
PARTS = ("transforms", "images", "jitter", "network", "objective", "training")
"""The parts of the configuration on which this stage depends; a change of others leaves its checkpoint good."""


def train(
    network: AcolNetwork,
    images: ImageSet,
    *,
    preparation: Preparation,
    transforms: TransformSet,
    config: Config,
    seed: int,
    on_progress: Hook | None = None,
    checkpoint: Path | None = None,
) -> list[EpochRecord]:
    """Train `network` in place and return one record per epoch; see `run_loop` for hook and checkpoint."""
    task = training_task(network, images, preparation=preparation, transforms=transforms, config=config, seed=seed)
    history = run_loop(task, on_progress=on_progress, checkpoint=checkpoint)
    network.eval()
    return history


def training_task(
    network: AcolNetwork, images: ImageSet, *, preparation: Preparation, transforms: TransformSet, config: Config, seed: int
) -> Task:
    """What the loop needs to train `network` on the device that it is on."""
    settings, device = config.training, device_of(network)

    def batches(epoch: int, start: int) -> Iterator[PseudoBatch]:
        network.train()
        return pseudo_batches(
            images,
            preparation=preparation,
            jitter_config=config.jitter,
            transforms=transforms,
            config=settings,
            seed=seed,
            epoch=epoch,
            start=start,
            device=device,
        )

    def loss(batch: PseudoBatch) -> dict[str, Tensor]:
        with mixed_precision(device):
            activations = network(batch.images)
        return objective(activations, batch.parents, config=config.objective)._asdict()

    return Task(
        stage=STAGE,
        module=network,
        optimizer=torch.optim.Adam(network.parameters(), fused=True),
        generator=network.generator,
        n_epochs=n_epochs(settings, len(images)),
        n_steps=n_batches(len(images), settings),
        batches=batches,
        loss=loss,
        learning_rate=partial(learning_rate, settings),
        job={part: config.to_dict()[part] for part in PARTS}
        | {"seed": seed, "device": device.type, "images": [*images.pixels.shape, images.fingerprint()]},
    )


def n_epochs(config: TrainingConfig, n_samples: int) -> int:
    """The epochs asked for, or as many as it takes to come to `min_steps` and `min_images`.

    >>> standard = TrainingConfig(epochs=1, min_steps=1000, min_images=200_000)
    >>> n_epochs(standard, 60_000), n_epochs(standard, 2_000)
    (7, 200)
    """
    return max(config.epochs, -(-config.min_steps // n_batches(n_samples, config)), -(-config.min_images // n_samples))


def learning_rate(config: TrainingConfig, done: float) -> float:
    """Adam's step size when the share `done` of the training is done."""
    return config.learning_rate if config.schedule == "constant" else one_cycle(config.learning_rate, done)
