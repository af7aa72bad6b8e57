"""Writes an edited run for others to use: a table, labels for training, or a folder per cluster; no
torch.
"""

import hashlib
import io
import os
import re
import secrets
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from selfsort.data.gallery import ArrayGallery, FolderGallery, Gallery
from selfsort.errors import DataError, EditError, SelfsortError
from selfsort.files import TEMPORARY, copy_file, inside, make_folder, save_bytes, save_text
from selfsort.runs.folder import TABLE
from selfsort.runs.state import State
from selfsort.runs.table import Assignments, formula_safe, save_assignments, save_table

FOLDER = "export"
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


def export(
    kind: str,
    folder: Path,
    assignments: Assignments,
    state: State,
    gallery: Gallery,
    on_stage: Progress,
) -> Path:
    """Write one of `assignments`, `labels`, `folders` below `folder`/export under a new name;
    answers it.
    """
    if kind == "assignments":
        path = _new(folder / FOLDER / TABLE)
        titles = [state.names.get(int(label), "") for label in state.labels]
        save_assignments(
            path,
            Assignments(
                assignments.names,
                state.labels,
                assignments.confidence,
                cluster_names=titles,
                outliers=state.outliers,
            ),
        )
        return path
    if kind == "labels":
        return _export_labels(_new(folder / FOLDER / "labels"), assignments, state)
    if kind == "folders":
        return _export_folders(
            _new(folder / FOLDER / "folders"), assignments, state, gallery, on_stage
        )
    raise EditError(f"kind={kind!r} should be one of assignments, labels, folders.")


def _export_labels(target: Path, assignments: Assignments, state: State) -> Path:
    """`labels.csv` (file, label) without outliers; `labels.npy`, a class number per image, −1 for
    outliers; `classes.txt`.
    """
    used = [cluster for cluster in state.clusters if len(state.members(cluster))]
    classes = {cluster: number for number, cluster in enumerate(used)}
    kept = np.flatnonzero(~state.outliers).tolist()
    titles = {cluster: state.names.get(cluster) or f"cluster-{cluster}" for cluster in used}
    columns = {
        "file": [formula_safe(assignments.names[row]) for row in kept],
        "label": [formula_safe(titles[int(state.labels[row])]) for row in kept],
    }
    save_table(target / "labels.csv", columns)
    numbers = np.full(len(state.labels), -1, dtype=np.int64)
    numbers[kept] = [classes[int(label)] for label in state.labels[kept]]
    save_text(target / "classes.txt", "".join(f"{titles[cluster]}\n" for cluster in used))
    buffer = io.BytesIO()
    np.save(buffer, numbers, allow_pickle=False)
    save_bytes(target / "labels.npy", buffer.getvalue())
    return target


def _export_folders(
    target: Path, assignments: Assignments, state: State, gallery: Gallery, on_stage: Progress
) -> Path:
    """A copy of each image in the folder of its cluster; images that are no files become PNG
    files.
    """
    folders = folder_names(state.names, state.clusters)
    places = [
        OUTLIERS if state.outliers[row] else folders[int(state.labels[row])]
        for row in range(len(state.labels))
    ]
    if isinstance(gallery, FolderGallery):
        _check_originals(gallery, on_stage)
        copy_files(gallery.root, assignments.names, places, target, on_stage)
        return target
    assert isinstance(gallery, ArrayGallery)
    names = [f"{name}.png" for name in assignments.names]
    with _whole_folder(target) as unfinished:
        for row, place in enumerate(_places(names, places)):
            save_bytes(unfinished / place, gallery.png(row))
            on_stage("copying", row + 1, len(places))
    return target


def _check_originals(gallery: FolderGallery, on_stage: Progress) -> None:
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
    with _whole_folder(target) as unfinished:
        for done, (name, place) in enumerate(zip(names, _places(names, places), strict=True)):
            copy_file(inside(root, name), unfinished / place)
            if on_stage:
                on_stage("copying", done + 1, len(names))


@contextmanager
def _whole_folder(target: Path) -> Iterator[Path]:
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


def _places(names: Sequence[str], places: Sequence[str]) -> Iterator[str]:
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


def _new(path: Path) -> Path:
    """The path, or with a number if something is there already, so that nothing is ever
    overwritten.
    """
    numbered = (path.with_name(f"{path.stem}-{number}{path.suffix}") for number in range(2, 10**6))
    return path if not path.exists() else next(place for place in numbered if not place.exists())
