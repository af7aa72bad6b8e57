"""The map: near stays near, the same seed gives the same map, and it is kept."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from selfsort.data.image_set import sample_rows
from selfsort.report.map import Projection, load_projection, project, save_projection
from selfsort.runs.table import Assignments


def blobs(n_each: int, n_blobs: int = 3, width: int = 20) -> NDArray[np.float32]:
    generator = np.random.default_rng(0)
    centres = 10 * generator.normal(size=(n_blobs, width))
    points = centres.repeat(n_each, axis=0) + generator.normal(size=(n_blobs * n_each, width))
    return points.astype(np.float32)


def some_assignments(n: int = 6) -> Assignments:
    return Assignments(
        [f"{row}.png" for row in range(n)], np.arange(n) % 2, np.linspace(0, 1, n, dtype=np.float32)
    )


def test_groups_stay_apart_and_the_seed_decides() -> None:
    steps: list[tuple[int, int]] = []
    points = project(blobs(40), seed=1, on_step=lambda done, total: steps.append((done, total)))
    assert points.shape == (120, 2)
    assert points.min() == 0
    assert points.max() == 1
    groups = points.reshape(3, 40, 2)
    middles = groups.mean(axis=1)
    spread = np.linalg.norm(groups - middles[:, None], axis=2).max()
    assert (
        min(np.linalg.norm(middles[a] - middles[b]) for a, b in ((0, 1), (0, 2), (1, 2)))
        > 2 * spread
    )
    assert steps[-1] == (350, 350)
    assert np.array_equal(points, project(blobs(40), seed=1))
    assert not np.array_equal(points, project(blobs(40), seed=2))


@pytest.mark.parametrize("shape", [(1, 3), (2, 1), (5, 3), (8, 1), (9, 40), (40, 2)])
def test_few_images_and_few_numbers(shape: tuple[int, int]) -> None:
    points = project(np.random.default_rng(0).normal(size=shape).astype(np.float32), seed=0)
    assert points.shape == (shape[0], 2)
    assert np.isfinite(points).all()
    assert points.min() >= 0
    assert points.max() <= 1


def test_equal_images() -> None:
    assert np.isfinite(project(np.ones((30, 4), dtype=np.float32), seed=0)).all()
    assert np.isfinite(project(np.repeat(np.eye(2, dtype=np.float32), 20, axis=0), seed=0)).all()


def test_the_sample_is_drawn_by_the_seed() -> None:
    rows = sample_rows(1000, 50, seed=0)
    assert len(set(rows)) == 50
    assert np.array_equal(rows, np.sort(rows))
    assert not np.array_equal(rows, sample_rows(1000, 50, seed=1))
    assert sample_rows(7, 50, seed=0).tolist() == list(range(7))


def test_a_map_comes_back_and_belongs_to_its_run_only(tmp_path: Path) -> None:
    found, assignments = (
        Projection(np.arange(4), np.random.default_rng(0).random((4, 2), dtype=np.float32)),
        some_assignments(),
    )
    assert load_projection(tmp_path, assignments) is None
    file = save_projection(tmp_path, found, assignments)
    loaded = load_projection(tmp_path, assignments)
    assert loaded is not None
    assert np.array_equal(loaded.rows, found.rows)
    assert np.array_equal(loaded.points, found.points)
    assert load_projection(tmp_path, some_assignments(7)) is None
    other = Assignments(assignments.names, 1 - assignments.labels, assignments.confidence)
    assert load_projection(tmp_path, other) is None
    file.write_bytes(file.read_bytes()[:100])
    assert load_projection(tmp_path, assignments) is None


@pytest.mark.parametrize(
    ("rows", "points"),
    [
        (np.array([-1]), np.zeros((1, 2), dtype=np.float32)),
        (np.array([0.5]), np.zeros((1, 2), dtype=np.float32)),
        (np.array([0]), np.full((1, 2), np.nan, dtype=np.float32)),
        (np.array([0]), np.full((1, 2), 1e30, dtype=np.float32)),
        (np.array([0]), np.array([["x", "y"]])),
        (np.array([99]), np.zeros((1, 2), dtype=np.float32)),
    ],
)
def test_a_damaged_map_counts_as_missing(tmp_path: Path, rows: Any, points: Any) -> None:
    save_projection(tmp_path, Projection(rows, points), some_assignments())
    assert load_projection(tmp_path, some_assignments()) is None
