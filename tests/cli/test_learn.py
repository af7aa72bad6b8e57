"""`fit --labels` and `--parents`, `ask` and `learn`, as a user runs them."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from answering import (
    CLASSES,
    answer_questions,
    clusters_of_classes,
    fit_digits,
    rows_of_digits,
    some_rows,
    write_labels,
    write_rows,
)
from processes import Command
from selfsort.metrics import score
from selfsort.runs.edits import Mark, Merge, Rename
from selfsort.runs.folder import RunFolder
from selfsort.runs.journal import Journal
from selfsort.runs.results import load_run, start_of
from selfsort.runs.versions import list_versions
from test_cli import fail, succeed

_, TRUTH = rows_of_digits()


@pytest.fixture(scope="module")
def sorted_digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fit_digits(tmp_path_factory.mktemp("digits"), "-k", 4)


@pytest.fixture
def run(sorted_digits: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sorted_digits, tmp_path / "run"))


def accuracy(run: Path) -> float:
    return score(TRUTH, load_run(run).assignments.labels).accuracy


def test_a_few_labels_name_the_clusters_and_make_them_better(
    sorted_digits: Path, tmp_path: Path
) -> None:
    rows = some_rows(5, 0)
    labels = write_labels(tmp_path / "some.csv", rows, TRUTH[rows])
    run = fit_digits(tmp_path, "--labels", labels)
    found = load_run(run)
    rest = np.setdiff1d(np.arange(len(TRUTH)), rows)
    assert found.run.names == [f"digit {one}" for one in CLASSES]
    assert (found.assignments.labels[rows] == TRUTH[rows]).all()
    right = (found.assignments.labels[rest] == TRUTH[rest]).mean()
    before = score(TRUTH, load_run(sorted_digits).assignments.labels).accuracy
    assert right > before + 0.03
    (name,) = found.run.scores or ["none"]
    assert name == "none"  # rows of features have no truth
    assert (run / "assignments.csv").read_text().splitlines()[0] == (
        "name,cluster,cluster_name,confidence"
    )
    table = tmp_path / "new.csv"
    said = json.loads(succeed("predict", run, write_rows(tmp_path), "--out", table, "--json"))
    assert np.mean(np.array(said["clusters"])[rest] == found.assignments.labels[rest]) == 1
    assert "digit 8" in table.read_text()


def test_classes_without_labels_are_found_beside_the_others(tmp_path: Path) -> None:
    rows = some_rows(5, 1, classes=2)
    labels = write_labels(tmp_path / "some.csv", rows, TRUTH[rows])
    found = load_run(fit_digits(tmp_path, "--labels", labels, "-k", 4))
    assert found.run.names == ["digit 1", "digit 2", "", ""]
    assert score(TRUTH, found.assignments.labels).accuracy > 0.85


def test_parents_hold_their_clusters(tmp_path: Path) -> None:
    parents = tmp_path / "parents.csv"
    words = ["low" if one < 2 else "high" for one in TRUTH]
    parents.write_text("index,parent\n" + "".join(f"{i},{w}\n" for i, w in enumerate(words)))
    found = load_run(fit_digits(tmp_path, "--parents", parents, "-k", "low=2,high=2"))
    assert found.run.names == ["high/0", "high/1", "low/0", "low/1"]
    assert found.assignments.cluster_names is not None
    names = [name.split("/")[0] for name in found.assignments.cluster_names]
    assert np.mean(np.array(names) == words) > 0.98  # what the model says; it was not told these
    assert score(TRUTH, found.assignments.labels).accuracy > 0.9


def test_a_session_of_questions_learning_and_going_back(run: Path, tmp_path: Path) -> None:
    before = accuracy(run)
    assert "version 1 is the first one" in fail("learn", run, "--rollback")
    clusters = clusters_of_classes(load_run(run).assignments.labels)
    for version in (2, 3, 4):
        assert answer_questions(run, tmp_path, 10, clusters) == 10
        unlearned = load_run(run).assignments.labels
        said = json.loads(succeed("learn", run, "--json"))
        assert said["version"] == version
        assert said["moved"]
        assert (run / "versions" / str(version) / "changes.csv").exists()
        assert (load_run(run).assignments.labels == unlearned).all()  # until it is accepted
        succeed("learn", run, "--accept")
    assert accuracy(run) > before + 0.08
    assert "no version is waiting" in fail("learn", run, "--accept")
    told = json.loads(
        succeed("predict", run, write_rows(tmp_path), "--out", tmp_path / "p.csv", "--json")
    )
    learned = load_run(run).assignments.labels
    assert np.mean(np.array(told["clusters"]) == learned) > 0.97  # all but answered ones
    again = json.loads(succeed("ask", run, "-n", 400, "--json"))["questions"]
    assert len(again) == 370  # what was answered is not asked again
    listed = succeed("learn", run, "--list")
    assert "version 1: as `fit` wrote it\nversion 2: learned from version 1" in listed
    for _ in range(3):
        succeed("learn", run, "--rollback")
    assert accuracy(run) == pytest.approx(before, abs=0.03)
    assert len(Journal(run, start_of(RunFolder(run), load_run(run, edited=False))).history.edits)


def test_merged_clusters_are_one_outliers_stay_out_and_names_stay(
    run: Path, tmp_path: Path
) -> None:
    journal = Journal(run, start_of(RunFolder(run), load_run(run, edited=False)))
    for edit in (Rename(3, "rest"), Merge(1, 2), Mark([0, 7], outlier=True)):
        journal.add(edit)
    journal.close()
    succeed("learn", run)
    succeed("learn", run, "--accept")
    found = load_run(run)
    assert found.run.retired == [1]
    assert set(found.assignments.labels.tolist()) == {0, 2, 3}
    assert found.assignments.outliers is not None
    assert np.flatnonzero(found.assignments.outliers).tolist() == [0, 7]
    assert found.run.names[3] == "rest"
    table = tmp_path / "p.csv"
    said = json.loads(succeed("predict", run, write_rows(tmp_path), "--out", table, "--json"))
    assert 1 not in said["clusters"]
    succeed("report", run)


def test_what_cannot_be_learned_is_one_line(run: Path, tmp_path: Path) -> None:
    assert "there is nothing to learn from" in fail("learn", run)
    journal = Journal(run, start_of(RunFolder(run), load_run(run, edited=False)))
    for number in (1, 2, 3):
        journal.add(Merge(number, 0))
    journal.close()
    assert "all images are in one cluster now" in fail("learn", run)
    answers = tmp_path / "answers.csv"
    answers.write_text("name,cluster\n4000,0\n")
    assert "1 of 1 answers are for images that are not there" in fail(
        "ask", run, "--answers", answers
    )
    answers.write_text("name,cluster\n4,17\n")
    assert "there is no cluster 17" in fail("ask", run, "--answers", answers)


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("index,class\n0,a\n0,b\n", [], "two classes"),
        ("index,class\n0,a\n9999,b\n", [], "not there ('9999')"),
        ("index,class\n0,a\n1,a\n", [], "all labels say 'a'"),
        ("index,class\n0,a\n1,b\n2,c\n", ["-k", 2], "there cannot be 2 clusters"),
        ("index,class\n0,a\n1,cluster 3\n", [], "choose another name"),
    ],
)
def test_labels_that_cannot_be_are_one_line_and_leave_nothing(
    text: str, options: list[object], message: str, tmp_path: Path
) -> None:
    labels = tmp_path / "labels.csv"
    labels.write_text(text)
    said = fail(
        "fit", write_rows(tmp_path), "--kind", "features", "--labels", labels, *options,
        "--out", tmp_path / "run",
    )  # fmt: skip
    assert message in said
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("moment", [2, 9, 24])
def test_a_kill_while_learning_leaves_the_old_version_whole(
    run: Path, tmp_path: Path, moment: int
) -> None:
    answer_questions(run, tmp_path, 5, clusters_of_classes(load_run(run).assignments.labels))
    before = load_run(run)
    command = Command("learn", run, log=tmp_path / "log", moment=moment)
    command.process.join(120)
    after = load_run(run)
    assert after.run == before.run
    assert (after.assignments.labels == before.assignments.labels).all()
    succeed("learn", run)
    succeed("learn", run, "--accept")
    assert load_run(run).run.version == list_versions(run)[-1]
