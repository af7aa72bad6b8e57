"""One image file to pixels: whatever Pillow reads, upright, as bytes, of the size asked for; and which files those are."""

import os
import threading
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from selfsort.errors import DataError, first_line

MAX_IMAGE_PIXELS = 100_000_000
"""Larger image files are refused before they are decoded."""

UNREADABLE = {"EPS", "WMF", "MPEG", "HDF5", "GRIB", "BUFR"}
"""What Pillow only recognises, or opens by starting another program."""

LARGE_PIXELS = 10_000_000
_ONE_LARGE_IMAGE = threading.Lock()
"""Images above `LARGE_PIXELS` are decoded one at a time, so that memory does not grow with the number of threads."""

Fit = Callable[[NDArray[np.uint8], int], NDArray[np.uint8]]
"""Brings (height, width, 3) to a size: `fit_square` or `shrink`."""

GREY_MODES = {"1", "L", "LA", "La", "I", "I;16", "I;16B", "I;16L", "I;16N", "F"}


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


def load_picture(path: Path, side: int, fit: Fit) -> NDArray[np.uint8]:
    """One image file to look at: upright, (height, width, 3), brought to the size `side` by `fit`."""
    return np.moveaxis(read_image(path, side, fit)[0], 0, 2)


def shrink(pixels: NDArray[np.uint8], side: int) -> NDArray[np.uint8]:
    """(height, width, 3) to at most `side` each way; smaller ones stay as they are."""
    height, width = pixels.shape[:2]
    ratio = min(1.0, side / max(height, width))
    shape = max(1, round(width * ratio)), max(1, round(height * ratio))
    return np.asarray(Image.fromarray(pixels).resize(shape, Image.Resampling.BOX, reducing_gap=2.0))


def read_image(path: Path, size: int, fit: Fit | None = None) -> tuple[NDArray[np.uint8], bool]:
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
