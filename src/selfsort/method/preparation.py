"""Pixels as they came to what the network sees: scaled, square, resized, normalised."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from selfsort.data.image_set import ImageSet
from selfsort.errors import DataError
from selfsort.method.shapes import Images
from selfsort.schema import check, limits

BORDER_SAMPLE = 5000
BORDER_BYTES = 2**28
MAX_SIZE = 100_000
MAX_BORDER = 0.25
"""The largest share of the side that is cut off; of a larger one, small images would be cut away.
"""

MAX_BATCH = 512
BATCH_BYTES = 2**26
"""A batch is at most so many images, and at most so many bytes of them as floats: large images must
not take more memory than small ones.
"""

FAR_OUT = 10
"""Pixels further from the model's range than so many times its width were scaled otherwise."""

USUAL_TOPS = (1.0, 255.0, 65535.0)
"""What white usually is, where black is 0."""


@dataclass(frozen=True)
class Preparation:
    """Turns any batch of an `ImageSet` into images of one shape; kept with the model, so that new
    images get the same.

    `low` and `high` are the pixel values that become 0 and 1; `border` is the share of the side
    that is cut off all round; `is_typed` says that the range came with the type of the pixels
    (bytes), not from their values.
    """

    channels: int = field(metadata=limits(low=1, high=MAX_SIZE))
    size: int = field(metadata=limits(low=1, high=MAX_SIZE))
    low: float
    high: float
    normalise: str = field(metadata=limits(choices=("unit", "image")))
    border: float = field(default=0.0, metadata=limits(low=0, high=MAX_BORDER))
    is_typed: bool = False

    def __post_init__(self) -> None:
        """Refuse what no images can have led to, as a model file may hold it."""
        check(self, prefix="preparation.", error=DataError)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one prepared image."""
        return self.channels, self.size, self.size

    def for_images(self, images: ImageSet) -> "Preparation":
        """The same for images of another type of pixels, such as bytes instead of floats in [0, 1].

        The type decides and never the values: an image must get the same cluster alone and among
        others. For a model of bytes, floats are in [0, 1]; for any other, they mean what they meant
        when it was fitted.
        """
        prepared = self
        if self.low == 0 and self.high in USUAL_TOPS:
            if images.is_typed:
                prepared = replace(self, high=images.high)
            elif self.is_typed and images.pixels.dtype.kind == "f":
                prepared = replace(self, high=1.0)
        margin = FAR_OUT * (prepared.high - prepared.low)
        if images.low < prepared.low - margin or images.high > prepared.high + margin:
            raise DataError(
                f"{images.source}: pixels between {images.low:g} and {images.high:g} should be "
                f"between {prepared.low:g} and {prepared.high:g}, as the model takes those of type "
                f"{images.pixels.dtype}; scale them."
            )
        return prepared

    def batches(self, images: ImageSet) -> Iterator[slice]:
        """Rows of images to prepare together."""
        n_numbers = max(images.pixels[0].size, self.channels * self.size**2)
        length = min(MAX_BATCH, max(1, BATCH_BYTES // (4 * n_numbers)))
        return (
            slice(start, min(start + length, len(images)))
            for start in range(0, len(images), length)
        )

    def __call__(self, pixels: NDArray[Any], device: torch.device | str = "cpu") -> Images:
        """(batch, channel, height, width) numbers to (batch, `channels`, `size`, `size`) floats on
        a device.

        Bytes travel there as bytes; images of more than `BATCH_BYTES` go there piece by piece.
        """
        length = max(1, BATCH_BYTES // (4 * pixels[0].size))
        if len(pixels) > length:
            pieces = range(0, len(pixels), length)
            return torch.cat([self(pixels[start : start + length], device) for start in pieces])
        dtype = None if pixels.dtype == np.uint8 else np.float32
        images = (
            torch.from_numpy(np.require(pixels, dtype, requirements=["C", "W"])).to(device).float()
        )
        images = (images - self.low) / max(self.high - self.low, 1e-12)
        images = _square(self._match_channels(images))
        cut = round(self.border * images.shape[2])
        images = resize(
            images[:, :, cut : images.shape[2] - cut, cut : images.shape[3] - cut], self.size
        )
        return normalise(images) if self.normalise == "image" else images

    def _match_channels(self, images: Tensor) -> Tensor:
        found = images.shape[1]
        if found == self.channels:
            return images
        if found == 1:
            return images.expand(-1, self.channels, -1, -1)
        if self.channels == 1 and found == 3:
            return to_grey(images)
        raise DataError(
            f"images with {found} channels should have {self.channels}, as those the model was "
            "trained on."
        )


def empty_border(images: ImageSet) -> float:
    """The share of the side, up to a quarter, in which the images hardly differ: under 5 % of the
    mean variance of a pixel.

    >>> from selfsort.data.image_set import as_image_set
    >>> marks = np.eye(8, dtype=np.uint8).reshape(2, 4, 8).repeat(2, axis=1)
    >>> empty_border(as_image_set(np.pad(marks, ((0, 0), (2, 2), (2, 2)))))
    0.16666666666666666
    """
    n_rows = min(BORDER_SAMPLE, max(2, BORDER_BYTES // (4 * images.pixels[0].size)))
    rows = np.random.default_rng(0).permutation(len(images))[:n_rows]
    pixels = Preparation(
        images.pixels.shape[1], max(images.pixels.shape[2:]), images.low, images.high, "unit"
    )(images.read(rows))
    variance = pixels.var(dim=0, correction=0).mean(dim=0)
    side, border = len(variance), 0
    while border < side // 4:
        inner = variance[border : side - border, border : side - border]
        ring = torch.cat([inner[0], inner[-1], inner[:, 0], inner[:, -1]])
        if ring.mean() >= 0.05 * variance.mean():
            break
        border += 1
    return border / side


def _square(images: Tensor) -> Tensor:
    """Pad to a square with each image's mean border value, which adds no strong edge."""
    height, width = images.shape[2:]
    if height == width:
        return images
    border = torch.cat(
        [images[:, :, 0], images[:, :, -1], images[:, :, :, 0], images[:, :, :, -1]], dim=2
    ).mean(dim=2)
    side = max(height, width)
    padded = border[:, :, None, None].expand(-1, -1, side, side).clone()
    top, left = (side - height) // 2, (side - width) // 2
    padded[:, :, top : top + height, left : left + width] = images
    return padded


def normalise(images: Images) -> Images:
    """Each image centred and scaled by its own mean and standard deviation."""
    centred = images - images.mean(dim=(1, 2, 3), keepdim=True)
    return centred / (centred.square().mean(dim=(1, 2, 3), keepdim=True).sqrt() + 1e-3)


def to_grey(images: Tensor) -> Tensor:
    """The luminance of colour images; grey ones as they are."""
    if images.shape[1] == 1:
        return images
    return (images * images.new_tensor([0.299, 0.587, 0.114])[:, None, None]).sum(
        dim=1, keepdim=True
    )


def resize(images: Tensor, size: int) -> Tensor:
    """Square images of another size."""
    if images.shape[2] == size:
        return images
    return functional.interpolate(
        images, size=(size, size), mode="bilinear", antialias=True, align_corners=False
    )
