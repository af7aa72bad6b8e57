"""Pictures of images: `clusters.png`, single ones, and sprite sheets of many for the pages."""

import base64
import io
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from selfsort.data.decode import fit_square
from selfsort.data.image_set import ImageSet
from selfsort.data.lines import MOST_LINES, draw_group, draw_series
from selfsort.data.pool import decode_file
from selfsort.data.spectrogram import draw_spectrogram
from selfsort.errors import DataError
from selfsort.text import things

CELL = 44
GAP = 3
MARGIN = 118
MAX_ROWS = 256
INK = (20, 20, 20)
PAPER = (255, 255, 255)
GREY = (120, 120, 120)
LARGE = 256
"""Side of what is drawn, unless another is asked for."""

OF_PIXELS = ("images", "features")
"""Modalities that are shown by pixels and not drawn."""

MOST_MEANT = 1000
"""Sounds that the mean of a cluster is taken over, at most."""

BLANK = 160
"""The grey of a picture whose file is gone."""

COLUMNS = 32
SHEET_STEPS = ((32, None), (32, 80), (32, 50), (24, 50), (16, 40), (16, 10))
"""Sides of a sprite and qualities of its sheet (None: lossless, for grey images only). The first
that fits the budget is used.
"""


def most_typical(
    labels: NDArray[np.int64], confidence: NDArray[np.float32], cluster: int, count: int
) -> NDArray[np.intp]:
    """The images of a cluster that belong to it most clearly, the clearest first."""
    members = np.flatnonzero(labels == cluster)
    return members[np.argsort(-confidence[members], kind="stable")[:count]]


def render_clusters(
    images: ImageSet,
    labels: NDArray[np.int64],
    confidence: NDArray[np.float32],
    n_clusters: int,
    *,
    per_row: int = 16,
) -> bytes:
    """A PNG picture with one row per cluster (the largest 256): its number, its size and its most
    typical images.
    """
    step = CELL + GAP
    n_rows = min(n_clusters, MAX_ROWS)
    canvas = Image.new("RGB", (MARGIN + per_row * step + GAP, n_rows * step + GAP), PAPER)
    draw = ImageDraw.Draw(canvas)
    large = ImageFont.load_default(16)
    small = ImageFont.load_default(12)
    for cluster in range(n_rows):
        top = GAP + cluster * step
        size = int((labels == cluster).sum())
        draw.text((8, top + 3), f"cluster {cluster}", fill=INK, font=large)
        draw.text((8, top + 24), things(size, images.modality), fill=GREY, font=small)
        for column, index in enumerate(most_typical(labels, confidence, cluster, per_row)):
            canvas.paste(thumbnail(images, int(index)), (MARGIN + column * step, top))
    return encode(canvas, "PNG")


def as_picture(images: ImageSet, index: int, side: int = LARGE) -> Image.Image:
    """One image as it is (grey stays grey, more than three channels show the first three), or
    something else drawn with this side.
    """
    return DRAWN[images.modality](images, index, side)


def _pixels_as_picture(images: ImageSet, index: int, side: int) -> Image.Image:
    pixels: NDArray[Any] = np.asarray(images.pixels[index], dtype=np.float32)
    scaled = np.clip((pixels - images.low) / max(images.high - images.low, 1e-12), 0, 1) * 255
    values = scaled.round().astype(np.uint8)
    return Image.fromarray(
        np.ascontiguousarray(np.moveaxis(values[:3], 0, 2)) if len(values) >= 3 else values[0]
    )


def natural_side(images: ImageSet) -> int:
    """The side at which they show all they have."""
    return max(images.pixels.shape[2:]) if images.modality in OF_PIXELS else LARGE


DRAWN: dict[str, Callable[[ImageSet, int, int], Image.Image]] = {
    "images": _pixels_as_picture,
    "features": _pixels_as_picture,
    "series": lambda series, index, side: draw_series(series.pixels[index], side),
    "sounds": lambda sounds, index, side: draw_spectrogram(sounds.pixels[index, 0], side),
}
"""How one thing of a modality becomes a picture."""


