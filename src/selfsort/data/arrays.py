"""Arrays from files: memory maps of `.npy`, members of `.npz`, and bytes whose number a header
declares.
"""

import math
import zipfile
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from selfsort.errors import DataError, first_line
from selfsort.files import MAX_ARRAY_BYTES


def load_npy(path: Path) -> NDArray[Any]:
    try:
        return np.lib.format.open_memmap(path, mode="r")
    except Exception as error:  # the header is a Python expression, with as many ways to be wrong
        raise DataError(f"{path}: not a readable .npy array ({first_line(error)}).") from error


def load_npz(path: Path) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """The array called `images`, `x` or `X`, or the only one; `truth`, `labels` or `y` beside it is
    its truth.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = {
                name.removesuffix(".npy"): name
                for name in archive.namelist()
                if name.endswith(".npy")
            }
            labels = [members.pop(name) for name in ("truth", "labels", "y") if name in members]
            known = [members[name] for name in ("images", "x", "X", "arr_0") if name in members]
            if not known and len(members) != 1:
                raise DataError(
                    f"{path}: holds the arrays {sorted(members)}; the images should be called "
                    "images."
                )
            wanted = [*known, *members.values()][:1] + labels[:1]
            arrays = [_read_npy_member(archive, name, path) for name in wanted]
    except DataError:
        raise
    except Exception as error:  # as in `load_npy`, and those of a damaged or encrypted zip file
        raise DataError(f"{path}: not a readable .npz file ({first_line(error)}).") from error
    return arrays[0], arrays[1] if len(arrays) > 1 else None


def _read_npy_member(archive: zipfile.ZipFile, name: str, path: Path) -> NDArray[Any]:
    with archive.open(name) as file:
        version = np.lib.format.read_magic(file)
        if version not in ((1, 0), (2, 0)):
            raise DataError(
                f"{path}: {name} has .npy format {version}; save it again with numpy.savez."
            )
        read_header = (
            np.lib.format.read_array_header_1_0
            if version == (1, 0)
            else np.lib.format.read_array_header_2_0
        )
        shape, is_fortran, dtype = read_header(file)
        if dtype.hasobject:
            raise DataError(f"{path}: {name} holds Python objects; it should hold numbers.")
        content = read_exactly(file, math.prod(shape) * dtype.itemsize, f"{path}: {name}")
    return np.frombuffer(content, dtype=dtype).reshape(shape, order="F" if is_fortran else "C")


def read_exactly(file: BinaryIO | Any, n_bytes: int, source: str) -> bytearray:
    """Read `n_bytes` piece by piece, so that a header which lies about its size costs no memory."""
    if not 0 <= n_bytes <= MAX_ARRAY_BYTES:
        raise DataError(
            f"{source} declares {n_bytes:,} bytes, more than {MAX_ARRAY_BYTES >> 30} GiB; split "
            "it or save it as .npy."
        )
    content = bytearray()
    while len(content) < n_bytes:
        piece = file.read(min(n_bytes - len(content), 1 << 20))
        if not piece:
            raise DataError(
                f"{source} ends {n_bytes - len(content):,} bytes too early; fetch it again."
            )
        content += piece
    return content
