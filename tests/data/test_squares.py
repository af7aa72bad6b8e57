"""Pictures become squares in which their shape does not show."""

import numpy as np
import pytest
from PIL import Image, ImageDraw
from sklearn.datasets import load_sample_image

from selfsort.data.decode import fill_square, fit_square


@pytest.fixture(scope="module")
def photograph() -> Image.Image:
    return Image.fromarray(load_sample_image("china.jpg"))


@pytest.mark.parametrize("size", [(320, 426), (426, 320), (120, 400), (400, 120), (300, 299)])
def test_a_photograph_has_no_bars(photograph: Image.Image, size: tuple[int, int]) -> None:
    part = photograph.crop((100, 0, 100 + size[0], size[1]))
    padded = fit_square(part, 64).astype(float)
    filled = fill_square(part, 64).astype(float)
    assert filled.shape == (64, 64, 3)
    for axis in (0, 1):
        assert filled.std(axis=axis).sum(axis=1).min() > 5, "no line of one colour"
    if max(size) > 1.2 * min(size):
        assert min(padded.std(axis=axis).sum(axis=1).min() for axis in (0, 1)) == 0


def test_all_of_a_usual_photograph_is_there(photograph: Image.Image) -> None:
    part = photograph.crop((0, 0, 400, 300))
    filled = fill_square(part, 64)
    assert (filled[8:56] == fit_square(part, 64)[8:56]).all()
    assert (filled[:8] == filled[8:16][::-1]).all()


def test_paper_goes_on() -> None:
    page = Image.new("RGB", (30, 90), (250, 248, 240))
    ImageDraw.Draw(page).line((10, 0, 20, 89), fill=(0, 0, 0), width=4)
    assert (fill_square(page, 48) == fit_square(page, 48)).all()


@pytest.mark.parametrize("size", [(1, 5000), (5000, 1), (3, 4000), (1, 1), (2, 3)])
def test_lines_and_dots_become_squares_too(size: tuple[int, int]) -> None:
    draw = np.random.default_rng(0)
    picture = Image.fromarray(draw.integers(0, 256, (size[1], size[0], 3), dtype=np.uint8))
    assert fill_square(picture, 32).shape == (32, 32, 3)
