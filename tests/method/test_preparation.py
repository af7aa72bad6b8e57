"""The range of pixels comes from the model, and a batch is counted in bytes."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from conftest import SMALL
from selfsort import DataError, SelfSort
from selfsort.data.image_set import as_image_set
from selfsort.method import preparation
from selfsort.method.preparation import Preparation


def small(**options: object) -> SelfSort:
    return SelfSort(4, recipe="paper", epochs=1, settings=SMALL, **options)  # type: ignore[arg-type]


def test_dark_images_alone_get_the_clusters_they_get_among_others(digits: np.ndarray) -> None:
    """All of a batch's values below 1 do not make it one of floats in [0, 1]."""
    floats = np.concatenate([digits[:200] * 255, digits[200:240]])
    sorter = small().fit(floats)
    together = sorter.assign(floats)
    alone = sorter.assign(floats[200:])
    assert (alone.labels == together.labels[200:]).all()
    assert np.allclose(alone.confidence, together.confidence[200:], atol=1e-4)


@pytest.mark.parametrize(
    ("fitted", "given", "high"),
    [
        ("uint8", "uint8", 255),
        ("uint8", "uint16", 65535),
        ("uint8", ">u2", 65535),
        ("uint8", "float32", 1),
        ("uint8", "int64", 255),
        ("uint8", "bool", 1),
        ("float32", "float32", 1),
        ("float32", "uint8", 255),
        ("float32", "bool", 1),
    ],
)
def test_the_type_of_pixels_decides_on_their_range(fitted: str, given: str, high: float) -> None:
    first = as_image_set(np.ones((2, 8, 8), dtype=fitted))
    model = Preparation(1, 8, first.low, first.high, "unit", is_typed=first.is_typed)
    for value in (0, 1):
        images = as_image_set(np.full((2, 8, 8), value, dtype=given))
        assert model.for_images(images).high == high


@pytest.mark.parametrize("kind", ["f4", "f8", "u2", "i4", "u4"])
def test_the_order_of_bytes_changes_nothing(kind: str) -> None:
    values = np.arange(2 * 64).reshape(2, 8, 8)
    big = as_image_set(values.astype(f">{kind}"))
    little = as_image_set(values.astype(f"<{kind}"))
    assert (big.low, big.high, big.is_typed) == (little.low, little.high, little.is_typed)
    prepared = Preparation(1, 8, big.low, big.high, "unit")
    assert torch.equal(prepared(big.read(slice(0, 2))), prepared(little.read(slice(0, 2))))


def test_pixels_far_from_the_range_of_the_model_are_refused() -> None:
    for dtype in (np.float32, np.float64):
        with pytest.raises(DataError, match=r"too large to compute with; scale them"):
            as_image_set(np.full((3, 8, 8), 1e38, dtype=dtype))
    model = Preparation(1, 8, 0, 1, "unit")
    for value in (100.0, 1e36, -1e36):
        images = as_image_set(np.full((3, 8, 8), value, dtype=np.float32))
        with pytest.raises(DataError, match=r"should be between 0 and 1, as .* float32; scale"):
            model.for_images(images)
    slightly_above = as_image_set(np.full((3, 8, 8), 1.01, dtype=np.float32))
    assert model.for_images(slightly_above) == model


def test_images_are_prepared_alike_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (40, 3, 30, 20), dtype=np.uint8)
    model = Preparation(1, 16, 0, 255, "image", border=0.1)
    whole = model(pixels)
    assert [rows.stop for rows in model.batches(as_image_set(pixels))] == [40]
    monkeypatch.setattr(preparation, "BATCH_BYTES", 7 * 4 * 3 * 30 * 20)
    assert torch.allclose(model(pixels), whole, atol=1e-5)
    assert [rows.stop for rows in model.batches(as_image_set(pixels))] == [7, 14, 21, 28, 35, 40]


LARGE_IMAGES = """
import resource, sys
import numpy as np
from selfsort import SelfSort
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
sorter = SelfSort.load(sys.argv[1], device="cpu")
pixels = np.zeros((130, 700, 700, 3), dtype=np.uint8)
pixels[:] = 7
sorter.predict(pixels[:2])
before = peak()
sorter.predict(pixels)
print((peak() - before) // 1024)
"""


@pytest.mark.slow
def test_large_images_take_no_more_memory_than_small_ones(
    tmp_path: Path, digits: np.ndarray
) -> None:
    """130 of 700×700×3 as floats would be 764 MB, several times over."""
    model = SelfSort(
        4, recipe="paper", epochs=1, settings=SMALL | {"images.size": 8, "images.grey": True}
    )
    file = model.fit(digits[:100]).save(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", LARGE_IMAGES, str(file)], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 500
