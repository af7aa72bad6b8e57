"""Tables that name image files: CSV or Parquet with a column of paths, or a path in each line."""

import csv
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from selfsort.errors import DataError, first_line

LISTS = (".txt", ".lst")
PARQUET = (".parquet", ".pq")
TABLES = (".csv", *PARQUET, *LISTS)

PATH_COLUMNS = ("path", "file", "filename", "file_name", "filepath", "image", "image_path", "name")


class NamedFiles(NamedTuple):
    """Files, and what else a table says of each."""

    files: list[Path]
    columns: Mapping[str, Sequence[str]]


def is_table(path: Path) -> bool:
    """Whether its name says that it is such a table."""
    return path.suffix.lower() in TABLES


def read_table(path: Path) -> NamedFiles:
    """The files that a table names, relative to its folder; rows without one are left out."""
    columns = read_columns(path)
    known = {name.strip().lower(): name for name in columns}
    chosen = next((known[name] for name in PATH_COLUMNS if name in known), None)
    if chosen is None:
        raise DataError(
            f"{path}: has no column with paths; it should be called "
            f"{', '.join(PATH_COLUMNS[:-1])} or {PATH_COLUMNS[-1]}."
        )
    paths = columns.pop(chosen)
    rows = [row for row, name in enumerate(paths) if name]
    if not rows or any("\0" in paths[row] for row in rows):
        raise DataError(f"{path}: lists no files in its column {chosen!r}.")
    files = [Path(os.path.abspath(path.parent / paths[row])) for row in rows]
    others = {name: [values[row] for row in rows] for name, values in columns.items() if name}
    return NamedFiles(files, others)


def read_columns(path: Path) -> dict[str, list[str]]:
    """All columns of a table, as text."""
    suffix = path.suffix.lower()
    try:
        if suffix in LISTS:
            lines = path.read_text(encoding="utf-8-sig").splitlines()
            return {"path": [line.strip() for line in lines]}
        return _read_parquet(path) if suffix in PARQUET else _read_csv(path)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path}: not a readable table ({first_line(error)}).") from error


def _read_csv(path: Path) -> dict[str, list[str]]:
    with open(path, encoding="utf-8-sig", newline="") as file:
        rows = csv.DictReader(file)
        names = list(rows.fieldnames or ())
        columns: dict[str, list[str]] = {name: [] for name in names}
        for row in rows:
            for name in names:
                columns[name].append(row[name] or "")
    return columns


def _read_parquet(path: Path) -> dict[str, list[str]]:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError as error:
        raise DataError(
            f"{path}: Parquet files need pyarrow; pip install 'selfsort[parquet]', or save the "
            "table as CSV."
        ) from error
    try:
        table: Any = parquet.read_table(path)
    except ArrowException as error:
        raise DataError(f"{path}: not a readable table ({first_line(error)}).") from error
    return {
        name: ["" if value is None else str(value) for value in values]
        for name, values in table.to_pydict().items()
    }
