"""One image file to pixels: upright, as bytes, of the size asked for.

The processes of `data.pool` run it, within limits of memory and time.
"""

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, suppress
from importlib import import_module
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import EpsImagePlugin, Image, UnidentifiedImageError

from selfsort.files import open_regular

FORMATS = {
    "JPEG": (".jpg", ".jpeg", ".jpe", ".jfif", ".mpo"),
    "PNG": (".png", ".apng"),
    "WEBP": (".webp",),
    "GIF": (".gif",),
    "TIFF": (".tif", ".tiff"),
    "BMP": (".bmp",),
    "PPM": (".ppm", ".pgm", ".pbm", ".pnm", ".pfm"),
    "JPEG2000": (".jp2", ".j2k", ".j2c", ".jpc", ".jpf", ".jpx"),
    "AVIF": (".avif", ".avifs"),
    "HEIF": (".heic", ".heif", ".hif"),
    "TGA": (".tga",),
}
"""The only formats that are opened, and the names of their files. Pillow knows thirty more: some
start another program, some open a second file inside the first, some take memory before they say
how large the image is. HEIF needs pillow-heif. TGA comes last, as it has no mark to know it by.
"""

PLUGINS = ("Avif", "Bmp", "Gif", "Jpeg", "Jpeg2K", "Png", "Ppm", "Tga", "Tiff", "WebP")

MAX_IMAGE_PIXELS = 100_000_000
MAX_WEBP_PIXELS = 50_000_000
"""Larger image files are refused before they are decoded."""

LARGE_PIXELS = 10_000_000
"""Images that must be decoded to more are large: only one at a time is."""

STRIP_PIXELS = 1 << 21
"""Converting colours takes memory for a strip of so many pixels, not for the whole image."""

MOST_ASPECT = 4 / 3
PLAIN = 6.0
"""Longer pictures lose their ends; the deviation of grey values along an edge of one colour."""

GREY_MODES = {"1", "L", "LA", "La", "I", "I;16", "I;16B", "I;16L", "I;16N", "F"}

ORIENTATION = 0x0112
TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""What makes a picture upright, by the orientation in its EXIF data."""

Fit = Callable[[Image.Image, int], NDArray[np.uint8]]
"""Brings a picture to a size, as (height, width, 3): `fill_square` for the method, `fit_square` and
`shrink` for people.
"""


class Facts(NamedTuple):
    """What an image file held: grey pixels or not, how many, and on how many pages (TIFF only)."""

    is_grey: bool
    width: int
    height: int
    n_pages: int


class Decoded(NamedTuple):
    """Pixels as (height, width, 3), and what the file held."""

    pixels: NDArray[np.uint8]
    is_grey: bool
    width: int
    height: int
    n_pages: int

    @property
    def facts(self) -> Facts:
        """All but the pixels."""
        return Facts(*self[1:])


def load_readers() -> list[str]:
    """Import Pillow's readers of `FORMATS` and no others; those that this Pillow has."""
    EpsImagePlugin.gs_binary = False  # whatever happens: Ghostscript is never started
    Image.MAX_IMAGE_PIXELS = None  # `_refuse_large` says it better
    for name in PLUGINS:
        with suppress(ImportError):
            plugin = import_module(f"PIL.{name}ImagePlugin")
            if name == "Avif":
                vars(plugin)["DEFAULT_MAX_THREADS"] = (
                    1  # as many processes decode as there are cores
                )
    with suppress(ImportError):
        import_module("pillow_heif").register_heif_opener(decode_threads=1)
    return [kind for kind in FORMATS if kind in Image.OPEN]


