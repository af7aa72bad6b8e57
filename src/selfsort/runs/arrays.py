"""Arrays that are computed once and kept beside a run; they belong to its assignments; no torch."""

import io
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from selfsort.files import open_file, save_bytes
from selfsort.runs.folder import RunFolder
from selfsort.runs.table import Assignments

MAX_VECTORS = 2**28
"""Bytes of `vectors.npz`, packed or not: five million images."""


def save_arrays(path: Path, assignments: Assignments, **arrays: NDArray[np.generic]) -> Path:
    """Write an `.npz` file that says which assignments it belongs to."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, run=fingerprint(assignments), allow_pickle=False, **arrays)
    save_bytes(path, buffer.getvalue())
    return path


def load_arrays(
    path: Path, assignments: Assignments, *names: str, limit: int
) -> list[NDArray[np.generic]] | None:
    """What `save_arrays` wrote for these assignments; None if there is none, or it is damaged."""
    try:
        file = open_file(path, limit=limit)
        with file, np.load(file, allow_pickle=False) as content:
            if sum(entry.file_size for entry in content.zip.infolist()) > limit:
                return None  # a few bytes can declare any number of values
            found = [content[name] for name in names]
            is_ours = int(content["run"]) == fingerprint(assignments)
    except Exception:  # missing, or damaged in one of the many ways of zip files: compute it again
        return None
    return found if is_ours else None


def fingerprint(assignments: Assignments) -> int:
    """A checksum of names and labels."""
    names = zlib.crc32("\0".join(assignments.names).encode("utf-8", "surrogateescape"))
    return zlib.crc32(np.asarray(assignments.labels, dtype=np.int64).tobytes(), names)


def save_vectors(
    folder: Path, vectors: NDArray[np.float32], assignments: Assignments
) -> tuple[Path, NDArray[np.float32]]:
    """Write `vectors.npz`: a short vector for each image, near each other where images are alike.

    Half precision is enough to tell neighbours; the vectors are scaled so that it can hold them.
    Returns the file, and the vectors as they will be read from it.
    """
    scale = max(float(np.sqrt(np.mean(np.square(vectors)))), 1e-12)
    packed = (vectors / scale).astype(np.float16)
    path = save_arrays(RunFolder(folder).vectors, assignments, vectors=packed)
    return path, packed.astype(np.float32)


def load_vectors(folder: Path, assignments: Assignments) -> NDArray[np.float32] | None:
    """What `save_vectors` wrote; None if there is nothing for these assignments."""
    found = load_arrays(RunFolder(folder).vectors, assignments, "vectors", limit=MAX_VECTORS)
    if found is None:
        return None
    (vectors,) = found
    is_whole = (
        vectors.dtype == np.float16
        and vectors.ndim == 2
        and len(vectors) == len(assignments.names)
        and bool(np.isfinite(vectors).all())
    )
    return vectors.astype(np.float32) if is_whole else None
