"""What the report shows of each cluster: facts and example images; and the confusion table."""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from selfsort.data.image_set import ImageSet
from selfsort.data.pictures import data_uri, group_picture, sharp_picture
from selfsort.report.odd import TITLES, odd_rows
from selfsort.report.typical import Points, borderline, most_typical
from selfsort.runs.table import Assignments
from selfsort.runs.tree import halves
from selfsort.text import printable

MAX_TABLE = 40
N_TYPICAL = 8
N_BORDERLINE = 4
N_ODD = 8
N_APART = 4
N_HALF = 6
MAX_COLUMNS = 3
MAX_VALUES = 50
"""Columns of metadata that a card tells of, and their different values, at most."""

MANY_CLUSTERS = 40
"""From here on each cluster shows fewer and smaller pictures, so that the page stays small."""

SIDE = 120
SMALL_SIDE = 64
GROUP_SIDE = 224
SHARPNESS = 1.5
"""Pixels of a picture for each pixel of the page, for fine screens."""
LONGEST_NAME = 100


class Example(NamedTuple):
    """One image on a card; `uri` is empty if the image cannot be shown."""

    uri: str
    side: int
    has_few_pixels: bool
    name: str
    file: str
    confidence: float


@dataclass(frozen=True)
class Cluster:
    """What the card of a cluster shows."""

    number: int
    name: str
    size: int
    share: float
    confidence: float
    truth: tuple[str, float] | None
    columns: list[tuple[str, str, float]]
    typical: list[Example]
    borderline: list[Example]
    together: str = ""
    """A picture of all of them over each other, as an address; of images there is none."""


class Odd(NamedTuple):
    """Images of a kind that somebody would want to know of: how many, and the first of them."""

    title: str
    size: int
    examples: list[Example]


class Apart(NamedTuple):
    """A cluster that falls into two halves: how many images each has, and some of them."""

    number: int
    sizes: tuple[int, int]
    parts: tuple[list[Example], list[Example]]


class Confusion(NamedTuple):
    """Images per cluster (row) and class (column); each class is below the cluster it fits best."""

    classes: list[str]
    rows: list[list[int]]
    shades: list[list[int]]


def cluster_card(
    number: int,
    n_clusters: int,
    assignments: Assignments,
    images: ImageSet | None,
    points: Points | None,
    columns: Mapping[str, Sequence[str]] | None = None,
) -> Cluster:
    """The facts and examples of one of `n_clusters` clusters."""
    members = np.flatnonzero((assignments.labels == number) & assignments.inner)
    share = min(1.0, max(0.3, MANY_CLUSTERS / n_clusters))
    n_typical = round(share * N_TYPICAL)
    n_borderline = round(share * N_BORDERLINE)
    side = SIDE if n_clusters <= MANY_CLUSTERS else SMALL_SIDE
    unclear = borderline(members, assignments.confidence, n_borderline)
    central = most_typical(members, assignments.confidence, points)
    typical = central[~np.isin(central, unclear)][:n_typical]
    truth = None
    if assignments.truth is not None and (
        known := [name for row in members.tolist() if (name := assignments.truth[row])]
    ):
        names, counts = np.unique(known, return_counts=True)
        truth = shown(str(names[counts.argmax()])), float(counts.max() / len(known))
    whole = group_picture(images, members, GROUP_SIDE) if images is not None else None
    return Cluster(
        number=number,
        name=shown(assignments.cluster_names[members[0]])
        if assignments.cluster_names and len(members)
        else "",
        size=len(members),
        share=len(members) / max(len(assignments.labels), 1),
        confidence=float(assignments.confidence[members].mean()) if len(members) else 0.0,
        truth=truth,
        columns=_most_frequent(members, columns or {}),
        typical=[_example(int(row), assignments, images, side) for row in typical],
        borderline=[_example(int(row), assignments, images, side) for row in unclear],
        together=data_uri(whole) if whole is not None else "",
    )


def _most_frequent(
    members: NDArray[np.intp], columns: Mapping[str, Sequence[str]]
) -> list[tuple[str, str, float]]:
    """Of each column of metadata whose values repeat, the value that most of the images have, with
    its share.
    """
    found = []
    for name, values in columns.items():
        n_values = len(set(values))
        own = Counter(value for row in members.tolist() if (value := values[row]))
        if 1 < n_values <= MAX_VALUES and own:
            ((value, count),) = own.most_common(1)
            found.append((shown(name), shown(value), count / len(members)))
    return found[:MAX_COLUMNS]


def odd_images(
    oddities: Mapping[str, Any], assignments: Assignments, images: ImageSet | None
) -> list[Odd]:
    """The copies, blank, dark and blurred images of a run."""
    return [
        Odd(
            TITLES[kind],
            len(rows),
            [_example(row, assignments, images, SIDE) for row in rows[:N_ODD]],
        )
        for kind, rows in odd_rows(oddities).items()
    ]


def falling_apart(
    assignments: Assignments,
    images: ImageSet | None,
    points: Points | None,
    numbers: Sequence[int],
) -> list[Apart]:
    """The clusters that fall into two halves first."""
    if points is None:
        return []
    labels = np.where(assignments.inner, assignments.labels, -1)
    found = []
    for one in halves(points, labels, numbers)[:N_APART]:
        shown_rows = [most_typical(p, assignments.confidence, points)[:N_HALF] for p in one.parts]
        examples = [
            [_example(int(row), assignments, images, SMALL_SIDE) for row in rows]
            for rows in shown_rows
        ]
        sizes = (len(one.parts[0]), len(one.parts[1]))
        found.append(Apart(one.cluster, sizes, (examples[0], examples[1])))
    return found


def _example(row: int, assignments: Assignments, images: ImageSet | None, side: int) -> Example:
    path = assignments.names[row]
    confidence = float(assignments.confidence[row])
    name = shown(path)
    file = shown(os.path.basename(path))
    if images is None:
        return Example("", 0, False, name, file, confidence)
    picture = sharp_picture(images, row, round(SHARPNESS * side))
    pixels = max(picture.size)
    if pixels < side:  # whole multiples keep small pixels even
        side = pixels * max(1, round(side / pixels))
    return Example(data_uri(picture), side, pixels < side, name, file, confidence)


def confusion(assignments: Assignments, n_clusters: int) -> Confusion | None:
    """Images per cluster and class. None without truth, or with more clusters or classes than a
    table can show.
    """
    if assignments.truth is None:
        return None
    truth = np.array(assignments.truth, dtype=object)
    known = truth != ""
    classes = sorted(
        set(truth[known]),
        key=lambda name: (not name.isdecimal(), len(name) if name.isdecimal() else 0, name),
    )
    if not classes or max(len(classes), n_clusters) > MAX_TABLE:
        return None
    place = {name: column for column, name in enumerate(classes)}
    table = np.zeros((n_clusters, len(classes)), dtype=np.int64)
    np.add.at(table, (assignments.labels[known], [place[name] for name in truth[known]]), 1)
    matched = linear_sum_assignment(table, maximize=True)[1]
    order = [*matched, *(column for column in range(len(classes)) if column not in matched)]
    table = table[:, order]
    shades = np.ceil(9 * table / np.maximum(table.sum(axis=1, keepdims=True), 1)).astype(int)
    return Confusion([shown(classes[column]) for column in order], table.tolist(), shades.tolist())


def shown(name: str) -> str:
    """A name that can be shown anywhere, cut in the middle if it is too long."""
    return printable(name, longest=LONGEST_NAME)
