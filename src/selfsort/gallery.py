"""The pictures of a run, by number: small ones for a page of many, large ones for a closer look; no torch."""

import io
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from selfsort.errors import DataError
from selfsort.images import Fit, ImageSet, fit_square, inside, load_images, load_picture, shrink
from selfsort.picture import as_picture

SMALL, LARGE, SMOOTH = 128, 1024, 64
"""Sides of the pictures; up to `SMOOTH` they are sent without loss."""

COLUMNS, CACHED = 10, 512
BLANK = 160
"""The grey of a picture whose file is gone."""


@dataclass(frozen=True)
class Picture:
    """An encoded picture."""

    content: bytes
    media_type: str


class Gallery(ABC):
    """Pictures by their number: many small ones on one sheet, which a browser decodes much faster than single ones."""

    pack: int
    """So many pictures go on a sheet; few where each has to be read from a file."""
    side: int
    """Of the small pictures."""

    def __init__(self) -> None:
        self._cached: Callable[[tuple[int, ...]], Picture] = lru_cache(CACHED)(self._sheet)

    def sheet(self, rows: Sequence[int]) -> Picture:
        """The small pictures of these images in rows of ten, each a square; the last few hundred sheets are kept."""
        return self._cached(tuple(rows))

    def _sheet(self, rows: tuple[int, ...]) -> Picture:
        side, n_columns = self.side, min(COLUMNS, len(rows))
        canvas = np.full((-(-len(rows) // n_columns) * side, n_columns * side, 3), BLANK, dtype=np.uint8)
        for place, row in enumerate(rows):
            top, left = place // n_columns * side, place % n_columns * side
            picture = self._draw(row, self.side, fit_square)
            if picture is not None:
                canvas[top : top + side, left : left + side] = picture
        return _encode(canvas, is_smooth=side > SMOOTH)

    def large(self, row: int) -> Picture | None:
        """A picture of up to 1024 pixels each way; None if its file is gone or broken by now."""
        pixels = self._draw(row, LARGE, shrink)
        return None if pixels is None else _encode(pixels, is_smooth=max(pixels.shape) > SMOOTH)

    @abstractmethod
    def _draw(self, row: int, side: int, fit: Fit) -> NDArray[np.uint8] | None: ...

    @abstractmethod
    def images(self, rows: NDArray[np.intp]) -> ImageSet:
        """These images as the network reads them."""


def _encode(pixels: NDArray[np.uint8], *, is_smooth: bool) -> Picture:
    picture, buffer = Image.fromarray(pixels), io.BytesIO()
    if is_smooth:
        picture.save(buffer, "JPEG", quality=85)
        return Picture(buffer.getvalue(), "image/jpeg")
    picture.save(buffer, "PNG", compress_level=1)
    return Picture(buffer.getvalue(), "image/png")


class ArrayGallery(Gallery):
    """Pictures of images that are in memory (or in a memory map)."""

    pack = 100

    def __init__(self, images: ImageSet) -> None:
        super().__init__()
        self._images = images
        self.side = min(SMALL, max(images.pixels.shape[2:]))

    def _draw(self, row: int, side: int, fit: Fit) -> NDArray[np.uint8]:
        return fit(np.asarray(as_picture(self._images, row)), side)

    def png(self, row: int) -> bytes:
        """An image without loss, in its own size."""
        return _encode(np.asarray(as_picture(self._images, row)), is_smooth=False).content

    def images(self, rows: NDArray[np.intp]) -> ImageSet:
        return self._images.take(rows)


class FolderGallery(Gallery):
    """Pictures of image files, each read when it is looked at."""

    pack, side = 10, SMALL

    def __init__(self, root: Path, names: Sequence[str], size: int) -> None:
        super().__init__()
        self.root, self.names, self.size = root, names, size

    def _draw(self, row: int, side: int, fit: Fit) -> NDArray[np.uint8] | None:
        try:
            return load_picture(inside(self.root, self.names[row]), side, fit)
        except DataError:
            return None

    def images(self, rows: NDArray[np.intp]) -> ImageSet:
        return load_images(self.root, size=self.size, names=[self.names[row] for row in rows])
