"""The clusters of a run as a person has edited them; no torch."""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from selfsort.errors import EditError, ModelFileError

MAX_NAME = 100


@dataclass(frozen=True)
class State:
    """The clusters as edited: one entry per image in each array; `clusters` are the numbers in use,
    `free` the next one.

    An outlier keeps the cluster it came from. `reviewed` are the images on which a person has
    decided.
    """

    labels: NDArray[np.int64]
    outliers: NDArray[np.bool_]
    reviewed: NDArray[np.bool_]
    clusters: tuple[int, ...]
    free: int
    names: Mapping[int, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        labels: NDArray[np.int64],
        n_clusters: int,
        *,
        names: Mapping[int, str] | None = None,
        retired: Sequence[int] = (),
        outliers: NDArray[np.bool_] | None = None,
        reviewed: NDArray[np.bool_] | None = None,
    ) -> "State":
        """The state of a run that nobody has edited, or not since it learned from edits."""
        none = np.zeros(len(labels), dtype=bool)
        if not 1 <= n_clusters <= len(labels) or labels.min() < 0 or labels.max() >= n_clusters:
            raise ModelFileError(
                f"assignments.csv: {len(labels)} images do not fit the {n_clusters} clusters of "
                "run.json; fit again."
            )
        clusters = tuple(one for one in range(n_clusters) if one not in retired)
        return cls(
            labels,
            none if outliers is None else outliers,
            none if reviewed is None else reviewed,
            clusters,
            n_clusters,
            names or {},
        )

    def title(self, cluster: int) -> str:
        """The name of a cluster, or its number."""
        return self.names.get(cluster) or f"cluster {cluster}"

    def members(self, cluster: int) -> NDArray[np.intp]:
        """The images of a cluster, outliers left out."""
        return np.flatnonzero((self.labels == cluster) & ~self.outliers)

    def require(self, cluster: int) -> None:
        if cluster not in self.clusters:
            raise EditError(f"cluster {cluster} does not exist (any more); reload the page.")

    def rows(self, images: Sequence[int]) -> NDArray[np.intp]:
        """`images` as an index array, checked."""
        if not images or min(images) < 0 or max(images) >= len(self.labels):
            raise EditError(
                f"image numbers should be between 0 and {len(self.labels) - 1}, at least one of "
                "them."
            )
        return np.array(images, dtype=np.intp)


def name_problem(name: str) -> str:
    """What is wrong with the name of a cluster; nothing if it will do."""
    if name != name.strip() or len(name) > MAX_NAME:
        return (
            f"the name of a cluster should have at most {MAX_NAME} characters and no space "
            "at its ends."
        )
    if re.fullmatch(r"cluster[- ]?\d+|outliers", name, re.IGNORECASE):
        return (
            f"{name!r} is what clusters without a name, or outliers, are called; choose "
            "another name."
        )
    if any(
        unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
        for character in name
    ):
        return "the name of a cluster should have no line breaks or invisible characters."
    return ""
