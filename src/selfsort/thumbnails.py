"""Small pictures of images for pages: single ones, and sprite sheets of many."""

import base64
import io
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from selfsort.errors import DataError
from selfsort.images import ImageSet, load_images
from selfsort.picture import as_picture

COLUMNS = 32
SHEET_STEPS = ((32, None), (32, 80), (32, 50), (24, 50), (16, 40), (16, 10))
"""Side of a sprite and quality of its sheet (none: lossless, for grey ones only); the first that fits the budget is taken."""


class SpriteSheets(NamedTuple):
    """WebP pictures of `columns` × `columns` squares; image number i is square i % columns² of sheet i // columns²."""

    sheets: list[bytes]
    side: int
    columns: int = COLUMNS


def sharp_picture(images: ImageSet, index: int, side: int) -> Image.Image:
    """One image, at most `side` wide and high; from its file if there is one, which shows more than the network saw."""
    if images.root is not None:
        try:
            file = load_images(images.root / images.names[index], size=side)
        except DataError:  # gone since it was read
            pass
        else:
            return as_picture(file, 0)
    picture = as_picture(images, index)
    picture.thumbnail((side, side), Image.Resampling.BOX)
    return picture


def sprite_sheets(images: ImageSet, rows: NDArray[np.integer[Any]], *, max_bytes: int) -> SpriteSheets:
    """Square pictures of these rows, as good as `max_bytes` allow."""
    largest = max(images.pixels.shape[2:])
    sheets: list[bytes] = []
    side = 0
    for max_side, quality in SHEET_STEPS if images.pixels.shape[1] < 3 else SHEET_STEPS[1:]:
        side, sheets = min(largest, max_side), []
        for start in range(0, len(rows), COLUMNS**2):
            sheets.append(_sheet(images, rows[start : start + COLUMNS**2], side, quality))
            if sum(map(len, sheets)) > max_bytes:
                break
        else:
            break
    return SpriteSheets(sheets, side)


def _sheet(images: ImageSet, rows: NDArray[np.integer[Any]], side: int, quality: int | None) -> bytes:
    is_grey = images.pixels.shape[1] < 3
    height = -(-len(rows) // COLUMNS)
    sheet = Image.new("L" if is_grey else "RGB", (min(len(rows), COLUMNS) * side, height * side), "white")
    for number, row in enumerate(rows):
        picture = as_picture(images, int(row))
        picture.thumbnail((side, side), Image.Resampling.BOX)
        left, top = number % COLUMNS * side, number // COLUMNS * side
        sheet.paste(picture, (left + (side - picture.width) // 2, top + (side - picture.height) // 2))
    return _encoded(sheet, "WEBP", **({"lossless": True} if quality is None else {"quality": quality}))


def data_uri(picture: Image.Image) -> str:
    """A picture as a `data:` address: small ones without loss, photographs as WebP."""
    if picture.mode == "L" or max(picture.size) <= 32:
        return "data:image/png;base64," + base64.b64encode(_encoded(picture, "PNG", optimize=True)).decode()
    return "data:image/webp;base64," + base64.b64encode(_encoded(picture, "WEBP", quality=80)).decode()


def _encoded(picture: Image.Image, kind: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, kind, **options)
    return buffer.getvalue()
