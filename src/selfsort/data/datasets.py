"""Named data sets in their distributors' own formats, from a directory or downloaded with
checksums.
"""

import bz2
import gzip
import io
import math
import os
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selfsort.data.arrays import read_exactly
from selfsort.data.image_set import ImageSet, as_image_set
from selfsort.errors import DataError, first_line
from selfsort.files import MAX_ARRAY_BYTES

Arrays = tuple[NDArray[Any], NDArray[np.int64]]

MAX_TEXT_BYTES, MAX_TEXT_LINES = 2**26, 100_000
"""Longer LIBSVM text is refused; that of USPS has 17 million bytes in 7291 lines."""


@dataclass(frozen=True)
class Dataset:
    """Where a named data set comes from and how it is read.

    `splits` lists the files of each split; `hashes` the checksums of the distributors' files.
    `default` is the split that is trained on unless another is named.
    """

    address: str
    splits: dict[str, tuple[str, ...]]
    hashes: dict[str, str]
    default: str
    read: Callable[[list[Path]], Arrays]


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except DataError:
        raise
    except (
        Exception
    ) as error:  # each format's reader raises whatever a damaged file makes it stumble over
        raise DataError(
            f"{path}: damaged or of another format ({first_line(error)}); fetch it again."
        ) from error


def _read_idx(path: Path) -> NDArray[np.uint8]:
    """An idx file of bytes (MNIST): magic 0 0 8 rank, one big-endian length per axis, then the
    values.
    """
    with _reading(path), gzip.open(path) as file:
        zeros, kind, rank = struct.unpack(">HBB", read_exactly(file, 4, str(path)))
        if (zeros, kind) != (0, 8) or not 1 <= rank <= 4:
            raise DataError(f"{path}: not an idx file of bytes; fetch it again.")
        shape = struct.unpack(f">{rank}I", read_exactly(file, 4 * rank, str(path)))
        return np.frombuffer(
            read_exactly(file, math.prod(shape), str(path)), dtype=np.uint8
        ).reshape(shape)


def _read_mnist(files: list[Path]) -> Arrays:
    return _read_idx(files[0]), _read_idx(files[1]).astype(np.int64)


def _read_usps(files: list[Path]) -> Arrays:
    """LIBSVM text: label = digit + 1, then 256 grey values in [-1, 1]."""
    from sklearn.datasets import load_svmlight_file

    with _reading(files[0]), bz2.open(files[0]) as file:
        text = file.read(MAX_TEXT_BYTES + 1)
        if len(text) > MAX_TEXT_BYTES or text.count(b"\n") > MAX_TEXT_LINES:
            raise DataError(
                f"{files[0]}: holds more than {MAX_TEXT_BYTES:,} bytes or {MAX_TEXT_LINES:,} "
                "lines; fetch it again."
            )
        values, labels = load_svmlight_file(
            io.BytesIO(text), n_features=256, zero_based=False, dtype=np.float32
        )
        if not np.isin(labels, range(1, 11)).all():
            raise DataError(f"{files[0]}: a label is not one of 1 to 10; fetch it again.")
        return (values.toarray().reshape(-1, 16, 16) + 1) / 2, labels.astype(np.int64) - 1


def _read_svhn(files: list[Path]) -> Arrays:
    """MATLAB 5: X (32, 32, 3, n) bytes, y (n, 1), digit 0 written as 10."""
    from scipy.io import loadmat, whosmat

    with _reading(files[0]):
        found = {name: (shape, kind) for name, shape, kind in whosmat(files[0])}
        shape, kind = found.get("X", ((), ""))
        if shape[:3] != (32, 32, 3) or kind != "uint8" or math.prod(shape) > MAX_ARRAY_BYTES:
            raise DataError(
                f"{files[0]}: X is {kind} {shape}, but should be uint8 (32, 32, 3, n); fetch it "
                "again."
            )
        if found.get("y", ((), ""))[0] != (shape[3], 1):
            raise DataError(
                f"{files[0]}: y should be ({shape[3]}, 1), one label per image; fetch it again."
            )
        content = loadmat(files[0], variable_names=["X", "y"])
        return np.moveaxis(content["X"], 3, 0), content["y"].ravel().astype(np.int64) % 10


def _read_digits(files: list[Path]) -> Arrays:
    """The 1797 digits that come with scikit-learn, 8×8, grey values 0 to 16."""
    from sklearn.datasets import load_digits

    content = load_digits()
    return (content.images / 16).astype(np.float32), content.target.astype(np.int64)


