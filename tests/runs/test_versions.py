"""Versions of a run: one takes the place of another whole, whatever happens meanwhile."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from selfsort.errors import SelfsortError
from selfsort.files import copy_file
from selfsort.runs import versions
from selfsort.runs.changes import changes_of, save_changes
from selfsort.runs.edits import Move, Rename
from selfsort.runs.folder import RunFolder
from selfsort.runs.journal import Journal
from selfsort.runs.record import Run, load_record
from selfsort.runs.results import load_run, save_run, start_of
from selfsort.runs.table import Assignments
from selfsort.runs.versions import (
    accept,
    digest_of_edits,
    finish_switch,
    list_versions,
    reject,
    switch,
    version_folder,
    waiting,
)

NAMES = [f"{row}.png" for row in range(6)]


def write(folder: Path, labels: list[int], **content: object) -> None:
    run = Run(
        source="x", recipe="standard", config={}, seed=0, n_clusters=3, n_samples=6,
        image_shape=[1, 8, 8], history=[], scores={}, label_free={}, seconds=1.0,
        **content,  # type: ignore[arg-type]
    )  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    confidence = np.linspace(0.5, 1, 6, dtype=np.float32)
    save_run(folder, run, Assignments(NAMES, np.array(labels), confidence))
    RunFolder(folder).model.write_text(f"model of version {run.version}")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run with an edit, and a version that has learned from it."""
    folder = tmp_path / "run"
    write(folder, [0, 0, 1, 1, 2, 2])
    journal = Journal(folder, start_of(RunFolder(folder), load_run(folder, edited=False)))
    journal.add(Rename(1, "cats"))
    journal.add(Move([5], 1))
    journal.close()
    learned = version_folder(folder, 2)
    given = {"edits": digest_of_edits(folder)}
    names = ["", "cats", ""]
    write(learned, [0, 0, 1, 1, 1, 1], version=2, learned_from=1, names=names, given=given)
    return folder


def state_of(folder: Path) -> tuple[int, list[int], str, bool]:
    found = load_run(folder)
    paths = RunFolder(folder)
    labels = found.assignments.labels.tolist()
    return found.run.version, labels, paths.model.read_text(), paths.journal.exists()


OLD = (1, [0, 0, 1, 1, 2, 1], "model of version 1", True)
NEW = (2, [0, 0, 1, 1, 1, 1], "model of version 2", False)


def test_accept_and_back_again_with_the_edits(run: Path) -> None:
    assert (waiting(run), state_of(run)) == (2, OLD)
    accept(run, 2)
    assert (waiting(run), state_of(run), list_versions(run)) == (None, NEW, [1, 2])
    assert load_run(run).assignments.cluster_names == ["", "", "cats", "cats", "cats", "cats"]
    switch(run, load_record(RunFolder(run).record).learned_from)
    assert state_of(run) == OLD
    assert waiting(run) == 2
    reject(run, 2)
    assert (waiting(run), state_of(run), list_versions(run)) == (None, OLD, [1])
    with pytest.raises(SelfsortError, match="no version 7; kept are: 1"):
        switch(run, 7)


@pytest.mark.parametrize("place", range(8))
def test_a_crash_at_any_moment_leaves_one_version_whole(
    run: Path, place: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Copies are made in both halves: of the old version, before anything is replaced, and of the
    new one over it.
    """
    done = 0

    def copy_or_die(source: Path, target: Path) -> None:
        nonlocal done
        if done == place:
            raise KeyboardInterrupt
        done += 1
        copy_file(source, target)

    monkeypatch.setattr(versions, "copy_file", copy_or_die)
    try:
        accept(run, 2)
        is_through = True
    except KeyboardInterrupt:
        is_through = False
    monkeypatch.undo()
    found = state_of(run)  # whoever opens it finishes what was begun
    assert found in (OLD, NEW)
    assert found == NEW or not is_through
    accept_again = waiting(run)
    if accept_again:
        accept(run, accept_again)
    assert state_of(run) == NEW
    switch(run, 1)
    assert state_of(run) == OLD


def test_what_was_edited_since_is_not_lost(run: Path) -> None:
    journal = Journal(run, start_of(RunFolder(run), load_run(run, edited=False)))
    journal.add(Move([4], 1))
    journal.close()
    with pytest.raises(SelfsortError, match="was changed since version 2 learned from it"):
        accept(run, 2)
    assert state_of(run)[1] == [0, 0, 1, 1, 1, 1]
    (run / "switch.json").write_text("{")
    with pytest.raises(SelfsortError, match=r"switch\.json: damaged; remove it"):
        finish_switch(run)


def test_changes_say_what_moves(run: Path, tmp_path: Path) -> None:
    (change,) = changes_of(run, 2)
    assert (change.name, change.old, change.new, change.row) == ("4.png", "cluster 2", "cats", 4)
    path = save_changes(tmp_path, [change])
    assert path.read_text() == "name,from,to,confidence\n4.png,cluster 2,cats,0.9\n"
    shutil.rmtree(version_folder(run, 2))
