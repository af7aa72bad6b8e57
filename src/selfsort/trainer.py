"""Pseudo-supervised training: the network learns which transformation each image has had."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from selfsort.config import Config, TrainingConfig
from selfsort.images import ImageSet
from selfsort.loop import EpochRecord, Hook, Task, one_cycle, run_loop
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
    settings = config.training

    def batches(epoch: int, start: int) -> Iterator[PseudoBatch]:
        return pseudo_batches(
            images,
            preparation=preparation,
            jitter_config=config.jitter,
            transforms=transforms,
            config=settings,
            seed=seed,
            epoch=epoch,
            start=start,
        )

    def loss(batch: PseudoBatch) -> dict[str, Tensor]:
        return objective(network(batch.images), batch.parents, config=config.objective)._asdict()

    network.train()
    task = Task(
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
        | {"seed": seed, "images": [*images.pixels.shape, images.fingerprint()]},
    )
    history = run_loop(task, on_progress=on_progress, checkpoint=checkpoint)
    network.eval()
    return history


def n_epochs(config: TrainingConfig, n_samples: int) -> int:
    """The epochs asked for, or as many as it takes to come to `min_steps`."""
    return max(config.epochs, -(-config.min_steps // n_batches(n_samples, config)))


def learning_rate(config: TrainingConfig, done: float) -> float:
    """Adam's step size when the share `done` of the training is done."""
    return config.learning_rate if config.schedule == "constant" else one_cycle(config.learning_rate, done)
