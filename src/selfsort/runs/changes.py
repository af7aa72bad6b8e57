"""What moves from one version of a run to another; no torch."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from selfsort.runs.folder import RunFolder
from selfsort.runs.results import load_edits, load_run, start_of
from selfsort.runs.table import formula_safe, save_table
from selfsort.runs.versions import version_folder

CHANGES = "changes.csv"


class Change(NamedTuple):
    """An image that another version puts elsewhere: its row and name, and what its cluster is
    called in either.
    """

    row: int
    name: str
    old: str
    new: str
    cluster: int
    confidence: float


def changes_of(folder: Path, number: int) -> list[Change]:
    """What moves if a version takes the place of the run as it is edited now; the least sure
    last.
    """
    new = load_run(version_folder(folder, number))
    now = load_edits(RunFolder(folder), load_run(folder, edited=False)).state
    later = start_of(RunFolder(version_folder(folder, number)), new)
    found = new.assignments
    rows = np.flatnonzero((now.labels != found.labels) & ~now.outliers)
    rows = rows[np.argsort(-found.confidence[rows], kind="stable")]
    return [
        Change(
            row,
            found.names[row],
            now.title(int(now.labels[row])),
            later.title(int(found.labels[row])),
            int(found.labels[row]),
            round(float(found.confidence[row]), 4),
        )
        for row in rows.tolist()
    ]


def save_changes(folder: Path, changes: Sequence[Change]) -> Path:
    """Write the changes as a table beside a version."""
    path = folder / CHANGES
    columns: dict[str, list[object]] = {
        "name": [formula_safe(one.name) for one in changes],
        "from": [formula_safe(one.old) for one in changes],
        "to": [formula_safe(one.new) for one in changes],
        "confidence": [one.confidence for one in changes],
    }
    save_table(path, columns)
    return path
