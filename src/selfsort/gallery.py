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
from selfsort.images import ImageSet, inside, load_images, load_picture
from selfsort.picture import as_picture

SMALL, LARGE, SMOOTH = 128, 1024, 64
"""Sides of the pictures; up to `SMOOTH` they are sent without loss."""

CACHED = 8192


@dataclass(frozen=True)
class Picture:
    """An encoded picture."""

    content: bytes
    media_type: str


class Gallery(ABC):
    """Pictures by their number; the last few thousand small ones are kept."""

    is_fast: bool

    def __init__(self) -> None:
        self.small: Callable[[int], Picture | None] = lru_cache(CACHED)(lambda index: self._encode(index, SMALL))

    def large(self, index: int) -> Picture | None:
        """A picture of up to 1024 pixels each way; None if the file is gone or broken by now."""
        return self._encode(index, LARGE)

    def _encode(self, index: int, side: int) -> Picture | None:
        picture = self._draw(index, side)
        if picture is None:
            return None
        buffer = io.BytesIO()
        if max(picture.size) <= SMOOTH:
            picture.save(buffer, "PNG", compress_level=1)
            return Picture(buffer.getvalue(), "image/png")
        picture.save(buffer, "JPEG", quality=85)
        return Picture(buffer.getvalue(), "image/jpeg")

    @abstractmethod
    def _draw(self, index: int, side: int) -> Image.Image | None: ...

    @abstractmethod
    def images(self, rows: NDArray[np.intp]) -> ImageSet:
        """These images as the network reads them."""


class ArrayGallery(Gallery):
    """Pictures of images that are in memory (or in a memory map)."""

    is_fast = True

    def __init__(self, images: ImageSet) -> None:
        super().__init__()
        self._images = images

    def _draw(self, index: int, side: int) -> Image.Image:
        picture = as_picture(self._images, index)
        picture.thumbnail((side, side))
        return picture

    def png(self, index: int) -> bytes:
        """An image without loss, in its own size."""
        buffer = io.BytesIO()
        as_picture(self._images, index).save(buffer, "PNG")
        return buffer.getvalue()

    def images(self, rows: NDArray[np.intp]) -> ImageSet:
        return self._images.take(rows)


class FolderGallery(Gallery):
    """Pictures of image files, each read when it is looked at."""

    is_fast = False

    def __init__(self, root: Path, names: Sequence[str], size: int) -> None:
        super().__init__()
        self.root, self.names, self.size = root, names, size

    def file(self, index: int) -> Path:
        """The original file."""
        return inside(self.root, self.names[index])

    def _draw(self, index: int, side: int) -> Image.Image | None:
        try:
            return load_picture(self.file(index), side)
        except DataError:
            return None

    def images(self, rows: NDArray[np.intp]) -> ImageSet:
        return load_images(self.root, size=self.size, names=[self.names[row] for row in rows])
