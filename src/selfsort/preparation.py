"""Pixels as they came to what the network sees: scaled, square, resized, normalised."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from selfsort.errors import DataError
from selfsort.images import ImageSet
from selfsort.shapes import Images

BORDER_SAMPLE = 5000
MAX_SIZE = 100_000

USUAL_TOPS = (1.0, 255.0, 65535.0)
"""What white usually is, where black is 0."""


@dataclass(frozen=True)
class Preparation:
    """Turns any batch of an `ImageSet` into images of one shape; kept with the model, so that new images get the same.

    `low` and `high` are the pixel values that become 0 and 1; `border` is the share of the side that is cut off all round.
    """

    channels: int
    size: int
    low: float
    high: float
    normalise: str
    border: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what no images can have led to, as a model file may hold it."""
        whole = all(isinstance(value, int) and 1 <= value <= MAX_SIZE for value in (self.channels, self.size))
        numbers = all(isinstance(value, int | float) and math.isfinite(value) for value in (self.low, self.high, self.border))
        if not (whole and numbers and 0 <= self.border < 0.5 and self.normalise in ("unit", "image")):
            raise DataError(f"{self} is not a way to prepare images.")

    def for_images(self, images: ImageSet) -> "Preparation":
        """The same for images whose pixels have another of the usual ranges, such as bytes instead of [0, 1]."""
        is_usual = self.low == images.low == 0 and self.high in USUAL_TOPS and images.high in USUAL_TOPS
        return replace(self, high=images.high) if is_usual else self

    def __call__(self, pixels: NDArray[Any], device: torch.device | str = "cpu") -> Images:
        """(batch, channel, height, width) numbers to (batch, `channels`, `size`, `size`) floats on a device.

        Bytes travel there as bytes.
        """
        dtype = None if pixels.dtype == np.uint8 else np.float32
        images = torch.from_numpy(np.require(pixels, dtype, requirements=["C", "W"])).to(device).float()
        images = (images - self.low) / max(self.high - self.low, 1e-12)
        images = _square(self._match_channels(images))
        cut = round(self.border * images.shape[2])
        images = _resize(images[:, :, cut : images.shape[2] - cut, cut : images.shape[3] - cut], self.size)
        if self.normalise == "image":
            centred = images - images.mean(dim=(1, 2, 3), keepdim=True)
            images = centred / (centred.square().mean(dim=(1, 2, 3), keepdim=True).sqrt() + 1e-3)
        return images

    def _match_channels(self, images: Tensor) -> Tensor:
        found = images.shape[1]
        if found == self.channels:
            return images
        if found == 1:
            return images.expand(-1, self.channels, -1, -1)
        if self.channels == 1 and found == 3:
            return (images * images.new_tensor([0.299, 0.587, 0.114])[:, None, None]).sum(dim=1, keepdim=True)
        raise DataError(f"images with {found} channels should have {self.channels}, as those the model was trained on.")


def empty_border(images: ImageSet) -> float:
    """The share of the side, up to a quarter, in which the images hardly differ: under 5 % of the mean variance of a pixel.

    >>> from selfsort.images import as_image_set
    >>> empty_border(as_image_set(np.pad(np.eye(8, dtype=np.uint8).reshape(2, 4, 8).repeat(2, axis=1), ((0, 0), (2, 2), (2, 2)))))
    0.16666666666666666
    """
    rows = np.random.default_rng(0).permutation(len(images))[:BORDER_SAMPLE]
    pixels = Preparation(images.pixels.shape[1], max(images.pixels.shape[2:]), images.low, images.high, "unit")(images.read(rows))
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
    border = torch.cat([images[:, :, 0], images[:, :, -1], images[:, :, :, 0], images[:, :, :, -1]], dim=2).mean(dim=2)
    side = max(height, width)
    padded = border[:, :, None, None].expand(-1, -1, side, side).clone()
    top, left = (side - height) // 2, (side - width) // 2
    padded[:, :, top : top + height, left : left + width] = images
    return padded


def _resize(images: Tensor, size: int) -> Tensor:
    if images.shape[2] == size:
        return images
    return functional.interpolate(images, size=(size, size), mode="bilinear", antialias=True, align_corners=False)
