"""What an edited run looks like to others: tables, labels for training, a folder per cluster."""

import io
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from selfsort.data.gallery import ArrayGallery, FolderGallery, Gallery
from selfsort.errors import EditError
from selfsort.files import inside, save_bytes, save_text
from selfsort.runs.copies import (
    OUTLIERS,
    Progress,
    check_originals,
    copy_files,
    flat_places,
    folder_names,
    whole_folder,
)
from selfsort.runs.state import State
from selfsort.runs.table import Assignments, formula_safe, save_assignments, save_table


@dataclass(frozen=True)
class Edited:
    """A run as a person has edited it, and where its images are."""

    assignments: Assignments
    state: State
    gallery: Gallery
    on_stage: Progress

    def title(self, row: int) -> str:
        """What the cluster of an image is called."""
        label = int(self.state.labels[row])
        return self.state.names.get(label) or f"cluster-{label}"

    @property
    def kept(self) -> list[int]:
        """The images that are no outliers."""
        return np.flatnonzero(~self.state.outliers).tolist()

    @property
    def used(self) -> list[int]:
        """The clusters that hold images."""
        return [one for one in self.state.clusters if len(self.state.members(one))]

    @property
    def titles(self) -> list[str]:
        """What these are called."""
        return [self.state.names.get(one) or f"cluster-{one}" for one in self.used]


def write_assignments(target: Path, run: Edited) -> None:
    titles = [run.state.names.get(int(label), "") for label in run.state.labels]
    edited = Assignments(
        run.assignments.names,
        run.state.labels,
        run.assignments.confidence,
        cluster_names=titles,
        outliers=run.state.outliers,
    )
    save_assignments(target, edited)


def write_labels(target: Path, run: Edited) -> None:
    """`labels.csv` (file, label) without outliers; `labels.npy`, a class number per image, −1 for
    outliers; `classes.txt`.
    """
    classes = {cluster: number for number, cluster in enumerate(run.used)}
    columns = {
        "file": [formula_safe(run.assignments.names[row]) for row in run.kept],
        "label": [formula_safe(run.title(row)) for row in run.kept],
    }
    save_table(target / "labels.csv", columns)
    numbers = np.full(len(run.state.labels), -1, dtype=np.int64)
    numbers[run.kept] = [classes[int(run.state.labels[row])] for row in run.kept]
    save_text(target / "classes.txt", "".join(f"{title}\n" for title in run.titles))
    buffer = io.BytesIO()
    np.save(buffer, numbers, allow_pickle=False)
    save_bytes(target / "labels.npy", buffer.getvalue())


def write_folders(target: Path, run: Edited) -> None:
    """A copy of each image in the folder of its cluster; images that are no files become PNG
    files.
    """
    places = _places(run)
    gallery = run.gallery
    if isinstance(gallery, FolderGallery):
        check_originals(gallery, run.on_stage)
        copy_files(gallery.root, run.assignments.names, places, target, run.on_stage)
        return
    assert isinstance(gallery, ArrayGallery)
    names = [f"{name}.png" for name in run.assignments.names]
    with whole_folder(target) as unfinished:
        for row, place in enumerate(flat_places(names, places)):
            save_bytes(unfinished / place, gallery.png(row))
            run.on_stage("copying", row + 1, len(places))


def write_links(target: Path, run: Edited) -> None:
    """The same folders with a link to each image, which takes no room."""
    gallery = run.gallery
    if not isinstance(gallery, FolderGallery):
        raise EditError("these images are no files that a link could lead to; export folders.")
    check_originals(gallery, run.on_stage)
    names = run.assignments.names
    with whole_folder(target) as unfinished:
        for row, place in enumerate(flat_places(names, _places(run))):
            link = unfinished / place
            link.parent.mkdir(parents=True, exist_ok=True)
            os.symlink(os.path.abspath(inside(gallery.root, names[row])), link)
            run.on_stage("linking", row + 1, len(names))


def _places(run: Edited) -> list[str]:
    """The folder that each image goes into."""
    folders = folder_names(run.state.names, run.state.clusters)
    labels = run.state.labels.tolist()
    is_outlier = run.state.outliers.tolist()
    return [
        OUTLIERS if outlier else folders[label]
        for label, outlier in zip(labels, is_outlier, strict=True)
    ]
