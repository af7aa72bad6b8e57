"""The results of a run, written and read together: record, table, and the labels with edits applied
or without; no torch.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from selfsort.errors import ModelFileError
from selfsort.files import open_file
from selfsort.runs.folder import RunFolder
from selfsort.runs.given import load_given
from selfsort.runs.journal import EditHistory, load_history
from selfsort.runs.record import Run, load_record, save_record
from selfsort.runs.state import State
from selfsort.runs.table import Assignments, load_assignments, load_metadata, save_assignments
from selfsort.runs.versions import finish_switch


class Results(NamedTuple):
    """What a finished run found."""

    run: Run
    assignments: Assignments

    def metadata(self, folder: Path) -> dict[str, list[str]]:
        """What a table said of each image, by column; empty if the images came from no table."""
        columns = load_metadata(RunFolder(folder).metadata)
        if any(len(values) != self.run.n_samples for values in columns.values()):
            raise ModelFileError(
                f"{RunFolder(folder).metadata}: belongs to other images; fit again."
            )
        return columns


def save_run(
    folder: Path, run: Run, assignments: Assignments, *, beside: Sequence[str] = ()
) -> None:
    """Write `assignments.csv` and then `run.json`, with the hashes of it and of the files `beside`
    them, into `folder`.
    """
    paths = RunFolder(folder)
    save_assignments(paths.table, assignments)
    hashes = {name: file_hash(folder / name) for name in (paths.table.name, *beside)}
    save_record(paths.record, replace(run, files=hashes))


def load_run(folder: Path | str, *, edited: bool = True) -> Results:
    """The record of a run and the cluster of each image.

    With `edited` the labels are those after the edits made in `selfsort explore`, else those that
    the fit found.
    """
    paths = RunFolder(Path(folder))
    finish_switch(paths.path)
    found = Results(load_record(paths.record), load_assignments(paths.table))
    if not edited or not is_edited(paths, found):
        return found
    return found._replace(assignments=apply_edits(found.assignments, load_edits(paths, found)))


def load_edits(folder: RunFolder, found: Results) -> EditHistory:
    """The edits of a run that was loaded without them."""
    return load_history(folder.path, start_of(folder, found))


def is_edited(folder: RunFolder, found: Results) -> bool:
    """Whether a person has changed anything, or clusters had names from the start."""
    has_own = any(found.run.names) or found.assignments.outliers is not None
    return has_own or folder.journal.exists()


def start_of(folder: RunFolder, found: Results) -> State:
    """The clusters of a run before they were edited; images whose class was given are decided."""
    run = found.run
    names = found.assignments.names
    classes, _ = load_given(folder.given)
    return State.of(
        found.assignments.labels,
        run.n_clusters,
        names={number: name for number, name in enumerate(run.names) if name},
        retired=run.retired,
        outliers=found.assignments.outliers,
        reviewed=np.array([name in classes for name in names], dtype=bool) if classes else None,
    )


def apply_edits(assignments: Assignments, history: EditHistory) -> Assignments:
    """The assignments after the edits; unchanged if there are none, and no names."""
    state = history.state
    if not history.edits and not state.names and not state.outliers.any():
        return assignments
    names = [state.names.get(int(label), "") for label in state.labels]
    return replace(assignments, labels=state.labels, cluster_names=names, outliers=state.outliers)


def load_labels(path: Path) -> Assignments:
    """The assignments in a CSV file, or those of a run's folder with its edits; outliers are left
    out.
    """
    if not path.is_dir():
        return load_assignments(path)
    assignments = (
        load_run(path).assignments
        if RunFolder(path).record.exists()
        else load_assignments(RunFolder(path).table)
    )
    if assignments.outliers is None:
        return assignments
    return assignments.take(np.flatnonzero(~assignments.outliers))


def file_hash(path: Path) -> str:
    """SHA-256 of a file."""
    try:
        with open_file(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ModelFileError(
            f"{path}: cannot be read ({reason}); restore it or train again."
        ) from error
