"""Small random changes of images that leave their class as it is: geometry and polarity."""

import torch
from torch import Tensor
from torch.nn import functional

from selfsort.config import JitterConfig
from selfsort.shapes import Images


def jitter(images: Images, config: JitterConfig, generator: torch.Generator) -> Images:
    """Each image under its own random shift, rotation, scaling and shearing, and half of them inverted if asked for.

    Inversion assumes images that are centred on 0 (`images.normalise = "image"`).
    """
    if any((config.shift, config.rotation, config.scale, config.shear)):
        grid = functional.affine_grid(_affine(len(images), config, generator), list(images.shape), align_corners=False)
        images = functional.grid_sample(images, grid.to(images.device), padding_mode="border", align_corners=False)
    if config.invert:
        signs = torch.randint(2, (len(images), 1, 1, 1), generator=generator) * 2 - 1
        images = images * signs.to(images.device)
    return images


def _affine(n_samples: int, config: JitterConfig, generator: torch.Generator) -> Tensor:
    """Random matrices (n_samples, 2, 3) from output to input coordinates in [-1, 1]."""
    turn, log_scale, slope, right, down = torch.rand(5, n_samples, generator=generator) * 2 - 1
    angle, scale = turn * config.rotation, (log_scale * config.scale).exp()
    cos, sin, shear = angle.cos(), angle.sin(), slope * config.shear
    rows = (
        torch.stack([cos * scale, cos * shear - sin * scale, right * 2 * config.shift]),
        torch.stack([sin * scale, sin * shear + cos * scale, down * 2 * config.shift]),
    )
    return torch.stack(rows).permute(2, 0, 1)
