"""Writes an edited run for others to use: the registry of forms, each under a new name."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from selfsort.data.gallery import Gallery
from selfsort.errors import EditError
from selfsort.runs.copies import Progress
from selfsort.runs.exchange import write_coco, write_label_studio, write_xmp
from selfsort.runs.folder import TABLE
from selfsort.runs.forms import (
    Edited,
    write_assignments,
    write_folders,
    write_labels,
    write_links,
)
from selfsort.runs.state import State
from selfsort.runs.table import Assignments

FOLDER = "export"


class Export(NamedTuple):
    """A form: what it is called below the folder of exports and on the page, a sentence about it,
    and what writes it to a new path.
    """

    file: str
    title: str
    text: str
    write: Callable[[Path, Edited], None]


def export(
    kind: str,
    folder: Path,
    assignments: Assignments,
    state: State,
    gallery: Gallery,
    on_stage: Progress,
    out: Path | None = None,
) -> Path:
    """Write one of `EXPORTS` under a new name into `out`, else into `folder`/export; answers it."""
    if kind not in EXPORTS:
        raise EditError(f"kind={kind!r} should be one of {', '.join(EXPORTS)}.")
    place = out or folder / FOLDER
    form = EXPORTS[kind]
    target = _new(place / form.file)
    form.write(target, Edited(assignments, state, gallery, on_stage))
    return target


def _new(path: Path) -> Path:
    """The path, or with a number if something is there already, so that nothing is ever
    overwritten.
    """
    numbered = (path.with_name(f"{path.stem}-{number}{path.suffix}") for number in range(2, 10**6))
    return path if not path.exists() else next(place for place in numbered if not place.exists())


EXPORTS: dict[str, Export] = {
    "assignments": Export(
        TABLE,
        "assignments.csv",
        "One row per image: name, cluster, cluster name, confidence, outlier.",
        write_assignments,
    ),
    "labels": Export(
        "labels",
        "Labels for training",
        "labels.csv (file, label), labels.npy (class numbers, −1 for outliers), classes.txt.",
        write_labels,
    ),
    "folders": Export(
        "folders",
        "Folders of copies",
        "A copy of each image, in a folder named after its cluster (ImageFolder).",
        write_folders,
    ),
    "links": Export(
        "links",
        "Folders of links",
        "The same with links instead of copies: no room taken, as long as the images stay.",
        write_links,
    ),
    "xmp": Export(
        "xmp",
        "Keywords for photo programs",
        "A sidecar (XMP) for each image, in the same folders as the images; copied beside them, "
        "they give each image its cluster as a keyword in digiKam, darktable and others.",
        write_xmp,
    ),
    "coco": Export(
        "coco",
        "COCO",
        "annotations.json: the clusters as categories, one box around each whole image.",
        write_coco,
    ),
    "label-studio": Export(
        "label-studio",
        "Label Studio",
        "tasks.json to import and labels.xml for the interface; what you have reviewed counts as "
        "annotation, the rest as prediction.",
        write_label_studio,
    ),
}
"""By the names that the command line gives."""
