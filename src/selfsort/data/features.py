"""`FeatureSet`: rows of numbers that somebody else has computed, such as CLIP's vectors of images,
with the images if they are there to be shown.
"""

import csv
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from selfsort.data.arrays import load_npy, load_npz
from selfsort.data.folder import OnFile, load_images
from selfsort.data.image_set import MAX_PIXEL, ImageSet, Numbers, chunks
from selfsort.errors import DataError, first_line

MAX_SIDE = 64
"""Without images, a row is drawn as a grid of its numbers, at most so many each way."""


@dataclass(frozen=True)
class FeatureSet(ImageSet):
    """Rows of features (n, values), which the method sees; `pixels` are what is shown of them."""

    modality: ClassVar[str] = "features"
    features: NDArray[Any] = field(default_factory=lambda: np.zeros((0, 1), dtype=np.float32))

    def read(self, rows: slice | NDArray[np.integer[Any]]) -> NDArray[Any]:
        """A copy of these rows of features."""
        return np.array(self.features[rows], dtype=np.float32)

    def take(self, rows: NDArray[np.integer[Any]]) -> "FeatureSet":
        """These rows only, with what is shown of them."""
        shown = ImageSet(
            np.asarray(self.pixels[rows]), self.low, self.high, [self.names[row] for row in rows]
        )
        truth = self.truth[rows] if self.truth is not None else None
        columns = {name: [values[row] for row in rows] for name, values in self.columns.items()}
        return replace(
            self,
            pixels=shown.pixels,
            names=shown.names,
            truth=truth,
            columns=columns,
            taught=self.taught and self.taught.take(rows),
            features=self.read(rows),
        )


def as_feature_set(
    array: Any,
    *,
    images: ImageSet | None = None,
    truth: Any = None,
    source: str = "array",
) -> FeatureSet:
    """An array (n, values) as a `FeatureSet`; `images` are shown, one for each row, in its order.

    >>> len(as_feature_set(np.eye(4)))
    4
    """
    features = np.asanyarray(array)
    if features.dtype.kind not in "buif" or features.ndim != 2 or 0 in features.shape:
        raise DataError(
            f"{source}: {features.dtype} of shape {features.shape} should be numbers of shape "
            "(n, values) to be features."
        )
    for chunk in chunks(features):
        if not np.isfinite(chunk).all() or np.abs(chunk).max() > MAX_PIXEL:
            raise DataError(
                f"{source}: NaN, infinity or huge numbers among its features; remove or replace "
                "them (numpy.nan_to_num)."
            )
    if images is not None and len(images) != len(features):
        raise DataError(
            f"{source}: {len(features):,} rows for {len(images):,} images of {images.source}; "
            "there should be a row for each, in the order of the files' names."
        )
    numbers = Numbers(len(features))
    shown = images or ImageSet(_draw(features), 0.0, 255.0, numbers)
    values, labels = (
        (None, None) if truth is None else np.unique(np.ravel(truth), return_inverse=True)
    )
    return FeatureSet(
        shown.pixels,
        shown.low,
        shown.high,
        shown.names,
        truth=labels if labels is not None else shown.truth,
        truth_names=[str(value) for value in values] if values is not None else shown.truth_names,
        source=source,
        root=shown.root,
        skipped=shown.skipped,
        notes=[f"{features.shape[1]:,} features in each row", *shown.notes],
        columns=shown.columns,
        features=features,
    )


def load_features(
    source: str, images: str | None, size: int | None, skip_broken: bool, on_file: OnFile | None
) -> FeatureSet:
    """Features from an `.npy` or `.npz` file, or from a CSV table whose columns are numbers; with
    the images of a folder (or of a table, a list, …), in the order of their names.
    """
    path = Path(source)
    if not path.is_file():
        raise DataError(f"{source}: no such file; features are an .npy, .npz or .csv file.")
    truth = None
    suffix = path.suffix.lower()
    if suffix == ".npy":
        array = load_npy(path)
    elif suffix == ".npz":
        array, truth = load_npz(path)
    else:
        array = _load_csv(path)
    shown = None
    if images is not None:
        shown = load_images(images, size=size, skip_broken=skip_broken, on_file=on_file)
        if shown.skipped:
            raise DataError(
                f"{images}: {len(shown.skipped)} of its files cannot be read, so the rows of "
                f"{source} cannot be told apart; remove these files and their rows."
            )
    return as_feature_set(array, images=shown, truth=truth, source=source)


def _load_csv(path: Path) -> NDArray[np.float32]:
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            rows = list(csv.reader(file))
        header = [not _is_number(cell) for cell in rows[0]]
        return np.array(rows[1:] if all(header) else rows, dtype=np.float32)
    except (OSError, ValueError, IndexError, csv.Error) as error:
        raise DataError(
            f"{path}: should be a table of numbers alone, with or without a first line of names "
            f"({first_line(error)})."
        ) from error


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _draw(features: NDArray[Any]) -> NDArray[np.uint8]:
    """Each row as a grid of its numbers, from the smallest in the set (black) to the largest."""
    n_values = min(features.shape[1], MAX_SIDE**2)
    side = int(np.ceil(np.sqrt(n_values)))
    low, high = np.quantile(features[:: max(1, len(features) // 1000), :n_values], [0.01, 0.99])
    drawn = np.full((len(features), side * side), 255, dtype=np.uint8)
    for start in range(0, len(features), 4096):
        values = np.asarray(features[start : start + 4096, :n_values], dtype=np.float32)
        scaled = np.clip((values - low) / max(high - low, 1e-12), 0, 1)
        drawn[start : start + 4096, :n_values] = (scaled * 255).round()
    return drawn.reshape(len(features), 1, side, side)
