"""Named arrays and plain values in one safetensors file: data, never code, checked whole whenever it is read; no torch."""

import hashlib
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from selfsort.arrays import MAX_ARRAY_BYTES
from selfsort.errors import ModelFileError, first_line
from selfsort.files import save_bytes

FORMAT = 2
"""Raised when a file can no longer be read by older code, or older files by this one. 2: with a hash of the content."""

MAX_HEADER_BYTES = 100_000_000
"""What safetensors itself allows."""

VALUES, HASH = "selfsort", "sha256"
"""The one entry of the file's metadata (of two, safetensors would write either first), and the value in it that is a hash."""


class Contents(NamedTuple):
    """What such a file holds."""

    arrays: dict[str, NDArray[Any]]
    values: dict[str, Any]
    sha256: str


class Header(NamedTuple):
    """What can be known of such a file without reading its arrays; `tensors` has the type and shape of each."""

    values: dict[str, Any]
    tensors: dict[str, dict[str, Any]]
    n_bytes: int
    sha256: str


def save_container(
    path: Path, arrays: Mapping[str, NDArray[Any]], values: Mapping[str, Any], *, kind: str, new_folder: bool = True
) -> str:
    """Write arrays and JSON values into one file of the given kind (`model`, `checkpoint`); returns its hash."""
    header = {"format": FORMAT, "kind": kind, **values}
    whole = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    sha256 = content_hash(header, whole)
    save_bytes(path, save(whole, {VALUES: json.dumps({**header, HASH: sha256}, allow_nan=False)}), new_folder=new_folder)
    return sha256


def load_container(path: Path, *, kind: str | None = None) -> Contents:
    """The inverse of `save_container`; what cannot be trusted is refused with a reason."""
    header = load_header(path, kind=kind)
    try:
        arrays = load(path.read_bytes())
        hash_found = content_hash(header.values, arrays)
    except (OSError, SafetensorError, ValueError, KeyError, TypeError, OverflowError, AttributeError) as error:
        raise damaged(path, error) from error
    if hash_found != header.sha256:
        raise ModelFileError(
            f"{path}: damaged (its content does not have the hash it was saved with); restore it or train again."
        )
    for name, array in arrays.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ModelFileError(f"{path}: {name} holds NaN or infinity, so it can predict nothing; restore it or train again.")
    return Contents(arrays, header.values, header.sha256)


def load_header(path: Path, *, kind: str | None = None) -> Header:
    """Plain values and the list of tensors; no more memory than the header takes, whatever the file declares."""
    try:
        if path.exists() and not path.is_file():
            raise ValueError("not a regular file")
        with open(path, "rb") as file:
            n_bytes = os.fstat(file.fileno()).st_size
            n_header = int.from_bytes(file.read(8), "little")
            if n_bytes < 8 or n_header > min(n_bytes - 8, MAX_HEADER_BYTES):
                raise ValueError(f"its header declares {n_header:,} bytes, and the file has {n_bytes:,}")
            if n_bytes > MAX_ARRAY_BYTES:
                raise ValueError(f"{n_bytes:,} bytes are more than {MAX_ARRAY_BYTES >> 30} GiB")
            tensors = json.loads(file.read(n_header))
        values = json.loads(tensors.pop("__metadata__")[VALUES])
        kind_found, version, sha256 = values["kind"], values["format"], values.pop(HASH, None)
        shapes = [number for entry in tensors.values() for number in (str(entry["dtype"]) and entry["shape"])]
        if not all(type(number) is int and number >= 0 for number in shapes):
            raise ValueError("a shape in it is not one")
    except FileNotFoundError as error:
        raise ModelFileError(f"{path}: no such file; is this the folder that `selfsort fit` wrote?") from error
    except (OSError, ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
        raise damaged(path, error) from error
    if version != FORMAT:
        newer = isinstance(version, int) and version > FORMAT
        remedy = "use a newer selfsort" if newer else "train again, or use an older selfsort"
        raise ModelFileError(f"{path}: format {str(version)[:20]}, but this selfsort reads format {FORMAT}; {remedy}.")
    if kind not in (None, kind_found):
        raise ModelFileError(f"{path}: a selfsort {str(kind_found)[:20]}, not a selfsort {kind}.")
    if not isinstance(sha256, str) or not re.fullmatch("[0-9a-f]{64}", sha256):
        raise damaged(path, ValueError("its hash is missing"))
    return Header(values, tensors, n_bytes, sha256)


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
    return ModelFileError(f"{path}: damaged ({reason[:200]}); restore it or train again.")
