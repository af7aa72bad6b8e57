"""`--profile` tells where the time of a fit went, and changes nothing."""

import json
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from selfsort.cli.main import main
from selfsort.data.datasets import load_dataset
from selfsort.recipes import resolve_config
from selfsort.sorting.trained import start_network
from selfsort.training.hooks import Hooks
from selfsort.training.loop import training_flops
from selfsort.workflow.images import Callbacks
from selfsort.workflow.profile import FIRST, Profile

SMALL = {
    "network.width": 4,
    "network.latent_width": 64,
    "refinement.width": 4,
    "training.min_steps": 2,
    "training.min_images": 0,
    "refinement.steps": 2,
    "clustering.max_samples": 300,
    "recluster.factor": 0,
    "sources.max_images": 0,
}


def fit(out: Path, *options: str) -> dict[str, object]:
    changes = [word for name, value in SMALL.items() for word in ("--set", f"{name}={value}")]
    ended = CliRunner().invoke(
        main,
        [
            "fit",
            "digits",
            "--threads",
            "1",
            "--out",
            str(out),
            "--json",
            "--no-report",
            *changes,
            *options,
        ],
    )
    assert ended.exit_code == 0, ended.output
    found: dict[str, object] = json.loads(ended.stdout)
    return found


@pytest.fixture(scope="module")
def profile(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, float]]:
    folder = tmp_path_factory.mktemp("profile")
    found = fit(folder / "with", "--profile")["profile"]
    fit(folder / "without")
    model = "model.safetensors"
    assert (folder / "with" / model).read_bytes() == (folder / "without" / model).read_bytes()
    assert isinstance(found, dict)
    return found


def test_every_stage_is_told_in_order(profile: dict[str, dict[str, float]]) -> None:
    assert list(profile) == [
        FIRST,
        "reading images",
        "looking for oddities",
        "training",
        "comparing views",
        "finding neighbours",
        "cutting the graph",
        "refinement",
        "calibrating",
        "assigning",
        "telling strangers",
        "computing features",
        "judging",
        "writing the results",
    ]
    assert all(spent["wall"] >= 0 and spent["cpu"] >= 0 for spent in profile.values())


def test_operations_are_those_of_the_networks(profile: dict[str, dict[str, float]]) -> None:
    images = load_dataset("digits")
    config = resolve_config("standard", SMALL)
    trained = start_network(images, config=config, seed=0, hooks=Hooks())
    shape = trained.preparations.network.shape
    per_image = training_flops(trained.network, shape)
    assert profile["training"]["flops"] == pytest.approx(len(images) * per_image, rel=0.05)
    encoder = training_flops(trained.network.encoder, shape) / 3
    assert profile["comparing views"]["flops"] == pytest.approx(8 * 300 * encoder, rel=0.03)
    assert profile["writing the results"]["flops"] == 0


def test_time_belongs_to_the_stage_that_was_told_of() -> None:
    told: list[tuple[str, int]] = []
    with Profile() as profile:
        callbacks = profile.listen(
            Callbacks(on_stage=lambda name, done, _: told.append((name, done)))
        )
        callbacks.on_stage("one", 0, 2)
        time.sleep(0.02)
        callbacks.on_stage("one", 1, 2)
        time.sleep(0.02)
        callbacks.on_stage("two", 0, 1)  # what came before still was of the first
        time.sleep(0.02)
        callbacks.on_stage("two", 1, 1)
        callbacks.on_stage("one", 1, 2)  # goes on
        time.sleep(0.02)
    walls = {name: spent.wall for name, spent in profile.stages.items()}
    assert list(walls) == [FIRST, "one", "two"]
    assert walls["one"] >= 0.06
    assert 0.02 <= walls["two"] < walls["one"]
    assert profile.total.wall == pytest.approx(sum(walls.values()))
    assert told == [("one", 0), ("one", 1), ("two", 0), ("two", 1), ("one", 1)]