def group_picture(
    images: ImageSet, rows: NDArray[np.integer[Any]], side: int
) -> Image.Image | None:
    """The things of a cluster over each other, or their mean, where that shows something; None for
    images.
    """
    if images.modality in OF_PIXELS or not len(rows):
        return None
    if images.modality == "sounds":
        mean = images.read(rows[:MOST_MEANT]).mean(axis=(0, 1)).round().astype(np.uint8)
        return draw_spectrogram(mean, side)
    return draw_group(images.read(rows[:MOST_LINES]), side)


def thumbnail(images: ImageSet, index: int, side: int = CELL) -> Image.Image:
    """One image as a square RGB picture."""
    return Image.fromarray(square_pixels(images, index, side))


def square_pixels(images: ImageSet, index: int, side: int) -> NDArray[np.uint8]:
    """One image as (side, side, 3) bytes."""
    return fit_square(as_picture(images, index, side), side)


def tile(
    squares: Iterable[NDArray[np.uint8] | None], *, count: int, side: int, columns: int
) -> Image.Image:
    """A sheet of `count` squares, `columns` in a row; where there is none it stays grey."""
    width = min(columns, count)
    height = -(-count // width)
    sheet = np.full((height * side, width * side, 3), BLANK, dtype=np.uint8)
    for place, square in enumerate(squares):
        top = place // width * side
        left = place % width * side
        if square is not None:
            sheet[top : top + side, left : left + side] = square
    return Image.fromarray(sheet)


class SpriteSheets(NamedTuple):
    """WebP pictures of `columns` × `columns` squares; image number i is square i % columns² of
    sheet i // columns².
    """

    sheets: list[bytes]
    side: int
    columns: int = COLUMNS


def sharp_picture(images: ImageSet, index: int, side: int) -> Image.Image:
    """One image, at most `side` wide and high. Its file, if there is one, shows more than the
    network saw.
    """
    if images.root is not None and images.modality in OF_PIXELS:
        try:
            file = decode_file(images.root / images.names[index], side)
        except DataError:  # gone since it was read
            pass
        else:
            return Image.fromarray(file.pixels).convert("L" if file.is_grey else "RGB")
    picture = as_picture(images, index, side)
    picture.thumbnail((side, side), Image.Resampling.BOX)
    return picture


def sprite_sheets(
    images: ImageSet, rows: NDArray[np.integer[Any]], *, max_bytes: int
) -> SpriteSheets:
    """Square pictures of these rows, as good as `max_bytes` allow."""
    largest = natural_side(images)
    is_grey = images.modality in OF_PIXELS and images.pixels.shape[1] < 3
    sheets: list[bytes] = []
    side = 0
    for max_side, quality in SHEET_STEPS if is_grey else SHEET_STEPS[1:]:
        side = min(largest, max_side)
        options = {"lossless": True} if quality is None else {"quality": quality}
        sheets = []
        for start in range(0, len(rows), COLUMNS**2):
            part = rows[start : start + COLUMNS**2]
            squares = (square_pixels(images, int(row), side) for row in part)
            sheet = tile(squares, count=len(part), side=side, columns=COLUMNS)
            sheets.append(encode(sheet, "WEBP", **options))
            if sum(map(len, sheets)) > max_bytes:
                break
        else:
            break
    return SpriteSheets(sheets, side)


def data_uri(picture: Image.Image) -> str:
    """A picture as a `data:` address: small ones without loss, photographs as WebP."""
    if picture.mode == "L" or max(picture.size) <= 32:
        kind = "png"
        content = encode(picture, "PNG", optimize=True)
    else:
        kind = "webp"
        content = encode(picture, "WEBP", quality=80)
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"


def encode(picture: Image.Image, kind: str, **options: Any) -> bytes:
    """A picture as the content of a file of one of Pillow's kinds."""
    buffer = io.BytesIO()
    picture.save(buffer, kind, **options)
    return buffer.getvalue()
