"""Images, transformations and a generator to pseudo-labelled batches, drawn anew every epoch."""

from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import NamedTuple

import torch

from selfsort.method.inputs import Inputs
from selfsort.method.seeds import derive_generator
from selfsort.method.shapes import Batch, Parents
from selfsort.method.transforms import TransformSet
from selfsort.settings import JitterConfig, TrainingConfig


class PseudoBatch(NamedTuple):
    """Transformed images X̃ with the parents t̃ that say which transformation each has had, and
    which real parent it has, if that is known.
    """

    images: Batch
    parents: Parents


MIN_BATCH = 64
"""Batches are not made smaller than this for the sake of their number."""


def n_batches(n_samples: int, config: TrainingConfig) -> int:
    """How many batches an epoch has: as few as the settings allow, all of nearly the same size.

    >>> n_batches(60000, TrainingConfig()), n_batches(9298, TrainingConfig())
    (150, 24)
    >>> n_batches(1797, TrainingConfig(min_batches=16))
    16
    """
    return max(
        -(-n_samples // config.batch_size), min(config.min_batches, n_samples // MIN_BATCH), 1
    )


def pseudo_batches(
    inputs: Inputs,
    *,
    jitter_config: JitterConfig,
    transforms: TransformSet,
    config: TrainingConfig,
    seed: int,
    epoch: int,
    start: int = 0,
    device: torch.device | str = "cpu",
) -> Iterator[PseudoBatch]:
    """One epoch: every image once, in random order, jittered, under one random transformation; from
    batch `start` on.

    All draws are made on the CPU, so they are the same for every `device` that the batches are made
    on.
    """
    generator = derive_generator("order", seed, epoch)
    order = torch.randperm(len(inputs), generator=generator)
    parents = torch.randint(len(transforms), (len(inputs),), generator=generator)
    count = n_batches(len(inputs), config)
    real = real_parents(inputs)
    pieces = zip(order.tensor_split(count), parents.tensor_split(count), strict=True)
    for step, (rows, batch_parents) in islice(enumerate(pieces), start, None):
        seen = inputs.view(
            rows.numpy(),
            device,
            config=jitter_config,
            generator=derive_generator("jitter", seed, epoch, step),
            transform=partial(transforms.apply, parents=batch_parents),
        )
        if real is not None:
            batch_parents = batch_parents * (int(real.max()) + 1) + real[rows]
        yield PseudoBatch(seen, batch_parents.to(device))


def real_parents(inputs: Inputs) -> Parents | None:
    """The coarse class of each image, if somebody knows it."""
    taught = inputs.images.taught
    if taught is None or taught.parents is None:
        return None
    return torch.from_numpy(taught.parents)
