"""Small random changes of images that leave their class as it is: geometry and polarity."""

import torch
from torch import Tensor
from torch.nn import functional

from selfsort.config import JitterConfig
from selfsort.shapes import Images

ELASTIC_GRID = 5
"""Points along a side that elastic bending moves; between them it is smooth."""


def jitter(images: Images, config: JitterConfig, generator: torch.Generator) -> Images:
    """Each image under its own random shift, rotation, scaling, shearing, stretching, bending and inversion.

    Inversion assumes images that are centred on 0 (`images.normalise = "image"`).
    """
    n_samples = len(images)
    if any((config.shift, config.rotation, config.scale, config.shear, config.aspect, config.elastic)):
        grid = functional.affine_grid(_affine(n_samples, config, generator), list(images.shape), align_corners=False)
        if config.elastic:
            coarse = torch.randn(n_samples, 2, ELASTIC_GRID, ELASTIC_GRID, generator=generator) * config.elastic
            bent = functional.interpolate(coarse, size=images.shape[2:], mode="bicubic", align_corners=False)
            grid = grid + bent.permute(0, 2, 3, 1)
        images = functional.grid_sample(images, grid.to(images.device), padding_mode="border", align_corners=False)
    if config.invert:
        signs = torch.randint(2, (n_samples, 1, 1, 1), generator=generator) * 2 - 1
        images = images * signs.to(images.device)
    return images


def _affine(n_samples: int, config: JitterConfig, generator: torch.Generator) -> Tensor:
    """Random matrices (n_samples, 2, 3) from output to input coordinates in [-1, 1]: rotation × (scale, shear), shift."""
    turn, grow, stretch, slope, right, down = torch.rand(6, n_samples, generator=generator) * 2 - 1
    angle, wide = turn * config.rotation, (grow * config.scale).exp()
    cos, sin, shear, high = angle.cos(), angle.sin(), slope * config.shear, wide * (stretch * config.aspect).exp()
    rows = (
        torch.stack([cos * wide, cos * shear - sin * high, right * 2 * config.shift]),
        torch.stack([sin * wide, sin * shear + cos * high, down * 2 * config.shift]),
    )
    return torch.stack(rows).permute(2, 0, 1)
