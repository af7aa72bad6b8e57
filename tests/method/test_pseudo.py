"""Preparation of pixels and pseudo-labelled batches."""

import numpy as np
import pytest
import torch

from selfsort.data.image_set import as_image_set
from selfsort.errors import DataError
from selfsort.method.inputs import Inputs
from selfsort.method.preparation import Preparation, empty_border
from selfsort.method.pseudo import PseudoBatch, pseudo_batches
from selfsort.method.transforms import DIHEDRAL
from selfsort.settings import JitterConfig, TrainingConfig


def prepare(
    pixels: np.ndarray, size: int = 8, channels: int = 1, normalise: str = "unit"
) -> torch.Tensor:
    images = as_image_set(pixels)
    return Preparation(channels, size, images.low, images.high, normalise)(images.pixels)


def test_bytes_and_floats_mean_the_same() -> None:
    pixels = np.arange(128, dtype=np.uint8).reshape(2, 8, 8)
    assert torch.allclose(prepare(pixels), prepare((pixels / 255).astype(np.float64)))
    assert torch.allclose(prepare(pixels), prepare(pixels.astype(np.uint16) * 257))


def test_a_square_is_made_with_the_border_colour() -> None:
    prepared = prepare(np.full((1, 4, 8), 51, dtype=np.uint8))
    assert prepared.shape == (1, 1, 8, 8)
    assert torch.allclose(prepared, torch.tensor(0.2))


def test_resizing_keeps_the_mean(digits: np.ndarray) -> None:
    assert float(prepare(digits, size=16).mean()) == pytest.approx(float(digits.mean()), abs=0.01)


def test_image_normalisation(digits: np.ndarray) -> None:
    prepared = prepare(digits[:50], normalise="image")
    assert torch.allclose(prepared.mean(dim=(1, 2, 3)), torch.zeros(50), atol=1e-5)
    assert torch.allclose(prepared.std(dim=(1, 2, 3)), torch.ones(50), atol=0.02)
    assert torch.allclose(prepared, prepare(digits[:50] * 0.5, normalise="image"), atol=0.03)
    assert not prepare(np.full((1, 8, 8), 7, dtype=np.uint8), normalise="image").any()


def test_grey_and_colour_meet() -> None:
    grey = np.arange(64, dtype=np.uint8).reshape(1, 1, 8, 8)
    assert torch.allclose(prepare(np.repeat(grey, 3, axis=1), channels=1), prepare(grey), atol=1e-6)
    assert prepare(grey, channels=3).shape == (1, 3, 8, 8)
    with pytest.raises(DataError, match="5 channels should have 3"):
        prepare(np.zeros((1, 5, 8, 8), dtype=np.uint8), channels=3)


NO_JITTER = JitterConfig()


def epoch(
    seed: int, start: int = 0, n: int = 1000, jitter_config: JitterConfig = NO_JITTER
) -> list[PseudoBatch]:
    """Batches of images that carry their own number in every pixel."""
    pixels = np.broadcast_to(np.arange(n, dtype=np.float32)[:, None, None] / n, (n, 8, 8))
    images = as_image_set(pixels)
    preparation = Preparation(1, 8, images.low, images.high, "unit")
    batches = pseudo_batches(
        Inputs(images, preparation),
        jitter_config=jitter_config,
        transforms=DIHEDRAL,
        config=TrainingConfig(batch_size=300),
        seed=seed,
        epoch=0,
        start=start,
    )
    return list(batches)


def test_an_epoch_shows_every_image_once() -> None:
    batches = epoch(0)
    assert [len(batch.parents) for batch in batches] == [250] * 4
    numbers = torch.cat([batch.images[:, 0, 0, 0] for batch in batches])
    assert torch.allclose(numbers.sort().values, torch.arange(1000) / 1000)


def test_parents_are_uniform_and_drawn_anew() -> None:
    parents = [torch.cat([batch.parents for batch in epoch(seed)]) for seed in (0, 1)]
    assert all(abs(int(count) - 125) < 45 for count in parents[0].bincount(minlength=8))
    assert 0.05 < float((parents[0] == parents[1]).float().mean()) < 0.2


def test_an_epoch_can_be_entered_in_the_middle() -> None:
    strong = JitterConfig(shift=0.1, rotation=0.3, scale=0.2, shear=0.2, invert=True)
    for whole, late in zip(
        epoch(3, jitter_config=strong)[2:], epoch(3, start=2, jitter_config=strong), strict=True
    ):
        assert torch.equal(whole.images, late.images)
        assert torch.equal(whole.parents, late.parents)


def test_the_common_empty_border_is_cut_off() -> None:
    draw = np.random.default_rng(0)
    inner = draw.integers(0, 255, (50, 12, 12), dtype=np.uint8)
    images = as_image_set(np.pad(inner, ((0, 0), (2, 2), (2, 2)), constant_values=9))
    border = empty_border(images)
    assert border == 2 / 16
    prepared = Preparation(1, 12, 0, 255, "unit", border)(images.pixels)
    assert torch.allclose(prepared[:, 0], torch.from_numpy(inner) / 255)
    assert empty_border(as_image_set(inner)) == 0