def decode(
    path: Path,
    size: int,
    fit: Fit,
    *,
    formats: list[str],
    large: Callable[[], AbstractContextManager[None]],
) -> Decoded:
    """One image file, brought to `size` by `fit`; within `large()` if it is a large one.

    It raises whatever Pillow's readers stumble over.
    """
    with open(path, "rb", opener=open_regular) as file, ExitStack() as held:
        # Pillow takes memory for a whole WebP image when it opens it, and four times as much later.
        n_opening = _refuse_large(*_webp_size(file.read(30)), limit=MAX_WEBP_PIXELS)
        if n_opening > LARGE_PIXELS:
            held.enter_context(large())
        file.seek(0)
        image = held.enter_context(_open(file, formats))
        width, height = image.size
        n_pixels = _refuse_large(width, height)
        n_pages = getattr(image, "n_frames", 1) if image.format == "TIFF" else 1
        is_grey = image.mode in GREY_MODES
        drafted = image.draft("L" if is_grey else "RGB", (2 * size, 2 * size))
        if drafted and not image.info.get("progressive"):  # which needs the whole in memory
            n_pixels = math.prod(image.size)
        if n_pixels > LARGE_PIXELS >= n_opening:
            held.enter_context(large())
        return Decoded(_upright(image, size, fit), is_grey, width, height, n_pages)


def _open(file: BinaryIO, formats: list[str]) -> Image.Image:
    try:
        return Image.open(file, formats=formats)
    except UnidentifiedImageError as error:
        raise OSError(f"it is none of {', '.join(formats)}") from error


def _upright(image: Image.Image, size: int, fit: Fit) -> NDArray[np.uint8]:
    """Turned as its EXIF data says, and only once it is small; a picture is good even if that is
    damaged.
    """
    image.load()
    turn = None
    with suppress(Exception):
        turn = TURNS.get(image.getexif().get(ORIENTATION, 1))
    pixels = fit(image, size)
    return pixels if turn is None else np.asarray(Image.fromarray(pixels).transpose(turn))


def _refuse_large(width: int, height: int, limit: int = MAX_IMAGE_PIXELS) -> int:
    if width * height > limit:
        raise OSError(f"declares {width}×{height} pixels, more than {limit:,}")
    return width * height


def _webp_size(head: bytes) -> tuple[int, int]:
    """Width and height that the first 30 bytes of a WebP file declare; 0 for any other file."""
    kind = head[12:16] if head[:4] == b"RIFF" and head[8:12] == b"WEBP" else b""
    if kind == b"VP8X":
        return 1 + int.from_bytes(head[24:27], "little"), 1 + int.from_bytes(head[27:30], "little")
    if kind == b"VP8L":
        bits = int.from_bytes(head[21:25], "little")
        return 1 + bits % 2**14, 1 + (bits >> 14) % 2**14
    if kind == b"VP8 ":
        return int.from_bytes(head[26:28], "little") % 2**14, int.from_bytes(
            head[28:30], "little"
        ) % 2**14
    return 0, 0


# Pictures to sizes


def fit_square(picture: Image.Image, size: int) -> NDArray[np.uint8]:
    """Resize into a square, filled up with the mean colour of the border, which adds no strong
    edge.

    Resized before it is padded: a line of a million pixels must not become a square of them.
    """
    width, height = picture.size
    longest = max(width, height)
    shape = (max(1, round(size * width / longest)), max(1, round(size * height / longest)))
    small = _resize(picture, shape)
    if shape == (size, size):
        return np.asarray(small)
    white = _white(picture)
    lines = ((0, 0, width, 1), (0, height - 1, width, height), (0, 0, 1, height),
             (width - 1, 0, width, height))  # fmt: skip
    ends = [np.asarray(_rgb(picture.crop(line), white)).reshape(-1, 3) for line in lines]
    padded = np.full((size, size, 3), np.concatenate(ends).mean(axis=0).round(), dtype=np.uint8)
    top = (size - shape[1]) // 2
    left = (size - shape[0]) // 2
    padded[top : top + shape[1], left : left + shape[0]] = np.asarray(small)
    return padded


