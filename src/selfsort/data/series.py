"""`SeriesSet`: time series of one length with their names, from an array or a file."""

import csv
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from selfsort.data.arrays import load_npy, load_npz
from selfsort.data.image_set import MAX_PIXEL, ImageSet, Numbers
from selfsort.errors import DataError, first_line
from selfsort.files import MAX_ARRAY_BYTES

MIN_LENGTH = 8
"""Shorter series have no shape to look at."""

MAX_LINE = 2**26
"""Bytes of a line of text, at most."""

MISSING = ("", "?", "nan", "na", "null")
"""How files write a value that is not there, in small letters."""

Series = NDArray[np.float32]


@dataclass(frozen=True)
class SeriesSet(ImageSet):
    """Time series, (n, channel, length) as 32-bit floats without gaps; the field `pixels` holds
    them, so that a set of series goes wherever one of images does.
    """

    modality: ClassVar[str] = "series"


class Rows(NamedTuple):
    """What a file of text holds: series (channel, own length) and the label of each, if any."""

    series: list[Series]
    labels: list[str] | None


def as_series_set(
    array: Any,
    *,
    truth: Any = None,
    names: Sequence[str] | None = None,
    source: str = "array",
) -> SeriesSet:
    """An array (n, length) or (n, channels, length) as a `SeriesSet`. NaN at the end of a series
    means that it is shorter; other NaN are gaps, which are bridged.

    >>> as_series_set(np.zeros((5, 100))).pixels.shape
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
        rows = [_without_tail(np.asarray(row, dtype=np.float32)) for row in values]
    labels = None if truth is None else [str(label) for label in np.ravel(truth)]
    return _assemble(Rows(rows, labels), names, source)


def _without_tail(row: Series) -> Series:
    """A series up to the last value that any channel has."""
    (known,) = np.nonzero(~np.isnan(row).all(axis=0))
    return row[:, : known[-1] + 1] if len(known) else row[:, :0]


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
            rows = READERS[suffix](_lines(file, source), source)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path}: not readable text ({first_line(error)}).") from error
    return _assemble(rows, None, source)


def _lines(file: Any, source: str) -> Iterator[tuple[int, str]]:
    """The lines that are not empty, with their numbers."""
    number = 0
    while line := file.readline(MAX_LINE):
        number += 1
        if len(line) == MAX_LINE:
            raise DataError(f"{source}: line {number} is longer than {MAX_LINE:,} characters.")
        if line.strip():
            yield number, line.strip("\r\n")


def _numbers(fields: Iterable[str], source: str, line: int) -> Series:
    """Fields as one channel; its missing end is cut off."""
    found = []
    for text in fields:
        bare = text.strip()
        if bare.lower() in MISSING:
            found.append(math.nan)
            continue
        try:
            found.append(float(bare))
        except ValueError:
            raise DataError(f"{source}: line {line}: {bare[:20]!r} should be a number.") from None
    with np.errstate(over="ignore"):
        return np.array(found, dtype=np.float32)[None]


def _read_ucr(lines: Iterator[tuple[int, str]], source: str) -> Rows:
    """The UCR archive's text: a label, then the values, with tabs between them."""
    series: list[Series] = []
    labels: list[str] = []
    for number, line in lines:
        label, *fields = line.split("\t") if "\t" in line else line.split()
        series.append(_without_tail(_numbers(fields, source, number)))
        labels.append(label.strip())
    return Rows(series, labels)


def _read_csv(lines: Iterator[tuple[int, str]], source: str) -> Rows:
    """One series in each row."""
    series: list[Series] = []
    labels: list[str] = []
    label_column = None
    for number, line in lines:
        separator = next((mark for mark in ",;\t" if mark in line), None)
        (fields,) = csv.reader([line], delimiter=separator or ",")
        if not series and label_column is None and _is_header(fields):
            known = [name.strip().lower() for name in fields]
            label_column = next((known.index(n) for n in ("label", "truth") if n in known), -1)
            continue
        if label_column is not None and 0 <= label_column < len(fields):
            labels.append(fields.pop(label_column).strip())
        series.append(_without_tail(_numbers(fields, source, number)))
    return Rows(series, labels or None)


def _is_header(fields: Sequence[str]) -> bool:
    """Whether the fields of a first row are names and no values."""
    texts = [text.strip().lower() for text in fields]
    return not any(re.fullmatch(r"[-+]?[\d.]+(e[-+]?\d+)?", text) for text in texts) and any(
        text not in MISSING for text in texts
    )


def _read_ts(lines: Iterator[tuple[int, str]], source: str) -> Rows:
    """aeon's text: lines with @, then the channels of each series with colons between them, and
    its class last if `@classLabel true` says so.
    """
    has_label = False
    is_data = False
    series: list[Series] = []
    labels: list[str] = []
    for number, line in lines:
        if line.lstrip().startswith("#"):
            continue
        if line.lstrip().startswith("@"):
            word, *rest = line.lower().split()
            if word == "@timestamps" and rest[:1] == ["true"]:
                raise DataError(f"{source}: values with time stamps are not read; leave them out.")
            has_label |= word in ("@classlabel", "@targetlabel") and rest[:1] == ["true"]
            is_data |= word == "@data"
            continue
        if not is_data:
            raise DataError(f"{source}: line {number} comes before @data; is it a .ts file?")
        *channels, last = line.split(":")
        if has_label:
            labels.append(last.strip())
        else:
            channels.append(last)
        if not channels:
            raise DataError(f"{source}: line {number} has a class but no values.")
        parts = [_numbers(text.split(","), source, number)[0] for text in channels]
        whole = np.full((len(parts), max(map(len, parts))), np.nan, dtype=np.float32)
        for row, part in zip(whole, parts, strict=True):
            row[: len(part)] = part
        series.append(_without_tail(whole))
    return Rows(series, labels if has_label else None)


READERS: dict[str, Callable[[Iterator[tuple[int, str]], str], Rows]] = {
    ".tsv": _read_ucr,
    ".txt": _read_ucr,
    ".ts": _read_ts,
    ".csv": _read_csv,
}
"""By how a file's name ends."""
