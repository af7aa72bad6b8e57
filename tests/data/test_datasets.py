"""Named data sets: their distributors' files, whole and damaged, and the way here."""

import bz2
import gzip
import hashlib
import io
import os
import struct
import threading
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.io import savemat

from selfsort.data import datasets
from selfsort.data.datasets import DATASETS, cache_dir, load_dataset
from selfsort.data.kinds import load_source
from selfsort.errors import DataError

MNIST = {split: DATASETS["mnist"].splits[split] for split in ("train", "test")}


@pytest.fixture(autouse=True)
def own_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads the user's cache, or asks anyone but this machine."""
    for name in (
        "SELFSORT_DATA",
        "SELFSORT_MIRROR",
        "http_proxy",
        "https_proxy",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SELFSORT_CACHE", str(tmp_path / "cache"))


def idx(shape: tuple[int, ...], content: bytes | None = None, magic: int = 0x800) -> bytes:
    body = bytes(int(np.prod(shape))) if content is None else content
    return struct.pack(f">I{len(shape)}I", magic + len(shape), *shape) + body


def mat(**content: Any) -> bytes:
    buffer = io.BytesIO()
    savemat(buffer, content, do_compression=True)
    return buffer.getvalue()


def message(folder: Path, source: str) -> str:
    with pytest.raises(DataError) as caught:
        load_source(source, data_dir=folder)
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


# The real files


def test_mnist(originals: Path) -> None:
    images = load_dataset("mnist", data_dir=originals)
    assert (images.pixels.shape, images.pixels.dtype.name, images.source) == (
        (60000, 1, 28, 28),
        "uint8",
        "mnist:train",
    )
    assert images.truth is not None
    assert np.bincount(images.truth).tolist() == [
        5923,
        6742,
        5958,
        6131,
        5842,
        5421,
        5918,
        6265,
        5851,
        5949,
    ]
    test = load_source("mnist:test", data_dir=originals / "mnist")
    assert len(test) == 10000
    assert test.truth is not None
    assert test.truth[:10].tolist() == [7, 2, 1, 0, 4, 1, 4, 9, 5, 9]
    assert 33.0 < images.pixels.mean() < 34.0  # 0.1307 of 255
    assert len(load_dataset("mnist", "full", data_dir=originals)) == 70000


def test_usps(originals: Path) -> None:
    images = load_dataset("usps", data_dir=originals)
    assert (images.pixels.shape, images.source, images.low, images.high) == (
        (9298, 1, 16, 16),
        "usps:full",
        0,
        1,
    )
    assert (images.pixels.min(), images.pixels.max()) == (0, 1)
    assert images.truth is not None
    assert np.bincount(images.truth).tolist() == [
        1553,
        1269,
        929,
        824,
        852,
        716,
        834,
        792,
        708,
        821,
    ]
    assert len(load_source("usps:test", data_dir=originals)) == 2007


def test_svhn(originals: Path) -> None:
    images = load_dataset("svhn", "test", data_dir=originals)
    assert (images.pixels.shape, images.pixels.dtype.name) == ((26032, 3, 32, 32), "uint8")
    assert images.truth is not None
    assert np.bincount(images.truth).tolist() == [
        1744,
        5099,
        4149,
        2882,
        2523,
        2384,
        1977,
        2019,
        1660,
        1595,
    ]


def test_digits_need_no_file() -> None:
    images = load_source("digits")
    assert (images.pixels.shape, images.low, images.high, images.source) == (
        (1797, 1, 8, 8),
        0,
        1,
        "digits:full",
    )
    assert images.truth is not None
    assert (images.pixels.max(), images.truth_names) == (1, [str(digit) for digit in range(10)])


# Damaged files


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (gzip.compress(idx((4, 8, 8)))[:-12], "damaged or of another format"),
        (gzip.compress(idx((4, 8, 8)))[:5], "damaged or of another format"),
        (gzip.compress(idx((4, 8, 8), magic=0xD00)), "not an idx file of bytes"),
        (gzip.compress(idx((4, 8, 8), bytes(255))), "ends 1 bytes too early"),
        (gzip.compress(idx((2**20, 2**10, 2**10), b"")), "declares 1,099,511,627,776 bytes"),
        (gzip.compress(idx((2**15, 2**8, 2**8), b"")), "ends 2,147,483,648 bytes too early"),
        (gzip.compress(b""), "ends 4 bytes too early"),
        (b"", "ends 4 bytes too early"),
        (b"plain", "damaged or of another format"),
    ],
)
@pytest.mark.parametrize("which", [0, 1])
def test_a_damaged_idx_file_is_named_and_takes_no_memory(
    tmp_path: Path, content: bytes, reason: str, which: int
) -> None:
    for file in MNIST["train"]:
        (tmp_path / file).write_bytes(
            gzip.compress(idx((4, 8, 8)) if "images" in file else idx((4,)))
        )
    assert len(load_dataset("mnist", data_dir=tmp_path)) == 4
    broken = tmp_path / MNIST["train"][which]
    broken.write_bytes(content)
    tracemalloc.start()
    text = message(tmp_path, "mnist")
    assert tracemalloc.get_traced_memory()[1] < 2**24
    tracemalloc.stop()
    assert text.startswith(str(broken))
    assert reason in text


