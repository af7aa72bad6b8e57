"""The edits of a run, kept in a file beside it: each is on disk before it counts, and undoing is an entry too; no torch."""

import json
import os
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout
from numpy.typing import NDArray

from selfsort.edits import Edit, Latent, State, parse_edit, to_json
from selfsort.errors import EditError, ModelFileError, SelfsortError
from selfsort.files import sync_folder

JOURNAL, LOCK, FORMAT = "edits.jsonl", "edits.lock", 1


@dataclass(frozen=True)
class _Before:
    """What an edit changed, as it was before."""

    rows: NDArray[np.intp]
    labels: NDArray[np.int64]
    outliers: NDArray[np.bool_]
    reviewed: NDArray[np.bool_]
    state: State
    """Only its small parts are kept: clusters, free, names."""


class History:
    """A state, the edits that led to it and those that were undone."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.done: list[tuple[Edit, _Before]] = []
        self.undone: list[Edit] = []

    @property
    def edits(self) -> list[Edit]:
        return [edit for edit, _ in self.done]

    def apply(self, entry: Edit | str) -> str:
        """Apply an edit, `undo` or `redo`; says what it did."""
        if entry == "undo":
            if not self.done:
                raise EditError("there is nothing to undo.")
            edit, before = self.done.pop()
            self.undone.append(edit)
            self.state = _restore(self.state, before)
            return f"undone: {edit.describe(self.state)}"
        if entry == "redo":
            if not self.undone:
                raise EditError("there is nothing to redo.")
            edit = self.undone[-1]
            self._advance(edit)
            self.undone.pop()
            return f"done again: {edit.describe(self.done[-1][1].state)}"
        assert isinstance(entry, Edit)
        self._advance(entry)
        self.undone.clear()
        return entry.describe(self.done[-1][1].state)

    def _advance(self, edit: Edit) -> None:
        old, self.state = self.state, edit.apply(self.state)
        self.done.append((edit, _difference(old, self.state)))

    def relabel(self, labels: NDArray[np.int64], latent: Latent) -> NDArray[np.int64]:
        """The clusters of images that the run has not seen, after the merges and splits."""
        for edit in self.edits:
            labels = edit.relabel(labels, latent)
        return labels


class Journal:
    """The history of a run with its file, open for one process at a time."""

    def __init__(self, folder: Path, start: State) -> None:
        self.path = folder / JOURNAL
        self.lock = FileLock(folder / LOCK, timeout=0, thread_local=False)
        try:
            self.lock.acquire()
        except Timeout as error:
            raise SelfsortError(f"{folder}: is open in another `selfsort explore`; use that one, or end it first.") from error
        except OSError as error:
            raise SelfsortError(f"cannot write in {folder}: {error.strerror or error}.") from error
        try:
            self.start = start
            self.history, self.size = _read(self.path, start)
            self.lost_bytes = (self.path.stat().st_size if self.path.exists() else 0) - self.size
            self.version = 0
        except BaseException:
            self.lock.release()
            raise

    @property
    def state(self) -> State:
        return self.history.state

    def add(self, entry: Edit | str) -> str:
        """Check an edit, `undo` or `redo`, write it to disk, and only then let it count; says what it did."""
        if not self.lock.is_locked:
            raise SelfsortError(f"{self.path}: is closed already; nothing was changed.")
        trial = History(self.state)  # so that nothing changes if it is refused or cannot be written
        trial.done, trial.undone = list(self.history.done), list(self.history.undone)
        what = trial.apply(entry)
        content = {"op": entry} if isinstance(entry, str) else to_json(entry)
        lines = _line({**content, "time": datetime.now(UTC).isoformat(timespec="seconds")})
        self._append(lines if self.size else _line(_header(self.start)) + lines)
        self.history, self.version = trial, self.version + 1
        return what

    def _append(self, content: bytes) -> None:
        try:
            with open(self.path, "r+b" if self.size or self.path.exists() else "xb", buffering=0) as file:  # no late writes
                file.truncate(self.size)  # an unfinished entry that a crash has left
                file.seek(self.size)
                try:
                    written = 0
                    while written < len(content):
                        written += file.write(content[written:])
                    os.fsync(file.fileno())
                except BaseException:
                    with suppress(OSError):
                        file.truncate(self.size)
                    raise
            if not self.size:
                sync_folder(self.path.parent)
        except OSError as error:
            raise SelfsortError(
                f"cannot write {self.path}: {error.strerror or error}; nothing was changed, free some space and try again."
            ) from error
        self.size += len(content)

    def close(self) -> None:
        self.lock.release()


def load_history(folder: Path, start: State) -> History:
    """The edits of a run, for reading only; an unfinished last entry is left out."""
    return _read(folder / JOURNAL, start)[0]


def set_aside(folder: Path) -> Path | None:
    """Rename the journal of a run that is about to be replaced; answers its new name."""
    path = folder / JOURNAL
    if not path.exists():
        return None
    numbers = (number for number in range(1, 10**6) if not (folder / f"edits-{number}.jsonl").exists())
    return path.rename(folder / f"edits-{next(numbers)}.jsonl")


def _read(path: Path, start: State) -> tuple[History, int]:
    """The history in a journal and how many of its bytes are whole entries."""
    history = History(start)
    try:
        content = path.read_bytes() if path.exists() else b""
    except OSError as error:
        raise ModelFileError(f"{path}: cannot be read ({error.strerror or error}).") from error
    whole = content[: content.rfind(b"\n") + 1]  # what follows the last line break was never finished
    for number, line in enumerate(whole.split(b"\n")[:-1], start=1):
        try:
            entry = _parse(line)
            if number == 1:
                if entry != _header(start):
                    raise ModelFileError(f"{path}: belongs to another result than assignments.csv; move it away to start anew.")
                continue
            entry.pop("time")
            history.apply(entry["op"] if entry.get("op") in ("undo", "redo") else parse_edit(entry))
        except ModelFileError:
            raise
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            reason = " ".join(str(error).split())
            raise ModelFileError(
                f"{path}: line {number} is damaged ({reason}); restore the file, or cut it off before that line."
            ) from error
    return history, len(whole)


def _header(start: State) -> dict[str, Any]:
    labels = zlib.crc32(np.ascontiguousarray(start.labels, dtype="<i8").tobytes())
    return {"format": FORMAT, "images": len(start.labels), "clusters": len(start.clusters), "labels": f"{labels:08x}"}


def _line(entry: Mapping[str, Any]) -> bytes:
    body = json.dumps(entry, separators=(",", ":"))
    return f'{{"crc":"{zlib.crc32(body.encode()):08x}","entry":{body}}}\n'.encode()


def _parse(line: bytes) -> dict[str, Any]:
    content = json.loads(line.decode("utf-8"))
    if not isinstance(content, dict) or not isinstance(content.get("entry"), dict):
        raise ValueError("not an entry")
    entry: dict[str, Any] = content["entry"]
    if _line(entry).rstrip(b"\n") != line:
        raise ValueError("its checksum is wrong")
    return entry


def _difference(old: State, new: State) -> _Before:
    changed = (old.labels != new.labels) | (old.outliers != new.outliers) | (old.reviewed != new.reviewed)
    rows = np.flatnonzero(changed)
    none = np.zeros(0, dtype=np.int64)
    small = replace(old, labels=none, outliers=none.astype(bool), reviewed=none.astype(bool))
    return _Before(rows, old.labels[rows], old.outliers[rows], old.reviewed[rows], small)


def _restore(state: State, before: _Before) -> State:
    labels, outliers, reviewed = state.labels.copy(), state.outliers.copy(), state.reviewed.copy()
    labels[before.rows], outliers[before.rows], reviewed[before.rows] = before.labels, before.outliers, before.reviewed
    return replace(before.state, labels=labels, outliers=outliers, reviewed=reviewed)
