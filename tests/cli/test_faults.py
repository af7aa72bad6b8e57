"""Full disks, read-only and vanished folders, a second process: one line, and the last good state
stays.
"""

import json
import os
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from processes import Command
from selfsort import files
from selfsort.container import load_container
from selfsort.errors import SelfsortError
from selfsort.files import locked, save_bytes
from test_resume import FILES

FIT = [
    "fit",
    "digits",
    "--recipe",
    "paper",
    "-k",
    "5",
    "--threads",
    "1",
    "--no-report",
    "--epochs",
    "4",
]
for setting in (
    "network.width=4",
    "network.latent_width=64",
    "clustering.n_init=1",
    "training.batch_size=100",
):
    FIT += ["--set", setting]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of its own with 4 MB."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(place)]
    if (
        os.getuid()
        or not shutil.which("mount")
        or subprocess.run(command, capture_output=True, check=False).returncode
    ):
        pytest.skip(
            "only root can mount a small file system; the limit on file sizes is tested anyhow"
        )
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of an undisturbed run."""
    folder = tmp_path_factory.mktemp("whole")
    process = Command(*FIT, "--out", folder / "out", log=folder / "log")
    assert process.end() == 0, process.errors
    return contents(folder / "out")


def contents(out: Path) -> dict[str, bytes]:
    there = os.listdir(out)
    assert set(FILES) <= set(there)
    assert not [
        name for name in there if name in ("checkpoint", "job.json") or name.startswith(".")
    ]
    return {file: (out / file).read_bytes() for file in FILES[:3]}


def begun(out: Path, log: Path) -> Command:
    """A run that has written its first checkpoint and goes on writing them."""
    process = Command(*FIT, "--out", out, log=log, interval=0)
    while not (out / "checkpoint" / "training.safetensors").exists():
        assert process.process.is_alive(), process.errors
        time.sleep(0.001)
    return process


def failed(process: Command) -> str:
    """The last line of a process that ended with an error."""
    assert process.end() == 1, process.errors
    assert "Traceback" not in process.errors
    line = process.errors.splitlines()[-1]
    assert line.startswith("Error: ")
    return line


def good_state(out: Path) -> None:
    """What is there is whole, and nothing else is there."""
    assert sorted(os.listdir(out)) == ["checkpoint", "job.json"]
    assert os.listdir(out / "checkpoint") == ["training.safetensors"]
    json.loads((out / "job.json").read_text())
    load_container(out / "checkpoint" / "training.safetensors", kind="checkpoint")


def resumed(out: Path, log: Path) -> dict[str, bytes]:
    process = Command("fit", "--resume", out, log=log)
    assert process.end() == 0, process.errors
    return contents(out)


def fill(disk: Path, free: int) -> None:
    """Leave so many bytes free."""
    status = os.statvfs(disk)
    with open(disk / "filler", "wb") as file:
        file.write(bytes(max(0, status.f_bavail * status.f_frsize - free)))


def test_a_disk_that_fills_up_during_the_run(
    disk: Path, tmp_path: Path, whole: dict[str, bytes]
) -> None:
    process = begun(disk / "out", tmp_path / "log")
    fill(disk, 0)
    assert "No space left on device; free some space" in failed(process)
    good_state(disk / "out")
    (disk / "filler").unlink()
    assert resumed(disk / "out", tmp_path / "log") == whole


@pytest.mark.torture
@pytest.mark.timeout(600)
def test_disks_of_twenty_sizes(
    disk: Path, tmp_path: Path, whole: dict[str, bytes], record_figures: Callable[..., None]
) -> None:
    failures = 0
    for free in range(0, 400_000, 20_000):
        fill(disk, free)
        process = Command(*FIT, "--out", disk / "out", log=tmp_path / "log")
        if process.end():
            failures += 1
            assert "No space left on device" in failed(process)
            (disk / "filler").unlink()
            if (disk / "out").exists():
                assert not [
                    name for name in os.listdir(disk / "out") if name.startswith(".selfsort")
                ]
                assert resumed(disk / "out", tmp_path / "log") == whole
        if (disk / "out").exists():
            assert contents(disk / "out") == whole
            shutil.rmtree(disk / "out")
        (disk / "filler").unlink(missing_ok=True)
    record_figures("full disk", disks=20, failures=failures)
    assert 5 < failures < 20


def test_a_disk_that_becomes_read_only(disk: Path, tmp_path: Path, whole: dict[str, bytes]) -> None:
    process = begun(disk / "out", tmp_path / "log")
    process.signal(signal.SIGTERM)
    assert "Resume with" in failed(process)
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    for arguments in (["fit", "--resume", disk / "out"], [*FIT, "--out", disk / "other"]):
        assert "Read-only file system; choose another place" in failed(
            Command(*arguments, log=tmp_path / "log")
        )
    good_state(disk / "out")
    subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
    assert resumed(disk / "out", tmp_path / "log") == whole


def test_a_folder_that_vanishes(tmp_path: Path, whole: dict[str, bytes]) -> None:
    process = begun(tmp_path / "out", tmp_path / "log")
    (tmp_path / "out").rename(tmp_path / "moved")
    assert "training.safetensors: No such file or directory" in failed(process)
    assert not (tmp_path / "out").exists()
    (tmp_path / "moved" / files.LOCK).unlink()
    for unfinished in (tmp_path / "moved").glob(f"{files.TEMPORARY}*"):
        unfinished.unlink()  # its writer could not find it any more
    good_state(tmp_path / "moved")
    assert resumed(tmp_path / "moved", tmp_path / "log") == whole


def test_a_second_process_on_the_same_folder(tmp_path: Path, whole: dict[str, bytes]) -> None:
    first, out = begun(tmp_path / "out", tmp_path / "first"), tmp_path / "out"
    for arguments in (
        [*FIT, "--out", out],
        [*FIT, "--out", out, "--overwrite"],
        ["fit", "--resume", out],
    ):
        assert f"{out}: another selfsort is writing to it" in failed(
            Command(*arguments, log=tmp_path / "second")
        )
    assert first.end() == 0, first.errors
    assert contents(out) == whole


def test_a_lock_ends_with_its_holder_and_leaves_nothing(tmp_path: Path) -> None:
    with locked(tmp_path / "a" / "b"):
        with pytest.raises(SelfsortError, match="another selfsort"), locked(tmp_path / "a" / "b"):
            pass
        assert os.listdir(tmp_path / "a" / "b") == [files.LOCK]
        (tmp_path / "a" / "b" / f"{files.TEMPORARY}0123456789abcdef").write_bytes(
            b"of a killed process"
        )
    with locked(tmp_path / "a" / "b"):
        assert os.listdir(tmp_path / "a" / "b") == [files.LOCK]
    assert os.listdir(tmp_path / "a" / "b") == [], "what was there before stays"
    with locked(tmp_path / "new"):
        pass
    assert not (tmp_path / "new").exists()


def test_a_limit_on_the_size_of_files(tmp_path: Path) -> None:
    save_bytes(tmp_path / "x", b"old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(SelfsortError, match="File too large"):
            save_bytes(tmp_path / "x", bytes(1001))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (tmp_path / "x").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["x"]


class Failing:
    """A file whose write fails after so many bytes, as it does on a disk that is nearly full."""

    def __init__(self, file: Any, n_bytes: int) -> None:
        self.file, self.n_bytes = file, n_bytes

    def __enter__(self) -> "Failing":
        return self

    def __exit__(self, *error: object) -> None:
        self.file.close()

    def write(self, content: bytes) -> None:
        self.file.write(content[: self.n_bytes])
        self.file.flush()
        raise OSError(28, "No space left on device")


@pytest.mark.parametrize(
    "fault", ["open", "write 0", "write 1", "write 500", "fsync", "replace", "mkdir"]
)
def test_every_step_of_a_write_may_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    path = tmp_path / "x"
    save_bytes(path, b"old")

    def fail(*arguments: object, **options: object) -> None:
        raise OSError(5, "Input/output error")

    name, _, number = fault.partition(" ")
    if name == "write":

        def failing(*arguments: Any) -> Failing:
            return Failing(open(*arguments), int(number))

        monkeypatch.setattr(files, "open", failing, raising=False)
    elif name == "open":
        monkeypatch.setattr(files, "open", fail, raising=False)
    else:
        monkeypatch.setattr(os, name, fail) if name != "mkdir" else monkeypatch.setattr(
            Path, name, fail
        )
    with pytest.raises(
        SelfsortError,
        match=r"^cannot write .*x: (Input/output error|No space left on device); free some space",
    ):
        save_bytes(path, bytes(1000))
    monkeypatch.undo()
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["x"]