def test_labels_that_do_not_fit_the_images(tmp_path: Path) -> None:
    images, labels = (tmp_path / file for file in MNIST["train"])
    images.write_bytes(gzip.compress(idx((4, 8, 8))))
    for shape in ((5,), (4, 8, 8)):
        labels.write_bytes(gzip.compress(idx(shape)))
        assert "should be one number or text for each of 4 images" in message(tmp_path, "mnist")


USPS_ROW = b"10 " + b" ".join(b"%d:-1" % number for number in range(1, 257)) + b"\n"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"BZh9",
        bz2.compress(USPS_ROW)[:-9],
        bz2.compress(USPS_ROW).replace(b"1AY", b"1AZ"),
        bz2.compress(b"<html>404</html>"),
        bz2.compress(b"1 257:1\n"),
        bz2.compress(b"11 1:1\n"),
        bz2.compress(b"nan 1:1\n"),
        bz2.compress(b"1\n" * 2**17),
        bz2.compress(bytes(2**20)) * 65,
    ],
    ids=range(10),
)
def test_a_damaged_libsvm_file_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "usps").mkdir()
    broken = tmp_path / "usps" / "usps.bz2"
    broken.write_bytes(bz2.compress(USPS_ROW))
    row = load_dataset("usps", "train", data_dir=tmp_path)
    assert (row.pixels.shape, row.pixels.max(), row.truth_names) == ((1, 1, 16, 16), 0, ["9"])
    broken.write_bytes(content)
    assert message(tmp_path, "usps:train").startswith(
        (str(broken), "usps: shape (0, 16, 16) holds no images")
    )


X, Y = np.zeros((32, 32, 3, 2), dtype=np.uint8), np.array([[10], [9]])


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"x" * 200,
        mat(X=X, y=Y)[:-20],
        mat(X=X, y=Y)[:150],
        mat(X=X),
        mat(y=Y),
        mat(X=X.astype(float), y=Y),
        mat(X=X[:16], y=Y),
        mat(X=X, y=Y[:1]),
        mat(X=X, y=Y.T),
        mat(X={"a": 1}, y=Y),
        mat(X=X, y=np.array([["a"], ["b"]], dtype=object)),
    ],
    ids=range(12),
)
def test_a_damaged_matlab_file_is_named(tmp_path: Path, content: bytes) -> None:
    broken = tmp_path / "test_32x32.mat"
    broken.write_bytes(mat(X=X, y=Y))
    assert load_dataset("svhn", "test", data_dir=tmp_path).truth_names == ["0", "9"]
    broken.write_bytes(content)
    assert message(tmp_path, "svhn:test").startswith(str(broken))


# Where the files are looked for


def test_a_missing_file_is_named_with_the_places_it_may_be_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = (
        f"usps: usps.t.bz2 is neither in {tmp_path / 'usps'} nor in {tmp_path}; put it there."
    )
    assert message(tmp_path, "usps:test") == expected
    monkeypatch.setenv("SELFSORT_DATA", str(tmp_path))
    with pytest.raises(DataError) as caught:
        load_dataset("usps", "test")
    assert str(caught.value) == expected
    (tmp_path / "usps.t.bz2").write_bytes(bz2.compress(USPS_ROW))
    assert len(load_dataset("usps", "test")) == 1


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("nist", "nist: no such file or folder, and the data sets are: digits, mnist, usps, svhn."),
        ("mnist:validation", "mnist:validation: the splits of mnist are: train, test, full."),
        ("digits:train", "digits:train: the splits of digits are: full."),
    ],
)
def test_unknown_names(tmp_path: Path, source: str, text: str) -> None:
    assert message(tmp_path, source) == text
    with pytest.raises(DataError, match="is not a data set; known are: digits"):
        load_dataset("nist")


