"""The picture shows the most typical images of each cluster."""

import io

import numpy as np
import pytest
from PIL import Image

from selfsort.data.image_set import as_image_set
from selfsort.data.pictures import (
    CELL,
    GAP,
    MARGIN,
    MAX_ROWS,
    most_typical,
    render_clusters,
    thumbnail,
)

STEP = CELL + GAP


def test_the_most_typical_come_first_and_only_from_the_cluster() -> None:
    labels, confidence = np.array([0, 1, 0, 0]), np.array([0.1, 1.0, 0.9, 0.9], dtype=np.float32)
    assert most_typical(labels, confidence, 0, 2).tolist() == [2, 3]
    assert most_typical(labels, confidence, 2, 2).tolist() == []


def test_each_row_shows_its_cluster() -> None:
    greys = np.array([10, 60, 110, 160, 210], dtype=np.uint8)
    images = as_image_set(np.repeat(greys, 64).reshape(-1, 8, 8))
    labels, confidence = (
        np.array([0, 1, 0, 1, 0]),
        np.array([0.1, 0.2, 0.3, 0.4, 0.5], dtype=np.float32),
    )
    picture = np.asarray(
        Image.open(io.BytesIO(render_clusters(images, labels, confidence, 3, per_row=4)))
    )
    assert picture.shape == (3 * STEP + GAP, MARGIN + 4 * STEP + GAP, 3)
    middles = picture[GAP + CELL // 2 :: STEP, MARGIN + CELL // 2 :: STEP]
    assert middles[..., 0].tolist() == [[210, 110, 10, 255], [160, 60, 255, 255], [255] * 4]


@pytest.mark.parametrize(
    ("channels", "colour"),
    [(1, (255,) * 3), (2, (255,) * 3), (3, (255, 128, 128)), (4, (255, 128, 128))],
)
def test_thumbnails_of_any_channels_and_shape(channels: int, colour: tuple[int, ...]) -> None:
    pixels = np.zeros((1, channels, 10, 20))  # 0 lies halfway from -7 to 7
    pixels[:, 0] = 7.0
    pixels[0, -1, 0, 0] = -7.0
    small = thumbnail(as_image_set(pixels), 0, side=20)
    assert small.size == (20, 20)
    assert small.getpixel((10, 10)) == colour
    padding = small.getpixel((10, 2))
    assert isinstance(padding, tuple)
    assert np.abs(np.subtract(padding, colour)).max() <= 10, "the mean colour of the border"


def test_many_clusters_do_not_make_an_endless_picture() -> None:
    images = as_image_set(np.zeros((1, 8, 8), dtype=np.uint8))
    content = render_clusters(
        images, np.zeros(1, dtype=np.int64), np.ones(1, dtype=np.float32), 10**6
    )
    assert Image.open(io.BytesIO(content)).height == MAX_ROWS * STEP + GAP
