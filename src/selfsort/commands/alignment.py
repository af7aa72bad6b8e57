"""`selfsort fit --align-to`: the cluster numbers of an earlier run."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from selfsort.commands.common import tell_of_edits
from selfsort.errors import SelfsortError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from selfsort.images import ImageSet


def load_reference(images: "ImageSet", earlier: str) -> "NDArray[np.int64]":
    """The cluster that an earlier run gave to each image, by its name; -1 for those it did not have."""
    import numpy as np

    from selfsort.run import load_assignments

    path = Path(earlier)
    tell_of_edits(path)
    assignments = load_assignments(path / "assignments.csv" if path.is_dir() else path)
    known = dict(zip(assignments.names, assignments.labels.tolist(), strict=True))
    reference = np.array([known.get(name, -1) for name in images.names], dtype=np.int64)
    if (reference < 0).all():
        raise SelfsortError(f"{earlier}: has no image in common with {images.source}; --align-to needs some, by their names.")
    return reference


def alignment_of(labels: "NDArray[np.int64]", reference: "NDArray[np.int64]", earlier: str) -> dict[str, Any]:
    """What `run.json` says of it: images in common, and the share of them that have the earlier number."""
    common = reference >= 0
    return {"to": earlier, "common": int(common.sum()), "same": float((labels == reference)[common].mean())}
