"""Images, transformations and a generator to pseudo-labelled batches, drawn anew every epoch."""

import zlib
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch

from selfsort.config import JitterConfig, TrainingConfig
from selfsort.images import ImageSet
from selfsort.jitter import jitter, swap_context
from selfsort.preparation import Preparation
from selfsort.shapes import Images, Parents
from selfsort.transforms import TransformSet


class PseudoBatch(NamedTuple):
    """Transformed images X̃ with the parents t̃ that say which transformation each has had."""

    images: Images
    parents: Parents


MIN_BATCH = 64
"""Batches are not made smaller than this for the sake of their number."""


def n_batches(n_samples: int, config: TrainingConfig) -> int:
    """How many batches an epoch has: as few as the settings allow, all of nearly the same size.

    >>> n_batches(60000, TrainingConfig()), n_batches(9298, TrainingConfig()), n_batches(1797, TrainingConfig(min_batches=16))
    (150, 24, 16)
    """
    return max(-(-n_samples // config.batch_size), min(config.min_batches, n_samples // MIN_BATCH), 1)


def derive_generator(purpose: str, seed: int, *numbers: int) -> torch.Generator:
    """A generator of its own for one purpose and, say, one epoch and step: it can be had without those before it."""
    key = zlib.crc32(purpose.encode()), *numbers
    state = np.random.SeedSequence(seed, spawn_key=key).generate_state(1, np.uint64)
    return torch.Generator().manual_seed(int(state[0] >> np.uint64(1)))


def pseudo_batches(
    images: ImageSet,
    *,
    preparation: Preparation,
    jitter_config: JitterConfig,
    transforms: TransformSet,
    config: TrainingConfig,
    seed: int,
    epoch: int,
    start: int = 0,
    device: torch.device | str = "cpu",
) -> Iterator[PseudoBatch]:
    """One epoch: every image once, in random order, jittered, under one random transformation; from batch `start` on.

    All draws are made on the CPU, so they are the same for every `device` that the batches are made on.
    """
    generator = derive_generator("order", seed, epoch)
    order = torch.randperm(len(images), generator=generator)
    parents = torch.randint(len(transforms), (len(images),), generator=generator)
    count = n_batches(len(images), config)
    for step, (rows, batch_parents) in enumerate(zip(order.tensor_split(count), parents.tensor_split(count), strict=True)):
        if step >= start:
            generator = derive_generator("jitter", seed, epoch, step)
            prepared = jitter(preparation(images.read(rows.numpy()), device), jitter_config, generator)
            transformed = transforms.apply(prepared, batch_parents)
            yield PseudoBatch(swap_context(transformed, jitter_config.context, generator), batch_parents.to(device))
