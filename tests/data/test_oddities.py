"""Copies, blank, dark and blurred images are found, and nothing else is."""

import numpy as np
import pytest
from PIL import Image, ImageFilter

from selfsort.data.image_set import ImageSet, as_image_set
from selfsort.data.oddities import Oddities, drop_copies, find_oddities, warn_of


def photographs(count: int, side: int = 64) -> list[Image.Image]:
    """Different parts of a real photograph."""
    from sklearn.datasets import load_sample_image

    whole = load_sample_image("china.jpg")
    draw = np.random.default_rng(0)
    tops = draw.integers(0, whole.shape[0] - 2 * side, count)
    lefts = draw.permutation(np.linspace(0, whole.shape[1] - 2 * side, count).astype(int))
    return [
        Image.fromarray(whole[top : top + 2 * side, left : left + 2 * side]).resize((side, side))
        for top, left in zip(tops, lefts, strict=True)
    ]


def as_set(pictures: list[Image.Image]) -> ImageSet:
    return as_image_set(np.stack([np.asarray(picture) for picture in pictures]))


def test_what_is_odd_is_found_and_nothing_else() -> None:
    good = photographs(20)
    assert find_oddities(as_set(good)) == Oddities()
    smaller = good[3].resize((32, 32)).resize((64, 64))
    odd = [
        good[0],
        good[5],
        good[0],
        smaller,
        Image.new("RGB", (64, 64), (90, 90, 90)),
        good[2].point(lambda value: value // 6),
        good[9].filter(ImageFilter.GaussianBlur(4)),
    ]
    found = find_oddities(as_set(good + odd))
    assert found.identical == [[0, 20, 22], [5, 21]]
    assert [3, 23] in found.similar
    assert (found.blank, found.dark, found.blurred) == ([24], [25], [26])
    assert found.copies() | {25: 2, 26: 9} == {20: 0, 22: 0, 21: 5, 23: 3, 25: 2, 26: 9}
    assert "3 identical to another image" in found.describe()


def test_copies_can_be_dropped_and_are_named() -> None:
    good = photographs(6)
    images = drop_copies(as_set([good[0], *good, good[2]]))
    assert list(images.names) == ["0", "2", "3", "4", "5", "6"]
    assert images.dropped == {"1": "0", "7": "3"}
    assert drop_copies(images) is images


def test_small_marks_are_only_compared_exactly(digits: np.ndarray) -> None:
    assert find_oddities(as_image_set(digits)) == Oddities()
    found = find_oddities(as_image_set(np.concatenate([digits[:9], digits[:1], digits[:1] * 0])))
    assert found == Oddities(identical=[[0, 9]], blank=[10])


def test_a_set_of_copies_is_called_so() -> None:
    (picture,) = photographs(1)
    same = find_oddities(as_set([picture] * 60))
    assert warn_of(same, 60)["copies"].startswith("all 60 images are identical")
    some = find_oddities(as_set([picture] * 5 + photographs(6)))
    assert "4 of 11 images are copies of others; `drop" in warn_of(some, 11)["copies"]
    assert warn_of(Oddities(), 60) == {}


@pytest.mark.parametrize("rows", [["a"], [0.5], [[1]]])
def test_forged_oddities_are_refused(rows: list[object]) -> None:
    with pytest.raises(ValueError, match="blank"):
        Oddities(blank=rows)  # type: ignore[arg-type]
