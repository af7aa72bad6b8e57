"""Small pictures show what the images are."""

import base64
import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from selfsort.data.folder import load_images
from selfsort.data.image_set import as_image_set
from selfsort.data.pictures import COLUMNS, as_picture, data_uri, sharp_picture, sprite_sheets


@pytest.mark.parametrize(("channels", "mode"), [(1, "L"), (2, "L"), (3, "RGB"), (4, "RGB")])
def test_grey_stays_grey(channels: int, mode: str) -> None:
    pixels = np.full((1, channels, 10, 20), 128, dtype=np.uint8)
    picture = as_picture(as_image_set(pixels), 0)
    assert (picture.mode, picture.size) == (mode, (20, 10))
    assert set(np.asarray(picture).ravel()) == {128}


def test_a_file_is_shown_sharper_than_the_network_saw_it(tmp_path: Path) -> None:
    stripes = np.tile(np.array([0, 255], dtype=np.uint8), (200, 100))
    Image.fromarray(stripes.repeat(2, axis=1)[:, :200]).save(tmp_path / "a.png")
    images = load_images(tmp_path, size=8)
    assert sharp_picture(images, 0, 96).size == (96, 96)
    (tmp_path / "a.png").unlink()
    assert sharp_picture(images, 0, 96).size == (8, 8)


def test_large_arrays_are_reduced() -> None:
    assert sharp_picture(as_image_set(np.zeros((1, 200, 300), dtype=np.uint8)), 0, 96).size == (
        96,
        64,
    )


def test_every_sprite_is_where_it_should_be() -> None:
    greys = np.arange(1100) % 251
    images = as_image_set(np.broadcast_to(greys[:, None, None], (1100, 8, 8)).astype(np.uint8))
    rows = np.arange(0, 1100)[::-1].copy()
    found = sprite_sheets(images, rows, max_bytes=10**6)
    assert (len(found.sheets), found.side, found.columns) == (2, 8, COLUMNS)
    sheets = [np.asarray(Image.open(io.BytesIO(sheet)).convert("L")) for sheet in found.sheets]
    for place, row in enumerate(rows):
        sheet, cell = divmod(place, COLUMNS**2)
        assert sheets[sheet][cell // COLUMNS * 8 + 4, cell % COLUMNS * 8 + 4] == greys[row]


def test_sheets_keep_to_their_budget() -> None:
    noise = np.random.default_rng(0).integers(0, 256, (400, 3, 40, 40), dtype=np.uint8)
    images, rows = as_image_set(noise), np.arange(400)
    good, small = (
        sprite_sheets(images, rows, max_bytes=10**7),
        sprite_sheets(images, rows, max_bytes=10**5),
    )
    assert good.side == 32
    assert sum(map(len, good.sheets)) > 10**5 >= sum(map(len, small.sheets))


def test_a_picture_as_an_address() -> None:
    for picture in (Image.new("L", (8, 8), 7), Image.new("RGB", (90, 90), (255, 0, 0))):
        kind, _, content = data_uri(picture).partition(";base64,")
        with Image.open(io.BytesIO(base64.b64decode(content))) as again:
            assert f"data:image/{(again.format or '').lower()}" == kind
            assert again.size == picture.size
