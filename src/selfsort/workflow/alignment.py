"""The cluster numbers of an earlier run, for a new one to take over."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selfsort.data.image_set import ImageSet
from selfsort.errors import SelfsortError
from selfsort.runs.folder import RunFolder
from selfsort.runs.results import load_labels
from selfsort.workflow.images import Callbacks


def load_reference(images: ImageSet, earlier: str, callbacks: Callbacks) -> NDArray[np.int64]:
    """The cluster that an earlier run gave to each image, by its name; -1 for those it did not
    have.
    """
    path = Path(earlier)
    if path.is_dir() and RunFolder(path).journal.exists():
        callbacks.tell(
            f"{path}: its edits count; align to its {RunFolder(path).table.name} to leave them out"
        )
    assignments = load_labels(path)
    known = dict(zip(assignments.names, assignments.labels.tolist(), strict=True))
    reference = np.array([known.get(name, -1) for name in images.names], dtype=np.int64)
    if (reference < 0).all():
        raise SelfsortError(
            f"{earlier}: has no image in common with {images.source}, by their names, so there is "
            "nothing to align to."
        )
    return reference


def alignment_of(
    labels: NDArray[np.int64], reference: NDArray[np.int64], earlier: str
) -> dict[str, Any]:
    """What `run.json` says of it: images in common, and the share of them that have the earlier
    number.
    """
    common = reference >= 0
    return {
        "to": earlier,
        "common": int(common.sum()),
        "same": float((labels == reference)[common].mean()),
    }
