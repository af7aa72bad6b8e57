"""Every kind of damage to a model file has its error, takes no memory and hurts nobody."""

import json
import os
import resource
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load, save

from conftest import SMALL
from selfsort import ModelFileError, SelfSort
from selfsort.container import FORMAT, content_hash, load_container, load_header, save_container
from selfsort.training.checkpoint import load_tensors


@pytest.fixture(scope="module")
def model(digits: np.ndarray, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of a real model."""
    folder = tmp_path_factory.mktemp("model")
    return (
        SelfSort(4, recipe="paper", epochs=1, settings=SMALL)
        .fit(digits[:100])
        .save(folder)
        .read_bytes()
    )


def rewrite(
    content: bytes, change: Callable[[dict[str, Any], dict[str, np.ndarray]], None]
) -> bytes:
    """The same file with other values or arrays and the hash that belongs to them."""
    n_header = int.from_bytes(content[:8], "little")
    values = json.loads(json.loads(content[8 : 8 + n_header])["__metadata__"]["selfsort"])
    arrays = {name: array.copy() for name, array in load(content).items()}
    values.pop("sha256")
    change(values, arrays)
    return save(
        arrays, {"selfsort": json.dumps({**values, "sha256": content_hash(values, arrays)})}
    )


def header_of(content: bytes, text: bytes) -> bytes:
    return struct.pack("<Q", len(text)) + text + content


def refused(folder: Path, content: bytes) -> str:
    (folder / "model.safetensors").write_bytes(content)
    with pytest.raises(ModelFileError) as caught:
        SelfSort.load(folder)
    message = str(caught.value)
    assert message.startswith(f"{folder / 'model.safetensors'}: ")
    assert len(message.splitlines()) == 1
    return message


def flip(content: bytes, place: int) -> bytes:
    changed = bytearray(content)
    changed[place] ^= 1
    return bytes(changed)


def test_truncated(model: bytes, tmp_path: Path) -> None:
    for length in (0, 5, 8, 100, len(model) // 2, len(model) - 1):
        assert "damaged" in refused(tmp_path, model[:length])
    assert "damaged" in refused(tmp_path, model + b"x")


def test_any_flipped_bit_is_noticed(model: bytes, tmp_path: Path) -> None:
    n_header = int.from_bytes(model[:8], "little")
    for place in (
        0,
        3,
        8,
        *range(9, 8 + n_header, 211),
        *range(8 + n_header, len(model), 997),
        len(model) - 1,
    ):
        refused(tmp_path, flip(model, place))
    assert "does not have the hash" in refused(tmp_path, flip(model, len(model) - 1))


def test_swapped_tensors_and_files(model: bytes, tmp_path: Path) -> None:
    def swap(values: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        first, second = "network.encoder.6.bias", "network.encoder.8.bias"
        arrays[first], arrays[second] = arrays[second], arrays[first]

    swapped = rewrite(model, swap)
    n_header = int.from_bytes(model[:8], "little")
    assert "does not have the hash" in refused(
        tmp_path, model[: 8 + n_header] + swapped[-len(model) + 8 + n_header :]
    )
    checkpoint = rewrite(model, lambda values, arrays: values.update(kind="checkpoint"))
    assert "a selfsort checkpoint, not a selfsort model." in refused(tmp_path, checkpoint)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_weights_that_are_no_numbers(model: bytes, tmp_path: Path, bad: float) -> None:
    content = rewrite(model, lambda values, arrays: arrays["network.head.linear.bias"].fill(bad))
    assert "network.head.linear.bias holds NaN or infinity" in refused(tmp_path, content)
    with pytest.raises(ModelFileError, match="NaN or infinity"):
        load_tensors(tmp_path / "model.safetensors", kind="model")


@pytest.mark.parametrize(
    ("version", "remedy"),
    [(1, "train again, or use an older"), (99, "newer"), ("x", "older"), (None, "")],
)
def test_other_versions(model: bytes, tmp_path: Path, version: Any, remedy: str) -> None:
    message = refused(
        tmp_path, rewrite(model, lambda values, arrays: values.update(format=version))
    )
    assert f"format {version}, but this selfsort reads format {FORMAT}" in message
    assert remedy in message


def test_no_hash(model: bytes, tmp_path: Path) -> None:
    save_file = save(
        {"a": np.zeros(1)}, {"selfsort": json.dumps({"format": FORMAT, "kind": "model"})}
    )
    assert "its hash is missing" in refused(tmp_path, save_file)


CRAFTED: list[Callable[[dict[str, Any]], Any]] = [
    lambda values: values["config"]["network"].update(width=4096, latent_width=65536),
    lambda values: values["config"]["network"].update(n_duplicates=4096),
    lambda values: values.update(n_parents=10**9),
    lambda values: values.update(n_parents=-1),
    lambda values: values.update(n_clusters=10**12),
    lambda values: values.update(n_clusters=True),
    lambda values: values.update(n_clusters="auto"),
    lambda values: values.update(seed=-1),
    lambda values: values.update(seed=2**70),
    lambda values: values["preparation"].update(size=50_000),
    lambda values: values["preparation"].update(size="8"),
    lambda values: values["preparation"].update(low="zero"),
    lambda values: values["preparation"].update(normalise="eval"),
    lambda values: values["preparation"].update(border=0.9),
    lambda values: values["refinement_preparation"].update(size=None),
    lambda values: values.update(image_shape="8x8"),
    lambda values: values.update(n_features_in=[]),
    lambda values: values.update(recipe=3, config=[]),
    lambda values: values["config"].update(transforms="T99"),
    lambda values: values.pop("preparation"),
    lambda values: values.update(assigner="oracle"),
    lambda values: values.update(modality=[]),
    lambda values: values.pop("n_parents"),
]


@pytest.mark.parametrize("craft", CRAFTED)
def test_a_crafted_file_with_a_valid_hash_takes_no_memory(
    model: bytes, tmp_path: Path, craft: Callable[[dict[str, Any]], Any]
) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    refused(tmp_path, rewrite(model, lambda values, arrays: craft(values) and None))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000  # KiB


def test_arrays_of_another_type_or_shape(model: bytes, tmp_path: Path) -> None:
    def retype(values: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        arrays["network.head.linear.bias"] = np.full(40, 1e300)

    def reshape(values: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        arrays["clusters.centres"] = arrays["clusters.centres"][:, :-1].copy()

    assert "do not fit its configuration" in refused(tmp_path, rewrite(model, retype))
    assert "its centres do not fit" in refused(tmp_path, rewrite(model, reshape))
    assert "do not fit" in refused(tmp_path, rewrite(model, lambda values, arrays: arrays.clear()))


@pytest.mark.parametrize(
    "text",
    [
        b"[]",
        b"{}",
        b'{"__metadata__": 3}',
        b'{"__metadata__": {"selfsort": "[]"}}',
        b'{"__metadata__": {"selfsort": "{"}}',
        b"[" * 100_000,
        b"\xff\xfe",
        b"9" * 10_000,
    ],
)
def test_headers_that_are_none(tmp_path: Path, text: bytes) -> None:
    assert "damaged" in refused(tmp_path, header_of(b"", text))


def test_a_header_that_declares_terabytes_takes_no_memory(tmp_path: Path) -> None:
    """In a process that may take 64 MB more than it has."""
    metadata = {"selfsort": json.dumps({"format": FORMAT, "kind": "model", "sha256": "0" * 64})}
    tensor = {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]}
    lying = json.dumps({"__metadata__": metadata, "a": tensor}).encode()
    (tmp_path / "header.safetensors").write_bytes(struct.pack("<Q", 2**42) + b"{}")
    (tmp_path / "tensor.safetensors").write_bytes(header_of(b"", lying))
    with open(
        tmp_path / "sparse.safetensors", "wb"
    ) as file:  # 4 TB, of which the disk holds almost nothing
        file.write(header_of(b"", lying))
        file.truncate(8 + len(lying) + 2**42)
    os.mkfifo(tmp_path / "pipe.safetensors")
    code = (
        "import resource, sys; from pathlib import Path; from selfsort.container import "
        "load_container;"
        "from selfsort.errors import ModelFileError\n"
        "size = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize() + 2**26\n"
        "resource.setrlimit(resource.RLIMIT_AS, (size, size))\n"
        "for file in sorted(Path('.').glob('*.safetensors')):\n"
        "    try: load_container(file)\n"
        "    except ModelFileError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    header, pipe, sparse, tensor_error = done.stdout.splitlines()
    assert "declares 4,398,046,511,104 bytes, and the file has 10" in header
    assert "not a regular file" in pipe
    assert "bytes are more than the limit of" in sparse
    assert "tensor.safetensors: damaged" in tensor_error


def test_what_was_saved_comes_back_and_is_the_same_file_each_time(tmp_path: Path) -> None:
    arrays = {
        "a": np.arange(6.0).reshape(2, 3).T,
        "empty": np.zeros((0, 3)),
        "one": np.array(3, dtype=np.int64),
    }
    values = {"x": [1, 0.1, None, "ü\udcff"]}
    for name in "ab":
        save_container(tmp_path / name, arrays, values, kind="model")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    found = load_container(tmp_path / "a", kind="model")
    assert found.values == {"format": FORMAT, "kind": "model", **values}
    assert all(
        np.array_equal(found.arrays[name], array) and found.arrays[name].shape == array.shape
        for name, array in arrays.items()
    )
    assert load_header(tmp_path / "a").places["a"].shape == (3, 2)
