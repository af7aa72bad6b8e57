"""Vectors beside a run: they belong to it, and what is damaged counts as missing."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from selfsort.runs.arrays import load_vectors, save_vectors
from selfsort.runs.table import Assignments


def some_assignments(n: int = 6) -> Assignments:
    names = [f"{row}.png" for row in range(n)]
    return Assignments(names, np.arange(n) % 2, np.ones(n, dtype=np.float32))


def test_they_come_back_as_they_were_kept_and_belong_to_their_run_only(tmp_path: Path) -> None:
    vectors = 1e6 * np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
    path, kept = save_vectors(tmp_path, vectors, some_assignments())
    loaded = load_vectors(tmp_path, some_assignments())
    assert loaded is not None
    assert np.array_equal(loaded, kept)
    assert np.corrcoef(loaded.ravel(), vectors.ravel())[0, 1] > 0.99999
    assert load_vectors(tmp_path, some_assignments(7)) is None
    path.write_bytes(path.read_bytes()[:-20])
    assert load_vectors(tmp_path, some_assignments()) is None
    assert load_vectors(tmp_path / "elsewhere", some_assignments()) is None


@pytest.mark.parametrize(
    "vectors",
    [
        np.zeros((5, 2), dtype=np.float16),
        np.zeros(6, dtype=np.float16),
        np.zeros((6, 2), dtype=np.float64),
        np.full((6, 2), np.nan, dtype=np.float16),
        np.array([["x"]] * 6),
        np.array([[None]] * 6),
    ],
)
def test_forged_ones_count_as_missing(tmp_path: Path, vectors: Any) -> None:
    path, _ = save_vectors(tmp_path, np.ones((6, 2), dtype=np.float32), some_assignments())
    with np.load(path) as content:
        run = content["run"]
    np.savez(path, run=run, vectors=vectors)
    assert load_vectors(tmp_path, some_assignments()) is None


def test_equal_images_have_equal_vectors(tmp_path: Path) -> None:
    _, kept = save_vectors(tmp_path, np.zeros((6, 3), dtype=np.float32), some_assignments())
    assert not kept.any()
