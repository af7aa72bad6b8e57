"""The edits of a run, kept in a file beside it: each is on disk before it counts, and undoing is an
entry too; no torch.
"""

import hashlib
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

from selfsort.errors import EditError, ModelFileError, SelfsortError
from selfsort.files import read_file, sync_folder
from selfsort.runs.edits import Edit, Represent, parse_edit, to_json
from selfsort.runs.folder import RunFolder
from selfsort.runs.limits import MAX_JOURNAL_BYTES
from selfsort.runs.state import State

LOCK = "edits.lock"
FORMAT = 1


@dataclass(frozen=True)
class _Before:
    """What an edit changed, as it was before."""

    rows: NDArray[np.intp]
    labels: NDArray[np.int64]
    outliers: NDArray[np.bool_]
    reviewed: NDArray[np.bool_]
    state: State
    """Only its small parts are kept: clusters, free, names."""


class EditHistory:
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

    def relabel(self, labels: NDArray[np.int64], latent: Represent) -> NDArray[np.int64]:
        """The clusters of images that the run has not seen, after the merges and splits."""
        for edit in self.edits:
            labels = edit.relabel(labels, latent)
        return labels


class Journal:
    """The history of a run with its file, open for one process at a time."""

    def __init__(self, folder: Path, start: State) -> None:
        self.path = RunFolder(folder).journal
        self.lock = FileLock(folder / LOCK, timeout=0, thread_local=False)
        try:
            self.lock.acquire()
        except Timeout as error:
            raise SelfsortError(
                f"{folder}: is open in another `selfsort explore`; use that one, or end it first."
            ) from error
        except OSError as error:
            raise SelfsortError(f"cannot write in {folder}: {error.strerror or error}.") from error
        try:
            self.start = start
            content = _content(self.path)
            self.history, self.size = _replay(self.path, content, start)
            self.lost_bytes = len(content) - self.size
            self._known = _digest(content)  # so that nobody else's changes are written over
            self.version = 0
        except BaseException:
            self.lock.release()
            raise

    @property
    def state(self) -> State:
        return self.history.state

    def add(self, entry: Edit | str) -> str:
        """Check an edit, `undo` or `redo`, write it to disk, and only then let it count; says what
        it did.
        """
        if not self.lock.is_locked:
            raise SelfsortError(f"{self.path}: is closed already; nothing was changed.")
        # a copy, so that nothing changes if the edit is refused or cannot be written
        trial = EditHistory(self.state)
        trial.done = list(self.history.done)
        trial.undone = list(self.history.undone)
        what = trial.apply(entry)
        content = {"op": entry} if isinstance(entry, str) else to_json(entry)
        lines = _line({**content, "time": datetime.now(UTC).isoformat(timespec="seconds")})
        self._append(lines if self.size else _line(_header(self.start)) + lines)
        self.history = trial
        self.version += 1
        return what

    def _append(self, content: bytes) -> None:
        try:
            found = _content(self.path)
            if _digest(found) != self._known:
                raise SelfsortError(
                    f"{self.path}: was changed by another program meanwhile; nothing was written, "
                    "end this and start it again."
                )
            # without a buffer: no late writes
            with open(self.path, "r+b" if found else "ab", buffering=0) as file:
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
                        self._known = _digest(found[: self.size])
                    raise
            if not self.size:
                sync_folder(self.path.parent)
        except OSError as error:
            raise SelfsortError(
                f"cannot write {self.path}: {error.strerror or error}; nothing was changed, free "
                "some space and try again."
            ) from error
        self._known = _digest(found[: self.size] + content)
        self.size += len(content)

    def close(self) -> None:
        self.lock.release()


def load_history(folder: Path, start: State) -> EditHistory:
    """The edits of a run, for reading only; an unfinished last entry is left out."""
    path = RunFolder(folder).journal
    return _replay(path, _content(path), start)[0]


def set_aside(folder: Path) -> Path | None:
    """Rename the journal of a run that is about to be replaced; answers its new name."""
    path = RunFolder(folder).journal
    if not path.exists():
        return None
    numbers = (
        number for number in range(1, 10**6) if not (folder / f"edits-{number}.jsonl").exists()
    )
    return path.rename(folder / f"edits-{next(numbers)}.jsonl")


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


def _content(path: Path) -> bytes:
    try:
        return read_file(path, limit=MAX_JOURNAL_BYTES)
    except FileNotFoundError:
        return b""
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ModelFileError(f"{path}: cannot be read ({reason}).") from error


def _replay(path: Path, content: bytes, start: State) -> tuple[EditHistory, int]:
    """The history in a journal and how many of its bytes are whole entries."""
    history = EditHistory(start)
    whole = content[: content.rfind(b"\n") + 1]
    rest = content[len(whole) :]  # never finished, unless the line ends were changed
    is_begun = _line(_header(start)).startswith(rest) if not whole else b"\r" not in rest
    if not is_begun:
        raise ModelFileError(
            f"{path}: damaged (its lines do not end as they were written); restore the file, or "
            "move it away to start anew."
        )
    for number, line in enumerate(whole.split(b"\n")[:-1], start=1):
        try:
            entry = _parse(line)
            if number == 1:
                if entry != _header(start):
                    raise ModelFileError(
                        f"{path}: belongs to another result than assignments.csv; move it away "
                        "to start anew."
                    )
                continue
            entry.pop("time")
            history.apply(entry["op"] if entry.get("op") in ("undo", "redo") else parse_edit(entry))
        except ModelFileError:
            raise
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            reason = " ".join(str(error).split())
            raise ModelFileError(
                f"{path}: line {number} is damaged ({reason}); restore the file, or cut it off "
                "before that line."
            ) from error
    return history, len(whole)


def _header(start: State) -> dict[str, Any]:
    labels = zlib.crc32(np.ascontiguousarray(start.labels, dtype="<i8").tobytes())
    return {
        "format": FORMAT,
        "images": len(start.labels),
        "clusters": len(start.clusters),
        "labels": f"{labels:08x}",
    }


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
    changed = (
        (old.labels != new.labels) | (old.outliers != new.outliers) | (old.reviewed != new.reviewed)
    )
    rows = np.flatnonzero(changed)
    none = np.zeros(0, dtype=np.int64)
    small = replace(old, labels=none, outliers=none.astype(bool), reviewed=none.astype(bool))
    return _Before(rows, old.labels[rows], old.outliers[rows], old.reviewed[rows], small)


def _restore(state: State, before: _Before) -> State:
    labels, outliers, reviewed = state.labels.copy(), state.outliers.copy(), state.reviewed.copy()
    labels[before.rows], outliers[before.rows], reviewed[before.rows] = (
        before.labels,
        before.outliers,
        before.reviewed,
    )
    return replace(before.state, labels=labels, outliers=outliers, reviewed=reviewed)
