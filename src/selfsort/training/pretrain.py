"""Pseudo-supervised training: the network learns which transformation each image has had."""

import math
from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor

from selfsort.config import Config
from selfsort.method.encoder import device_of
from selfsort.method.inputs import Inputs
from selfsort.method.network import AcolNetwork
from selfsort.method.objective import objective
from selfsort.method.pseudo import MIN_BATCH, PseudoBatch, n_batches, pseudo_batches
from selfsort.method.transforms import TransformSet
from selfsort.settings import TrainingConfig
from selfsort.training.hooks import Hooks
from selfsort.training.loop import EpochRecord, Task, one_cycle, run_loop

STAGE = "training"
PARTS = ("transforms", "images", "jitter", "network", "objective", "training")
"""The parts of the configuration on which this stage depends; a change of others leaves its
checkpoint good.
"""


def train(
    network: AcolNetwork,
    inputs: Inputs,
    *,
    transforms: TransformSet,
    config: Config,
    seed: int,
    hooks: Hooks | None = None,
) -> list[EpochRecord]:
    """Train `network` in place and return one record per epoch."""
    task = training_task(network, inputs, transforms=transforms, config=config, seed=seed)
    hooks = hooks or Hooks()
    history = run_loop(task, on_progress=hooks.progress, checkpoint=hooks.checkpoint(STAGE))
    network.eval()
    return history


def training_task(
    network: AcolNetwork,
    inputs: Inputs,
    *,
    transforms: TransformSet,
    config: Config,
    seed: int,
) -> Task:
    """What the loop needs to train `network` on the device that it is on."""
    settings = config.training
    device = device_of(network)

    def batches(epoch: int, start: int) -> Iterator[PseudoBatch]:
        network.train()
        return pseudo_batches(
            inputs,
            jitter_config=config.jitter,
            transforms=transforms,
            config=settings,
            seed=seed,
            epoch=epoch,
            start=start,
            device=device,
        )

    def loss(batch: PseudoBatch) -> dict[str, Tensor]:
        return objective(network(batch.images), batch.parents, config=config.objective)._asdict()

    return Task(
        stage=STAGE,
        module=network,
        optimizer=torch.optim.Adam(network.parameters(), fused=True),
        generator=network.generator,
        n_epochs=n_epochs(settings, len(inputs)),
        n_steps=n_batches(len(inputs), settings),
        batches=batches,
        loss=loss,
        learning_rate=partial(learning_rate, settings),
        give_up=partial(gives_up, settings, len(inputs), network.head.nodes[0]),
        job={part: config.to_dict()[part] for part in PARTS}
        | {
            "seed": seed,
            "precision": network.precision,
            "device": device.type,
            "images": [*inputs.images.pixels.shape, inputs.images.fingerprint()],
        },
    )


def n_epochs(config: TrainingConfig, n_samples: int) -> int:
    """The epochs asked for, or as many as it takes to come to `min_steps` and `min_images`. Fewer
    images than `MIN_BATCH` come to their share of these: a step of a few images takes nearly as
    long, and there is less to learn.

    >>> standard = TrainingConfig(epochs=1, min_steps=1000, min_images=200_000)
    >>> [n_epochs(standard, n_samples) for n_samples in (60_000, 2_000, 64, 3)]
    [7, 200, 3125, 147]
    """
    share = min(1.0, n_samples / MIN_BATCH)
    steps = share * config.min_steps / n_batches(n_samples, config)
    images = share * config.min_images / max(n_samples, MIN_BATCH)
    return max(config.epochs, math.ceil(steps), math.ceil(images))


def gives_up(
    config: TrainingConfig, n_samples: int, n_parents: int, history: list[EpochRecord]
) -> bool:
    """Whether the network has learned too little in an eighth of its training to go on."""
    if not config.give_up or len(history) != max(1, n_epochs(config, n_samples) // 8):
        return False
    return share_learned(history, n_parents) < config.give_up


def share_learned(history: list[EpochRecord], n_parents: int) -> float:
    """How far the network has come from chance, 0, to telling all transformations, 1."""
    chance = 1 / n_parents
    above = history[-1].terms["pseudo_accuracy"] - chance
    return max(0.0, above) / max(1 - chance, 1e-9)


def learning_rate(config: TrainingConfig, done: float) -> float:
    """Adam's step size when the share `done` of the training is done."""
    return (
        config.learning_rate
        if config.schedule == "constant"
        else one_cycle(config.learning_rate, done)
    )
