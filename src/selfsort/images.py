"""A folder, a file or an array to one `ImageSet`."""

import math
import mmap
import os
import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, overload

import joblib
import numpy as np
from numpy.typing import NDArray

from selfsort.arrays import MAX_ARRAY_BYTES, load_npy, load_npz
from selfsort.decoding import find_images, read_image
from selfsort.errors import DataError
from selfsort.files import inside

FOLDER_SIZE = 32
"""Side to which the images of a folder are resized unless another is asked for."""


@dataclass(frozen=True)
class ImageSet:
    """Images of one size, (n, channel, height, width), as they came, with a name each and truth if it is known.

    `low` and `high` are the pixel values that mean 0 and 1. `pixels` may be a memory map and is never converted whole.
    """

    pixels: NDArray[Any]
    low: float
    high: float
    names: Sequence[str]
    truth: NDArray[np.int64] | None = None
    truth_names: Sequence[str] = ()
    source: str = "array"
    root: Path | None = None
    skipped: Sequence[str] = ()

    def __len__(self) -> int:
        return len(self.pixels)

    def fingerprint(self) -> int:
        """A checksum of a few images spread over the set, to tell it from another one of the same shape."""
        rows = np.linspace(0, len(self) - 1, min(len(self), 64)).astype(int)
        return zlib.crc32(self.read(rows).tobytes())

    def read(self, rows: slice | NDArray[np.integer[Any]]) -> NDArray[Any]:
        """A copy of these rows' pixels; of a memory map no more than this stays in memory."""
        pixels = np.array(self.pixels[rows], order="C")
        _release(self.pixels)
        return pixels

    def take(self, rows: NDArray[np.integer[Any]]) -> "ImageSet":
        """The images of these rows only."""
        truth = self.truth[rows] if self.truth is not None else None
        return replace(self, pixels=self.read(rows), names=[self.names[row] for row in rows], truth=truth)


