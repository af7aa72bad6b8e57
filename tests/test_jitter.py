"""Jitter: within its bounds, different for each image, the same for the same generator."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from selfsort.config import JitterConfig
from selfsort.jitter import jitter


def jittered(images: Tensor, seed: int = 0, **settings: Any) -> Tensor:
    return jitter(images, JitterConfig(**settings), torch.Generator().manual_seed(seed))


@pytest.fixture
def dots() -> Tensor:
    """200 images with one smooth bump, off the centre."""
    rows, columns = torch.meshgrid(torch.arange(33.0), torch.arange(33.0), indexing="ij")
    return torch.exp(-((rows - 8) ** 2 + (columns - 16) ** 2) / 8).expand(200, 1, 33, 33)


def centres(images: Tensor) -> Tensor:
    """Centre of mass of each image, (row, column) from the middle."""
    weights = images[:, 0] / images[:, 0].sum(dim=(1, 2), keepdim=True)
    place = torch.arange(33.0) - 16
    return torch.stack([(weights.sum(dim=2) * place).sum(dim=1), (weights.sum(dim=1) * place).sum(dim=1)], dim=1)


def test_no_jitter_changes_nothing(dots: Tensor) -> None:
    assert jittered(dots) is dots


def test_same_generator_same_result_and_each_image_its_own(dots: Tensor) -> None:
    everything: dict[str, Any] = {
        "shift": 0.1,
        "rotation": 0.3,
        "scale": 0.2,
        "shear": 0.2,
        "aspect": 0.1,
        "elastic": 0.05,
        "invert": True,
    }
    first = jittered(dots, **everything)
    assert torch.equal(first, jittered(dots, **everything))
    assert not torch.equal(first, jittered(dots, seed=1, **everything))
    assert not torch.equal(first[0], first[1])


def test_shift_stays_within_its_bound(dots: Tensor) -> None:
    moved = centres(jittered(dots, shift=0.1)) - centres(dots)
    assert float(moved.abs().max()) <= 3.4
    assert float(moved.abs().max()) > 2.5


def test_rotation_keeps_the_distance_from_the_middle(dots: Tensor) -> None:
    turned = centres(jittered(dots, rotation=0.5))
    assert turned.norm(dim=1).tolist() == pytest.approx([8.0] * 200, abs=0.2)
    angles = torch.atan2(turned[:, 1], -turned[:, 0])
    assert 0.4 < float(angles.max()) < 0.52
    assert -0.52 < float(angles.min()) < -0.4


def test_scale_and_shear_move_the_bump_as_far_as_they_say(dots: Tensor) -> None:
    scaled = centres(jittered(dots, scale=0.2))[:, 0] / -8
    assert math.exp(-0.21) < float(scaled.min()) < float(scaled.max()) < math.exp(0.21)
    sheared = centres(jittered(dots, shear=0.25))
    assert 1.5 < float(sheared[:, 1].abs().max()) < 2.1
    assert sheared[:, 0].tolist() == pytest.approx([-8.0] * 200, abs=0.1)


def test_half_of_the_images_are_inverted(dots: Tensor) -> None:
    signs = jittered(dots, invert=True)[:, 0, 8, 16]
    assert set(signs.tolist()) == {1.0, -1.0}
    assert 70 < int((signs > 0).sum()) < 130
