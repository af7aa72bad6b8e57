"""Images, transformations and a generator to pseudo-labelled batches, drawn anew every epoch."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch

from selfsort.config import JitterConfig
from selfsort.images import ImageSet
from selfsort.jitter import jitter
from selfsort.preparation import Preparation
from selfsort.shapes import Images, Parents
from selfsort.transforms import TransformSet


class PseudoBatch(NamedTuple):
    """Transformed images X̃ with the parents t̃ that say which transformation each has had."""

    images: Images
    parents: Parents


def n_batches(n_samples: int, batch_size: int) -> int:
    """How many batches an epoch has: as few as can be, all of nearly the same size.

    >>> n_batches(60000, 400), n_batches(9298, 400)
    (150, 24)
    """
    return -(-n_samples // batch_size)


def derive_generator(*key: int) -> torch.Generator:
    """A generator for one purpose, such as (seed, epoch): it can be had without those before it."""
    state = np.random.SeedSequence(key).generate_state(1, np.uint64)
    return torch.Generator().manual_seed(int(state[0] >> np.uint64(1)))


def pseudo_batches(
    images: ImageSet,
    *,
    preparation: Preparation,
    jitter_config: JitterConfig,
    transforms: TransformSet,
    batch_size: int,
    seed: int,
    epoch: int,
    start: int = 0,
) -> Iterator[PseudoBatch]:
    """One epoch: every image once, in random order, jittered, under one random transformation; from batch `start` on."""
    generator = derive_generator(seed, epoch)
    order = torch.randperm(len(images), generator=generator)
    parents = torch.randint(len(transforms), (len(images),), generator=generator)
    count = n_batches(len(images), batch_size)
    for step, (rows, batch_parents) in enumerate(zip(order.tensor_split(count), parents.tensor_split(count), strict=True)):
        if step >= start:
            prepared = jitter(preparation(images.pixels[rows.numpy()]), jitter_config, derive_generator(seed, epoch, step))
            yield PseudoBatch(transforms.apply(prepared, batch_parents), batch_parents)
