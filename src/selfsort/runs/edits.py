"""What a person changes in a finished run: each edit turns one state into the next, and nothing
else; no torch.
"""

import base64
import binascii
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_type_hints

import numpy as np
from numpy.typing import NDArray

from selfsort.errors import EditError
from selfsort.runs.state import State, name_problem
from selfsort.schema import fits

MAX_PARTS = 50

Represent = Callable[[NDArray[np.intp]], NDArray[np.float32]]
"""Answers F of the images in these rows."""


class Edit(ABC):
    """One edit: a frozen dataclass whose fields are what the journal stores."""

    @abstractmethod
    def apply(self, state: State) -> State:
        """The state after it; an edit that does not fit the state is refused."""

    @abstractmethod
    def describe(self, state: State) -> str:
        """What it did to the state before it, in a few words."""

    def relabel(self, labels: NDArray[np.int64], latent: Represent) -> NDArray[np.int64]:
        """The clusters of images that came later; only merges and splits concern them."""
        return labels


@dataclass(frozen=True)
class Rename(Edit):
    """Give a cluster a name of its own; an empty one takes it away."""

    cluster: int
    name: str

    def apply(self, state: State) -> State:
        state.require(self.cluster)
        if problem := name_problem(self.name):
            raise EditError(problem)
        others = {
            name.casefold(): cluster
            for cluster, name in state.names.items()
            if cluster != self.cluster
        }
        if self.name.casefold() in others:
            taken = others[self.name.casefold()]
            raise EditError(
                f"the name {self.name!r} belongs to cluster {taken}; merge the two, or choose "
                "another name."
            )
        names = {cluster: name for cluster, name in state.names.items() if cluster != self.cluster}
        return replace(state, names=names | ({self.cluster: self.name} if self.name else {}))

    def describe(self, state: State) -> str:
        return (
            f"named cluster {self.cluster} “{self.name}”"
            if self.name
            else f"took the name of cluster {self.cluster} away"
        )


@dataclass(frozen=True)
class Merge(Edit):
    """All images of a cluster go into another, which keeps its number, and its name if it has
    one.
    """

    cluster: int
    into: int

    def apply(self, state: State) -> State:
        state.require(self.cluster)
        state.require(self.into)
        if self.cluster == self.into:
            raise EditError(
                f"cluster {self.cluster} cannot be merged with itself; choose another one."
            )
        names = dict(state.names)
        if given := names.pop(self.cluster, None):
            names.setdefault(self.into, given)
        clusters = tuple(cluster for cluster in state.clusters if cluster != self.cluster)
        return replace(
            state,
            labels=_renumber(state.labels, self.cluster, self.into),
            clusters=clusters,
            names=names,
        )

    def describe(self, state: State) -> str:
        return f"merged {state.title(self.cluster)} into {state.title(self.into)}"

    def relabel(self, labels: NDArray[np.int64], latent: Represent) -> NDArray[np.int64]:
        return _renumber(labels, self.cluster, self.into)


@dataclass(frozen=True)
class Split(Edit):
    """Some images of a cluster become new clusters: `parts[i]` the one numbered `numbers[i]`; the
    rest stays.

    `centres` are those of the rest and of each part in F, as base64 of float32, for images that
    come later.
    """

    cluster: int
    numbers: list[int]
    parts: list[list[int]]
    centres: str = ""

    def apply(self, state: State) -> State:
        state.require(self.cluster)
        new = list(range(state.free, state.free + len(self.parts)))
        if not 1 <= len(self.parts) < MAX_PARTS or self.numbers != new:
            raise EditError(
                f"a split should make 2 to {MAX_PARTS} clusters with the next free numbers."
            )
        decode_centres(self.centres, len(self.parts) + 1)
        labels = state.labels.copy()
        for number, part in zip(self.numbers, self.parts, strict=True):
            rows = state.rows(part)
            if (labels[rows] != self.cluster).any():
                raise EditError(
                    f"a split of cluster {self.cluster} should take its own images only, each once."
                )
            labels[rows] = number
        return replace(
            state, labels=labels, clusters=(*state.clusters, *new), free=state.free + len(new)
        )

    def describe(self, state: State) -> str:
        return f"split {state.title(self.cluster)} into {len(self.parts) + 1}"

    def relabel(self, labels: NDArray[np.int64], latent: Represent) -> NDArray[np.int64]:
        rows = np.flatnonzero(labels == self.cluster)
        centres = decode_centres(self.centres, len(self.parts) + 1)
        if not len(rows) or centres is None:
            return labels
        points = latent(rows)
        if points.shape[1] != centres.shape[1]:
            raise EditError(
                f"a split was made with another model: {centres.shape[1]} numbers per image, not "
                f"{points.shape[1]}."
            )
        distances = np.stack([((points - centre) ** 2).sum(axis=1) for centre in centres], axis=1)
        changed = labels.copy()
        changed[rows] = np.array([self.cluster, *self.numbers])[distances.argmin(axis=1)]
        return changed


