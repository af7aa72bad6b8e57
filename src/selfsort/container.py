"""Named arrays and plain values in one safetensors file: data, never code, checked whole whenever
it is read; no torch.
"""

import hashlib
import json
import math
import os
import re
from collections.abc import Mapping
from io import BufferedReader
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save

from selfsort.errors import ModelFileError, first_line
from selfsort.files import MAX_ARRAY_BYTES, open_file, save_bytes
from selfsort.text import printable

FORMAT = 3
"""Raised when a file can no longer be read by older code. 2: with a hash of the content; 3: models
name their modality and their assigner.
"""

READABLE = (2, FORMAT)

SUFFIX = ".safetensors"

MAX_HEADER_BYTES = 8 * 2**20
"""Parsed, a header takes at most forty times as much memory; those of ours have less than 1 MB."""

VALUES = "selfsort"
"""The one entry of the file's metadata; of two, safetensors would write either first."""

HASH = "sha256"
"""The value in it that is a hash."""

DTYPES = {
    name: np.dtype(code)
    for name, code in {
        "BOOL": "?", "U8": "u1", "I8": "i1", "U16": "<u2", "I16": "<i2", "U32": "<u4",
        "I32": "<i4", "U64": "<u8", "I64": "<i8", "F16": "<f2", "F32": "<f4", "F64": "<f8",
    }.items()
}  # fmt: skip
"""What safetensors calls the types of numpy that a file may have."""


class Contents(NamedTuple):
    """What such a file holds."""

    arrays: dict[str, NDArray[Any]]
    values: dict[str, Any]
    sha256: str


class Place(NamedTuple):
    """Type, shape and position of an array in a file."""

    dtype: str
    shape: tuple[int, ...]
    offset: int

    @property
    def n_bytes(self) -> int:
        return math.prod(self.shape) * DTYPES[self.dtype].itemsize


class Header(NamedTuple):
    """What can be known of such a file without reading its arrays."""

    values: dict[str, Any]
    places: dict[str, Place]
    n_bytes: int
    sha256: str


def save_container(
    path: Path,
    arrays: Mapping[str, NDArray[Any]],
    values: Mapping[str, Any],
    *,
    kind: str,
    new_folder: bool = True,
) -> str:
    """Write arrays and JSON values into one file of the given kind (`model`, `checkpoint`); returns
    its hash.
    """
    header = {"format": FORMAT, "kind": kind, **values}
    whole = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    sha256 = content_hash(header, whole)
    save_bytes(
        path,
        save(whole, {VALUES: json.dumps({**header, HASH: sha256}, allow_nan=False)}),
        new_folder=new_folder,
    )
    return sha256


def load_container(path: Path, *, kind: str | None = None) -> Contents:
    """The inverse of `save_container`; what cannot be trusted is refused with a reason."""
    header = load_header(path, kind=kind)
    try:
        # by numpy and not by safetensors, which ends the process where memory runs out
        with open_file(path, limit=MAX_ARRAY_BYTES) as file:
            arrays = {name: _load_array(file, place) for name, place in header.places.items()}
        hash_found = content_hash(header.values, arrays)
    except (OSError, ValueError) as error:
        raise damaged(path, error) from error
    if hash_found != header.sha256:
        raise ModelFileError(
            f"{path}: damaged (its content does not have the hash it was saved with); restore it "
            "or train again."
        )
    for name, array in arrays.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ModelFileError(
                f"{path}: {printable(name, longest=100)} holds NaN or infinity, so it can predict "
                "nothing; restore it or train again."
            )
    return Contents(arrays, header.values, header.sha256)


def load_header(path: Path, *, kind: str | None = None) -> Header:
    """Plain values and the list of tensors; no more memory than the header takes, whatever the file
    declares.
    """
    try:
        with open_file(path, limit=MAX_ARRAY_BYTES) as file:
            n_bytes = os.fstat(file.fileno()).st_size
            n_header = int.from_bytes(file.read(8), "little")
            if n_bytes < 8 or n_header > n_bytes - 8:
                if path.suffix != SUFFIX:
                    raise ModelFileError(
                        f"{path}: no model or checkpoint of selfsort; give the folder that "
                        f"`selfsort fit` wrote, or a {SUFFIX} file in it."
                    )
                raise ValueError(
                    f"its header declares {n_header:,} bytes, and the file has {n_bytes:,}"
                )
            if n_header > MAX_HEADER_BYTES:
                raise ValueError(f"its header has more than {MAX_HEADER_BYTES:,} bytes")
            tensors = json.loads(file.read(n_header))
        values = json.loads(tensors.pop("__metadata__")[VALUES])
        kind_found = values["kind"]
        version = values["format"]
        sha256 = values.pop(HASH, None)
        places = _places(tensors, 8 + n_header, n_bytes)
    except FileNotFoundError as error:
        raise ModelFileError(
            f"{path}: no such file; is this the folder that `selfsort fit` wrote?"
        ) from error
    except ModelFileError:
        raise
    except (OSError, ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
        raise damaged(path, error) from error
    if version not in READABLE:
        newer = isinstance(version, int) and version > FORMAT
        remedy = "use a newer selfsort" if newer else "train again, or use an older selfsort"
        raise ModelFileError(
            f"{path}: format {printable(str(version), longest=20)}, but this selfsort reads format "
            f"{FORMAT}; {remedy}."
        )
    if kind not in (None, kind_found):
        found = printable(str(kind_found), longest=20)
        raise ModelFileError(f"{path}: a selfsort {found}, not a selfsort {kind}.")
    if not isinstance(sha256, str) or not re.fullmatch("[0-9a-f]{64}", sha256):
        raise damaged(path, ValueError("its hash is missing"))
    return Header(values, places, n_bytes, sha256)


def _places(tensors: dict[str, Any], begin: int, n_bytes: int) -> dict[str, Place]:
    """Where each array is, one after the other up to the end of the file; checked before any is
    read.
    """
    places = {}
    for name, entry in tensors.items():
        shape = entry["shape"]
        first, last = entry["data_offsets"]
        if entry["dtype"] not in DTYPES:
            raise ValueError(f"no dtype: {str(entry['dtype'])[:20]!r}")
        numbers = [first, last, *shape]
        if not all(type(number) is int and 0 <= number <= n_bytes for number in numbers):
            raise ValueError("a shape in it is not one")
        place = Place(entry["dtype"], tuple(shape), begin + first)
        if place.n_bytes != last - first:
            raise ValueError("the shape of an array does not fit its size")
        places[name] = place
    end = begin
    for place in sorted(places.values(), key=lambda place: (place.offset, place.n_bytes)):
        if place.offset != end:
            raise ValueError("its arrays leave gaps or overlap")
        end += place.n_bytes
    if end != n_bytes:
        raise ValueError(f"its arrays end at byte {end:,}, and the file has {n_bytes:,}")
    return places


def _load_array(file: BufferedReader, place: Place) -> NDArray[Any]:
    file.seek(place.offset)
    values = np.fromfile(file, DTYPES[place.dtype], math.prod(place.shape))
    return values.reshape(place.shape)


def content_hash(values: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> str:
    """SHA-256 of the plain values and of every array's name, type, shape and bytes."""
    digest = hashlib.sha256(json.dumps(values).encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(json.dumps([name, array.dtype.str, array.shape]).encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def damaged(path: Path, error: Exception) -> ModelFileError:
    """One line for any way in which a file is not what it should be."""
    reason = f"no {error}" if isinstance(error, KeyError) else first_line(error)
    return ModelFileError(
        f"{path}: damaged ({printable(reason, longest=200)}); restore it or train again."
    )
