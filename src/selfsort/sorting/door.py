"""Whatever a Python user gives to `SelfSort`, as images of the size that a fit or a model wants;
and what the user is told meanwhile.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from selfsort.config import Config
from selfsort.data.folder import FOLDER_SIZE, largest_side, load_files
from selfsort.data.given import Given, pictures_to_set
from selfsort.data.image_set import ImageSet
from selfsort.data.kinds import Reading, get_kind, read
from selfsort.data.sources import find_listed
from selfsort.progress import progress_bars
from selfsort.sorting.detail import reading_size, source_size
from selfsort.training.hooks import Hooks, StageHook

STAGE = "reading images"


def to_images(
    given: Given,
    *,
    kind: str | None,
    image_shape: tuple[int, ...] | None,
    wanted: Config | int,
    on_stage: StageHook | None,
) -> ImageSet:
    """What `data.given.sort_out` made of an argument, as images.

    `wanted` is the size at which files are read, or the configuration of a fit that decides it.
    """
    on_file = partial(on_stage, STAGE) if on_stage else None
    if isinstance(given, str):
        shape = list(image_shape) if image_shape else None
        reading = Reading(given, kind=kind, image_shape=shape)
        size = wanted if isinstance(wanted, int) else source_size(wanted, reading)
        return read(replace(reading, size=_at_least(size)), on_file)
    if not isinstance(given, list):
        return get_kind(kind).from_array(given, image_shape)
    pictures = [item for item in given if isinstance(item, Image.Image)]
    if pictures:
        size = _size(wanted, len(pictures), lambda: max(max(one.size) for one in pictures))
        return pictures_to_set(pictures, size)
    paths = [item.absolute() for item in given if isinstance(item, Path)]
    found = find_listed(paths)
    size = _size(wanted, len(found.files), lambda: largest_side(found.files))
    return load_files("files", found, size, on_file=on_file)


def _size(wanted: Config | int, n_images: int, largest: Callable[[], int]) -> int:
    size = wanted if isinstance(wanted, int) else reading_size(wanted, n_images, largest)
    return _at_least(size)


def _at_least(size: int | None) -> int:
    return max(size or 0, FOLDER_SIZE)


def one_of(given: Given, shape: tuple[int, ...] | None) -> Given:
    """A batch of one, if the array is a single thing like those of a fit, whose shape (channels,
    height, width, or channels, length) is given.
    """
    if shape is None or not isinstance(given, np.ndarray):
        return given
    like_one = {shape, (*shape[1:], shape[0])}
    if shape[0] == 1:
        like_one.add(shape[1:])
    single: NDArray[Any] = given[None]
    return single if given.shape in like_one else given


@contextmanager
def telling(hooks: Hooks, verbose: bool) -> Iterator[Hooks]:
    """The hooks; if `verbose`, they also show how far a step is."""
    if not verbose:
        yield hooks
        return
    with progress_bars(lambda line: sys.stderr.write(f"{line}\n")) as bars:
        own = hooks.on_progress or (lambda progress: False)
        yield replace(
            hooks,
            on_progress=lambda progress: bars.training([], progress) or own(progress),
            on_stage=bars.stage,
        )
