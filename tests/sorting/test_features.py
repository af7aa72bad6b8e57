"""Features of somebody's own are sorted without a network, from Python and the command line."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.base import clone
from sklearn.datasets import load_digits, make_blobs
from sklearn.utils.estimator_checks import parametrize_with_checks

from selfsort import DataError, SelfSort, score
from selfsort.runs.results import load_run
from test_cli import fail, succeed


@pytest.fixture(scope="module")
def clear() -> tuple[np.ndarray, np.ndarray]:
    """Two hundred rows in four clear groups."""
    rows, truth = make_blobs(200, n_features=40, centers=4, random_state=0)
    return rows.astype(np.float32), truth


@parametrize_with_checks([SelfSort(3, kind="features")])  # type: ignore[untyped-decorator]
def test_scikit_learn_contract(estimator: SelfSort, check: object) -> None:
    assert callable(check)
    check(estimator)


def test_clear_groups_are_found_and_new_rows_join_them(
    clear: tuple[np.ndarray, np.ndarray], tmp_path: Path
) -> None:
    rows, truth = clear
    sorter = SelfSort(4, kind="features").fit(rows[:150])
    assert score(truth[:150], sorter.labels_).accuracy == 1
    assert not sorter.history_, "no network was trained"
    loaded = SelfSort.load(sorter.save(tmp_path))
    assert loaded.score(rows[150:], truth[150:]) == 1
    assert (loaded.predict(rows) == sorter.predict(rows)).all()
    assert (loaded.transform(rows[:5]) == sorter.transform(rows[:5])).all()
    assert (clone(sorter).fit(rows[:150]).labels_ == sorter.labels_).all()
    with pytest.raises((DataError, ValueError), match="features"):
        loaded.predict(rows[:, :30])


def test_groups_that_lie_behind_each_other_are_told_apart() -> None:
    rows, truth = make_blobs(150, centers=[[1, 1], [5, 5], [9, 9]], cluster_std=0.4, random_state=0)
    assert score(truth, SelfSort(3, kind="features").fit(rows).labels_).accuracy == 1


def test_more_rows_than_are_compared(clear: tuple[np.ndarray, np.ndarray]) -> None:
    rows, truth = clear
    settings = {"clustering.max_samples": 100}
    sorter = SelfSort(4, kind="features", settings=settings).fit(rows)
    assert score(truth, sorter.labels_).accuracy == 1


def test_real_features_beat_chance_by_far() -> None:
    """The pixels of digits as if they were somebody's features; k-means comes to about 79 %."""
    rows, truth = load_digits(return_X_y=True)
    sorter = SelfSort(10, kind="features").fit(rows[:1000])
    assert score(truth[:1000], sorter.labels_).accuracy > 0.8


def test_from_the_command_line_with_pictures(
    clear: tuple[np.ndarray, np.ndarray], tmp_path: Path
) -> None:
    rows, truth = clear
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    for row, group in enumerate(truth):
        Image.new("RGB", (20, 20), (60 * int(group), row, 0)).save(pictures / f"{row:03}.png")
    np.save(tmp_path / "rows.npy", rows)
    out = tmp_path / "out"
    features = ["--kind", "features", "--threads", 1]
    message = fail("fit", tmp_path / "rows.npy", "-k", 4, "--out", out)
    assert "if it is features of one's own, --kind features" in message
    few = tmp_path / "few.npy"
    np.save(few, rows[:50])
    message = fail("fit", few, *features, "--images", pictures, "-k", 4, "--out", out)
    assert "50 rows for 200 images" in message
    said = succeed(
        "fit", tmp_path / "rows.npy", *features, "--images", pictures, "-k", 4, "--out", out
    )
    assert "duplicates in use" not in said
    run, assignments = load_run(out)
    assert assignments.names[7] == "007.png"
    assert score(truth, assignments.labels).accuracy == 1
    assert run.reading["images"] == str(pictures)
    assert "data:image/" in (out / "report.html").read_text()
    again = succeed("predict", out, few, "--out", tmp_path / "new.csv", "--json")
    assert json.loads(again)["clusters"] == assignments.labels[:50].tolist()
    succeed("report", out)
    succeed("embed", out, few, "--out", tmp_path / "latent.npy")
    assert np.load(tmp_path / "latent.npy").shape == (50, 256)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a,b\n1,2\n3,x\n", "should be a table of numbers alone"),
        ("", "should be a table of numbers alone"),
        ("a,b\n1,2\n3,nan\n", "NaN, infinity or huge numbers among its features"),
    ],
)
def test_tables_that_are_no_features_are_said(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "a.csv").write_text(content)
    assert message in fail("fit", tmp_path / "a.csv", "--kind", "features", "-k", 2)
