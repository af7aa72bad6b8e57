"""What a run leaves on disk comes back as it was."""

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selfsort.errors import ModelFileError
from selfsort.runs.edits import Mark, Move, Rename
from selfsort.runs.journal import Journal
from selfsort.runs.limits import MAX_JSON_BYTES
from selfsort.runs.record import Run, current_versions
from selfsort.runs.results import file_hash, load_labels, load_run, save_run
from selfsort.runs.state import State
from selfsort.runs.table import Assignments, load_assignments, save_assignments

HOSTILE = [
    "plain.png", "=cmd|' /C calc'!A0", "+1", "-1", "@x", "\ttab", "\rcarriage", "a\rb", "a\nb\r\nc",
    'quo"te', "com,ma", "'quote", "''", "ünï.png", os.fsdecode(b"caf\xe9.png"), " ", "[bold]",
]  # fmt: skip


def assignments(names: list[str], truth: list[str] | None = None) -> Assignments:
    count = len(names)
    return Assignments(
        names, np.arange(count), np.linspace(0, 1, count).round(4).astype(np.float32), truth
    )


def a_run(**changes: Any) -> Run:
    content: dict[str, Any] = {
        "source": "digits:full", "recipe": "paper", "config": {}, "seed": 0, "n_clusters": 2,
        "n_samples": 3, "image_shape": [1, 8, 8],
        "history": [{"stage": "training", "epoch": 1, "terms": {"loss": 0.5}}], "label_free": {},
        "scores": {"x": {"accuracy": 1.0, "purity": 1.0, "nmi": 1, "ari": 0.5}},
        "seconds": 1, "skipped": {name: name for name in HOSTILE},
        "versions": current_versions(),
    }  # fmt: skip
    return Run(**content | changes)


@pytest.mark.parametrize("truth", [None, HOSTILE[::-1]])
def test_hostile_names_come_back(tmp_path: Path, truth: list[str] | None) -> None:
    saved = assignments(HOSTILE, truth)
    save_run(tmp_path, a_run(), saved)
    run, loaded = load_run(tmp_path)
    assert run == a_run(files={"assignments.csv": file_hash(tmp_path / "assignments.csv")})
    assert loaded.names == HOSTILE
    assert loaded.truth == truth
    assert np.array_equal(loaded.labels, saved.labels)
    assert np.array_equal(loaded.confidence, saved.confidence)


@settings(deadline=None)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1))
def test_any_names_come_back(tmp_path_factory: pytest.TempPathFactory, names: list[str]) -> None:
    path = tmp_path_factory.mktemp("any") / "a.csv"
    save_assignments(path, assignments(names))
    assert load_assignments(path).names == names


def test_no_cell_is_a_formula(tmp_path: Path) -> None:
    save_assignments(tmp_path / "a.csv", assignments(HOSTILE, HOSTILE))
    with open(tmp_path / "a.csv", encoding="utf-8", errors="surrogateescape", newline="") as file:
        cells = [cell for row in csv.reader(file) for cell in row]
    assert len(cells) == 4 * (len(HOSTILE) + 1)
    assert not [
        cell for cell in cells if cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n", "＝"))
    ]


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_no_cell_is_a_formula_for_spreadsheets_with_another_delimiter(
    tmp_path: Path, delimiter: str
) -> None:
    name = f"x{delimiter}=1+1"
    save_assignments(tmp_path / "a.csv", assignments([name, "\n=1", "＝1"]))
    with open(tmp_path / "a.csv", encoding="utf-8", newline="") as file:
        cells = [cell for row in csv.reader(file, delimiter=delimiter) for cell in row]
    assert not [cell for cell in cells if cell.strip().startswith(("=", "＝"))]
    assert load_assignments(tmp_path / "a.csv").names == [name, "\n=1", "＝1"]


def test_lines_end_as_unix_tools_expect(tmp_path: Path) -> None:
    save_assignments(tmp_path / "a.csv", assignments(["x", "y"]))
    assert (tmp_path / "a.csv").read_bytes() == b"name,cluster,confidence\nx,0,0.0000\ny,1,1.0000\n"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "no such file"),
        (b"", "damaged"),
        (b"{", "damaged"),
        (b"[1, 2]", "damaged"),
        (b"\xff\xff", "damaged"),
        (b"{}", "damaged"),
        (b'{"source": "digits", "new": 1}', "damaged"),
        (b"[" * 100_000, "damaged"),
    ],
)
def test_a_damaged_run_is_one_line_that_names_the_file(
    tmp_path: Path, content: bytes | None, reason: str
) -> None:
    save_run(tmp_path, a_run(), assignments(["x"]))
    path = tmp_path / "run.json"
    path.unlink() if content is None else path.write_bytes(content)
    with pytest.raises(ModelFileError, match=rf"run\.json: {reason}") as caught:
        load_run(tmp_path)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"reading": {"place": "x"}},
        {
            "reading": {
                "source": 5,
                "data_dir": None,
                "size": None,
                "folder_truth": False,
                "skip_broken": False,
            }
        },
        {"history": [1]},
        {"history": [{"stage": "training", "epoch": 1, "terms": {"loss": "x"}}]},
        {"scores": {"a": 3}},
        {"scores": {"a": {"accuracy": "x"}}},
        {"scores": {"p": {}}},
        {"history": [{"stage": "training", "epoch": 1, "terms": {"loss": 1e-323}}]},
        {"seed": 2**40},
        {"warnings": [1]},
        {"skipped": [1]},
        {"eigenvalues": ["x"]},
        {"cluster_count": {"n_clusters": 3}},
        {"estimate": {"accuracy": 0.5}},
        {"count_curve": [[2]]},
        {"label_free": {"silhouette": "x"}},
        {"seed": -1},
        {"n_clusters": 10**9},
        {"seconds": 10**400},
        {"files": {"/dev/zero": "x"}},
        {"config": {"a": "\ud800"}},
    ],
)
def test_a_run_that_nobody_wrote_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    save_run(tmp_path, a_run(), assignments(["x"]))
    content = json.loads((tmp_path / "run.json").read_text()) | change
    (tmp_path / "run.json").write_text(json.dumps(content))
    with pytest.raises(ModelFileError, match=r"run\.json: damaged"):
        load_run(tmp_path)


