"""The pictures of a run by number: small ones on sheets, and large ones for a closer look."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from selfsort.data.folder import load_images
from selfsort.data.hearing import SIDE
from selfsort.data.image_set import ImageSet
from selfsort.data.pictures import as_picture, encode, natural_side, tile
from selfsort.data.pool import decode_files
from selfsort.data.sound import load_sounds
from selfsort.data.spectrogram import draw_spectrogram
from selfsort.data.worker import FITS, SOUND
from selfsort.errors import DataError
from selfsort.files import inside

SMALL = 128
LARGE = 1024
BIG = 512
SMOOTH = 64
"""Sides of the pictures; what is drawn is at most `BIG`. Up to `SMOOTH` they are sent without loss.
"""

COLUMNS = 10
MAX_PACK = 100
KEPT = 1000
"""Small pictures of files that are kept: 50 MB."""

SHEET_SECONDS = 0.15
"""A sheet should take about this long to draw."""


@dataclass(frozen=True)
class EncodedPicture:
    """A picture as a browser gets it."""

    content: bytes
    media_type: str


class Gallery(ABC):
    """Pictures by their number. Many small ones share a sheet: a browser decodes one sheet much
    faster than many files.
    """

    pack = MAX_PACK
    """How many pictures should go on a sheet for it to arrive quickly."""
    side: int
    fine_side: int
    """Sides of the small pictures, and of those for large thumbnails."""
    has_clips = False
    """Whether there are sounds to be played."""

    def sheet(self, rows: Sequence[int], *, is_fine: bool = False) -> EncodedPicture:
        """The small pictures of these images, ten in a row; with twice as many pixels each way if
        `is_fine`.
        """
        side = self.fine_side if is_fine else self.side
        squares = self._draw(rows, side, "square")
        sheet = tile(squares, count=len(rows), side=side, columns=COLUMNS)
        return _encode(sheet, is_smooth=side > SMOOTH)

    def large(self, row: int) -> EncodedPicture | None:
        """A picture of up to 1024 pixels each way; None if its file is gone or broken by now."""
        (pixels,) = self._draw((row,), LARGE, "shrink")
        if pixels is None:
            return None
        return _encode(Image.fromarray(pixels), is_smooth=max(pixels.shape) > SMOOTH)

    def clip(self, row: int) -> Path | None:
        """The file of a sound, to be played."""
        return None

    @abstractmethod
    def _draw(self, rows: Sequence[int], side: int, fit: str) -> Iterable[NDArray[np.uint8] | None]:
        """Each picture at a size, as one of `FITS` makes it; None if it is gone."""

    @abstractmethod
    def sizes(
        self, rows: Sequence[int], on_stage: Callable[[str, int, int], None]
    ) -> list[tuple[int, int]]:
        """Width and height of each of these images as they came, upright."""

    @abstractmethod
    def images(self, rows: NDArray[np.intp]) -> ImageSet:
        """These images as the network reads them."""


def _encode(picture: Image.Image, *, is_smooth: bool) -> EncodedPicture:
    if is_smooth:
        return EncodedPicture(encode(picture, "JPEG", quality=85), "image/jpeg")
    return EncodedPicture(encode(picture, "PNG", compress_level=1), "image/png")


class ArrayGallery(Gallery):
    """Pictures of images that are in memory (or in a memory map)."""

    def __init__(self, images: ImageSet) -> None:
        self._images = images
        self.side = min(SMALL, natural_side(images))
        self.fine_side = min(2 * SMALL, natural_side(images))

    def _draw(self, rows: Sequence[int], side: int, fit: str) -> Iterable[NDArray[np.uint8]]:
        return (FITS[fit](as_picture(self._images, row, min(side, BIG)), side) for row in rows)

    def png(self, row: int) -> bytes:
        """An image without loss, in its own size."""
        return encode(as_picture(self._images, row).convert("RGB"), "PNG", compress_level=1)

    def sizes(
        self, rows: Sequence[int], on_stage: Callable[[str, int, int], None]
    ) -> list[tuple[int, int]]:
        return [as_picture(self._images, row).size for row in rows[:1]] * len(rows)

    def images(self, rows: NDArray[np.intp]) -> ImageSet:
        return self._images.take(rows)


class FolderGallery(Gallery):
    """Pictures of image files, each read when it is looked at."""

    pack = 20
    side = SMALL
    fine_side = 2 * SMALL

    def __init__(self, root: Path, names: Sequence[str], size: int) -> None:
        self.root = root
        self.names = names
        self.size = size
        self._kept: dict[int, NDArray[np.uint8]] = {}
        self._turn = Lock()

    def _draw(self, rows: Sequence[int], side: int, fit: str) -> Iterable[NDArray[np.uint8] | None]:
        is_small = side == self.side and fit == "square"
        known = {row: self._kept.get(row) if is_small else None for row in rows}
        missing = [row for row, pixels in known.items() if pixels is None]
        begin = time.perf_counter()
        answers = self._decode([self._file(row) for row in missing], side, fit)
        known |= dict(zip(missing, answers, strict=True))
        if is_small and missing:  # large photographs take longer, so fewer go on a sheet
            fitting = SHEET_SECONDS * len(missing) / max(time.perf_counter() - begin, 1e-6)
            self.pack = max(5, min(MAX_PACK, round(0.5 * self.pack + 0.5 * fitting)))
            self._keep({row: pixels for row in missing if (pixels := known[row]) is not None})
        return [known[row] for row in rows]

    def _decode(
        self, files: Sequence[Path], side: int, fit: str
    ) -> Iterator[NDArray[np.uint8] | None]:
        for answer in decode_files(files, side, fit=fit):
            yield None if isinstance(answer, DataError) else answer.pixels

    def _keep(self, pictures: Mapping[int, NDArray[np.uint8]]) -> None:
        """The latest small pictures: those that stand for a cluster are asked for often."""
        with self._turn:
            self._kept.update(pictures)
            for row in list(self._kept)[:-KEPT]:
                del self._kept[row]

    def _file(self, row: int) -> Path:
        try:
            return inside(self.root, self.names[row])
        except DataError:
            return self.root  # which is no image

    def sizes(
        self, rows: Sequence[int], on_stage: Callable[[str, int, int], None]
    ) -> list[tuple[int, int]]:
        found = []
        for answer in decode_files([self._file(row) for row in rows], SMALL, fit="shrink"):
            if isinstance(answer, DataError):
                raise answer
            size = (answer.width, answer.height)
            height, width = answer.pixels.shape[:2]
            is_turned = (height > width) != (answer.height > answer.width) and height != width
            found.append(size[::-1] if is_turned else size)
            on_stage("measuring", len(found), len(rows))
        return found

    def images(self, rows: NDArray[np.intp]) -> ImageSet:
        return load_images(self.root, size=self.size, names=[self.names[row] for row in rows])


class SoundGallery(FolderGallery):
    """Spectrograms of sound files, each heard when it is looked at; the files can be played."""

    has_clips = True

    def _decode(
        self, files: Sequence[Path], side: int, fit: str
    ) -> Iterator[NDArray[np.uint8] | None]:
        for answer in decode_files(files, SIDE, fit=SOUND):
            if isinstance(answer, DataError):
                yield None
            else:
                picture = draw_spectrogram(answer.pixels[:, :, 0], min(side, BIG))
                yield FITS[fit](picture, side)

    def clip(self, row: int) -> Path | None:
        """Nothing that a link leads to outside of the folder."""
        file = self._file(row)
        return file if file.resolve().is_relative_to(self.root.resolve()) else None

    def sizes(
        self, rows: Sequence[int], on_stage: Callable[[str, int, int], None]
    ) -> list[tuple[int, int]]:
        return [(SIDE, SIDE)] * len(rows)

    def images(self, rows: NDArray[np.intp]) -> ImageSet:
        return load_sounds(str(self.root), names=[self.names[row] for row in rows])
