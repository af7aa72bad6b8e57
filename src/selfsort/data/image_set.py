"""`ImageSet`: images of one size with their names, from an array."""

import math
import mmap
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, overload

import numpy as np
from numpy.typing import NDArray

from selfsort.data.taught import Teaching
from selfsort.errors import DataError

MAX_CHUNK = 4096
CHUNK_BYTES = 2**25

MAX_PIXEL = 1e37
"""Larger numbers overflow 32 bits when they are scaled."""


@dataclass(frozen=True)
class ImageSet:
    """Images of one size, (n, channel, height, width), as they came, with a name each and truth if
    it is known.

    `low` and `high` are the pixel values that mean 0 and 1. `pixels` may be a memory map and is
    never converted whole. `modality` says which kind of data the method meets here.
    """

    modality: ClassVar[str] = "images"
    pixels: NDArray[Any]
    low: float
    high: float
    names: Sequence[str]
    truth: NDArray[np.int64] | None = None
    truth_names: Sequence[str] = ()
    source: str = "array"
    root: Path | None = None
    skipped: Mapping[str, str] = field(default_factory=dict)
    """Files that could not be read, each with the reason."""
    notes: Sequence[str] = ()
    """What has become of the files, for people."""
    columns: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """What a table said of each image."""
    dropped: Mapping[str, str] = field(default_factory=dict)
    """Images that were left out as copies, each with the one that was kept."""
    taught: Teaching | None = None
    """What somebody knows of some of them."""

    def __len__(self) -> int:
        return len(self.pixels)

    @property
    def is_typed(self) -> bool:
        """Whether the type of the pixels says what white is, so that their values need not."""
        return is_typed(self.pixels.dtype)

    def fingerprint(self) -> int:
        """A checksum of a few images spread over the set, to tell it from another one of the same
        shape.
        """
        rows = np.linspace(0, len(self) - 1, min(len(self), 64)).astype(int)
        return zlib.crc32(self.read(rows).tobytes())

    def read(self, rows: slice | NDArray[np.integer[Any]]) -> NDArray[Any]:
        """A copy of these rows' pixels; of a memory map no more than this stays in memory."""
        pixels = np.array(self.pixels[rows], order="C")
        _release(self.pixels)
        return pixels

    def take(self, rows: NDArray[np.integer[Any]]) -> "ImageSet":
        """The images of these rows only."""
        return replace(
            self,
            pixels=self.read(rows),
            names=[self.names[row] for row in rows],
            truth=self.truth[rows] if self.truth is not None else None,
            columns={name: [values[row] for row in rows] for name, values in self.columns.items()},
            taught=self.taught and self.taught.take(rows),
        )


class Numbers(Sequence[str]):
    """ "0", "1", … as names, made when they are asked for: as a list those of a large array would
    take more room than it.

    >>> list(Numbers(3)), Numbers(10**9)[-1]
    (['0', '1', '2'], '999999999')
    """

    def __init__(self, length: int) -> None:
        self.range = range(length)

    def __len__(self) -> int:
        return len(self.range)

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> list[str]: ...

    def __getitem__(self, index: int | slice) -> str | list[str]:
        return (
            [str(number) for number in self.range[index]]
            if isinstance(index, slice)
            else str(self.range[index])
        )


def sample_rows(n_samples: int, n_wanted: int, seed: int) -> NDArray[np.int64]:
    """At most `n_wanted` rows, drawn by `seed`, ascending."""
    return np.sort(np.random.default_rng(seed).permutation(n_samples)[:n_wanted])


def _release(pixels: NDArray[Any]) -> None:
    """Give the pages of a memory map back to the system, which keeps them cached as long as it has
    room.

    Not those of a map that somebody may write to: what was written would be lost if it is in no
    file.
    """
    base: Any = pixels
    while isinstance(base, np.ndarray) and not base.flags.writeable:
        base = base.base
    if isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        base.madvise(mmap.MADV_DONTNEED)