def fill_square(picture: Image.Image, size: int) -> NDArray[np.uint8]:
    """A square in which nothing shows that the picture was none, or its shape would look like a
    class: edges of one colour go on, as paper does; other pictures, cut to `MOST_ASPECT`, are
    mirrored.
    """
    width, height = picture.size
    if width == height or _has_plain_edges(picture):
        return fit_square(picture, size)
    shorter = min(width, height)
    wide, high = min(width, shorter * MOST_ASPECT), min(height, shorter * MOST_ASPECT)
    left, top = (width - wide) / 2, (height - high) / 2
    longest = max(wide, high)
    shape = (max(1, round(size * wide / longest)), max(1, round(size * high / longest)))
    small = np.asarray(_resize(picture, shape, (left, top, left + wide, top + high)))
    missing = (size - shape[1], size - shape[0])
    return np.pad(
        small, [(one // 2, one - one // 2) for one in missing] + [(0, 0)], mode="symmetric"
    )


def _has_plain_edges(picture: Image.Image) -> bool:
    """Whether the edges at which a square would go on have one colour."""
    width, height = picture.size
    lines = ((0, 0, width, 1), (0, height - 1, width, height))
    if height > width:
        lines = ((0, 0, 1, height), (width - 1, 0, width, height))
    white = _white(picture)
    ends = [np.asarray(_rgb(picture.crop(line), white)).reshape(-1, 3) for line in lines]
    return float(np.concatenate(ends).std(axis=0).max()) < PLAIN


def shrink(picture: Image.Image, side: int) -> NDArray[np.uint8]:
    """At most `side` each way; smaller ones stay as they are."""
    ratio = min(1.0, side / max(picture.size))
    shape = (max(1, round(picture.width * ratio)), max(1, round(picture.height * ratio)))
    return np.asarray(_resize(picture, shape))


def _resize(
    picture: Image.Image,
    shape: tuple[int, int],
    box: tuple[float, float, float, float] | None = None,
) -> Image.Image:
    """`picture.convert("RGB").resize(shape, BOX, box, reducing_gap=2)`, but strip by strip."""
    white = _white(picture)
    width, height = picture.size
    left, top_edge, right, bottom = box or (0, 0, width, height)
    across = max(1, int((right - left) / shape[0] / 2))
    down = max(1, int((bottom - top_edge) / shape[1] / 2))
    n_lines = max(1, STRIP_PIXELS // width // down) * down
    if n_lines >= height:
        reduced = _rgb(picture, white).reduce((across, down))
    else:
        reduced = Image.new("RGB", (-(-width // across), -(-height // down)))
        for top in range(0, height, n_lines):
            strip = picture.crop((0, top, width, min(height, top + n_lines)))
            reduced.paste(_rgb(strip, white).reduce((across, down)), (0, top // down))
    part = (left / across, top_edge / down, right / across, bottom / down)
    return reduced.resize(shape, Image.Resampling.BOX, box=part)


def _white(picture: Image.Image) -> float:
    """The pixel value that means white where there are more than 256 of them."""
    if picture.mode.startswith("I;16"):
        return 65535.0
    if picture.mode not in ("I", "F"):
        return 255.0
    highest = float(picture.getextrema()[1])  # type: ignore[arg-type]
    return max(255.0 if picture.mode == "I" else 1.0, highest)


def _rgb(picture: Image.Image, white: float) -> Image.Image:
    """Any Pillow mode as RGB; what is transparent becomes white."""
    if picture.mode.startswith("I") or picture.mode == "F":
        values = np.asarray(picture, dtype=np.float32)
        if not np.isfinite(values).all():
            raise ValueError("NaN or infinity among its pixels")
        grey = (np.clip(values / white, 0, 1) * 255).round().astype(np.uint8)
        return Image.fromarray(grey).convert("RGB")
    if picture.has_transparency_data:
        layers = picture.convert("RGBA")
        picture = Image.alpha_composite(Image.new("RGBA", layers.size, "white"), layers)
    return picture if picture.mode == "RGB" else picture.convert("RGB")
