"""Features of somebody else as a kind of data: nothing is jittered or transformed, and the encoder
is a projection onto their leading directions.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from selfsort.data.features import FeatureSet
from selfsort.data.image_set import ImageSet
from selfsort.errors import ConfigError, DataError
from selfsort.method.transforms import Transform, TransformSet
from selfsort.schema import check, limits
from selfsort.settings import NetworkConfig

NONE = "none"
BATCH = 4096
MAX_VALUES = 1_000_000


PICTURE_SIDE = 64
"""The side at which images of the rows are read, to be shown."""


@dataclass(frozen=True)
class FeaturePreparation:
    """Rows of `n_values` features as tensors."""

    n_values: int = field(metadata=limits(low=1, high=MAX_VALUES))

    @property
    def channels(self) -> int:
        """A row has no channels."""
        return 1

    @property
    def size(self) -> int:
        """The side of the images that are shown; the method does not see them."""
        return PICTURE_SIDE

    def __post_init__(self) -> None:
        """Refuse what cannot be, as a model file may hold it."""
        check(self, prefix="preparation.", error=DataError)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one row."""
        return (self.n_values,)

    def for_images(self, images: ImageSet) -> Self:
        """The same, if the rows have as many features."""
        if not isinstance(images, FeatureSet):
            raise DataError(f"{images.source}: should be features, as those of the model.")
        found = images.features.shape[1]
        if found != self.n_values:
            raise DataError(
                f"{images.source}: rows of {found:,} features should have {self.n_values:,}, as "
                "those of the model."
            )
        return self

    def batches(self, images: ImageSet) -> Iterator[slice]:
        """Rows to prepare together."""
        return (
            slice(start, min(start + BATCH, len(images))) for start in range(0, len(images), BATCH)
        )

    def __call__(self, rows: NDArray[Any], device: torch.device | str = "cpu") -> Tensor:
        """Numbers of 32 bits on a device."""
        return torch.from_numpy(np.require(rows, np.float32, requirements=["C", "W"])).to(device)


def keep(rows: Tensor, strength: Any, generator: torch.Generator) -> Tensor:
    """Features are what they are: a jitter that keeps their meaning is not known."""
    return rows


def get_no_transforms(name: str) -> TransformSet:
    """The one set that there is."""
    if name != NONE:
        raise ConfigError(f"transforms={name!r}: features cannot be transformed.")
    return TransformSet((Transform("T1", _as_they_are),))


def _as_they_are(rows: Tensor) -> Tensor:
    return rows


class FeatureEncoder(nn.Module):
    """Features to their leading directions, scaled so that a row has a length of about 1."""

    def __init__(self, n_values: int, width: int) -> None:
        super().__init__()
        self.register_buffer("centre", torch.zeros(n_values))
        self.register_buffer("axes", torch.zeros(n_values, width))
        self.centre: Tensor
        self.axes: Tensor

    def forward(self, rows: Tensor) -> Tensor:
        """F of a batch."""
        return (rows - self.centre) @ self.axes

    def learn(self, centre: Tensor, axes: Tensor, rows: Tensor) -> None:
        """Take over the leading directions that were found of some rows."""
        lengths = ((rows - centre) @ axes).square().sum(dim=1)
        self.centre.copy_(centre)
        self.axes.zero_()
        self.axes[:, : axes.shape[1]] = axes / lengths.mean().sqrt().clamp(min=1e-12)


def build_feature_encoder(
    config: NetworkConfig, *, shape: tuple[int, ...], generator: torch.Generator
) -> FeatureEncoder:
    """One that knows no directions yet."""
    return FeatureEncoder(shape[0], config.latent_width)