DATASETS: dict[str, Dataset] = {
    "digits": Dataset("", {"full": ()}, {}, "full", _read_digits),
    "mnist": Dataset(
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        {
            "train": ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"),
            "test": ("t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"),
        },
        {
            "train-images-idx3-ubyte.gz": (
                "sha256:440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"
            ),
            "train-labels-idx1-ubyte.gz": (
                "sha256:3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"
            ),
            "t10k-images-idx3-ubyte.gz": (
                "sha256:8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"
            ),
            "t10k-labels-idx1-ubyte.gz": (
                "sha256:f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"
            ),
        },
        "train",
        _read_mnist,
    ),
    "usps": Dataset(
        "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass/",
        {"train": ("usps.bz2",), "test": ("usps.t.bz2",)},
        {
            "usps.bz2": "md5:ec16c51db3855ca6c91edd34d0e9b197",
            "usps.t.bz2": "md5:8ea070ee2aca1ac39742fdd1ef5ed118",
        },
        "full",  # as the paper does: trained and scored on all 9298 images
        _read_usps,
    ),
    "svhn": Dataset(
        "http://ufldl.stanford.edu/housenumbers/",
        {"train": ("train_32x32.mat",), "test": ("test_32x32.mat",)},
        {
            "train_32x32.mat": "md5:e26dedcc434d2e4c54c9b2d4a06d8373",
            "test_32x32.mat": "md5:eb5a983be6a315427106f1b164d9cef3",
        },
        "train",
        _read_svhn,
    ),
}


def load_dataset(name: str, split: str | None = None, *, data_dir: Path | None = None) -> ImageSet:
    """A named data set; `split` is `train`, `test` or `full` (all of it).

    Files are taken from `data_dir`, else from the directory named by SELFSORT_DATA, else downloaded
    once into a cache.

    >>> load_dataset("digits").pixels.shape
    (1797, 1, 8, 8)
    """
    if name not in DATASETS:
        raise DataError(f"{name!r} is not a data set; known are: {', '.join(DATASETS)}.")
    dataset = DATASETS[name]
    split = split or dataset.default
    if split != "full" and split not in dataset.splits:
        raise DataError(
            f"{name}:{split}: the splits of {name} are: "
            f"{', '.join({**dataset.splits, 'full': ()})}."
        )
    parts = list(dataset.splits) if split == "full" else [split]
    arrays = [
        dataset.read([_locate(name, file, data_dir) for file in dataset.splits[part]])
        for part in parts
    ]
    pixels, truth = (
        np.concatenate(pieces) if len(pieces) > 1 else pieces[0]
        for pieces in zip(*arrays, strict=True)
    )
    return replace(as_image_set(pixels, truth=truth, source=name), source=f"{name}:{split}")


def _locate(name: str, file: str, data_dir: Path | None) -> Path:
    """The file in the given directory (or a sub-folder called like the data set), else downloaded
    into the cache.
    """
    given = data_dir or (
        Path(os.environ["SELFSORT_DATA"]) if os.environ.get("SELFSORT_DATA") else None
    )
    if given is not None:
        for place in (given / name / file, given / file):
            if place.is_file():
                return place
        raise DataError(
            f"{name}: {file} is neither in {given / name} nor in {given}; put it there."
        )
    return _download(name, file)


def cache_dir() -> Path:
    """Where downloaded data sets are kept; SELFSORT_CACHE changes it."""
    import pooch

    return Path(os.environ.get("SELFSORT_CACHE") or pooch.os_cache("selfsort"))


def _download(name: str, file: str) -> Path:
    """Fetch one file with its checksum; SELFSORT_MIRROR replaces the public addresses by
    `MIRROR/name/`.
    """
    import pooch
    import requests

    dataset, target = DATASETS[name], cache_dir() / name
    mirror = os.environ.get("SELFSORT_MIRROR")
    address = f"{mirror.rstrip('/')}/{name}/{file}" if mirror else dataset.address + file
    pooch.get_logger().setLevel("ERROR")
    try:
        return Path(pooch.retrieve(address, dataset.hashes[file], fname=file, path=target))
    except (requests.RequestException, OSError) as error:
        if isinstance(error, requests.RequestException) and error.response is not None:
            error.response.close()  # pooch leaves it open
        raise DataError(
            f"{name}: {address} cannot be downloaded ({type(error).__name__}); put "
            f"{', '.join(dataset.hashes)} into {target}, or into a folder given by `data_dir`."
        ) from error
    except ValueError as error:
        if "hash" not in str(error):
            raise DataError(
                f"{name}: {address} is not an address ({first_line(error)}); correct "
                "SELFSORT_MIRROR."
            ) from error
        raise DataError(  # pooch has deleted what it fetched
            f"{name}: {address} does not have the expected checksum; try again or put {file} "
            f"into {target}."
        ) from error
