"""Data larger than memory, a million images, two runs side by side: what only minutes can show."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="memory is counted as Linux does"),
]

LIMIT_MB = 2048
SELFSORT = [sys.executable, "-m", "selfsort"]


def start(*arguments: object) -> "subprocess.Popen[bytes]":
    """`selfsort ARGUMENTS` in a process of its own, with threads as it sets them."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("OMP", "GOMP", "KMP", "OPENBLAS"))
    }
    return subprocess.Popen(
        [*SELFSORT, *map(str, arguments)], stdout=subprocess.DEVNULL, env=environment
    )


class Measured:
    """`selfsort ARGUMENTS` in a process of its own; waits for it, then knows its time and its most
    memory.
    """

    def __init__(self, *arguments: object, interrupt_after: float = 0) -> None:
        begin = time.monotonic()
        process = start(*arguments)
        if interrupt_after:
            time.sleep(interrupt_after)
            process.send_signal(signal.SIGINT)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = self.exit_code = os.waitstatus_to_exitcode(status)
        self.memory_mb, self.seconds = (
            round(usage.ru_maxrss / 1024),
            round(time.monotonic() - begin, 1),
        )


def sparse_array(path: Path, n_samples: int) -> Path:
    np.lib.format.open_memmap(path, "w+", np.uint8, (n_samples, 28, 28))
    return path


@pytest.mark.timeout(600)
def test_training_on_20_gigabytes_takes_2(
    tmp_path: Path, record_figures: Callable[..., None]
) -> None:
    images = sparse_array(tmp_path / "large.npy", 26_000_000)
    run = tmp_path / "run"
    measured = Measured(
        "fit", images, "--recipe", "paper", "--epochs", "1", "--out", run, interrupt_after=60
    )
    record_figures(
        "fit of 26,000,000 images, 20.4 GB, recipe paper, stopped after 60 s",
        memory_mb=measured.memory_mb,
    )
    assert measured.exit_code == 1
    assert (run / "checkpoint" / "training.safetensors").exists()
    assert measured.memory_mb < LIMIT_MB


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["mnist", "svhn"])
def test_training_on_the_papers_sets_takes_2_gigabytes_at_most(
    name: str, tmp_path: Path, originals: Path, record_figures: Callable[..., None]
) -> None:
    options = [
        "--data-dir",
        originals,
        "--recipe",
        "paper",
        "--epochs",
        "1",
        "--out",
        tmp_path / "run",
    ]
    measured = Measured("fit", name, *options, interrupt_after=45)
    record_figures(f"fit of {name}, recipe paper, stopped after 45 s", memory_mb=measured.memory_mb)
    assert measured.exit_code == 1
    assert measured.memory_mb < LIMIT_MB


@pytest.mark.timeout(1800)
def test_a_million_images_are_embedded_and_assigned_within_2_gigabytes(
    tmp_path: Path, record_figures: Callable[..., None]
) -> None:
    np.save(
        tmp_path / "few.npy",
        np.random.default_rng(0).integers(256, size=(600, 28, 28), dtype=np.uint8),
    )
    short = [
        "--set",
        "training.min_steps=10",
        "--set",
        "training.min_images=0",
        "--set",
        "recluster.min_steps=5",
        "--set",
        "refinement.steps=10",
        "--no-report",
    ]
    assert Measured("fit", tmp_path / "few.npy", "--out", tmp_path / "run", *short).exit_code == 0
    images = sparse_array(tmp_path / "many.npy", 1_000_000)
    for command, out in (("embed", "embedding.npy"), ("predict", "assignments.csv")):
        measured = Measured(command, tmp_path / "run", images, "--out", tmp_path / out)
        record_figures(
            f"{command} of 1,000,000 images of 28×28, recipe standard", memory_mb=measured.memory_mb
        )
        assert measured.exit_code == 0
        assert measured.memory_mb < LIMIT_MB
    assert np.load(tmp_path / "embedding.npy", mmap_mode="r").shape == (1_000_000, 2048)
    (tmp_path / "embedding.npy").unlink()  # 8 GB


@pytest.mark.timeout(1800)
def test_two_runs_side_by_side_share_the_machine(
    tmp_path: Path, originals: Path, record_figures: Callable[..., None]
) -> None:
    def command(run: str) -> list[str]:
        data = [
            "usps:train",
            "--data-dir",
            str(originals),
            "--recipe",
            "paper",
            "--epochs",
            "10",
            "--no-report",
        ]
        return ["fit", *data, "--out", str(tmp_path / run)]

    alone = Measured(*command("alone"))
    begin = time.monotonic()
    other = start(*command("other"))
    both = Measured(*command("both"))
    assert [alone.exit_code, both.exit_code, other.wait()] == [0, 0, 0]
    ratio = round((time.monotonic() - begin) / alone.seconds, 2)
    record_figures("two fits of USPS at the same time, by the time of one alone", ratio=ratio)
    assert ratio < 2.6
