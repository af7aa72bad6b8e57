"""Time series from arrays and files, also hostile ones."""

import re
from pathlib import Path

import numpy as np
import pytest

from selfsort import load_source
from selfsort.data.lines import draw_group, draw_series
from selfsort.data.pictures import render_clusters
from selfsort.data.series import SeriesSet, as_series_set, load_series
from selfsort.errors import DataError

WAVE = np.sin(np.arange(20, dtype=np.float32))


def text(folder: Path, name: str, content: str) -> Path:
    file = folder / name
    file.write_text(content)
    return file


def row(values: np.ndarray, mark: str = ",") -> str:
    return mark.join(str(value) for value in values.tolist())


def test_arrays_keep_their_values(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=(5, 3, 20)).astype(np.float32)
    np.save(tmp_path / "a.npy", values)
    found = load_source(str(tmp_path / "a.npy"), kind="series")
    assert isinstance(found, SeriesSet)
    assert np.array_equal(found.pixels, values)
    assert as_series_set(values[:, 0]).pixels.shape == (5, 1, 20)
    np.savez(tmp_path / "a.npz", x=values, y=np.array([3, 3, 1, 1, 1]))
    with_truth = load_series(tmp_path / "a.npz")
    assert with_truth.truth is not None
    assert [with_truth.truth_names[label] for label in with_truth.truth] == list("33111")
    assert np.array_equal(with_truth.take(np.array([4, 0])).pixels, values[[4, 0]])


def test_text_of_each_kind_reads_the_same(tmp_path: Path) -> None:
    tsv = text(tmp_path, "a.tsv", f"1\t{row(WAVE, chr(9))}\n-1\t{row(-WAVE, chr(9))}\n")
    csv = text(tmp_path, "a.csv", f"{row(WAVE)}\n{row(-WAVE)}\n")
    names = ",".join(f"t{number}" for number in range(20))
    headed = text(tmp_path, "b.csv", f"label,{names}\n1,{row(WAVE)}\n-1,{row(-WAVE)}\n")
    ts = text(
        tmp_path,
        "a.ts",
        "# a comment\n@problemName a\n@timeStamps false\n@classLabel true 1 -1\n@data\n"
        f"{row(WAVE)}:1\n{row(-WAVE)}:-1\n",
    )
    for file in (tsv, csv, headed, ts):
        found = load_series(file)
        assert np.allclose(found.pixels[:, 0], [WAVE, -WAVE], atol=1e-6)
        if file is not csv:
            assert found.truth is not None
            assert [found.truth_names[label] for label in found.truth] == ["1", "-1"]
    channels = text(tmp_path, "c.ts", f"@data\n{row(WAVE)}:{row(-WAVE)}\n{row(WAVE)}:{row(WAVE)}\n")
    assert load_series(channels).pixels.shape == (2, 2, 20)


def test_short_ones_are_stretched_and_gaps_bridged_and_both_are_said(tmp_path: Path) -> None:
    line = np.arange(20, dtype=np.float32)
    values = np.tile(line, (3, 1))
    values[0, 10:] = np.nan  # shorter
    values[1, 5:8] = np.nan  # a gap
    found = as_series_set(values)
    assert np.allclose(found.pixels[0, 0], np.linspace(0, 9, 20))
    assert np.allclose(found.pixels[1, 0], line)
    assert found.notes == [
        "lengths 10 to 20 → 20, stretched",
        "1 series have gaps (NaN), bridged by straight lines",
    ]
    ragged = text(tmp_path, "a.csv", f"{row(line)}\n{row(line[:10])}\n1,2,,?,NaN,6,7,8,9,10\n")
    assert load_series(ragged).pixels.shape == (3, 1, 20)


def test_constant_series_and_dead_channels_are_said() -> None:
    values = np.stack([np.stack([WAVE, 0 * WAVE]), np.stack([-WAVE, 0 * WAVE])])
    assert as_series_set(values).notes == [
        "channel 1 is constant in every series and tells nothing"
    ]
    mixed = as_series_set(np.stack([WAVE, 0 * WAVE + 3]))
    assert mixed.notes == ["1 series are constant and have no shape to sort by"]


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((3, 20)), "every series is constant"),
        (np.zeros(20), r"shape \(20,\) should be"),
        (np.zeros((0, 20)), "holds no series"),
        (np.zeros((3, 4)), "series of 4 values should have at least 8"),
        (np.array([["a"] * 20]), "should be numbers"),
        (np.stack([WAVE, WAVE + np.inf]), "infinity or a value above"),
        (np.stack([WAVE, WAVE * np.nan]), "series 1 is empty"),
        (np.stack([WAVE, WAVE]).astype(complex), "should be numbers"),
    ],
)
def test_arrays_that_are_refused(array: np.ndarray, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        as_series_set(array)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.tsv", "", "holds no series"),
        ("a.tsv", "1\t2\tthree\t4\n", "line 1: 'three' should be a number"),
        ("a.tsv", "\0\1\2", "should be a number|holds no series|at least 8"),
        ("a.ts", "1,2,3\n", "line 1 comes before @data"),
        ("a.ts", "@timestamps true\n@data\n(0,1)", "time stamps"),
        ("a.ts", "@classLabel true a\n@data\na\n", "a class but no values"),
        ("a.csv", "a,b,c\n", "holds no series"),
        ("a.csv", f"{row(WAVE)}\n\n,,,\n", "series 1 is empty"),
        ("a.csv", '"1,2\n' * 3, "should be a number|not readable"),
        ("a.ts", f"@data\n{row(WAVE)}\n{row(WAVE)}:{row(WAVE)}\n", "1 to 2 channels"),
        ("a.wav", "RIFF", "series are read from"),
    ],
)
def test_files_that_are_refused(tmp_path: Path, name: str, content: str, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        load_series(text(tmp_path, name, content))
    assert "\n" not in str(caught.value)


def test_other_files_that_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_bytes(b"\xff\xfe\x00\x81")
    with pytest.raises(DataError, match="not readable text"):
        load_series(tmp_path / "a.tsv")
    with pytest.raises(DataError, match="no such file"):
        load_series(tmp_path / "none.tsv")
    with pytest.raises(DataError, match="not a regular file"):
        load_series(tmp_path)
    (tmp_path / "b.npy").write_bytes(b"\x93NUMPY")
    with pytest.raises(DataError, match=re.escape("not a readable .npy")):
        load_series(tmp_path / "b.npy")


def test_what_a_table_of_numbers_could_be_is_asked(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((30, 100)))
    with pytest.raises(DataError, match="if each is a time series, use `kind='series'`"):
        load_source(str(tmp_path / "a.npy"))
    with pytest.raises(DataError, match="to sort these use `kind='series'`"):
        load_source(str(text(tmp_path, "a.tsv", f"1\t{row(WAVE, chr(9))}\n")))


def test_a_line_is_drawn_where_its_values_are() -> None:
    rising = np.linspace(0, 1, 50, dtype=np.float32)[None]
    ink = np.asarray(draw_series(rising, 64).convert("L")) < 150
    down, right = np.nonzero(ink)
    assert np.corrcoef(down, right)[0, 1] < -0.99
    both = draw_group(np.stack([rising, rising[:, ::-1]]), 64)
    assert both.size == (64, 64)
    long = np.random.default_rng(0).normal(size=(1, 200_000)).astype(np.float32)
    assert draw_series(long, 64).size == (64, 64)
    few = as_series_set(np.stack([WAVE, -WAVE]))
    assert render_clusters(few, np.array([0, 1]), np.ones(2, np.float32), 2).startswith(b"\x89PNG")
