"""A folder or a file to one `ImageSet`."""

import glob
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from selfsort.data.arrays import load_npy, load_npz
from selfsort.data.datasets import DATASETS
from selfsort.data.decode import Decoded, Facts
from selfsort.data.hearing import SUFFIXES as SOUNDS
from selfsort.data.image_set import ImageSet, as_image_set
from selfsort.data.pool import decode_file, decode_files, thing_of
from selfsort.data.sources import (
    IMAGES,
    Found,
    Wanted,
    find_below,
    find_in_table,
    find_pattern,
    is_archive,
    list_ignored,
    unpack,
    what_to_do,
)
from selfsort.data.tables import is_table
from selfsort.errors import DataError
from selfsort.files import MAX_ARRAY_BYTES, inside

FOLDER_SIZE = 32
"""Side to which the images of a folder are resized unless another is asked for."""

PROBED = 32
"""Files of a folder by which it is judged how large its images are."""

OnFile = Callable[[int, int], None]
Kind = TypeVar("Kind", bound=ImageSet)


def load_images(
    path: Path | str,
    *,
    size: int | None = None,
    truth_from_folders: bool = False,
    skip_broken: bool = False,
    names: Sequence[str] | None = None,
    image_shape: Sequence[int] | None = None,
    on_file: OnFile | None = None,
) -> ImageSet:
    """Images from a folder, a zip or tar file, a table of paths (`.csv`, `.parquet`, or `.txt` with
    one in each line), a pattern such as `a/*.jpg`, an image, an `.npy` or an `.npz` file.

    With `truth_from_folders` the name of the first sub-folder is each image's truth; `names` are
    the only files of the folder to read; `image_shape` says which images the rows of a 2-D array
    are. `on_file(done, total)` tells progress.
    """
    source = str(path)
    path = Path(path)
    with find_files(source) as found:
        if found is not None:
            if names is not None and path.is_dir():
                found = Found([inside(path, name) for name in names], list(names), path, {})
            return load_files(
                source, found, size or FOLDER_SIZE, truth_from_folders, skip_broken, on_file
            )
    if path.suffix.lower() == ".npy":
        return as_image_set(load_npy(path), source=source, image_shape=image_shape)
    if path.suffix.lower() == ".npz":
        pixels, truth = load_npz(path)
        return as_image_set(pixels, truth=truth, source=source, image_shape=image_shape)
    if path.suffix.lower() in SOUNDS:
        raise DataError(f"{path}: is a sound; to sort sounds use `kind='sounds'`.")
    image = decode_file(path, size or FOLDER_SIZE, fit="fill")
    return ImageSet(
        np.moveaxis(image.pixels, 2, 0)[None, : 1 if image.is_grey else 3],
        0.0,
        255.0,
        [path.name],
        source=source,
        root=path.parent,
    )


@contextmanager
def find_files(source: str, wanted: Wanted = IMAGES) -> Iterator[Found | None]:
    """The files that a source stands for, or None if it is an image or an array itself; those of an
    archive are there as long as this is open.
    """
    path = Path(source)
    if path.is_dir():
        yield find_below(path, wanted)
        return
    if not path.exists() and glob.has_magic(source):
        yield find_pattern(source, wanted)
        return
    if advice := what_to_do(source):
        raise DataError(f"{source}: {advice}.")
    if not path.exists():
        raise DataError(
            f"{source}: no such file or folder, and the data sets are: {', '.join(DATASETS)}."
        )
    if not path.is_file():
        raise DataError(f"{path}: not a regular file but a pipe or a device; give a file.")
    if not path.stat().st_size:  # also what the kernel only shows as a file, and may never end
        raise DataError(
            f"{path}: not a readable {wanted.thing} (it is empty); remove it or use "
            "`skip_broken=True`."
        )
    if is_table(path):
        yield find_in_table(path)
    elif is_archive(path):
        with unpack(path, wanted) as found:
            yield found
    else:
        yield None


def load_files(
    source: str,
    found: Found,
    size: int,
    truth_from_folders: bool = False,
    skip_broken: bool = False,
    on_file: OnFile | None = None,
) -> ImageSet:
    """Decode files that were found."""
    if not found.files:
        there = f" but {list_ignored(found.ignored)}" if found.ignored else ""
        raise DataError(
            f"{source}: no image files in it{there}; it should hold PNG, JPEG, WebP, TIFF, …"
        )
    whole = read_files(source, found, size, "fill", skip_broken, on_file)
    is_grey = all(fact.is_grey for fact in whole.facts)
    whole = whole._replace(pixels=whole.pixels[:, : 1 if is_grey else 3])
    notes = _origins(whole.facts, whole.pixels.shape[1:])
    return whole.to_set(ImageSet, source, found, notes, truth_from_folders)


