"""Copies of images: all there or not at all, under names that every file system takes; no torch."""

import hashlib
import os
import re
import secrets
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from selfsort.data.gallery import FolderGallery
from selfsort.errors import DataError, SelfsortError
from selfsort.files import TEMPORARY, copy_file, inside, make_folder

OUTLIERS = "outliers"
CHECKED = 512
"""Originals that are decoded at a time before they are copied."""

MAX_NAME = 250
"""Bytes of the names of copies; file systems allow 255."""

RESERVED = {
    "con",
    "prn",
    "aux",
    "nul",
    *(f"{port}{number}" for port in ("com", "lpt") for number in range(1, 10)),
}
"""Names that Windows keeps for itself."""

Progress = Callable[[str, int, int], None]


def check_originals(gallery: FolderGallery, on_stage: Progress) -> None:
    """Where the files are and what they are called comes from the run, which may be forged: each
    must be an image inside that folder, not what a link there leads to.
    """
    root = gallery.root.resolve()
    for name in gallery.names:
        if not inside(gallery.root, name).resolve().is_relative_to(root):
            raise DataError(
                f"{name!r}: a link that leads out of {gallery.root}; nothing is copied."
            )
    for start in range(0, len(gallery.names), CHECKED):
        rows = np.arange(start, min(start + CHECKED, len(gallery.names)))
        gallery.images(rows)  # refuses what is not a regular file or does not decode
        on_stage("checking", int(rows[-1]) + 1, len(gallery.names))


def copy_files(
    root: Path,
    names: Sequence[str],
    places: Sequence[str],
    target: Path,
    on_stage: Progress | None = None,
) -> None:
    """Copy each file to TARGET/place/, the folders of its name joined with `__`; all or nothing."""
    with whole_folder(target) as unfinished:
        for done, (name, place) in enumerate(zip(names, flat_places(names, places), strict=True)):
            copy_file(inside(root, name), unfinished / place)
            if on_stage:
                on_stage("copying", done + 1, len(names))


@contextmanager
def whole_folder(target: Path) -> Iterator[Path]:
    """A folder to fill beside `target`, whose place it takes when it is full; if that fails,
    nothing is left of it.
    """
    unfinished = target.with_name(f"{TEMPORARY}{secrets.token_hex(8)}")
    make_folder(unfinished)
    try:
        yield unfinished
        unfinished.rename(target)
    except BaseException as error:
        shutil.rmtree(unfinished, ignore_errors=True)
        if not isinstance(error, OSError):
            raise
        raise SelfsortError(
            f"cannot write {target}: {error.strerror or error}; free some space and try again."
        ) from error


def flat_places(names: Sequence[str], places: Sequence[str]) -> Iterator[str]:
    """Where each file goes: its flat name, with a number where that is taken, also for file systems
    that do not tell capitals apart.
    """
    taken: set[tuple[str, str]] = set()
    last: Counter[tuple[str, str]] = Counter()
    for name, place in zip(names, places, strict=True):
        flat = _flat(name)
        first = (place, flat.casefold())
        key = first
        chosen = flat
        while key in taken:
            last[first] += 1
            chosen = _flat(flat, f"-{last[first] + 1}")
            key = (place, chosen.casefold())
        taken.add(key)
        yield os.path.join(place, chosen)


def folder_names(names: Mapping[int, str], clusters: Iterable[int]) -> dict[int, str]:
    """A folder name for each cluster: its own name made safe for every file system, all different.

    >>> folder_names({0: "a/b", 1: "A:B", 2: "..", 3: "nul"}, range(5))
    {0: 'a_b', 1: 'A_B-1', 2: 'cluster-2', 3: '_nul', 4: 'cluster-4'}
    """
    found: dict[int, str] = {}
    taken = {OUTLIERS}
    for cluster in clusters:
        safe = re.sub(r'[<>:"/\\|?*\x00-\x1f\x7f]', "_", names.get(cluster, "")).strip(". ")
        safe = os.fsencode(safe)[:120].decode(errors="ignore").strip(". ") or f"cluster-{cluster}"
        safe = f"_{safe}" if safe.partition(".")[0].casefold() in RESERVED else safe
        while safe.casefold() in taken:
            safe = f"{safe}-{cluster}"
        taken.add(safe.casefold())
        found[cluster] = safe
    return found


def _flat(name: str, mark: str = "") -> str:
    """One file name of the folders and the name of a file, with a mark before its ending; too long
    a one keeps its beginning, a hash and its ending.
    """
    joined = name.replace(os.sep, "__")
    stem, ending = os.path.splitext(joined)
    if len(os.fsencode(joined + mark)) <= MAX_NAME:
        return f"{stem}{mark}{ending}"
    digest = hashlib.sha256(os.fsencode(joined)).hexdigest()[:16]
    ending = f"-{digest}{mark}{ending if len(ending) <= 16 else ''}"
    while len(os.fsencode(stem + ending)) > MAX_NAME:
        stem = stem[:-1]
    return stem + ending
