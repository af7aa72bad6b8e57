"""A data set as a network sees it: prepared batches, as they are or as random views."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from selfsort.data.image_set import ImageSet
from selfsort.method.encoder import device_of
from selfsort.method.modality import IMAGES, AnyPreparation, Modality
from selfsort.settings import JitterConfig

Rows = slice | NDArray[np.integer[Any]]
Look = Callable[[slice, torch.device], Tensor]
"""Gives the batch of these rows, on a device."""


@dataclass(frozen=True)
class Inputs:
    """Images with their preparation."""

    images: ImageSet
    preparation: AnyPreparation
    modality: Modality = IMAGES

    def __len__(self) -> int:
        return len(self.images)

    def take(self, rows: NDArray[np.integer[Any]]) -> "Inputs":
        """Those of these rows only."""
        return replace(self, images=self.images.take(rows))

    def read(self, rows: Rows, device: torch.device | str = "cpu") -> Tensor:
        """A batch of the images as they are."""
        return self.preparation(self.images.read(rows), device)

    def view(
        self,
        rows: Rows,
        device: torch.device | str = "cpu",
        *,
        config: JitterConfig,
        generator: torch.Generator,
        transform: Callable[[Tensor], Tensor] | None = None,
    ) -> Tensor:
        """A random view of a batch: jittered, then transformed, then with foreign edges.

        The edges come last, so that a transformation does not turn them with the image.
        """
        seen = self.modality.jitter(self.read(rows, device), config, generator)
        if transform is not None:
            seen = transform(seen)
        return self.modality.swap_context(seen, config.context, generator)


def infer(
    module: nn.Module,
    compute: Callable[[Tensor], tuple[Tensor, ...]],
    inputs: Inputs,
    *,
    look: Look | None = None,
    on_batch: Callable[[int, int], None] | None = None,
) -> Iterator[tuple[NDArray[np.float32], ...]]:
    """What `compute` makes of each batch, in inference mode, where `module` is; `look` gives other
    batches than the images as they are, `on_batch(done, total)` tells progress.
    """
    module.eval()
    device = device_of(module)
    if on_batch:
        on_batch(0, len(inputs))
    for rows in inputs.preparation.batches(inputs.images):
        # not around the loop: the mode would hold for whoever asks for the batches, too
        with torch.inference_mode():
            computed = compute((look or inputs.read)(rows, device))
        if on_batch:
            on_batch(rows.stop, len(inputs))
        yield tuple(tensor.float().cpu().numpy() for tensor in computed)


def infer_all(
    module: nn.Module,
    compute: Callable[[Tensor], tuple[Tensor, ...]],
    inputs: Inputs,
    *,
    look: Look | None = None,
    on_batch: Callable[[int, int], None] | None = None,
) -> tuple[NDArray[np.float32], ...]:
    """The same for all images at once; no more memory than the result takes."""
    whole: tuple[NDArray[np.float32], ...] = ()
    done = 0
    for batch in infer(module, compute, inputs, look=look, on_batch=on_batch):
        if not whole:
            whole = tuple(np.empty((len(inputs), *part.shape[1:]), part.dtype) for part in batch)
        for target, part in zip(whole, batch, strict=True):
            target[done : done + len(part)] = part
        done += len(batch[0])
    return whole
