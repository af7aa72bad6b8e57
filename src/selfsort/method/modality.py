"""A kind of data, as the method sees it: how it is prepared, jittered, transformed and encoded.

Everything that knows the shape of one thing is reached through a `Modality`; training, clustering
and sorting see batches of an unknown shape. Drawing is not here: pages are made without torch, so
each data set draws itself (`data/pictures.py`).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from selfsort.config import Config
from selfsort.data.image_set import ImageSet
from selfsort.method.encoder import build_encoder
from selfsort.method.features import (
    FeaturePreparation,
    build_feature_encoder,
    get_no_transforms,
    keep,
)
from selfsort.method.jitter import jitter, swap_context
from selfsort.method.preparation import Preparation, empty_border
from selfsort.method.series import (
    SeriesPreparation,
    build_series_encoder,
    get_series_transforms,
    jitter_series,
    keep_context,
    network_length,
    series_for_sources,
)
from selfsort.method.sound import (
    NETWORK_SIDE,
    SoundPreparation,
    common_bands,
    get_sound_transforms,
    jitter_sound,
    sound_for_sources,
)
from selfsort.method.transforms import TransformSet, get_transforms
from selfsort.settings import JitterConfig, NetworkConfig

MIN_SIZE = 8


class AnyPreparation(Protocol):
    """Turns things of one kind into tensors of one shape; a dataclass, kept with the model."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def channels(self) -> int:
        """How many channels a prepared thing has."""

    @property
    def size(self) -> int:
        """The side, or the length, of a prepared thing."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one prepared thing."""

    def for_images(self, images: ImageSet) -> Self:
        """The same for other data; what does not fit is refused."""

    def batches(self, images: ImageSet) -> Iterator[slice]:
        """Rows to prepare together."""

    def __call__(self, values: NDArray[Any], /, device: torch.device | str = "cpu") -> Tensor:
        """Prepare a batch."""


class Preparations(NamedTuple):
    """How data reaches the network, and how the refining classifier, which may see more detail."""

    network: AnyPreparation
    refinement: AnyPreparation


class EncoderBuilder(Protocol):
    """Builds what turns a prepared batch into its latent layer, with weights from `generator`."""

    def __call__(
        self, config: NetworkConfig, *, shape: tuple[int, ...], generator: torch.Generator
    ) -> nn.Module: ...


@dataclass(frozen=True)
class Modality:
    """What the method asks of a kind of data; `may_be_symmetric`: a transformation may change
    nothing that can be seen, and is then left out.
    """

    name: str
    preparation: Callable[..., AnyPreparation]
    prepare: Callable[[ImageSet, Config], Preparations]
    jitter: Callable[[Tensor, JitterConfig, torch.Generator], Tensor]
    swap_context: Callable[[Tensor, float, torch.Generator], Tensor]
    get_transforms: Callable[[str], TransformSet]
    build_encoder: EncoderBuilder
    source_preparation: Callable[[Any, int, int], AnyPreparation]
    may_be_symmetric: bool = False


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


def images_for_sources(network: Preparation, channels: int, size: int) -> Preparation:
    """Images as describers see them: in [0, 1], with their colours and all of their detail."""
    return replace(network, channels=channels, size=size, normalise="unit", border=0.0)


def prepare_series(images: ImageSet, config: Config) -> Preparations:
    """Series of one length, the same for the network and for the refining classifier."""
    channels, length = images.pixels.shape[1:]
    prepared = SeriesPreparation(channels, network_length(length, config.images.size))
    return Preparations(prepared, prepared)


def prepare_sounds(images: ImageSet, config: Config) -> Preparations:
    """Spectrograms of one size, the same for the network and for the refining classifier."""
    prepared = SoundPreparation(config.images.size or NETWORK_SIDE, common_bands(images))
    return Preparations(prepared, prepared)


def prepare_features(images: ImageSet, config: Config) -> Preparations:
    """Rows as they are, for every use."""
    prepared = FeaturePreparation(images.read(slice(0, 1)).shape[1])
    return Preparations(prepared, prepared)


IMAGES = Modality(
    name="images",
    preparation=Preparation,
    prepare=prepare_images,
    jitter=jitter,
    swap_context=swap_context,
    get_transforms=get_transforms,
    build_encoder=build_encoder,
    source_preparation=images_for_sources,
)
SERIES = Modality(
    name="series",
    preparation=SeriesPreparation,
    prepare=prepare_series,
    jitter=jitter_series,
    swap_context=keep_context,
    get_transforms=get_series_transforms,
    build_encoder=build_series_encoder,
    source_preparation=series_for_sources,
    may_be_symmetric=True,
)

SOUNDS = Modality(
    name="sounds",
    preparation=SoundPreparation,
    prepare=prepare_sounds,
    jitter=jitter_sound,
    swap_context=keep_context,
    get_transforms=get_sound_transforms,
    build_encoder=build_encoder,
    source_preparation=sound_for_sources,
    may_be_symmetric=True,
)


def as_it_is(network: AnyPreparation, channels: int, size: int) -> AnyPreparation:
    """Features are described as the network would see them."""
    return network


FEATURES = Modality(
    name="features",
    preparation=FeaturePreparation,
    prepare=prepare_features,
    jitter=keep,
    swap_context=keep,
    get_transforms=get_no_transforms,
    build_encoder=build_feature_encoder,
    source_preparation=as_it_is,
)
MODALITIES = {modality.name: modality for modality in (IMAGES, SERIES, SOUNDS, FEATURES)}
"""By the name that data sets and model files give."""
