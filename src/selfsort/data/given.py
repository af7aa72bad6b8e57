"""What a Python user hands over: a path, many paths, pictures, arrays, a data set of torch or of
Hugging Face, a column of pandas; each as a source, files, pictures or an array.

torch, pandas and datasets are known by what they can do, so none of them is imported.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from selfsort.data.decode import GREY_MODES, fill_square
from selfsort.data.image_set import ImageSet, Numbers
from selfsort.errors import DataError

IMAGE_KEYS = ("image", "img", "pixel_values", "picture", "photo")
"""What a row of a data set may call its image."""

Given = str | list[Path] | list[Image.Image] | Any


def sort_out(X: Any) -> Given:
    """A path as text, a list of paths or of pictures, or an array; tables of numbers stay what they
    are, for scikit-learn to check.
    """
    if isinstance(X, str | os.PathLike):
        return os.fspath(X)
    if isinstance(X, Image.Image):
        return [X]
    if not hasattr(X, "ndim") and hasattr(X, "__array__"):
        X = np.asarray(X)
    n_axes = getattr(X, "ndim", None)
    is_column = n_axes == 1 and getattr(X.dtype, "kind", "O") not in "biuf"
    if n_axes is not None and not is_column:
        return as_array(X)
    is_data_set = hasattr(X, "__getitem__") and not isinstance(X, Sequence | Mapping)
    if is_column or not is_data_set:
        items = list(_dataset_of(X))
    else:  # such a data set may not know that it has an end
        items = [X[row] for row in range(len(X))]
    if items and isinstance(items[0], int | float | list):
        return np.asarray(X)
    return _join([_image_of(item) for item in items])


def _dataset_of(X: Any) -> Iterable[Any]:
    """What a loader loads from, in its own order: a loader may shuffle, and cuts into batches."""
    if isinstance(X, Mapping) or not isinstance(X, Iterable):
        raise DataError(
            f"X of type {type(X).__name__} should be a folder, an array, or a list of arrays, "
            "pictures or paths."
        )
    if hasattr(X, "dataset") and hasattr(X, "batch_size"):
        whole = X.dataset
        return (whole[row] for row in range(len(whole))) if hasattr(whole, "__len__") else whole
    return X


def _image_of(item: Any) -> Path | Image.Image | NDArray[Any]:
    """The image in a row of a data set, which may have a label and more beside it."""
    if isinstance(item, tuple) and item:
        item = item[0]
    if isinstance(item, Mapping):
        known = [item[key] for key in IMAGE_KEYS if key in item]
        if not known:
            raise DataError(
                f"a row with {', '.join(map(str, item))} has no image; give the column that has, "
                "or call it image."
            )
        item = known[0]
    if isinstance(item, str | os.PathLike):
        return Path(item)
    if isinstance(item, Image.Image) or hasattr(item, "__array__"):
        return item if isinstance(item, Image.Image) else as_array(item)
    raise DataError(
        f"an image of type {type(item).__name__} should be an array, a picture of Pillow or a path."
    )


def as_array(values: Any) -> Any:
    """A tensor of torch, wherever it is, as an array; anything else as it is."""
    return values.detach().cpu().numpy() if hasattr(values, "detach") else values


def _join(items: list[Any]) -> Given:
    """Items of one kind; arrays of one shape become one array, of several shapes pictures."""
    if not items:
        raise DataError("no images were given; give two or more.")
    for kind in (Path, Image.Image):
        if all(isinstance(item, kind) for item in items):
            return items
    if any(isinstance(item, Path | Image.Image) for item in items):
        raise DataError("a list should hold only arrays, only pictures or only paths.")
    if len({np.shape(item) for item in items}) == 1:
        return np.stack(items)
    if all(item.dtype == np.uint8 and 2 <= item.ndim <= 3 for item in items):
        return [Image.fromarray(_channels_last(item)) for item in items]
    raise DataError("arrays of several shapes should hold bytes (uint8); or resize them to one.")


def _channels_last(array: NDArray[np.uint8]) -> NDArray[np.uint8]:
    if array.ndim == 3 and array.shape[0] in (1, 3, 4) and array.shape[2] not in (1, 3, 4):
        array = np.moveaxis(array, 0, 2)
    return array[..., 0] if array.ndim == 3 and array.shape[2] == 1 else array


def pictures_to_set(pictures: Sequence[Image.Image], size: int) -> ImageSet:
    """Pictures of Pillow, upright, at a size."""
    pixels = np.empty((len(pictures), 3, size, size), dtype=np.uint8)
    for row, picture in enumerate(pictures):
        upright = ImageOps.exif_transpose(picture)
        pixels[row] = np.moveaxis(fill_square(upright, size), 2, 0)
    is_grey = all(picture.mode in GREY_MODES for picture in pictures)
    return ImageSet(
        pixels[:, : 1 if is_grey else 3], 0.0, 255.0, Numbers(len(pictures)), source="pictures"
    )
