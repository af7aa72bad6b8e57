"""Time series in files of text: those of the UCR archive and of aeon, and tables."""

import csv
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from selfsort.errors import DataError

MAX_LINE = 2**26
"""Bytes of a line of text, at most."""

MISSING = ("", "?", "nan", "na", "null")
"""How files write a value that is not there, in small letters."""

Series = NDArray[np.float32]


class Rows(NamedTuple):
    """What a file of text holds: series (channel, own length) and the label of each, if any."""

    series: list[Series]
    labels: list[str] | None


def without_tail(row: Series) -> Series:
    """A series up to the last value that any channel has."""
    (known,) = np.nonzero(~np.isnan(row).all(axis=0))
    return row[:, : known[-1] + 1] if len(known) else row[:, :0]


def text_lines(file: Any, source: str) -> Iterator[tuple[int, str]]:
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
        series.append(without_tail(_numbers(fields, source, number)))
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
        series.append(without_tail(_numbers(fields, source, number)))
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
        series.append(without_tail(whole))
    return Rows(series, labels if has_label else None)


READERS: dict[str, Callable[[Iterator[tuple[int, str]], str], Rows]] = {
    ".tsv": _read_ucr,
    ".txt": _read_ucr,
    ".ts": _read_ts,
    ".csv": _read_csv,
}
"""By how a file's name ends."""
