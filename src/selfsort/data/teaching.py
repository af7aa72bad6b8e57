"""What somebody knows of the images: the class of some, the coarse class (parent) of all.

It comes as a table, or as the names of sub-folders, and travels with the `ImageSet`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from selfsort.data.image_set import ImageSet
from selfsort.data.tables import read_columns
from selfsort.data.taught import UNKNOWN, Teaching
from selfsort.errors import DataError

FILE_COLUMNS = ("file", "name", "image", "path", "index")
CLASS_COLUMNS = ("label", "class", "cluster_name", "cluster", "parent", "category")
"""Columns in which files and classes are looked for; else the first two."""

SHOWN = 3


def teach(
    images: ImageSet,
    *,
    labels: Mapping[str, str] | None = None,
    parents: Mapping[str, str] | None = None,
) -> ImageSet:
    """The images with what is known of them, by their names; what does not fit is refused."""
    if not labels and not parents:
        return images
    place = {name: row for row, name in enumerate(images.names)}
    classes, names = _numbered(labels or {}, place, images.source, "labels")
    if labels and len(names) == 1:
        raise DataError(
            f"{images.source}: all labels say {names[0]!r}; label images of two classes or more."
        )
    if labels and (classes >= 0).all():
        raise DataError(
            f"{images.source}: all {len(images):,} images have a label, so nothing is left to "
            "sort; leave those out that are to be sorted."
        )
    of_all = None
    parent_names: tuple[str, ...] = ()
    if parents:
        of_all, parent_names = _numbered(parents, place, images.source, "parents")
        missing = np.flatnonzero(of_all < 0)
        if len(missing):
            raise DataError(
                f"{images.source}: {len(missing):,} of {len(images):,} images have no parent "
                f"({_some(images.names[int(row)] for row in missing)}); every image needs one."
            )
        if len(parent_names) == 1:
            raise DataError(
                f"{images.source}: all images have the parent {parent_names[0]!r}; give two or "
                "more, or none."
            )
    if of_all is not None and (classes >= 0).any():
        _check_nested(classes, of_all, names, parent_names, images)
    return replace(images, taught=Teaching(classes, names, of_all, parent_names))


def _numbered(
    said: Mapping[str, str], place: Mapping[str, int], source: str, what: str
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    unknown = [name for name in said if name not in place]
    if unknown:
        raise DataError(
            f"{source}: {len(unknown):,} of {len(said):,} {what} are for images that are not there "
            f"({_some(unknown)}); remove them, or correct the names."
        )
    names = tuple(sorted(set(said.values())))
    number = {name: row for row, name in enumerate(names)}
    found = np.full(len(place), UNKNOWN, dtype=np.int64)
    for name, value in said.items():
        found[place[name]] = number[value]
    return found, names


def _check_nested(
    classes: NDArray[np.int64],
    parents: NDArray[np.int64],
    names: Sequence[str],
    parent_names: Sequence[str],
    images: ImageSet,
) -> None:
    for number, name in enumerate(names):
        seen = np.unique(parents[classes == number])
        if len(seen) > 1:
            several = _some(parent_names[int(parent)] for parent in seen)
            raise DataError(
                f"{images.source}: images of class {name!r} have the parents {several}; a class "
                "lies in one parent."
            )


def settle_count(images: ImageSet, wanted: int | str | None) -> tuple[ImageSet, int | str]:
    """How many clusters there are to be: as asked; else as many as there are classes with labels,
    in each parent as many as it shows, or 10. `wanted` may name each parent: `cats=3,dogs=5`.
    """
    taught = images.taught
    if taught is None:
        return images, 10 if wanted is None else wanted
    if taught.parents is None:
        number = len(taught.names) if wanted is None else wanted
        if isinstance(number, int) and number < len(taught.names):
            raise DataError(
                f"{images.source}: the labels name {len(taught.names)} classes, so there cannot be "
                f"{number} clusters; ask for as many or more (`n_clusters`)."
            )
        return images, number
    counts = _counts(wanted, taught.parent_names)
    for parent, (name, count) in enumerate(zip(taught.parent_names, counts, strict=True)):
        inner = taught.parents == parent
        named = len(np.unique(taught.classes[inner & (taught.classes >= 0)]))
        if inner.sum() < max(2, count):
            raise DataError(
                f"{images.source}: parent {name!r} has {int(inner.sum())} images, too few for "
                f"{max(2, count)} clusters; merge it with another parent, or ask for fewer."
            )
        if count and count < named:
            raise DataError(
                f"{images.source}: the labels name {named} classes in parent {name!r}, so there "
                f"cannot be {count} clusters in it; ask for as many or more (`n_clusters`)."
            )
    return replace(images, taught=replace(taught, counts=counts)), "auto"


def _counts(wanted: int | str | None, names: Sequence[str]) -> tuple[int, ...]:
    """How many clusters each parent is to have; 0: to be found.

    >>> _counts("cats=3,dogs=auto", ["cats", "dogs"]), _counts(5, ["cats", "dogs"])
    ((3, 0), (5, 5))
    """
    if wanted is None or wanted == "auto":
        return (0,) * len(names)
    if isinstance(wanted, int):
        return (wanted,) * len(names)
    asked = dict(part.rpartition("=")[::2] for part in wanted.split(","))
    for name, count in asked.items():
        is_count = count == "auto" or (count.isascii() and count.isdecimal() and int(count) > 0)
        if name not in names or not is_count:
            raise DataError(
                f"n_clusters={wanted!r} should look like {names[0]}=3,{names[1]}=5, with the names "
                f"of parents ({_some(names)})."
            )
    return tuple(int(asked.get(name, "auto").replace("auto", "0")) for name in names)


def read_labels(path: Path) -> dict[str, str]:
    """Name (or number) of an image to its class, from a CSV file; rows without a class are left
    out.
    """
    table = read_columns(path)
    columns = list(table)
    if len(columns) < 2:
        raise DataError(f"{path}: should have two columns or more: the file, and its class.")
    by_name = {name.strip().lower(): name for name in reversed(columns)}
    first = next((by_name[name] for name in FILE_COLUMNS if name in by_name), columns[0])
    rest = [name for name in columns if name != first]
    second = next((by_name[n] for n in CLASS_COLUMNS if n in by_name and by_name[n] != first), "")
    said: dict[str, str] = {}
    against: Counter[str] = Counter()
    for name, value in zip(table[first], table[second or rest[0]], strict=True):
        name, value = name.strip(), value.strip()
        if not value:
            continue
        if said.setdefault(name, value) != value:
            against[f"{name} is {said[name]} and {value}"] += 1
    if against:
        raise DataError(
            f"{path}: {len(against):,} images have two classes ({_some(against)}); leave one."
        )
    if not said:
        raise DataError(f"{path}: says nothing: no row has a class.")
    return said


def folder_parents(images: ImageSet) -> dict[str, str]:
    """The names of the sub-folders that images lie in."""
    said = {name: Path(name).parts[0] for name in images.names if len(Path(name).parts) > 1}
    if not said:
        raise DataError(
            f"{images.source}: has no sub-folders to take parents from; give a table (parents)."
        )
    return said


def _some(values: Iterable[str]) -> str:
    """The first few of these.

    >>> _some("abcde")
    "'a', 'b', 'c', …"
    """
    every = list(values)
    return ", ".join(map(repr, every[:SHOWN])) + (", …" if len(every) > SHOWN else "")
