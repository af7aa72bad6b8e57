"""A run that is killed, at any moment and as often as one likes, ends bit for bit where an
uninterrupted one ends.
"""

import json
import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from processes import Command
from selfsort.container import load_header

FILES = ["assignments.csv", "clusters.png", "model.safetensors", "run.json"]
SETTINGS = {
    "network.width": 4, "network.latent_width": 32, "training.min_steps": 1, "training.epochs": 4,
    "training.batch_size": 100, "training.min_batches": 1, "refinement.steps": 60,
    "refinement.width": 4, "refinement.batch_size": 100, "refinement.max_size": 8,
    "clustering.n_init": 1, "clustering.max_samples": 300, "images.size": 8, "recluster.factor": 0,
    "sources.max_images": 0,
    "training.min_images": 0,
}  # fmt: skip
RECLUSTER = {
    "recluster.factor": 2, "recluster.min_steps": 20, "recluster.n_views": 2,
    "recluster.batch_size": 64, "recluster.opinions": 2,
}  # fmt: skip
FIT = ["fit", "digits", "--recipe", "standard", "-k", "4", "--threads", "1", "--no-report"]


def options(settings: dict[str, Any]) -> list[str]:
    return [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]


def results(folder: Path) -> dict[str, Any]:
    """Everything a run leaves, but for how long it took."""
    there = os.listdir(folder)
    assert set(FILES) <= set(there)
    assert not [
        name for name in there if name in ("checkpoint", "job.json") or name.startswith(".")
    ]
    run = json.loads((folder / "run.json").read_text())
    assert run.pop("seconds") > 0
    return {file: (folder / file).read_bytes() for file in FILES[:3]} | {"run": run}


Whole = Callable[[bool], tuple[dict[str, Any], list[str], float]]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """Results, arguments and seconds of work of an uninterrupted run, without and with
    reclustering.
    """
    known: dict[bool, tuple[dict[str, Any], list[str], float]] = {}

    def run(reclusters: bool) -> tuple[dict[str, Any], list[str], float]:
        if reclusters not in known:
            arguments = [*FIT, *options(SETTINGS | (RECLUSTER if reclusters else {}))]
            out = tmp_path_factory.mktemp("whole") / "out"
            process = Command(*arguments, "--out", out, log=out.parent / "log")
            process.wait_for("images of")
            begin = time.monotonic()
            assert process.end() == 0, process.errors
            known[reclusters] = results(out), arguments, time.monotonic() - begin
            stages = {record["stage"] for record in known[reclusters][0]["run"]["history"]}
            assert stages == {
                "training",
                "refinement",
                *({f"recluster-{step}" for step in range(4)} if reclusters else ()),
            }
        return known[reclusters]

    return run


def kill_and_resume(
    whole: Whole, out: Path, *, n_kills: int, reclusters: bool, seed: int
) -> dict[str, int]:
    """Kill runs at random moments, resume each until it is finished, and compare."""
    expected, arguments, seconds = whole(reclusters)
    draw, kills, finished = random.Random(seed), 0, 0
    while kills < n_kills or out.exists():
        is_begun = (out / "job.json").exists()
        command = ["fit", "--resume", out] if is_begun else [*arguments, "--out", out]
        process = Command(*command, log=out.with_suffix(".log"), interval=0.05)
        if kills < n_kills:
            process.wait_for("images of")
            time.sleep(draw.uniform(0, 0.7 * seconds))
            process.signal(signal.SIGKILL)
            if process.end() == -signal.SIGKILL:
                kills += 1
                if (out / "job.json").exists() or not (out / "run.json").exists():
                    continue
                shutil.rmtree(
                    out / "checkpoint", ignore_errors=True
                )  # it was over: killed while it tidied up or ended
        assert process.end() in (0, -signal.SIGKILL), process.errors
        assert results(out) == expected
        finished += 1
        shutil.rmtree(out)
    return {"kills": kills, "runs": finished}


def test_killed_twice(whole: Whole, tmp_path: Path) -> None:
    assert (
        kill_and_resume(whole, tmp_path / "out", n_kills=2, reclusters=False, seed=1)["runs"] >= 1
    )


@pytest.mark.torture
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("n_kills", "reclusters"), [(12, False), (8, True)])
def test_killed_at_twenty_random_moments(
    whole: Whole,
    tmp_path: Path,
    record_figures: Callable[..., None],
    n_kills: int,
    reclusters: bool,
) -> None:
    figures = kill_and_resume(
        whole, tmp_path / "out", n_kills=n_kills, reclusters=reclusters, seed=0
    )
    record_figures(
        "kill -9 at random moments, reclustering" if reclusters else "kill -9 at random moments",
        **figures,
    )
    assert figures["kills"] == n_kills


@pytest.fixture(scope="module")
def stopped(whole: Whole, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that SIGTERM has stopped in its refinement."""
    _, arguments, _ = whole(False)
    out = tmp_path_factory.mktemp("stopped") / "out"
    process = Command(*arguments, "--out", out, log=out.parent / "log")
    process.wait_for("refinement 1/")
    process.signal(signal.SIGTERM)
    assert process.end() == 1
    assert "Resume with: selfsort fit --resume" in process.errors.splitlines()[-1]
    assert sorted(os.listdir(out)) == ["checkpoint", "job.json"]
    return out


def killed_at(moment: int, whole: Whole, stopped: Path, out: Path) -> bool:
    """Resume, die at that change of the folder, resume again and compare; False if there are fewer
    changes.
    """
    shutil.copytree(stopped, out)
    process = Command("fit", "--resume", out, log=out.with_suffix(".log"), moment=moment)
    if process.end() == 0:
        return False
    assert process.end() == -signal.SIGKILL
    process = Command("fit", "--resume", out, log=out.with_suffix(".log"))
    assert process.end() == 0 or "nothing to resume, its run is finished" in process.errors, (
        process.errors
    )
    assert results(out) == whole(False)[0]
    trained = load_header(stopped / "checkpoint" / "training.safetensors").values["progress"][
        "seconds"
    ]
    assert json.loads((out / "run.json").read_text())["seconds"] > trained
    return True


@pytest.mark.parametrize(
    "moment", [14, 21]
)  # between model and run.json; while the checkpoints are removed
def test_killed_while_the_last_files_are_written(
    whole: Whole, stopped: Path, tmp_path: Path, moment: int
) -> None:
    assert killed_at(moment, whole, stopped, tmp_path / "out")


@pytest.mark.torture
@pytest.mark.timeout(900)
def test_killed_before_and_after_every_change_of_the_folder(
    whole: Whole, stopped: Path, tmp_path: Path, record_figures: Callable[..., None]
) -> None:
    kills = 0
    while killed_at(kills + 1, whole, stopped, tmp_path / str(kills)):
        kills += 1
    record_figures("kill -9 before and after every rename and removal", kills=kills, runs=kills)
    assert kills >= 20
