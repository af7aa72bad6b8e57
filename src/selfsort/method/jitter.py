"""Small random changes of images that leave their class as it is: geometry, tones, polarity and
context.
"""

from functools import cache

import torch
from torch import Tensor
from torch.nn import functional

from selfsort.method.shapes import Images
from selfsort.settings import JitterConfig

ELASTIC_GRID = 5
"""Points along a side that elastic bending moves; between them it is smooth."""


STRIP = 0.3
"""Largest width, as a share of the side, of the strips that show another image."""

HALF_CUT = (0.1, 0.2)
"""Smallest and largest half side of a blanked rectangle, as shares of the side."""


def jitter(images: Images, config: JitterConfig, generator: torch.Generator) -> Images:
    """Each image under its own random geometry, tones, inversion and blanked rectangle;
    `swap_context` is apart.

    Tones, inversion and blanking assume images that are centred on 0
    (`images.normalise = "image"`).
    """
    n_samples = len(images)
    if any(
        (config.shift, config.rotation, config.scale, config.shear, config.aspect, config.elastic)
    ):
        height, width = images.shape[2:]
        moves = _affine(n_samples, config, generator)
        if config.elastic:
            bends = torch.randn(n_samples, 2, ELASTIC_GRID**2, generator=generator)
            moves = torch.cat([moves, bends * config.elastic], dim=2)
        # one product for all images; torch's `affine_grid` and `interpolate` take each by itself
        places = moves.flatten(0, 1) @ _bases(height, width)[: moves.shape[2]]
        grid = places.view(n_samples, 2, height, width).permute(0, 2, 3, 1)
        images = functional.grid_sample(
            images, grid.to(images.device), padding_mode="border", align_corners=False
        )
    if any((config.contrast, config.brightness, config.tone)):
        gain, lift, middle = (torch.rand(3, n_samples, 1, 1, 1, generator=generator) * 2 - 1).to(
            images.device
        )
        squashed = images.sigmoid()
        curve = 4 * squashed * (1 - squashed) - 0.8
        images = (
            images * (gain * config.contrast).exp()
            + lift * config.brightness
            + middle * config.tone * curve
        )
    if config.invert:
        signs = torch.randint(2, (n_samples, 1, 1, 1), generator=generator) * 2 - 1
        images = images * signs.to(images.device)
    if config.cutout:
        images = images * ~_rectangles(images, config.cutout, generator).to(images.device)
    return images


def swap_context(images: Images, share: float, generator: torch.Generator) -> Images:
    """In this share of the images two opposite strips along the edges show another image of the
    batch.

    What stands in the middle then tells more than what surrounds it.
    """
    if not share:
        return images
    n_samples = len(images)
    side = images.shape[-1]
    place = (torch.arange(side) + 0.5) / side
    chance, width, upright = torch.rand(3, n_samples, 1, generator=generator)
    strip = torch.minimum(place, 1 - place) < width * STRIP * (chance < share)
    mask = torch.where(upright[:, :, None] < 0.5, strip[:, None, :], strip[:, :, None])[:, None]
    return torch.where(
        mask.to(images.device),
        images[torch.randperm(n_samples, generator=generator).to(images.device)],
        images,
    )


def _rectangles(images: Images, share: float, generator: torch.Generator) -> Tensor:
    """Where the blanked rectangles lie, (n_samples, 1, side, side); none in the other images."""
    n_samples = len(images)
    side = images.shape[-1]
    place = (torch.arange(side) + 0.5) / side
    centre, extent = torch.rand(2, n_samples, 2, 1, generator=generator)
    inside = (place - centre).abs() < HALF_CUT[0] + (HALF_CUT[1] - HALF_CUT[0]) * extent
    blanked = torch.rand(n_samples, 1, 1, generator=generator) < share
    mask: Tensor = inside[:, 0, :, None] & inside[:, 1, None, :] & blanked
    return mask[:, None]


@cache
def _bases(height: int, width: int) -> Tensor:
    """What the numbers of a matrix and of the elastic grid's points are multiplied with at each
    pixel, (3 + points, pixels): its coordinates in [-1, 1], 1, and the point's smooth influence.
    """
    y, x = torch.meshgrid(
        *((2 * torch.arange(side) + 1) / side - 1 for side in (height, width)), indexing="ij"
    )
    points = torch.eye(ELASTIC_GRID**2).view(-1, 1, ELASTIC_GRID, ELASTIC_GRID)
    influence = functional.interpolate(
        points, size=(height, width), mode="bicubic", align_corners=False
    )
    return torch.cat([torch.stack([x, y, torch.ones_like(x)]).flatten(1), influence.flatten(1)])


def _affine(n_samples: int, config: JitterConfig, generator: torch.Generator) -> Tensor:
    """Random matrices (n_samples, 2, 3) from output to input coordinates in [-1, 1]: rotation ×
    (scale, shear), shift.
    """
    turn, grow, stretch, slope, right, down = torch.rand(6, n_samples, generator=generator) * 2 - 1
    angle = turn * config.rotation
    cos = angle.cos()
    sin = angle.sin()
    wide = (grow * config.scale).exp()
    high = wide * (stretch * config.aspect).exp()
    shear = slope * config.shear
    rows = (
        torch.stack([cos * wide, cos * shear - sin * high, right * 2 * config.shift]),
        torch.stack([sin * wide, sin * shear + cos * high, down * 2 * config.shift]),
    )
    return torch.stack(rows).permute(2, 0, 1)
