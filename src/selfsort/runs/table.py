"""Tables of a run, one row per image, safe to open in a spreadsheet; no torch."""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from numpy.typing import NDArray

from selfsort.errors import ModelFileError, first_line
from selfsort.files import open_file, save_text
from selfsort.runs.limits import MAX_LINE, MAX_TABLE_BYTES

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""A spreadsheet takes a cell that begins so for a formula (the last ones in East Asian
settings).
"""

IMAGE = "image"
"""The first column of `metadata.csv`."""

QUOTED = ";\t\r\n"
"""Cells with these are quoted as well as those with a comma: some spreadsheets take a semicolon or
a tab for the next cell.
"""


@dataclass(frozen=True)
class Assignments:
    """One row per image: its name, its cluster, how clear that is, and its truth if known.

    `cluster_names` and `outliers` are what a person has added with `selfsort explore`, `unlike`
    marks images that are unlike all that the model was fitted on.
    """

    names: Sequence[str]
    labels: NDArray[np.int64]
    confidence: NDArray[np.float32]
    truth: Sequence[str] | None = None
    cluster_names: Sequence[str] | None = None
    outliers: NDArray[np.bool_] | None = None
    unlike: NDArray[np.bool_] | None = None

    @property
    def inner(self) -> NDArray[np.bool_]:
        """Which images belong to a cluster: all but outliers."""
        if self.outliers is None:
            return np.ones(len(self.labels), dtype=bool)
        return ~self.outliers

    def take(self, rows: NDArray[np.intp]) -> "Assignments":
        """Only these images."""

        def some(values: Sequence[str] | None) -> list[str] | None:
            return None if values is None else [values[row] for row in rows]

        return Assignments(
            some(self.names) or [],
            self.labels[rows],
            self.confidence[rows],
            some(self.truth),
            some(self.cluster_names),
            None if self.outliers is None else self.outliers[rows],
            None if self.unlike is None else self.unlike[rows],
        )


def save_assignments(path: Path, assignments: Assignments) -> None:
    """Write a CSV file that is safe to open in a spreadsheet: a name that looks like a formula gets
    a leading quote.
    """
    columns: dict[str, Iterable[object]] = {
        "name": map(formula_safe, assignments.names),
        "cluster": assignments.labels.tolist(),
    }
    if assignments.cluster_names is not None:
        columns["cluster_name"] = map(formula_safe, assignments.cluster_names)
    columns["confidence"] = (f"{value:.4f}" for value in assignments.confidence)
    if assignments.outliers is not None:
        columns["outlier"] = assignments.outliers.astype(int).tolist()
    if assignments.unlike is not None:
        columns["unlike"] = assignments.unlike.astype(int).tolist()
    if assignments.truth is not None:
        columns["truth"] = map(formula_safe, assignments.truth)
    save_table(path, columns)


def save_table(path: Path, columns: Mapping[str, Iterable[object]]) -> None:
    """Write columns of equal length as CSV; text from outside should have gone through
    `formula_safe`.
    """
    lines: list[str] = []
    writer = csv.writer(
        SimpleNamespace(write=lines.append), lineterminator=QUOTED
    )  # it quotes cells with any of these
    writer.writerows([list(columns), *zip(*columns.values(), strict=True)])
    save_text(path, "".join(line.removesuffix(QUOTED) + "\n" for line in lines))


def load_table(path: Path, *columns: str) -> Iterator[dict[str, str]]:
    """The rows of a CSV file that has at least these columns, without the quotes that guard against
    formulas.
    """
    try:
        file = open_file(path, limit=MAX_TABLE_BYTES)
        with io.TextIOWrapper(file, "utf-8", "surrogateescape", newline="") as text:
            for row in csv.DictReader(_lines(text)):
                if missing := [column for column in columns if row.get(column) is None]:
                    raise ModelFileError(
                        f"{path}: a row has no {missing[0]}; the columns should be "
                        f"{', '.join(columns)}."
                    )
                yield {
                    name: _without_quote(cell)
                    for name, cell in row.items()
                    if isinstance(name, str) and isinstance(cell, str)
                }
    except FileNotFoundError as error:
        raise ModelFileError(f"{path}: no such file.") from error
    except (OSError, ValueError, csv.Error) as error:
        if isinstance(error, ModelFileError):
            raise
        raise ModelFileError(f"{path}: cannot be read as CSV ({first_line(error)}).") from error


def _lines(text: io.TextIOWrapper) -> Iterator[str]:
    """Line by line; a file without line breaks would be one of any length."""
    while line := text.readline(MAX_LINE):
        if len(line) == MAX_LINE:
            raise ValueError(f"a line has more than {MAX_LINE:,} characters")
        yield line


def load_assignments(path: Path) -> Assignments:
    """Read what `save_assignments` wrote."""
    names: list[str] = []
    labels: list[int] = []
    confidence: list[float] = []
    truth: list[str] | None = None
    outliers: list[bool] | None = None
    try:
        for row in load_table(path, "name", "cluster", "confidence"):
            if not names and "truth" in row:
                truth = []
            if not names and "outlier" in row:
                outliers = []
            names.append(row["name"])
            labels.append(_number(row["cluster"]))
            confidence.append(float(row["confidence"]))
            if not 0 <= confidence[-1] <= 1:
                raise ValueError("a confidence is not in [0, 1]")
            if truth is not None:
                truth.append(row.get("truth", ""))
            if outliers is not None:
                outliers.append(row.get("outlier") == "1")
    except ModelFileError:
        raise
    except ValueError as error:
        raise ModelFileError(
            f"{path}: cluster and confidence should be numbers ({first_line(error)})."
        ) from error
    return Assignments(
        names,
        np.array(labels, dtype=np.int64),
        np.array(confidence, dtype=np.float32),
        truth,
        outliers=None if outliers is None else np.array(outliers, dtype=bool),
    )


def save_metadata(path: Path, names: Sequence[str], columns: Mapping[str, Sequence[str]]) -> None:
    """Write what a table said of each image; the first column are the images' names."""
    whole = {IMAGE: names} | {
        f"{name} of the table" if name == IMAGE else name: values
        for name, values in columns.items()
    }
    cells = {formula_safe(name): map(formula_safe, values) for name, values in whole.items()}
    save_table(path, cells)


def load_metadata(path: Path) -> dict[str, list[str]]:
    """The columns that `save_metadata` wrote but the first, each with a text for every image;
    nothing if there is no such file.
    """
    columns: dict[str, list[str]] = {}
    if not path.exists():
        return columns
    for row in load_table(path, IMAGE):
        for name, value in row.items():
            columns.setdefault(_without_quote(name), []).append(value)
    columns.pop(IMAGE, None)
    return columns


def load_columns(path: Path, n_images: int) -> dict[str, list[str]]:
    """The same for a page: nothing if the file does not fit the run or is damaged."""
    try:
        columns = load_metadata(path)
    except ModelFileError:
        return {}
    return {name: values for name, values in columns.items() if len(values) == n_images}


def _number(text: str) -> int:
    if len(text) > 10:
        raise ValueError(f"cluster {text[:20]!r} is too large")
    return int(text)


def formula_safe(name: str) -> str:
    """A cell that no spreadsheet takes for a formula; `load_table` takes the quote away again."""
    return f"'{name}" if name.startswith((*FORMULA_STARTS, "'")) else name


def _without_quote(cell: str) -> str:
    return cell[1:] if cell.startswith("'") else cell
