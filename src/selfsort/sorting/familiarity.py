"""Marks images that are unlike all that a model was fitted on."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from selfsort.data.image_set import ImageSet, sample_rows
from selfsort.method.familiar import FEWEST, LESSON, MAX_SIDE, Familiar
from selfsort.method.inputs import Inputs, infer_all
from selfsort.method.modality import IMAGES, AnyPreparation
from selfsort.sorting.trained import TrainedNetwork
from selfsort.training.checkpoint import load_weights
from selfsort.training.hooks import Hooks

STAGE = "telling strangers"
PREFIX = "familiar"
SHAPE = "familiarity.shape"


@dataclass(frozen=True)
class Familiarity:
    """What the images of a fit look like, and how images are prepared to be compared with them."""

    preparation: AnyPreparation
    familiar: Familiar

    def unlike(self, images: ImageSet, hooks: Hooks) -> NDArray[np.bool_]:
        """Which images are unlike those of the fit."""
        inputs = Inputs(images, self.preparation.for_images(images))
        on_batch = hooks.stage(STAGE)
        (found,) = infer_all(
            self.familiar, lambda batch: (self.familiar(batch),), inputs, on_batch=on_batch
        )
        return np.asarray(found > 1)

    def tensors(self) -> dict[str, Tensor]:
        """What a model file keeps of it."""
        tensors = {f"{PREFIX}.{name}": value for name, value in self.familiar.state_dict().items()}
        shape = torch.tensor([self.preparation.channels, self.preparation.size])
        return tensors | {SHAPE: shape}


def learn_familiarity(
    trained: TrainedNetwork, images: ImageSet, hooks: Hooks
) -> Familiarity | None:
    """Look at some of the images; None where they are too few, or no images."""
    if trained.modality is not IMAGES or len(images) < FEWEST:
        return None
    hooks.tell(STAGE, 0, 1)
    channels, *sides = images.pixels.shape[1:]
    preparation = trained.source_preparation(channels, min(max(8, *sides), MAX_SIDE))
    lesson = images.take(sample_rows(len(images), LESSON, trained.seed))
    familiar = Familiar(channels)
    familiar.learn(Inputs(lesson, preparation.for_images(lesson)), trained.seed)
    hooks.tell(STAGE, 1, 1)
    return Familiarity(preparation, familiar)


def load_familiarity(
    file: Path, tensors: Mapping[str, Tensor], trained: TrainedNetwork
) -> Familiarity | None:
    """The same from a model file; None from one that has none."""
    if SHAPE not in tensors:
        return None
    channels, size = tensors[SHAPE].tolist()
    if channels not in (1, 3) or not 1 <= size <= MAX_SIDE:
        raise ValueError("its familiar images have no shape")
    familiar = Familiar(channels)
    load_weights(file, familiar, tensors, PREFIX)
    return Familiarity(trained.source_preparation(channels, size), familiar)