# Downloads


class Server(ThreadingHTTPServer):
    """Serves a folder on this machine and counts what it is asked for."""

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        asked = self.asked = list[str]()

        class Handler(SimpleHTTPRequestHandler):
            def log_message(self, *arguments: Any) -> None:
                asked.append(self.path)

        super().__init__(("127.0.0.1", 0), partial(Handler, directory=str(folder)))
        self.address = f"http://127.0.0.1:{self.server_address[1]}"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A mirror of a small `mnist` in `tmp_path/www`, with checksums to match."""
    (tmp_path / "www" / "mnist").mkdir(parents=True)
    hashes = {}
    for file in MNIST["train"]:
        content = gzip.compress(idx((4, 8, 8)) if "images" in file else idx((4,)))
        (tmp_path / "www" / "mnist" / file).write_bytes(content)
        hashes[file] = f"sha256:{hashlib.sha256(content).hexdigest()}"
    monkeypatch.setitem(
        datasets.DATASETS,
        "mnist",
        replace(DATASETS["mnist"], hashes={**DATASETS["mnist"].hashes, **hashes}),
    )
    with Server(tmp_path / "www") as running:
        monkeypatch.setenv("SELFSORT_MIRROR", f"{running.address}/")
        threading.Thread(
            target=running.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        ).start()
        yield running
        running.shutdown()


def test_files_are_downloaded_once(server: Server, tmp_path: Path) -> None:
    for _ in range(2):
        assert load_source("mnist").pixels.shape == (4, 1, 8, 8)
    assert len(server.asked) == 2
    assert sorted(os.listdir(cache_dir() / "mnist")) == sorted(MNIST["train"])
    (cache_dir() / "mnist" / MNIST["train"][0]).write_bytes(b"damaged later")
    assert len(load_source("mnist")) == 4
    assert len(server.asked) == 3


def test_the_real_checksums_are_those_of_the_real_files(
    originals: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Server(originals) as running:
        monkeypatch.setenv("SELFSORT_MIRROR", running.address)
        threading.Thread(
            target=running.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        ).start()
        assert len(load_source("mnist:full")) == 70000
        running.shutdown()
    assert len(running.asked) == 4


def test_a_wrong_checksum_is_refused_and_nothing_kept(server: Server, tmp_path: Path) -> None:
    (tmp_path / "www" / "mnist" / MNIST["train"][1]).write_bytes(b"something else")
    with pytest.raises(
        DataError,
        match=f"{MNIST['train'][1]} does not have the expected checksum; try again or put",
    ) as caught:
        load_source("mnist")
    assert len(str(caught.value).splitlines()) == 1
    assert os.listdir(cache_dir() / "mnist") == [MNIST["train"][0]]


@pytest.mark.parametrize("trouble", ["404", "refused", "no address", "cache"])
def test_without_network_the_message_says_where_to_put_which_files(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trouble: str
) -> None:
    if trouble == "404":
        (tmp_path / "www" / "mnist" / MNIST["train"][0]).unlink()
    elif trouble == "refused":
        with Server(tmp_path) as closed:
            pass
        monkeypatch.setenv("SELFSORT_MIRROR", closed.address)
    elif trouble == "no address":
        monkeypatch.setenv("SELFSORT_MIRROR", "nonsense")
    else:
        (tmp_path / "cache").write_bytes(b"a file where the cache should be")
    with pytest.raises(DataError) as caught:
        load_source("mnist")
    text = str(caught.value)
    assert len(text.splitlines()) == 1
    if trouble == "no address":
        assert text.startswith("mnist: nonsense/mnist/")
        assert "correct SELFSORT_MIRROR" in text
    else:
        assert "cannot be downloaded (" in text
        assert (
            f"put {', '.join(MNIST['train'] + MNIST['test'])} into {cache_dir() / 'mnist'}, or "
            "into a folder given by"
        ) in text
