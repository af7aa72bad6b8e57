"""Versions of a run: each time it learns from a person's changes there is a new one, whole, in a
folder of its own below `versions`; one of them is also the run itself. No torch.

Another version takes the run's place file by file. What is to be done is written down first, so
that whoever opens the run after a crash finishes it: a run is never half of one version.
"""

import hashlib
import json
import shutil
from contextlib import suppress
from pathlib import Path

from selfsort.errors import SelfsortError
from selfsort.files import copy_file, make_folder, read_file, save_json
from selfsort.runs.copies import whole_folder
from selfsort.runs.folder import (
    GIVEN,
    JOURNAL,
    MAP,
    METADATA,
    MODEL,
    PICTURE,
    RECORD,
    REPORT,
    SWITCH,
    TABLE,
    VECTORS,
    RunFolder,
)
from selfsort.runs.limits import MAX_JOURNAL_BYTES
from selfsort.runs.record import load_record

PARTS = (MODEL, TABLE, METADATA, PICTURE, REPORT, MAP, VECTORS, JOURNAL, GIVEN, RECORD)
"""The files of a version, the record last."""


def list_versions(folder: Path) -> list[int]:
    """The versions that are kept below a run, in order."""
    found = RunFolder(folder).versions.glob("*/" + RECORD)
    return sorted(int(file.parent.name) for file in found if file.parent.name.isdecimal())


def version_folder(folder: Path, number: int) -> Path:
    """Where a version is kept."""
    return RunFolder(folder).versions / str(number)


def waiting(folder: Path) -> int | None:
    """The version that was learned and is neither accepted nor rejected."""
    number = load_record(RunFolder(folder).record).version
    later = [one for one in list_versions(folder) if one > number]
    learned = [one for one in later if learned_from(folder, one) == number]
    return learned[-1] if learned else None


def learned_from(folder: Path, number: int) -> int:
    """The version that a version has learned from; 0 for that which `fit` wrote."""
    return load_record(RunFolder(version_folder(folder, number)).record).learned_from


def new_number(folder: Path) -> int:
    """The number of the next version."""
    current = load_record(RunFolder(folder).record).version
    return max([current, *list_versions(folder)]) + 1


def reject(folder: Path, number: int) -> None:
    """Remove a version that does not take the run's place."""
    place = version_folder(folder, number)
    gone = place.with_name(f"{place.name}.removed")
    with suppress(OSError):
        place.rename(gone)
        shutil.rmtree(gone)


def switch(folder: Path, number: int) -> None:
    """Let another version take the run's place; the present one is kept with its edits."""
    if number not in list_versions(folder):
        known = ", ".join(map(str, list_versions(folder))) or "none"
        raise SelfsortError(f"{folder}: has no version {number}; kept are: {known}.")
    _keep(folder)
    save_json(folder / SWITCH, {"to": number})
    finish_switch(folder)


def accept(folder: Path, number: int) -> None:
    """Let a version that was learned take the run's place, if it knows all edits of the run."""
    learned = load_record(RunFolder(version_folder(folder, number)).record)
    if learned.given.get("edits") != digest_of_edits(folder):
        raise SelfsortError(
            f"{folder}: was changed since version {number} learned from it; learn again."
        )
    switch(folder, number)


def digest_of_edits(folder: Path) -> str:
    """Tells one journal from another."""
    path = RunFolder(folder).journal
    content = read_file(path, limit=MAX_JOURNAL_BYTES) if path.exists() else b""
    return hashlib.sha256(content).hexdigest()[:16]


def finish_switch(folder: Path) -> None:
    """Finish what `switch` has begun, if a crash has stopped it."""
    intent = folder / SWITCH
    if not intent.exists():
        return
    try:
        number = int(json.loads(read_file(intent, limit=1000))["to"])
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise SelfsortError(
            f"{intent}: damaged; remove it, and take a version from {folder / 'versions'}."
        ) from error
    source = version_folder(folder, number)
    for name in PARTS:
        if (source / name).exists():
            copy_file(source / name, folder / name)
        else:
            (folder / name).unlink(missing_ok=True)
    intent.unlink(missing_ok=True)


def _keep(folder: Path) -> None:
    """A copy of the run as it is now, as one of its versions."""
    target = version_folder(folder, load_record(RunFolder(folder).record).version)
    old = target.with_name(f"{target.name}.old")
    new = target.with_name(f"{target.name}.new")
    for left in (old, new):  # by a crash
        shutil.rmtree(left, ignore_errors=True)
    make_folder(target.parent)
    with whole_folder(new) as unfinished:
        for name in PARTS:
            if (folder / name).exists():
                copy_file(folder / name, unfinished / name)
    if target.exists():
        target.rename(old)
    new.rename(target)
    shutil.rmtree(old, ignore_errors=True)


def set_versions_aside(folder: Path) -> None:
    """Rename the versions of a run that is about to be replaced by another fit."""
    versions = RunFolder(folder).versions
    if versions.exists():
        numbers = (folder / f"versions-{number}" for number in range(1, 10**6))
        versions.rename(next(place for place in numbers if not place.exists()))
