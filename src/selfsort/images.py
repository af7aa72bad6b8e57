"""A folder, a file or an array to one `ImageSet`."""

import math
import os
import threading
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from selfsort.errors import DataError

FOLDER_SIZE = 32
"""Side to which the images of a folder are resized unless another is asked for."""

MAX_IMAGE_PIXELS = 100_000_000
"""Larger image files are refused before they are decoded."""

MAX_ARRAY_BYTES = min(
    8 * 2**30, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2 if hasattr(os, "sysconf") else 2**31
)
"""Arrays that must be read whole are refused above this size, before memory is taken for them."""

UNREADABLE = {"EPS", "WMF", "MPEG", "HDF5", "GRIB", "BUFR"}
"""What Pillow only recognises, or opens by starting another program."""

LARGE_PIXELS = 10_000_000
_ONE_LARGE_IMAGE = threading.Lock()
"""Images above `LARGE_PIXELS` are decoded one at a time, so that memory does not grow with the number of threads."""

Fit = Callable[[NDArray[np.uint8], int], NDArray[np.uint8]]
"""Brings (height, width, 3) to a size: `fit_square` or `shrink`."""

GREY_MODES = {"1", "L", "LA", "La", "I", "I;16", "I;16B", "I;16L", "I;16N", "F"}


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
        return zlib.crc32(np.ascontiguousarray(self.pixels[rows]).tobytes())

    def take(self, rows: NDArray[np.integer[Any]]) -> "ImageSet":
        """The images of these rows only."""
        truth = self.truth[rows] if self.truth is not None else None
        return replace(self, pixels=self.pixels[rows], names=[self.names[row] for row in rows], truth=truth)


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
    return ImageSet(pixels, low, high, names or [str(i) for i in range(len(pixels))], truth, truth_names, source)


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
        return as_image_set(_load_npy(path), source=str(path))
    if path.suffix.lower() == ".npz":
        return _load_npz(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pixels, is_grey = _read_image(path, size or FOLDER_SIZE)
    return ImageSet(pixels[None, : 1 if is_grey else 3], 0.0, 255.0, [path.name], source=str(path), root=path.parent)


def find_images(folder: Path) -> list[Path]:
    """Every image file below `folder`, in a stable order; hidden ones are left out, links to folders not followed."""
    known = {suffix for suffix, kind in Image.registered_extensions().items() if kind in _formats()}
    found = []
    for place, folders, files in os.walk(folder, onerror=_refuse_folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [Path(place, name) for name in files if Path(name).suffix.lower() in known and not name.startswith(".")]
    return sorted(found)


def _formats() -> list[str]:
    Image.init()
    return [kind for kind in Image.OPEN if kind not in UNREADABLE]


def _refuse_folder(error: OSError) -> None:
    raise DataError(f"{error.filename}: cannot be listed ({error.strerror}); check its permissions.") from error


def inside(folder: Path, name: str) -> Path:
    """The file called `name` below `folder`; a name that leads out of it is refused."""
    if os.path.isabs(name) or os.pardir in Path(name).parts or "\0" in name:
        raise DataError(f"{name!r}: leads out of {folder}.")
    return folder / name


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
            return _read_image(file, size)
        except DataError as error:
            return error

    pixels = np.empty((len(files), 3, size, size), dtype=np.uint8)
    kept: list[Path] = []
    skipped: list[str] = []
    all_grey = True
    n_threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    with warnings.catch_warnings(), ThreadPoolExecutor(n_threads) as pool:
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


def load_picture(path: Path, side: int, fit: Fit) -> NDArray[np.uint8]:
    """One image file to look at: upright, (height, width, 3), brought to the size `side` by `fit`."""
    return np.moveaxis(_read_image(path, side, fit)[0], 0, 2)


def shrink(pixels: NDArray[np.uint8], side: int) -> NDArray[np.uint8]:
    """(height, width, 3) to at most `side` each way; smaller ones stay as they are."""
    height, width = pixels.shape[:2]
    ratio = min(1.0, side / max(height, width))
    shape = max(1, round(width * ratio)), max(1, round(height * ratio))
    return np.asarray(Image.fromarray(pixels).resize(shape, Image.Resampling.BOX, reducing_gap=2.0))


def _read_image(path: Path, size: int, fit: Fit | None = None) -> tuple[NDArray[np.uint8], bool]:
    """One image file as (3, size, size), upright, padded to a square (or as `fit` makes it); and whether it is grey."""
    try:
        if path.exists() and not path.is_file():  # opening a pipe would wait for ever
            raise OSError("not a regular file")
        with open(path, "rb") as file:
            _refuse_large(*_webp_size(file.read(30)))  # Pillow takes memory for a whole WebP image when it opens it
        with Image.open(path, formats=_formats()) as image:
            _refuse_large(image.width, image.height)
            is_grey = image.mode in GREY_MODES
            image.draft("RGB" if not is_grey else "L", (2 * size, 2 * size))
            with _ONE_LARGE_IMAGE if image.width * image.height > LARGE_PIXELS else nullcontext():
                return np.moveaxis((fit or fit_square)(_eight_bits(_upright(image)), size), 2, 0), is_grey
    except Exception as error:  # Pillow's many readers raise whatever they stumble over
        raise DataError(f"{path}: not a readable image ({first_line(error)}); remove it or use --skip-broken.") from error


def _upright(image: Image.Image) -> Image.Image:
    """Turned as its EXIF data says; a picture is good even if that is damaged."""
    image.load()
    try:
        return ImageOps.exif_transpose(image)
    except Exception:
        return image


def _refuse_large(width: int, height: int) -> None:
    if width * height > MAX_IMAGE_PIXELS:
        raise OSError(f"declares {width}×{height} pixels, more than {MAX_IMAGE_PIXELS:,}")


def _webp_size(head: bytes) -> tuple[int, int]:
    """Width and height that the first 30 bytes of a WebP file declare; 0 for any other file."""
    kind = head[12:16] if head[:4] == b"RIFF" and head[8:12] == b"WEBP" else b""
    if kind == b"VP8X":
        return 1 + int.from_bytes(head[24:27], "little"), 1 + int.from_bytes(head[27:30], "little")
    if kind == b"VP8L":
        bits = int.from_bytes(head[21:25], "little")
        return 1 + bits % 2**14, 1 + (bits >> 14) % 2**14
    if kind == b"VP8 ":
        return int.from_bytes(head[26:28], "little") % 2**14, int.from_bytes(head[28:30], "little") % 2**14
    return 0, 0


def first_line(error: Exception) -> str:
    """What an error of another library says, fit for the middle of a line."""
    return (str(error).splitlines() or [type(error).__name__])[0]


def _eight_bits(image: Image.Image) -> NDArray[np.uint8]:
    """Any Pillow mode as (height, width, 3) bytes; what is transparent becomes white."""
    if image.mode.startswith("I") or image.mode == "F":
        values = np.asarray(image, dtype=np.float32)
        if not np.isfinite(values).all():
            raise ValueError("NaN or infinity among its pixels")
        top = (
            65535.0
            if image.mode.startswith("I;16")
            else max(255.0, float(values.max()))
            if image.mode == "I"
            else max(1.0, float(values.max()))
        )
        grey = (np.clip(values / top, 0, 1) * 255).round().astype(np.uint8)
        return np.repeat(grey[:, :, None], 3, axis=2)
    if image.has_transparency_data:
        layers = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", layers.size, "white"), layers)
    return np.asarray(image.convert("RGB"))


def fit_square(pixels: NDArray[np.uint8], size: int) -> NDArray[np.uint8]:
    """Resize (height, width, 3) into a square, filled up with the mean colour of the border, which adds no strong edge.

    Resized before it is padded: a line of a million pixels must not become a square of them.
    """
    height, width = pixels.shape[:2]
    shape = max(1, round(size * width / max(height, width))), max(1, round(size * height / max(height, width)))
    small = Image.fromarray(pixels).resize(shape, Image.Resampling.BOX, reducing_gap=2.0)
    if shape == (size, size):
        return np.asarray(small)
    border = np.concatenate([pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]]).mean(axis=0).round()
    padded = np.full((size, size, 3), border, dtype=np.uint8)
    top, left = (size - shape[1]) // 2, (size - shape[0]) // 2
    padded[top : top + shape[1], left : left + shape[0]] = np.asarray(small)
    return padded


def _load_npy(path: Path) -> NDArray[Any]:
    try:
        return np.lib.format.open_memmap(path, mode="r")
    except Exception as error:  # the header is a Python expression, with as many ways to be wrong
        raise DataError(f"{path}: not a readable .npy array ({first_line(error)}).") from error


def _load_npz(path: Path) -> ImageSet:
    """The array called `images`, `x` or `X`, or the only one; `truth`, `labels` or `y` beside it is its truth."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = {name.removesuffix(".npy"): name for name in archive.namelist() if name.endswith(".npy")}
            labels = [members.pop(name) for name in ("truth", "labels", "y") if name in members]
            known = [members[name] for name in ("images", "x", "X", "arr_0") if name in members]
            if not known and len(members) != 1:
                raise DataError(f"{path}: holds the arrays {sorted(members)}; the images should be called images.")
            wanted = [*known, *members.values()][:1] + labels[:1]
            arrays = [_read_npy_member(archive, name, path) for name in wanted]
    except DataError:
        raise
    except Exception as error:  # as in `_load_npy`, and those of a damaged or encrypted zip file
        raise DataError(f"{path}: not a readable .npz file ({first_line(error)}).") from error
    return as_image_set(arrays[0], truth=arrays[1] if len(arrays) > 1 else None, source=str(path))


def _read_npy_member(archive: zipfile.ZipFile, name: str, path: Path) -> NDArray[Any]:
    with archive.open(name) as file:
        version = np.lib.format.read_magic(file)
        if version not in ((1, 0), (2, 0)):
            raise DataError(f"{path}: {name} has .npy format {version}; save it again with numpy.savez.")
        read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, is_fortran, dtype = read_header(file)
        if dtype.hasobject:
            raise DataError(f"{path}: {name} holds Python objects; it should hold numbers.")
        content = read_exactly(file, math.prod(shape) * dtype.itemsize, f"{path}: {name}")
    return np.frombuffer(content, dtype=dtype).reshape(shape, order="F" if is_fortran else "C")


def read_exactly(file: BinaryIO | Any, n_bytes: int, source: str) -> bytearray:
    """Read `n_bytes` piece by piece, so that a header which lies about its size costs no memory."""
    if not 0 <= n_bytes <= MAX_ARRAY_BYTES:
        raise DataError(
            f"{source} declares {n_bytes:,} bytes, more than {MAX_ARRAY_BYTES >> 30} GiB; split it or save it as .npy."
        )
    content = bytearray()
    while len(content) < n_bytes:
        piece = file.read(min(n_bytes - len(content), 1 << 20))
        if not piece:
            raise DataError(f"{source} ends {n_bytes - len(content):,} bytes too early; fetch it again.")
        content += piece
    return content
