"""A kind of data, as the method sees it: how it is prepared, jittered, transformed and encoded.

Everything that knows the shape of one image is reached through `IMAGES`; training, clustering and
sorting see batches of an unknown shape. Drawing is not here: pages are made without torch, so each
data set draws itself (`data/pictures.py`).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

from selfsort.config import Config
from selfsort.data.image_set import ImageSet
from selfsort.method.encoder import build_encoder
from selfsort.method.jitter import jitter, swap_context
from selfsort.method.preparation import Preparation, empty_border
from selfsort.method.transforms import TransformSet, get_transforms
from selfsort.settings import JitterConfig, NetworkConfig

MIN_SIZE = 8


class Preparations(NamedTuple):
    """How data reaches the network, and how the refining classifier, which may see more detail."""

    network: Preparation
    refinement: Preparation


class EncoderBuilder(Protocol):
    """Builds what turns a prepared batch into its latent layer, with weights from `generator`."""

    def __call__(
        self, config: NetworkConfig, *, shape: tuple[int, ...], generator: torch.Generator
    ) -> nn.Module: ...


@dataclass(frozen=True)
class Modality:
    """What the method asks of a kind of data."""

    name: str
    preparation: type[Preparation]
    prepare: Callable[[ImageSet, Config], Preparations]
    jitter: Callable[[Tensor, JitterConfig, torch.Generator], Tensor]
    swap_context: Callable[[Tensor, float, torch.Generator], Tensor]
    get_transforms: Callable[[str], TransformSet]
    build_encoder: EncoderBuilder


def prepare_images(images: ImageSet, config: Config) -> Preparations:
    """Square images of one size; the refining classifier's are as large as its settings allow."""
    channels, height, width = images.pixels.shape[1:]
    network = Preparation(
        channels=1 if config.images.grey and channels == 3 else channels,
        size=config.images.size or max(MIN_SIZE, height, width),
        low=images.low,
        high=images.high,
        normalise=config.images.normalise,
        border=empty_border(images) if config.images.crop else 0.0,
        is_typed=images.is_typed,
    )
    largest = min(max(height, width), config.refinement.max_size) // 4 * 4  # two poolings by 2
    return Preparations(network, replace(network, size=max(network.size, largest)))


IMAGES = Modality(
    name="images",
    preparation=Preparation,
    prepare=prepare_images,
    jitter=jitter,
    swap_context=swap_context,
    get_transforms=get_transforms,
    build_encoder=build_encoder,
)
MODALITIES = {modality.name: modality for modality in (IMAGES,)}
"""By the name that data sets and model files give."""
