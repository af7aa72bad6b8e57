"""Edits and their journal: replayed exactly, undone exactly, and safe against crashes and a second
process.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selfsort.errors import EditError, ModelFileError, SelfsortError
from selfsort.runs.edits import (
    Accept,
    Edit,
    Mark,
    Merge,
    Move,
    Rename,
    Split,
    encode_centres,
    parse_edit,
    to_json,
)
from selfsort.runs.folder import JOURNAL
from selfsort.runs.journal import EditHistory, Journal, load_history, set_aside
from selfsort.runs.state import State

LABELS = np.array([0, 0, 0, 1, 1, 2, 2, 2, 2, 3], dtype=np.int64)
CENTRES = encode_centres(np.array([[0, 0], [5, 5]], dtype=np.float32))
EDITS: list[Edit | str] = [
    Rename(0, "zero ✓"),
    Merge(1, 0),
    Split(2, [4], [[7, 8]], CENTRES),
    "undo",
    "redo",
    Move([0, 9], 5),
    Mark([3, 5], True),
    Accept([1]),
    "undo",
    Mark([3], False),
    Rename(4, "=four"),
]


def start() -> State:
    return State.of(LABELS, 4)


def facts(state: State) -> tuple[object, ...]:
    arrays = (state.labels.tolist(), state.outliers.tolist(), state.reviewed.tolist())
    return *arrays, state.clusters, state.free, dict(state.names)


def write(folder: Path) -> list[tuple[object, ...]]:
    """The journal of `EDITS` in `folder`; answers the state before and after each."""
    journal = Journal(folder, start())
    states = [facts(journal.state)]
    for entry in EDITS:
        journal.add(entry)
        states.append(facts(journal.state))
    journal.close()
    return states


# Edits


def test_each_edit_does_what_it_says() -> None:
    history = EditHistory(start())
    assert history.apply(Rename(1, "one")) == "named cluster 1 “one”"
    assert history.apply(Merge(1, 0)) == "merged one into cluster 0"
    assert history.state.labels.tolist() == [0, 0, 0, 0, 0, 2, 2, 2, 2, 3]
    assert (history.state.clusters, history.state.names) == (
        (0, 2, 3),
        {0: "one"},
    )  # a name is not lost
    assert history.apply(Split(2, [4], [[7, 8]], CENTRES)) == "split cluster 2 into 2"
    assert history.state.labels.tolist() == [0, 0, 0, 0, 0, 2, 2, 4, 4, 3]
    assert history.apply(Mark([0], True)) == "marked 1 image as outlier"
    assert history.state.members(0).tolist() == [1, 2, 3, 4]
    assert history.apply(Move([0, 1], 5)) == "moved 2 images to cluster 5"
    assert not history.state.outliers.any()
    assert (history.state.members(5).tolist(), history.state.free) == ([0, 1], 6)
    assert np.flatnonzero(history.state.reviewed).tolist() == [0, 1]
    assert history.apply("undo") == "undone: moved 2 images to cluster 5"
    assert history.state.outliers[0]
    assert history.state.free == 5
    assert history.apply("redo") == "done again: moved 2 images to cluster 5"
    assert history.apply(Merge(5, 3)) == "merged cluster 5 into cluster 3"
    assert (
        history.apply(Move([9], 6)) == "moved 1 image to cluster 6"
    )  # the number of a merged cluster is not used again


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (Rename(9, "x"), "cluster 9 does not exist"),
        (Rename(1, "Taken"), "'Taken' belongs to cluster 0; merge the two"),
        (Rename(1, " x"), "no space at its ends"),
        (Rename(1, "x" * 101), "at most 100 characters"),
        (Rename(1, "a\nb"), "no line breaks"),
        (Rename(1, "Cluster 3"), "what clusters without a name"),
        (Rename(1, "outliers"), "what clusters without a name"),
        (Rename(1, "\u202ex"), "invisible characters"),
        (Rename(1, "\ud800"), "invisible characters"),
        (Merge(0, 0), "cannot be merged with itself"),
        (Merge(0, 7), "cluster 7 does not exist"),
        (Move([], 0), "at least one"),
        (Move([10], 0), "between 0 and 9"),
        (Move([-1], 0), "between 0 and 9"),
        (Move([1], 6), "cluster 6 does not exist"),
        (Split(0, [4], [[9]], CENTRES), "its own images only"),
        (Split(0, [4, 5], [[1], [1]], ""), "its own images only"),
        (Split(0, [7], [[1]], CENTRES), "next free numbers"),
        (Split(0, [], [], ""), "2 to 50 clusters"),
        (Split(0, [4], [[1]], "?"), "centres of a split cannot be read"),
        (Mark([99], True), "between 0 and 9"),
    ],
)
def test_edits_that_do_not_fit_are_refused_and_change_nothing(edit: Edit, message: str) -> None:
    history = EditHistory(start())
    history.apply(Rename(0, "taken"))
    before = facts(history.state)
    with pytest.raises(EditError, match=message):
        history.apply(edit)
    assert facts(history.state) == before
    assert len(history.done) == 1


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"op": "drop"},
        {"op": "merge", "cluster": 1},
        {"op": "merge", "cluster": 1, "into": 0, "more": 1},
        {"op": "merge", "cluster": True, "into": 0},
        {"op": "merge", "cluster": 1.0, "into": 0},
        {"op": "rename", "cluster": 1, "name": None},
        {"op": "move", "images": "01", "to": 0},
        {"op": "move", "images": [0, "1"], "to": 0},
        {"op": "mark", "images": [0], "outlier": 1},
    ],
)
def test_requests_of_another_form_are_refused(content: dict[str, Any]) -> None:
    with pytest.raises(EditError, match="should"):
        parse_edit(content)


def test_new_images_follow_merges_and_splits_only() -> None:
    history = EditHistory(start())
    for entry in (
        Move([0], 1),
        Merge(1, 2),
        Split(2, [4], [[7, 8]], CENTRES),
        Mark([5], True),
        Merge(4, 3),
        Merge(0, 3),
        "undo",
    ):
        history.apply(entry)
    points = np.array([[9, 9], [1, 0], [4, 4], [9, 9], [0, 0]], dtype=np.float32)
    asked: list[list[int]] = []

    def latent(rows: Any) -> Any:
        asked.append(rows.tolist())
        return points[rows]

    assert history.relabel(np.array([0, 1, 2, 3, 2]), latent).tolist() == [0, 2, 3, 3, 2]
    assert asked == [[1, 2, 4]]
    with pytest.raises(EditError, match="another model: 2 numbers per image, not 3"):
        history.relabel(np.array([2]), lambda rows: np.zeros((1, 3), dtype=np.float32))


# The file


def test_what_is_read_again_is_what_was_there(tmp_path: Path) -> None:
    states = write(tmp_path)
    assert facts(load_history(tmp_path, start()).state) == states[-1]
    lines = [json.loads(line) for line in (tmp_path / JOURNAL).read_bytes().splitlines()]
    assert [line["entry"].get("op") for line in lines[1:]] == [
        e if isinstance(e, str) else to_json(e)["op"] for e in EDITS
    ]
    journal = Journal(tmp_path, start())
    for _ in range(7):
        journal.add("undo")
    assert facts(journal.state) == states[0]
    with pytest.raises(EditError, match="nothing to undo"):
        journal.add("undo")
    journal.close()
    with pytest.raises(SelfsortError, match="is closed already; nothing was changed"):
        journal.add("redo")
    journal = Journal(tmp_path, start())  # what was undone can be done again after a restart
    assert [journal.add("redo") for _ in range(7)][-1] == "done again: named cluster 4 “=four”"
    assert facts(journal.state) == states[-1]
    with pytest.raises(EditError, match="nothing to redo"):
        journal.add("redo")
    journal.close()


def test_a_crash_at_any_byte_loses_nothing_but_the_entry_being_written(tmp_path: Path) -> None:
    states = write(tmp_path)
    content = (tmp_path / JOURNAL).read_bytes()
    for length in range(len(content) + 1):
        (tmp_path / JOURNAL).write_bytes(content[:length])
        n_whole = max(0, content[:length].count(b"\n") - 1)
        assert facts(load_history(tmp_path, start()).state) == states[n_whole], length
    for length in range(0, len(content), 97):  # and one can go on from there
        (tmp_path / JOURNAL).write_bytes(content[:length])
        journal = Journal(tmp_path, start())
        assert (journal.lost_bytes > 0) == (length > 0 and content[length - 1 : length] != b"\n")
        journal.add(Rename(3, "after the crash"))
        after = facts(journal.state)
        journal.close()
        assert facts(load_history(tmp_path, start()).state) == after


@pytest.mark.parametrize(
    "change",
    [
        (b'"into":0', b'"into":3'),
        (b'"op":"merge"', b'"op":"marge"'),
        (b"{", b"["),
        (b'"crc"', b'"cRc"'),
    ],
)
def test_a_damaged_line_is_one_clear_error(tmp_path: Path, change: tuple[bytes, bytes]) -> None:
    write(tmp_path)
    lines = (tmp_path / JOURNAL).read_bytes().splitlines(keepends=True)
    lines[2] = lines[2].replace(*change)
    (tmp_path / JOURNAL).write_bytes(b"".join(lines))
    with pytest.raises(
        ModelFileError,
        match=r"edits\.jsonl: line 3 is damaged \(.*\); restore the file, or cut it off",
    ) as caught:
        load_history(tmp_path, start())
    assert "\n" not in str(caught.value)
    with pytest.raises(ModelFileError, match="line 3 is damaged"):
        Journal(tmp_path, start())
    Journal(tmp_path / "..", start()).close()  # the lock was released


def test_a_journal_of_another_result_is_refused_and_can_be_set_aside(tmp_path: Path) -> None:
    write(tmp_path)
    with pytest.raises(ModelFileError, match="belongs to another result than assignments"):
        load_history(tmp_path, State.of(LABELS[::-1].copy(), 4))
    assert set_aside(tmp_path) == tmp_path / "edits-1.jsonl"
    write(tmp_path)
    assert set_aside(tmp_path) == tmp_path / "edits-2.jsonl"
    assert set_aside(tmp_path) is None


def test_two_processes_cannot_edit_at_once(tmp_path: Path) -> None:
    journal = Journal(tmp_path, start())
    code = (
        "import sys; from pathlib import Path; import numpy as np; from selfsort.runs.journal "
        "import Journal; "
        "from selfsort.runs.state import State; Journal(Path(sys.argv[1]), State.of(np.zeros(3, "
        "dtype=np.int64), 1))"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    second = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "is open in another `selfsort explore`; use that one, or end it first." in second.stderr
    journal.close()
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0


def test_an_entry_that_cannot_be_written_does_not_count(tmp_path: Path) -> None:
    states = write(tmp_path)
    journal = Journal(tmp_path, start())
    content = (tmp_path / JOURNAL).read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(
        resource.RLIMIT_FSIZE, (len(content) + 20, limits[1])
    )  # as if the disk were full after 20 bytes more
    try:
        with pytest.raises(SelfsortError, match=r"cannot write .* nothing was changed"):
            journal.add(Merge(0, 3))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert facts(journal.state) == states[-1]
    assert (tmp_path / JOURNAL).read_bytes() == content
    journal.add(Merge(0, 3))
    journal.close()
    assert load_history(tmp_path, start()).state.labels.tolist().count(0) == 0


IMAGES = st.lists(st.integers(0, 9), min_size=1, max_size=4)
NUMBERS = st.integers(0, 6)
ENTRIES = st.one_of(
    st.just("undo"),
    st.just("redo"),
    st.builds(Rename, NUMBERS, st.text(max_size=5)),
    st.builds(Merge, NUMBERS, NUMBERS),
    st.builds(Move, IMAGES, NUMBERS),
    st.builds(Mark, IMAGES, st.booleans()),
    st.builds(Accept, IMAGES),
    st.builds(
        lambda cluster, free, images: Split(cluster, [free], [images], CENTRES),
        NUMBERS,
        st.integers(4, 6),
        IMAGES,
    ),
)


@given(st.lists(ENTRIES, max_size=25))
@settings(max_examples=30, deadline=None)
def test_any_edits_can_be_replayed_undone_and_done_again(entries: list[Edit | str]) -> None:
    with tempfile.TemporaryDirectory() as place:
        journal = Journal(Path(place), start())
        for entry in entries:
            before = facts(journal.state)
            try:
                journal.add(entry)
            except EditError:
                assert facts(journal.state) == before
        last, n_edits = facts(journal.state), len(journal.history.edits)
        assert facts(load_history(Path(place), start()).state) == last
        alone = EditHistory(
            start()
        )  # undone edits leave no trace: the ones that count give the same
        for edit in journal.history.edits:
            alone.apply(edit)
        assert facts(alone.state) == last
        for _ in range(n_edits):
            journal.add("undo")
        assert facts(journal.state) == facts(start())
        for _ in range(n_edits):
            journal.add("redo")
        assert facts(journal.state) == last
        journal.close()


# Changed by others


def test_a_journal_that_was_cut_by_another_program_takes_no_more_edits(tmp_path: Path) -> None:
    journal = Journal(tmp_path, start())
    journal.add(Rename(1, "ones"))
    journal.add(Rename(2, "twos"))
    cut = journal.path.read_bytes()[:-20]
    journal.path.write_bytes(cut)
    with pytest.raises(SelfsortError, match="was changed by another program meanwhile"):
        journal.add(Rename(3, "threes"))
    assert journal.path.read_bytes() == cut
    assert journal.state.names == {1: "ones", 2: "twos"}
    journal.close()


@pytest.mark.parametrize("ending", [b"\r", b"\r\n"])
def test_a_journal_with_other_line_ends_is_named_and_left_alone(
    tmp_path: Path, ending: bytes
) -> None:
    journal = Journal(tmp_path, start())
    for number in range(3):
        journal.add(Rename(number, f"name {number}"))
    journal.close()
    changed = journal.path.read_bytes().replace(b"\n", ending)
    journal.path.write_bytes(changed)
    for read in (lambda: load_history(tmp_path, start()), lambda: Journal(tmp_path, start())):
        with pytest.raises(ModelFileError, match=r"edits\.jsonl: .*damaged"):
            read()
    assert journal.path.read_bytes() == changed


def test_a_pipe_in_place_of_a_journal_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / JOURNAL)
    with pytest.raises(ModelFileError, match="not a regular file"):
        load_history(tmp_path, start())
