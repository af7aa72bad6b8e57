"""The pictures of a run, by number: small ones for a page of many, large ones for a closer look; no torch."""

import io
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from selfsort.decoding import Fit, fit_square, load_picture, shrink
from selfsort.errors import DataError
from selfsort.files import inside
from selfsort.images import ImageSet, load_images
from selfsort.picture import as_picture

SMALL, LARGE, SMOOTH = 128, 1024, 64
"""Sides of the pictures; up to `SMOOTH` they are sent without loss."""

COLUMNS, MAX_PACK, CACHED = 10, 100, 256
SHEET_SECONDS = 0.15
BLANK = 160
"""The grey of a picture whose file is gone."""


@dataclass(frozen=True)
class Picture:
    """An encoded picture."""

    content: bytes
    media_type: str


class Gallery(ABC):
    """Pictures by their number: many small ones on one sheet, which a browser decodes much faster than single ones."""

    pack = MAX_PACK
    """So many pictures should go on a sheet, for it to come soon."""
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
        for place, picture in enumerate(self._draw_all(rows)):
            top, left = place // n_columns * side, place % n_columns * side
            if picture is not None:
                canvas[top : top + side, left : left + side] = picture
        return _encode(canvas, is_smooth=side > SMOOTH)

    def large(self, row: int) -> Picture | None:
        """A picture of up to 1024 pixels each way; None if its file is gone or broken by now."""
        pixels = self._draw(row, LARGE, shrink)
        return None if pixels is None else _encode(pixels, is_smooth=max(pixels.shape) > SMOOTH)

    def _draw_all(self, rows: tuple[int, ...]) -> Iterable[NDArray[np.uint8] | None]:
        return (self._draw(row, self.side, fit_square) for row in rows)

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

    def __init__(self, images: ImageSet) -> None:
        super().__init__()
        self._images = images
        self.side = min(SMALL, max(images.pixels.shape[2:]))

    def _draw(self, row: int, side: int, fit: Fit) -> NDArray[np.uint8]:
        return fit(np.asarray(as_picture(self._images, row).convert("RGB")), side)

    def png(self, row: int) -> bytes:
        """An image without loss, in its own size."""
        return _encode(np.asarray(as_picture(self._images, row).convert("RGB")), is_smooth=False).content

    def images(self, rows: NDArray[np.intp]) -> ImageSet:
        return self._images.take(rows)


class FolderGallery(Gallery):
    """Pictures of image files, each read when it is looked at."""

    pack, side = 20, SMALL

    def __init__(self, root: Path, names: Sequence[str], size: int) -> None:
        super().__init__()
        self.root, self.names, self.size = root, names, size
        self._pool = ThreadPoolExecutor(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None)

    def _draw_all(self, rows: tuple[int, ...]) -> Iterable[NDArray[np.uint8] | None]:
        begin = time.perf_counter()
        pictures = list(self._pool.map(lambda row: self._draw(row, self.side, fit_square), rows))
        fitting = SHEET_SECONDS * len(rows) / max(time.perf_counter() - begin, 1e-6)
        self.pack = max(5, min(MAX_PACK, round(0.5 * self.pack + 0.5 * fitting)))  # large photographs take longer
        return pictures

    def _draw(self, row: int, side: int, fit: Fit) -> NDArray[np.uint8] | None:
        try:
            return load_picture(inside(self.root, self.names[row]), side, fit)
        except DataError:
            return None

    def images(self, rows: NDArray[np.intp]) -> ImageSet:
        return load_images(self.root, size=self.size, names=[self.names[row] for row in rows])