class Numbers(Sequence[str]):
    """ "0", "1", … as names, made when they are asked for: as a list those of a large array would take more room than it.

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
        return [str(number) for number in self.range[index]] if isinstance(index, slice) else str(self.range[index])


def sample_rows(n_samples: int, n_wanted: int, seed: int) -> NDArray[np.int64]:
    """At most `n_wanted` rows, drawn by `seed`, ascending."""
    return np.sort(np.random.default_rng(seed).permutation(n_samples)[:n_wanted])


def _release(pixels: NDArray[Any]) -> None:
    """Give the pages of a memory map back to the system, which keeps them cached as long as it has room.

    Not those of a map that somebody may write to: what was written would be lost if it is in no file.
    """
    base: Any = pixels
    while isinstance(base, np.ndarray) and not base.flags.writeable:
        base = base.base
    if isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        base.madvise(mmap.MADV_DONTNEED)


def as_image_set(array: Any, *, truth: Any = None, names: Sequence[str] | None = None, source: str = "array") -> ImageSet:
    """Arrays or tensors of shape (n,h,w), (n,h,w,c) or (n,c,h,w), integers or floats, as an `ImageSet`.

    >>> as_image_set(np.zeros((5, 16, 16, 3), dtype=np.uint8)).pixels.shape
    (5, 3, 16, 16)
    """
    pixels = np.asanyarray(array)
    if pixels.dtype.kind not in "buif":
        raise DataError(f"{source}: pixels of type {pixels.dtype} should be integers, floats or booleans.")
    if pixels.ndim == 3:
        pixels = pixels[:, None]
    elif pixels.ndim == 4:
        pixels = _channels_first(pixels, source)
    else:
        raise DataError(f"{source}: shape {pixels.shape} should be (n,h,w), (n,h,w,c) or (n,c,h,w).")
    if 0 in pixels.shape:
        raise DataError(f"{source}: shape {np.shape(array)} holds no images.")
    low, high = _pixel_range(pixels, source)
    truth_names: Sequence[str] = ()
    if truth is not None:
        truth = np.asarray(truth)
        if truth.dtype.kind not in "buifU" or truth.shape not in ((len(pixels),), (len(pixels), 1)):
            raise DataError(
                f"{source}: truth of shape {truth.shape} and type {truth.dtype} should be one number or text for each of "
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
    raise DataError(f"{source}: shape {pixels.shape} should be (n,h,w,c) or (n,c,h,w); which axis is the channel is unclear.")


def _pixel_range(pixels: NDArray[Any], source: str) -> tuple[float, float]:
    if pixels.dtype.kind == "b":
        return 0.0, 1.0
    if pixels.dtype in (np.uint8, np.uint16):
        return 0.0, float(np.iinfo(pixels.dtype).max)
    low, high, first = math.inf, -math.inf, 0
    for chunk in chunks(pixels):
        if not np.isfinite(chunk).all():
            row = first + int(np.argmin(np.isfinite(chunk).reshape(len(chunk), -1).all(axis=1)))
            raise DataError(f"{source}: NaN or infinity in image {row}; remove or replace such pixels (numpy.nan_to_num).")
        low, high, first = min(low, float(chunk.min())), max(high, float(chunk.max())), first + len(chunk)
        _release(pixels)
    if low >= 0 and high <= 1:
        return 0.0, 1.0
    if low >= 0 and 128 <= high <= 255:  # bytes in a wider type; a lower top, such as 16 or 1.01, is taken as it is
        return 0.0, 255.0
    return low, high


def chunks(pixels: NDArray[Any], size: int = 4096) -> Iterator[NDArray[Any]]:
    """Slices of at most `size` images, so that a memory map is never read whole."""
    return (pixels[start : start + size] for start in range(0, len(pixels), size))


def load_images(
    path: Path | str,
    *,
    size: int | None = None,
    truth_from_folders: bool = False,
    skip_broken: bool = False,
    names: Sequence[str] | None = None,
    on_file: Callable[[int, int], None] | None = None,
) -> ImageSet:
    """Images from a folder, a single image file, an `.npy` or an `.npz` file.

    With `truth_from_folders` the name of the first sub-folder is each image's truth; `names` are the only files of the folder
    to read. `on_file(done, total)` tells progress.
    """
    path = Path(path)
    if path.is_dir():
        files = find_images(path) if names is None else [inside(path, name) for name in names]
        return _load_folder(path, files, size or FOLDER_SIZE, truth_from_folders, skip_broken, on_file)
    if not path.exists():
        raise DataError(f"{path}: no such file, folder or data set.")
    if path.suffix.lower() == ".npy":
        return as_image_set(load_npy(path), source=str(path))
    if path.suffix.lower() == ".npz":
        pixels, truth = load_npz(path)
        return as_image_set(pixels, truth=truth, source=str(path))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pixels, is_grey = read_image(path, size or FOLDER_SIZE)
    return ImageSet(pixels[None, : 1 if is_grey else 3], 0.0, 255.0, [path.name], source=str(path), root=path.parent)


def _load_folder(
    folder: Path,
    files: list[Path],
    size: int,
    truth_from_folders: bool,
    skip_broken: bool,
    on_file: Callable[[int, int], None] | None,
) -> ImageSet:
    if not files:
        raise DataError(f"{folder}: no image files in it; it should hold images that Pillow reads (PNG, JPEG, …).")
    if 3 * size * size * len(files) > MAX_ARRAY_BYTES:
        raise DataError(
            f"{folder}: {len(files)} images of {size}×{size} need more than {MAX_ARRAY_BYTES >> 30} GiB; use a smaller --size."
        )

    def read(file: Path) -> tuple[NDArray[np.uint8], bool] | DataError:
        try:
            return read_image(file, size)
        except DataError as error:
            return error

    pixels = np.empty((len(files), 3, size, size), dtype=np.uint8)
    kept: list[Path] = []
    skipped: list[str] = []
    all_grey = True
    with warnings.catch_warnings(), ThreadPoolExecutor(joblib.cpu_count()) as pool:
        warnings.simplefilter("ignore")  # here and not in `read`: the filters belong to all threads
        for done, (file, image) in enumerate(zip(files, pool.map(read, files), strict=True), start=1):
            if isinstance(image, DataError):
                if not skip_broken:
                    pool.shutdown(cancel_futures=True)
                    raise image
                skipped.append(str(file))
            else:
                pixels[len(kept)], is_grey = image
                all_grey &= is_grey
                kept.append(file)
            if on_file:
                on_file(done, len(files))
    if not kept:
        raise DataError(f"{folder}: none of its {len(files)} image files can be read.")
    names = [str(file.relative_to(folder)) for file in kept]
    truth, truth_names = _folder_truth(names, folder) if truth_from_folders else (None, [])
    return ImageSet(
        pixels[: len(kept), : 1 if all_grey else 3], 0.0, 255.0, names, truth, truth_names, str(folder), folder, skipped
    )


def _folder_truth(names: list[str], folder: Path) -> tuple[NDArray[np.int64], list[str]]:
    classes = [name.split(os.sep)[0] if os.sep in name else "" for name in names]
    if "" in classes:
        raise DataError(f"{folder / names[classes.index('')]}: not in a sub-folder, so it has no truth; sort it into one.")
    truth_names, truth = np.unique(classes, return_inverse=True)
    return truth.astype(np.int64), [str(name) for name in truth_names]
