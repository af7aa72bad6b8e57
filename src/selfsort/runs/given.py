"""What somebody knew of the images before they were sorted: `given.csv` beside a run, so that it
can be resumed and taught again without the files that it came from; no torch.
"""

from collections.abc import Sequence
from pathlib import Path

from selfsort.data.taught import Teaching
from selfsort.runs.table import formula_safe, load_table, save_table

NAME, CLASS, PARENT = "name", "class", "parent"


def save_given(path: Path, names: Sequence[str], taught: Teaching) -> None:
    """Write a row for each image of which something is known."""
    is_known = taught.classes >= 0
    if taught.parents is not None:
        is_known |= taught.parents >= 0
    rows = is_known.nonzero()[0].tolist()
    classes = [taught.names[one] if one >= 0 else "" for one in taught.classes[rows]]
    columns = {NAME: [names[row] for row in rows], CLASS: classes}
    if taught.parents is not None:
        columns[PARENT] = [taught.parent_names[one] for one in taught.parents[rows]]
    save_table(path, {name: map(formula_safe, cells) for name, cells in columns.items()})


def load_given(path: Path) -> tuple[dict[str, str], dict[str, str]]:
    """The classes and the parents of images by their names; nothing if there is no such file."""
    classes: dict[str, str] = {}
    parents: dict[str, str] = {}
    if path.exists():
        for row in load_table(path, NAME, CLASS):
            if row[CLASS]:
                classes[row[NAME]] = row[CLASS]
            if row.get(PARENT):
                parents[row[NAME]] = row[PARENT]
    return classes, parents