def as_image_set(
    array: Any,
    *,
    truth: Any = None,
    names: Sequence[str] | None = None,
    source: str = "array",
    image_shape: Sequence[int] | None = None,
) -> ImageSet:
    """Arrays of shape (n,h,w), (n,h,w,c) or (n,c,h,w), integers or floats, as an `ImageSet`;
    `image_shape` says which images the rows of a table (n,values) are.

    >>> as_image_set(np.zeros((5, 16, 16, 3), dtype=np.uint8)).pixels.shape
    (5, 3, 16, 16)
    """
    pixels = np.asanyarray(array)
    if pixels.dtype.kind not in "buif":
        raise DataError(
            f"{source}: pixels of type {pixels.dtype} should be integers, floats or booleans."
        )
    if pixels.ndim == 2:
        pixels = _rows_to_images(pixels, image_shape, source)
    if pixels.ndim == 3 and pixels.shape[2] in (3, 4) and min(pixels.shape[:2]) > 4:
        raise DataError(
            f"{source}: shape {pixels.shape} looks like one image in colour; for a set of one give "
            "X[None], shape (1,h,w,c)."
        )
    if pixels.ndim == 3:
        pixels = pixels[:, None]
    elif pixels.ndim == 4:
        pixels = _channels_first(pixels, source)
    else:
        raise DataError(
            f"{source}: shape {pixels.shape} should be (n,h,w), (n,h,w,c) or (n,c,h,w)."
        )
    if 0 in pixels.shape:
        raise DataError(f"{source}: shape {np.shape(array)} holds no images.")
    low, high = _pixel_range(pixels, source)
    truth_names: Sequence[str] = ()
    if truth is not None:
        truth = np.asarray(truth)
        if truth.dtype.kind not in "buifU" or truth.shape not in ((len(pixels),), (len(pixels), 1)):
            raise DataError(
                f"{source}: truth of shape {truth.shape} and type {truth.dtype} should be one "
                "number or text for each of "
                f"{len(pixels)} images."
            )
        values, truth = np.unique(truth.ravel(), return_inverse=True)
        truth_names = [str(value) for value in values]
    return ImageSet(pixels, low, high, names or Numbers(len(pixels)), truth, truth_names, source)


def _channels_first(pixels: NDArray[Any], source: str) -> NDArray[Any]:
    first, height, width, last = pixels.shape[1], pixels.shape[1], pixels.shape[2], pixels.shape[3]
    if first <= 4 and not (last <= 4 and height == width):
        return pixels
    if last <= 4 or (height == width and width != last):
        return np.moveaxis(pixels, 3, 1)
    if width == last:
        return pixels
    raise DataError(
        f"{source}: shape {pixels.shape} should be (n,h,w,c) or (n,c,h,w); which axis is the "
        "channel is unclear."
    )


def _pixel_range(pixels: NDArray[Any], source: str) -> tuple[float, float]:
    if pixels.dtype.kind == "b":
        return 0.0, 1.0
    if is_typed(pixels.dtype):
        return 0.0, float(np.iinfo(pixels.dtype).max)
    low = math.inf
    high = -math.inf
    first = 0
    for chunk in chunks(pixels):
        if not np.isfinite(chunk).all():
            row = first + int(np.argmin(np.isfinite(chunk).reshape(len(chunk), -1).all(axis=1)))
            raise DataError(
                f"{source}: NaN or infinity in image {row}; remove or replace such pixels "
                "(numpy.nan_to_num)."
            )
        low = min(low, float(chunk.min()))
        high = max(high, float(chunk.max()))
        first += len(chunk)
        _release(pixels)
    if max(-low, high) > MAX_PIXEL:
        raise DataError(
            f"{source}: pixels between {low:g} and {high:g} are too large to compute with; scale "
            "them to between 0 and 1."
        )
    if low >= 0 and high <= 1:
        return 0.0, 1.0
    if (
        low >= 0 and 128 <= high <= 255
    ):  # bytes in a wider type; a lower top, such as 16 or 1.01, is taken as it is
        return 0.0, 255.0
    return low, high


def is_typed(dtype: np.dtype[Any]) -> bool:
    """Whether pixels of this type have the range of the type: booleans and unsigned integers of 8
    and 16 bits, in any order of bytes.
    """
    return dtype.kind == "b" or (dtype.kind == "u" and dtype.itemsize <= 2)


def chunks(pixels: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """Slices of at most `CHUNK_BYTES`, so that a memory map is never read whole."""
    size = min(MAX_CHUNK, max(1, CHUNK_BYTES // pixels[0].nbytes))
    return (pixels[start : start + size] for start in range(0, len(pixels), size))


def _rows_to_images(
    rows: NDArray[Any], image_shape: Sequence[int] | None, source: str
) -> NDArray[Any]:
    """Rows of a table as images of this shape, (n,channels,height,width)."""
    n_rows, n_values = rows.shape
    if image_shape is None:
        side = math.isqrt(n_values)
        such_as = f" (such as {side}x{side})" if side * side == n_values > 1 else ""
        raise DataError(
            f"{source}: {n_rows:,} rows of {n_values:,} numbers could be anything; if each is an "
            f"image, say of which `image_shape`{such_as}; if each is a time series, use "
            "`kind='series'`; if it is features of one's own, `kind='features'`."
        )
    shape = tuple(image_shape)
    if math.prod(shape) != n_values or len(shape) not in (2, 3) or min(shape) < 1:
        raise DataError(
            f"{source}: `image_shape` {'x'.join(map(str, shape))} should be height and width, or "
            f"channels, height and width, of {n_values:,} values."
        )
    return rows.reshape(n_rows, *((1, *shape) if len(shape) == 2 else shape))
