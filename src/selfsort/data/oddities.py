"""Images that somebody would want to know of before sorting: copies of each other, blank, dark,
blurred; found in the pixels as they were read, without a model.
"""

import hashlib
from collections import defaultdict
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from selfsort.data.image_set import ImageSet
from selfsort.data.pictures import as_picture
from selfsort.schema import check

MAX_EXAMINED = 20_000
"""Of larger sets only identical images are found: more would take too long."""

SIDE = 64
"""Images are examined in grey at this size; it shows blur that a viewer sees in a small picture."""

PHOTOGRAPH = 32
"""Smaller images are marks rather than pictures: alike, sharp or dark without being odd."""

BLANK = 1.5
DARK = 50.0
"""Grey values of 255: the deviation inside a blank image, the lightest hundredth of a dark one."""

BLURRED = 0.05
FAR_BELOW = 0.06
"""The energy of the finest detail over that of the whole image: a blurred one has less than the
first, and less than this share of what is usual in its set.
"""

COARSE = 16
ALIKE = 0.99
CHUNK = 2048
"""Near copies: pictures of 16×16 grey values with at least this correlation."""


@dataclass(frozen=True)
class Oddities:
    """Rows of a set: groups of images that are the same in every pixel (`identical`) or nearly
    (`similar`, of which no two are identical), and single ones with something wrong.
    """

    identical: list[list[int]] = field(default_factory=list)
    similar: list[list[int]] = field(default_factory=list)
    blank: list[int] = field(default_factory=list)
    dark: list[int] = field(default_factory=list)
    blurred: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Refuse what cannot be, as a record may hold it."""
        check(self)

    def rows(self) -> list[int]:
        """Every row that is named."""
        groups = (*self.identical, *self.similar, self.blank, self.dark, self.blurred)
        return [row for group in groups for row in group]

    def to_dict(self) -> dict[str, Any]:
        """As plain values, without what was not found."""
        return {kind: rows for kind, rows in asdict(self).items() if rows}

    def copies(self) -> dict[int, int]:
        """Each row that repeats another, with the first of them."""
        groups = [*self.identical, *self.similar]
        found = {row: group[0] for group in groups for row in group[1:]}
        # the first of identical images may itself be near another one
        return {row: found.get(first, first) for row, first in found.items()}

    def describe(self) -> list[str]:
        """One line for each kind that was found."""
        n_same = sum(len(group) - 1 for group in self.identical)
        n_near = sum(len(group) - 1 for group in self.similar)
        counts = {
            "identical to another image": n_same,
            "nearly identical to another": n_near,
            "blank": len(self.blank),
            "very dark": len(self.dark),
            "blurred": len(self.blurred),
        }
        return [f"{count:,} {what}" for what, count in counts.items() if count]


def warn_of(oddities: Oddities, n_images: int) -> dict[str, str]:
    """A warning, by its kind, where the images can hardly be sorted for what is odd about them."""
    n_copies = len(oddities.copies())
    if n_copies == n_images - 1:
        what = "identical" if len(oddities.identical) == 1 and not oddities.similar else "alike"
        return {"copies": f"all {n_images:,} images are {what}; there is nothing to sort."}
    if n_copies > n_images / 4:
        return {
            "copies": f"{n_copies:,} of {n_images:,} images are copies of others; "
            "`drop_duplicates=True` keeps one of each."
        }
    return {}


def find_oddities(images: ImageSet, on_image: Callable[[int, int], None] | None = None) -> Oddities:
    """What is odd about these images; of more than `MAX_EXAMINED` only copies.

    `on_image(done, total)` tells progress.
    """
    from scipy.ndimage import laplace  # slow to import

    identical = _same_pixels(images)
    if len(images) > MAX_EXAMINED or images.modality != "images":
        return Oddities(identical)
    first_only = np.ones(len(images), dtype=bool)
    first_only[[row for group in identical for row in group[1:]]] = False
    if min(images.pixels.shape[2:]) < PHOTOGRAPH:
        scale = max(images.high - images.low, 1e-12) / 255
        blank = np.array([float(image.std()) < BLANK * scale for image in images.pixels])
        return Oddities(identical, blank=_rows(blank))
    small = np.empty((len(images), SIDE, SIDE), dtype=np.float32)
    for row in range(len(images)):
        picture = as_picture(images, row).convert("L")
        small[row] = np.asarray(picture.resize((SIDE, SIDE), Image.Resampling.BOX))
        if on_image:
            on_image(row + 1, len(images))
    blank = small.std(axis=(1, 2)) < BLANK
    dark = np.array([np.quantile(image, 0.99) < DARK for image in small]) & ~blank
    detail = np.array([laplace(image).var() / max(image.var(), 1e-6) for image in small])
    usual = np.median(detail[~blank]) if not blank.all() else 0.0
    blurred = (detail < min(BLURRED, FAR_BELOW * usual)) & ~blank & ~dark
    similar = _near_copies(small, np.flatnonzero(first_only & ~blank))
    return Oddities(identical, similar, _rows(blank), _rows(dark), _rows(blurred))


def drop_copies(images: ImageSet) -> ImageSet:
    """One of each group of images that are the same, or nearly; the others are in `dropped`."""
    copies = find_oddities(images).copies()
    if not copies:
        return images
    dropped = {images.names[row]: images.names[first] for row, first in sorted(copies.items())}
    kept = np.setdiff1d(np.arange(len(images)), list(copies))
    return replace(images.take(kept), dropped=dropped)


def _rows(chosen: NDArray[np.bool_]) -> list[int]:
    return [int(row) for row in np.flatnonzero(chosen)]


def _same_pixels(images: ImageSet) -> list[list[int]]:
    groups: dict[bytes, list[int]] = defaultdict(list)
    for row in range(len(images)):
        groups[hashlib.sha256(images.pixels[row].tobytes()).digest()].append(row)
    return [group for group in groups.values() if len(group) > 1]


def _near_copies(small: NDArray[np.float32], rows: NDArray[np.intp]) -> list[list[int]]:
    """Groups of these rows: one, and those that nearly have its pixels."""
    points = _coarse(small[rows])
    first: dict[int, int] = {}
    for start in range(0, len(rows), CHUNK):
        near = points[start : start + CHUNK] @ points[start:].T > ALIKE
        for one, other in np.argwhere(np.triu(near, 1)) + start:
            if one not in first:  # a copy of a copy may be like the first no more
                first.setdefault(int(other), int(one))
    groups: dict[int, list[int]] = defaultdict(list)
    for place in sorted(first):
        groups[first[place]].append(int(rows[place]))
    return [[int(rows[place]), *copies] for place, copies in sorted(groups.items())]


def _coarse(small: NDArray[np.float32]) -> NDArray[np.float32]:
    """Each image as a unit vector of its coarse differences from its mean."""
    step = SIDE // COARSE
    blocks = small.reshape(len(small), COARSE, step, COARSE, step).mean(axis=(2, 4))
    points = blocks.reshape(len(small), COARSE**2)
    points = points - points.mean(axis=1, keepdims=True)
    lengths = np.linalg.norm(points, axis=1, keepdims=True)
    return np.asarray(points / np.maximum(lengths, 1e-6), dtype=np.float32)