class FilesRead(NamedTuple):
    """The pictures of the files that could be read (n, 3, size, size), with their names, and what
    each file held; `skipped` says why the others could not.
    """

    pixels: NDArray[np.uint8]
    names: list[str]
    facts: list[Facts]
    skipped: dict[str, str]
    columns: dict[str, list[str]]

    def to_set(
        self,
        kind: type[Kind],
        source: str,
        found: Found,
        notes: list[str],
        truth_from_folders: bool,
    ) -> Kind:
        """All of it as an `ImageSet` or what is made of one."""
        truth, truth_names = folder_truth(self.names, source) if truth_from_folders else (None, [])
        ignored = [f"ignored: {list_ignored(found.ignored)}"] if found.ignored else []
        return kind(
            self.pixels,
            0.0,
            255.0,
            self.names,
            truth,
            truth_names,
            source,
            found.root,
            self.skipped,
            [*notes, *ignored],
            self.columns,
        )


def read_files(
    source: str, found: Found, size: int, fit: str, skip_broken: bool, on_file: OnFile | None
) -> FilesRead:
    """Every file that was found, as a picture."""
    files = found.files
    thing = thing_of(fit)
    if 3 * size * size * len(files) > MAX_ARRAY_BYTES:
        raise DataError(
            f"{source}: {len(files)} {thing}s of {size}×{size} need more than "
            f"{MAX_ARRAY_BYTES >> 30} GiB; use a smaller `size`."
        )
    pixels = np.empty((len(files), 3, size, size), dtype=np.uint8)
    kept: list[int] = []
    facts: list[Facts] = []
    skipped: dict[str, str] = {}
    answers = zip(files, found.names, decode_files(files, size, fit=fit), strict=True)
    for row, (file, name, image) in enumerate(answers):
        if isinstance(image, DataError):
            if not skip_broken:
                raise image if found.root else DataError(f"{source}: {name}: {_reason(image)}.")
            skipped[str(file) if found.root else name] = _reason(image)
        else:
            pixels[len(kept)] = np.moveaxis(image.pixels, 2, 0)
            facts.append(image.facts)
            kept.append(row)
        if on_file:
            on_file(row + 1, len(files))
    if not kept:
        raise DataError(f"{source}: none of its {len(files)} {thing} files can be read.")
    return FilesRead(
        pixels[: len(kept)],
        [found.names[row] for row in kept],
        facts,
        skipped,
        {name: [values[row] for row in kept] for name, values in found.columns.items()},
    )


def largest_side(files: Sequence[Path]) -> int:
    """The longest side of some of these image files, so that small ones need not be enlarged; 0 if
    none of them can be read.
    """
    rows = np.linspace(0, len(files) - 1, min(len(files), PROBED)).astype(int)
    probed = decode_files([files[row] for row in rows], 8)
    return max(
        (max(image.width, image.height) for image in probed if isinstance(image, Decoded)),
        default=0,
    )


def _reason(error: DataError) -> str:
    """Why a file cannot be read: what stands in the message of the pool between brackets."""
    return str(error).partition(": not a readable ")[2].partition(" (")[2].rpartition(")")[0]


def _origins(facts: Sequence[Facts], shape: tuple[int, ...]) -> list[str]:
    """What the files held, told in a sentence."""
    sizes = {(fact.width, fact.height) for fact in facts}
    by_area = sorted(sizes, key=lambda size: size[0] * size[1])
    ends = [f"{width}×{height}" for width, height in dict.fromkeys((by_area[0], by_area[-1]))]
    are_square = all(width == height for width, height in sizes)
    notes = [
        f"{' to '.join(ends)} pixels → {'×'.join(map(str, shape))}"
        + ("" if are_square else ", filled up to squares by mirroring")
    ]
    if n_paged := sum(fact.n_pages > 1 for fact in facts):
        notes.append(f"{n_paged:,} files have several pages; the first is read")
    return notes


def folder_truth(names: list[str], source: str) -> tuple[NDArray[np.int64], list[str]]:
    """The class of each file: the first folder in its name."""
    classes = [name.split(os.sep)[0] if os.sep in name else "" for name in names]
    if "" in classes:
        first = os.path.join(source, names[classes.index("")])
        raise DataError(f"{first}: not in a sub-folder, so it has no truth; sort it into one.")
    truth_names, truth = np.unique(classes, return_inverse=True)
    return truth.astype(np.int64), [str(name) for name in truth_names]
