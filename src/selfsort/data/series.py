"""`SeriesSet`: time series of one length with their names, from an array or a file."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from selfsort.data.arrays import load_npy, load_npz
from selfsort.data.image_set import MAX_PIXEL, ImageSet, Numbers
from selfsort.data.series_text import READERS, Rows, Series, text_lines, without_tail
from selfsort.errors import DataError, first_line
from selfsort.files import MAX_ARRAY_BYTES

MIN_LENGTH = 8
"""Shorter series have no shape to look at."""


@dataclass(frozen=True)
class SeriesSet(ImageSet):
    """Time series, (n, channel, length) as 32-bit floats without gaps; the field `pixels` holds
    them, so that a set of series goes wherever one of images does.
    """

    modality: ClassVar[str] = "series"


def as_series_set(
    array: Any,
    *,
    truth: Any = None,
    names: Sequence[str] | None = None,
    source: str = "array",
) -> SeriesSet:
    """An array (n, length) or (n, channels, length) as a `SeriesSet`. NaN at the end of a series
    means that it is shorter; other NaN are gaps, which are bridged.

    >>> as_series_set(np.arange(500.0).reshape(5, 100)).pixels.shape
    (5, 1, 100)
    """
    values = np.asanyarray(array)
    if values.dtype.kind not in "buif":
        raise DataError(f"{source}: series of type {values.dtype} should be numbers.")
    if values.ndim == 2:
        values = values[:, None]
    if values.ndim != 3:
        raise DataError(
            f"{source}: shape {np.shape(array)} should be (series, length) or "
            "(series, channels, length)."
        )
    if 0 in values.shape:
        raise DataError(f"{source}: shape {np.shape(array)} holds no series.")
    if 4 * values.size > MAX_ARRAY_BYTES:
        raise DataError(
            f"{source}: {len(values):,} series of {values.shape[2]:,} values need more than "
            f"{MAX_ARRAY_BYTES >> 30} GiB; cut or thin them."
        )
    with np.errstate(over="ignore"):  # found below
        rows = [without_tail(np.asarray(row, dtype=np.float32)) for row in values]
    labels = None if truth is None else [str(label) for label in np.ravel(truth)]
    return _assemble(Rows(rows, labels), names, source)


def _assemble(rows: Rows, names: Sequence[str] | None, source: str) -> SeriesSet:
    """Series of one length, and what had to be done to them."""
    n_channels = sorted({len(row) for row in rows.series})
    if not rows.series:
        raise DataError(f"{source}: holds no series.")
    if len(n_channels) > 1:
        raise DataError(
            f"{source}: series have {n_channels[0]} to {n_channels[-1]} channels; each should "
            "have the same."
        )
    if rows.labels is not None and len(rows.labels) != len(rows.series):
        raise DataError(
            f"{source}: {len(rows.labels):,} labels should be one for each of "
            f"{len(rows.series):,} series."
        )
    lengths = [row.shape[1] for row in rows.series]
    longest = max(lengths)
    if longest < MIN_LENGTH:
        raise DataError(f"{source}: series of {longest} values should have at least {MIN_LENGTH}.")
    if 4 * len(lengths) * n_channels[0] * longest > MAX_ARRAY_BYTES:
        raise DataError(
            f"{source}: {len(lengths):,} series of {longest:,} values need more than "
            f"{MAX_ARRAY_BYTES >> 30} GiB; cut or thin them."
        )
    values = np.empty((len(lengths), n_channels[0], longest), dtype=np.float32)
    n_gaps = 0
    for number, row in enumerate(rows.series):
        n_gaps += bool(np.isnan(row).any())
        values[number] = _even(row, longest, number, source)
    spread = values.std(axis=2)
    dead = np.flatnonzero((spread == 0).all(axis=0))
    n_constant = int((spread == 0).all(axis=1).sum())
    if n_constant == len(values):
        raise DataError(f"{source}: every series is constant; there is nothing to sort by.")
    notes = []
    if (shortest := min(lengths)) < longest:
        notes.append(f"lengths {shortest:,} to {longest:,} → {longest:,}, stretched")
    if n_gaps:
        notes.append(f"{n_gaps:,} series have gaps (NaN), bridged by straight lines")
    if n_constant:
        notes.append(f"{n_constant:,} series are constant and have no shape to sort by")
    if len(dead):
        which = ", ".join(map(str, dead[:5]))
        notes.append(f"channel {which} is constant in every series and tells nothing")
    truth = None
    truth_names: list[str] = []
    if rows.labels is not None:
        found, truth = np.unique(rows.labels, return_inverse=True)
        truth_names = [str(name) for name in found]
    low, high = float(values.min()), float(values.max())
    return SeriesSet(
        values,
        low,
        high,
        names or Numbers(len(values)),
        truth,
        truth_names,
        source,
        notes=notes,
    )


def _even(row: Series, length: int, number: int, source: str) -> Series:
    """A series without gaps, stretched to a length."""
    if row.shape[1] == 0:
        raise DataError(f"{source}: series {number} is empty (no value but NaN); remove it.")
    with np.errstate(invalid="ignore"):
        if (np.abs(row) > MAX_PIXEL).any():
            raise DataError(
                f"{source}: infinity or a value above {MAX_PIXEL:g} in series {number}; remove or "
                "scale it."
            )
    is_whole = row.shape[1] == length and not np.isnan(row).any()
    return row if is_whole else np.stack([_bridge(channel, length) for channel in row])


def _bridge(channel: NDArray[np.float32], length: int) -> NDArray[np.float32]:
    (known,) = np.nonzero(~np.isnan(channel))
    if len(known) == 0:  # a dead channel of a series that has others
        return np.zeros(length, dtype=np.float32)
    places = np.linspace(0, len(channel) - 1, length)
    return np.interp(places, known, channel[known]).astype(np.float32)


def load_series(path: Path | str) -> SeriesSet:
    """Series from an `.npy` or `.npz` array, a `.tsv` of the UCR archive (label first), a `.ts` of
    aeon, or a `.csv` with one series in each row (a first row of names, and a column `label` or
    `truth`, are known as such).
    """
    source = str(path)
    path = Path(path)
    if not path.exists():
        raise DataError(f"{path}: no such file.")
    if not path.is_file():
        raise DataError(f"{path}: not a regular file; give an .npy, .npz, .tsv, .ts or .csv file.")
    suffix = path.suffix.lower()
    if suffix == ".npy":
        return as_series_set(load_npy(path), source=source)
    if suffix == ".npz":
        values, truth = load_npz(path)
        return as_series_set(values, truth=truth, source=source)
    if suffix not in READERS:
        known = ", ".join([".npy", ".npz", *READERS])
        raise DataError(f"{path}: series are read from {known} files.")
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            rows = READERS[suffix](text_lines(file, source), source)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path}: not readable text ({first_line(error)}).") from error
    return _assemble(rows, None, source)