def test_a_number_that_is_none_is_refused(tmp_path: Path) -> None:
    save_run(tmp_path, a_run(), assignments(["x"]))
    text = (tmp_path / "run.json").read_text()
    (tmp_path / "run.json").write_text(text.replace('"seconds": 1', '"seconds": NaN'))
    with pytest.raises(ModelFileError, match="NaN is no number"):
        load_run(tmp_path)


def test_a_run_with_a_value_of_the_wrong_type_is_refused(tmp_path: Path) -> None:
    save_run(tmp_path, a_run(), assignments(["x"]))
    text = (tmp_path / "run.json").read_text()
    (tmp_path / "run.json").write_text(text.replace('"n_clusters": 2', '"n_clusters": "2"'))
    with pytest.raises(ModelFileError, match="n_clusters='2' should be of type int"):
        load_run(tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        b"file,cluster,confidence\nx,0,1\n",
        b"name,cluster,confidence\nx,zero,1\n",
        b"name,cluster,confidence\nx,0\n",
        b"name,cluster,confidence\nx,0,nan\n",
        b"name,cluster,confidence\nx,0,1e99\n",
        b"name,cluster,confidence\nx," + b"9" * 30 + b",1\n",
        b'name,cluster,confidence\n"' + b"x" * 200_000 + b'",0,1\n',
    ],
)
def test_a_damaged_table_is_one_line_that_names_the_file(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(ModelFileError, match=r"a\.csv: ") as caught:
        load_assignments(tmp_path / "a.csv")
    assert len(str(caught.value).splitlines()) == 1


def sparse(path: Path, n_bytes: int) -> None:
    """A file of so many bytes that takes no place on disk."""
    with open(path, "wb") as file:
        file.truncate(n_bytes)


@pytest.mark.parametrize("name", ["run.json", "assignments.csv"])
@pytest.mark.parametrize("kind", ["pipe", "device", "huge", "folder"])
def test_a_special_or_huge_file_in_place_of_a_result_is_one_line(
    tmp_path: Path, name: str, kind: str
) -> None:
    save_run(tmp_path, a_run(), assignments(["x"]))
    path = tmp_path / name
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "huge":
        sparse(path, 3 * 2**30)
    else:
        path.mkdir()
    with pytest.raises(ModelFileError, match=re.escape(name)) as caught:
        load_run(tmp_path)
    assert len(str(caught.value).splitlines()) == 1


def test_a_table_without_line_breaks_is_refused_early(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"name,cluster,confidence\n" + b"x" * 2**21)
    with pytest.raises(ModelFileError, match="a line has more than"):
        load_assignments(tmp_path / "a.csv")


def test_edited_labels_are_those_of_a_run(tmp_path: Path) -> None:
    found = Assignments(list("abc"), np.array([0, 1, 1]), np.ones(3, dtype=np.float32))
    save_run(tmp_path, a_run(), found)
    journal = Journal(tmp_path, State.of(found.labels, 2))
    journal.add(Rename(1, "ones"))
    journal.add(Move([0], 1))
    journal.add(Mark([2], True))
    journal.close()
    edited = load_run(tmp_path).assignments
    assert edited.labels.tolist() == [1, 1, 1]
    assert edited.cluster_names == ["ones", "ones", "ones"]
    assert load_run(tmp_path, edited=False).assignments.labels.tolist() == [0, 1, 1]
    labels = load_labels(tmp_path)
    assert (labels.names, labels.labels.tolist()) == (["a", "b"], [1, 1]), "no outliers"
    assert load_labels(tmp_path / "assignments.csv").labels.tolist() == [0, 1, 1]


def test_a_forged_record_takes_bounded_memory(tmp_path: Path) -> None:
    unit = b"[[]],"
    content = b'{"source":[' + unit * (MAX_JSON_BYTES // len(unit) - 10) + b"0]}"
    (tmp_path / "run.json").write_bytes(content)
    code = (
        "import resource, sys; from selfsort.errors import ModelFileError\n"
        "from selfsort.runs.results import load_run\n"
        "def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "before = peak()\n"
        "try: load_run(sys.argv[1])\n"
        "except ModelFileError: print((peak() - before) // 1024)\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout) < 700, "MB"
