"""A file appears whole or not at all."""

import json
import os
from pathlib import Path

import pytest

from selfsort.errors import SelfsortError
from selfsort.files import copy_file, save_bytes, save_json, save_text


def test_writes_into_folders_that_do_not_exist_yet_and_replaces(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b.json"
    save_json(path, {"x": 1})
    save_json(path, {"x": None, "name": "\udcff"})
    assert json.loads(path.read_text()) == {"x": None, "name": "\udcff"}
    assert os.listdir(path.parent) == ["b.json"]


def test_bytes_of_file_names_come_out_as_they_were(tmp_path: Path) -> None:
    save_text(tmp_path / "names", os.fsdecode(b"caf\xe9"))
    assert (tmp_path / "names").read_bytes() == b"caf\xe9"


def test_the_users_umask_decides_who_can_read(tmp_path: Path) -> None:
    previous = os.umask(0o077)
    try:
        save_bytes(tmp_path / "private", b"")
    finally:
        os.umask(previous)
    assert (tmp_path / "private").stat().st_mode & 0o777 == 0o600


def test_a_name_as_long_as_names_can_be(tmp_path: Path) -> None:
    save_bytes(tmp_path / ("x" * 255), b"1")
    assert os.listdir(tmp_path) == ["x" * 255]


def test_a_failed_write_leaves_the_old_file_and_no_temporary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.json"
    save_bytes(path, b"old")

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SelfsortError, match=r"cannot write .*run\.json: No space left on device"):
        save_bytes(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["run.json"]


def test_interruption_leaves_no_temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(source: Path, target: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        save_bytes(tmp_path / "x", b"")
    assert os.listdir(tmp_path) == []


def test_a_place_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "file" / "below", tmp_path / "folder", tmp_path / ("x" * 256)):
        with pytest.raises(SelfsortError, match=r"^cannot write .*; choose another place$"):
            save_bytes(path, b"")
    assert sorted(os.listdir(tmp_path)) == ["file", "folder"]


def test_a_copy_is_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x").write_bytes(b"content")
    os.utime(tmp_path / "x", (1, 1))
    copy_file(tmp_path / "x", tmp_path / "new" / "y")
    assert (tmp_path / "new" / "y").read_bytes() == b"content"
    assert (tmp_path / "new" / "y").stat().st_mtime == 1
    with pytest.raises(SelfsortError, match=r"cannot copy .*none: No such file or directory"):
        copy_file(tmp_path / "none", tmp_path / "new" / "z")
    assert os.listdir(tmp_path / "new") == ["y"]
