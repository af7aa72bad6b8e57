"""`Teaching`: what somebody knows of some images, as numbers."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

UNKNOWN = -1


@dataclass(frozen=True)
class Teaching:
    """`classes` and `parents` have a number for each image, -1 where none is known; `names` and
    `parent_names` are what they are called. `counts` says how many clusters each parent is to have
    (0: as many as it shows). `weak` are clusters that were found before, which count for less than
    what somebody has said.
    """

    classes: NDArray[np.int64]
    names: tuple[str, ...] = ()
    parents: NDArray[np.int64] | None = None
    parent_names: tuple[str, ...] = ()
    counts: tuple[int, ...] = ()
    weak: NDArray[np.int64] | None = None

    @property
    def anchors(self) -> NDArray[np.intp]:
        """The images whose class is known."""
        return np.flatnonzero(self.classes >= 0)

    def take(self, rows: NDArray[np.integer[Any]]) -> "Teaching":
        """What is known of these images."""
        return replace(
            self,
            classes=self.classes[rows],
            parents=None if self.parents is None else self.parents[rows],
            weak=None if self.weak is None else self.weak[rows],
        )

    @property
    def lonely(self) -> list[str]:
        """The classes of which one image is labelled."""
        counts = np.bincount(self.classes[self.anchors], minlength=len(self.names))
        return [name for name, count in zip(self.names, counts, strict=True) if count == 1]

    def describe(self) -> str:
        """One line for people."""
        parts = []
        if self.names:
            parts.append(f"{len(self.anchors):,} labelled images of {len(self.names)} classes")
        if self.parents is not None:
            parts.append(f"{len(self.parent_names)} parents")
        return "given: " + ", ".join(parts)
