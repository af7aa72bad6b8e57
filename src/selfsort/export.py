"""Writes an edited run for others to use: a table, labels for training, or a folder per cluster; no torch."""

import hashlib
import io
import os
import re
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import numpy as np

from selfsort.edits import State
from selfsort.errors import EditError, SelfsortError
from selfsort.files import copy_file, inside, save_bytes, save_text
from selfsort.gallery import ArrayGallery, FolderGallery, Gallery
from selfsort.run import Assignments, guard, save_assignments, save_table

FOLDER, OUTLIERS = "export", "outliers"
MAX_NAME = 250
"""Bytes of the names of copies; file systems allow 255."""

RESERVED = {"con", "prn", "aux", "nul", *(f"{port}{number}" for port in ("com", "lpt") for number in range(1, 10))}
"""Names that Windows keeps for itself."""

Progress = Callable[[str, int, int], None]


def export(kind: str, folder: Path, assignments: Assignments, state: State, gallery: Gallery, on_stage: Progress) -> Path:
    """Write one of `assignments`, `labels`, `folders` below `folder`/export under a new name; answers it."""
    if kind == "assignments":
        path = _new(folder / FOLDER / "assignments.csv")
        titles = [state.names.get(int(label), "") for label in state.labels]
        save_assignments(
            path,
            Assignments(assignments.names, state.labels, assignments.confidence, cluster_names=titles, outliers=state.outliers),
        )
        return path
    if kind == "labels":
        return _export_labels(_new(folder / FOLDER / "labels"), assignments, state)
    if kind == "folders":
        return _export_folders(_new(folder / FOLDER / "folders"), assignments, state, gallery, on_stage)
    raise EditError(f"kind={kind!r} should be one of assignments, labels, folders.")


def _export_labels(target: Path, assignments: Assignments, state: State) -> Path:
    """`labels.csv` (file, label) without outliers; `labels.npy`, a class number per image, −1 for outliers; `classes.txt`."""
    used = [cluster for cluster in state.clusters if len(state.members(cluster))]
    classes = {cluster: number for number, cluster in enumerate(used)}
    kept = np.flatnonzero(~state.outliers).tolist()
    titles = {cluster: state.names.get(cluster) or f"cluster-{cluster}" for cluster in used}
    columns = {
        "file": [guard(assignments.names[row]) for row in kept],
        "label": [guard(titles[int(state.labels[row])]) for row in kept],
    }
    save_table(target / "labels.csv", columns)
    numbers = np.full(len(state.labels), -1, dtype=np.int64)
    numbers[kept] = [classes[int(label)] for label in state.labels[kept]]
    save_text(target / "classes.txt", "".join(f"{titles[cluster]}\n" for cluster in used))
    buffer = io.BytesIO()
    np.save(buffer, numbers, allow_pickle=False)
    save_bytes(target / "labels.npy", buffer.getvalue())
    return target


def _export_folders(target: Path, assignments: Assignments, state: State, gallery: Gallery, on_stage: Progress) -> Path:
    """A copy of each image in the folder of its cluster; images that are no files become PNG files."""
    folders = folder_names(state.names, state.clusters)
    places = [OUTLIERS if state.outliers[row] else folders[int(state.labels[row])] for row in range(len(state.labels))]
    unfinished = target.with_name(f".{target.name}-unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    try:
        if isinstance(gallery, FolderGallery):
            copy_files(gallery.root, assignments.names, places, unfinished, on_stage)
        else:
            assert isinstance(gallery, ArrayGallery)
            for row, (name, place) in enumerate(zip(assignments.names, places, strict=True)):
                save_bytes(_free(unfinished / place / f"{_flat(name)}.png"), gallery.png(row))
                on_stage("copying", row + 1, len(places))
        unfinished.rename(target)
    except OSError as error:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise SelfsortError(f"cannot write {target}: {error.strerror or error}; free some space and try again.") from error
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    return target


def copy_files(root: Path, names: Iterable[str], places: Iterable[str], target: Path, on_stage: Progress | None = None) -> None:
    """Copy each file to TARGET/place/, the folders of its name joined with `__`."""
    jobs = list(zip(names, places, strict=True))
    for done, (name, place) in enumerate(jobs, start=1):
        copy_file(inside(root, name), _free(target / place / _flat(name)))
        if on_stage:
            on_stage("copying", done, len(jobs))


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


def _flat(name: str) -> str:
    """One file name of the folders and the name of a file; too long a one keeps its beginning, a hash and its ending."""
    joined = name.replace(os.sep, "__")
    if len(os.fsencode(joined)) <= MAX_NAME:
        return joined
    stem, ending = os.path.splitext(joined)
    ending = f"-{hashlib.sha256(os.fsencode(joined)).hexdigest()[:16]}{ending if len(ending) <= 16 else ''}"
    while len(os.fsencode(stem + ending)) > MAX_NAME:
        stem = stem[:-1]
    return stem + ending


def _free(place: Path) -> Path:
    while place.exists():
        place = place.with_name(f"_{place.name}")
    return place


def _new(path: Path) -> Path:
    """The path, or with a number if something is there already, so that nothing is ever overwritten."""
    numbered = (path.with_name(f"{path.stem}-{number}{path.suffix}") for number in range(2, 10**6))
    return path if not path.exists() else next(place for place in numbered if not place.exists())