@dataclass(frozen=True)
class Move(Edit):
    """Put images into a cluster; the next free number makes a new one, with a `name` if given."""

    images: list[int]
    to: int
    name: str = ""

    def apply(self, state: State) -> State:
        rows, is_new = state.rows(self.images), self.to == state.free
        if not is_new:
            state.require(self.to)
        if self.name and not is_new:
            raise EditError("only a new cluster can be named while images are moved to it.")
        labels, outliers = state.labels.copy(), state.outliers.copy()
        labels[rows], outliers[rows] = self.to, False
        clusters = (*state.clusters, *[self.to][:is_new])
        moved = replace(
            _review(state, rows),
            labels=labels,
            outliers=outliers,
            clusters=clusters,
            free=state.free + is_new,
        )
        return Rename(self.to, self.name).apply(moved) if self.name else moved

    def describe(self, state: State) -> str:
        named = f" “{self.name}”" if self.name else ""
        return f"moved {_count(self.images)} to {state.title(self.to)}{named}"


@dataclass(frozen=True)
class Mark(Edit):
    """Mark images as outliers, or take the mark away."""

    images: list[int]
    outlier: bool

    def apply(self, state: State) -> State:
        rows, outliers = state.rows(self.images), state.outliers.copy()
        outliers[rows] = self.outlier
        return replace(_review(state, rows), outliers=outliers)

    def describe(self, state: State) -> str:
        return (
            f"marked {_count(self.images)} as outlier"
            if self.outlier
            else f"put {_count(self.images)} back into the clusters"
        )


@dataclass(frozen=True)
class Accept(Edit):
    """A person has looked at these images and leaves them where they are."""

    images: list[int]

    def apply(self, state: State) -> State:
        return _review(state, state.rows(self.images))

    def describe(self, state: State) -> str:
        return f"accepted {_count(self.images)}"


KINDS: dict[str, type[Edit]] = {
    kind.__name__.lower(): kind for kind in (Rename, Merge, Split, Move, Mark, Accept)
}


def to_json(edit: Edit) -> dict[str, Any]:
    """An edit as a JSON object; `parse_edit` reads it."""
    return {"op": type(edit).__name__.lower(), **vars(edit)}


def parse_edit(content: Mapping[str, Any]) -> Edit:
    """An edit from a JSON object; every field is there, of its type, and no other; those with a
    default may be missing.

    >>> parse_edit({"op": "merge", "cluster": 2, "into": 0})
    Merge(cluster=2, into=0)
    """
    kind = KINDS.get(str(content.get("op")))
    if kind is None:
        raise EditError(f"op={content.get('op')!r} should be one of {', '.join(KINDS)}.")
    hints = get_type_hints(kind)
    given = {name: content[name] for name in hints if name in content}
    required = {name for name in hints if not hasattr(kind, name)}  # those without a default
    is_whole = set(content) == {"op", *given} and required <= set(given)
    if not is_whole or not all(fits(value, hints[name]) for name, value in given.items()):
        wanted = ", ".join(
            f"{name}: {getattr(hint, '__name__', hint)}" for name, hint in hints.items()
        )
        raise EditError(f"{content['op']} should have exactly these fields: {wanted}.")
    return kind(**given)


def encode_centres(centres: NDArray[np.float32]) -> str:
    return base64.b64encode(np.ascontiguousarray(centres, dtype="<f4").tobytes()).decode()


def decode_centres(text: str, n_centres: int) -> NDArray[np.float32] | None:
    """What `encode_centres` wrote, (n_centres, width); None if there is nothing."""
    try:
        values = np.frombuffer(base64.b64decode(text, validate=True), dtype="<f4")
        return values.reshape(n_centres, -1).astype(np.float32) if len(values) else None
    except (binascii.Error, ValueError) as error:
        raise EditError(f"the centres of a split cannot be read ({error}).") from error


def _renumber(labels: NDArray[np.int64], old: int, new: int) -> NDArray[np.int64]:
    return np.where(labels == old, new, labels)


def _review(state: State, rows: NDArray[np.intp]) -> State:
    reviewed = state.reviewed.copy()
    reviewed[rows] = True
    return replace(state, reviewed=reviewed)


def _count(images: Sequence[int]) -> str:
    return "1 image" if len(images) == 1 else f"{len(images):,} images"
