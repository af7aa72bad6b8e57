"""Jitter: within its bounds, different for each image, the same for the same generator."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from selfsort.method.jitter import jitter, swap_context
from selfsort.settings import JitterConfig


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
    return torch.stack(
        [(weights.sum(dim=2) * place).sum(dim=1), (weights.sum(dim=1) * place).sum(dim=1)], dim=1
    )


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
        "contrast": 0.3,
        "brightness": 0.3,
        "tone": 1.0,
        "cutout": 0.7,
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


def test_tones_change_as_they_say_and_keep_their_order() -> None:
    ramp = torch.linspace(-2, 2, 9).view(1, 1, 3, 3).expand(300, 1, 3, 3)
    gains = jittered(ramp, contrast=0.3)[:, 0, 2, 2] / 2
    assert math.exp(-0.3) <= float(gains.min()) < 0.8 < 1.3 < float(gains.max()) <= math.exp(0.3)
    lifts = jittered(ramp, brightness=0.3)[:, 0, 1, 1]
    assert -0.3 <= float(lifts.min()) < -0.25 < 0.25 < float(lifts.max()) <= 0.3
    curved = jittered(ramp, tone=1.0).flatten(1)
    assert (curved.diff(dim=1) > 0).all(), "a curve that keeps light and dark in their order"
    assert float(curved[:, 4].max()) == pytest.approx(0.2, abs=0.01)


def test_cutout_blanks_one_rectangle_in_a_share_of_the_images() -> None:
    blank = jittered(torch.ones(400, 1, 20, 20), cutout=0.7)[:, 0] == 0
    hit = blank.any(dim=2).any(dim=1)
    assert 0.6 < float(hit.float().mean()) < 0.8
    areas = blank.any(dim=2).sum(dim=1) * blank.any(dim=1).sum(dim=1)
    assert torch.equal(areas, blank.sum(dim=(1, 2))), "a rectangle"
    assert int(areas.max()) <= 8 * 8


def test_context_is_swapped_in_two_opposite_strips_and_never_in_the_middle() -> None:
    names = torch.arange(400.0).view(400, 1, 1, 1).expand(400, 1, 20, 20)
    swapped = swap_context(names, 0.7, torch.Generator().manual_seed(0))
    assert torch.equal(swapped[:, :, 6:14, 6:14], names[:, :, 6:14, 6:14])
    other = (swapped != names)[:, 0]
    assert torch.equal(other, other.flip(1, 2)), "the same on both sides"
    assert 0.5 < float(other.any(dim=2).any(dim=1).float().mean()) < 0.7, (
        "of the 0.7 some strips are narrower than a pixel"
    )
    both = other.any(dim=2).all(dim=1) & other.any(dim=1).all(dim=1)
    assert int(both.sum()) == 0, "upright or level, not both"
    assert swap_context(names, 0.0, torch.Generator()) is names
