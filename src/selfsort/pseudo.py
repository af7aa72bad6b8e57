"""Images, transformations and a generator to pseudo-labelled batches, drawn anew every epoch."""

from collections.abc import Iterator
from typing import NamedTuple

import torch

from selfsort.images import ImageSet
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


def pseudo_batches(
    images: ImageSet,
    *,
    preparation: Preparation,
    transforms: TransformSet,
    batch_size: int,
    generator: torch.Generator,
    start: int = 0,
) -> Iterator[PseudoBatch]:
    """One epoch: every image once, in random order, under one random transformation; from batch `start` on."""
    order = torch.randperm(len(images), generator=generator)
    parents = torch.randint(len(transforms), (len(images),), generator=generator)
    count = n_batches(len(images), batch_size)
    for rows, batch_parents in list(zip(order.tensor_split(count), parents.tensor_split(count), strict=True))[start:]:
        prepared = preparation(images.pixels[rows.numpy()])
        yield PseudoBatch(transforms.apply(prepared, batch_parents), batch_parents)
