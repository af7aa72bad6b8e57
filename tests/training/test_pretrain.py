"""The loop: it learns, repeats bit for bit, stops and goes on exactly, and says when it goes
wrong.
"""

import gc
from pathlib import Path

import numpy as np
import pytest
import torch

from conftest import SMALL
from selfsort.config import Config
from selfsort.data.image_set import as_image_set
from selfsort.errors import ConfigError, ModelFileError, TrainingError, TrainingStopped
from selfsort.method.inputs import Inputs
from selfsort.method.network import AcolNetwork, Activations, build_network, pool_parents
from selfsort.method.objective import objective
from selfsort.method.preparation import Preparation
from selfsort.method.transforms import DIHEDRAL
from selfsort.settings import ObjectiveConfig
from selfsort.training.checkpoint import load_tensors
from selfsort.training.hooks import Hooks
from selfsort.training.loop import EpochRecord, Hook, Progress
from selfsort.training.pretrain import train

CONFIG = Config().replace({**SMALL, "training.epochs": 3})


def run(
    pixels: np.ndarray,
    *,
    config: Config = CONFIG,
    seed: int = 0,
    checkpoint: Path | None = None,
    on_progress: Hook | None = None,
) -> tuple[list[EpochRecord], dict[str, torch.Tensor]]:
    images = as_image_set(pixels)
    generator = torch.Generator().manual_seed(seed)
    network = build_network(config.network, shape=(1, 8, 8), n_parents=8, generator=generator)
    inputs = Inputs(images, Preparation(1, 8, images.low, images.high, "unit"))
    hooks = Hooks(on_progress=on_progress, folder=checkpoint.parent if checkpoint else None)
    history = train(network, inputs, transforms=DIHEDRAL, config=config, seed=seed, hooks=hooks)
    return history, network.state_dict()


def same(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(first[name], second[name]) for name in first)


@pytest.fixture(scope="module")
def pixels(digits: np.ndarray) -> np.ndarray:
    return digits[:300]


def test_same_seed_same_weights_bit_for_bit(pixels: np.ndarray) -> None:
    history, weights = run(pixels)
    again, weights_again = run(pixels)
    _, weights_other = run(pixels, seed=1)
    assert history == again
    assert same(weights, weights_again)
    assert not same(weights, weights_other)


@pytest.mark.parametrize(
    "stop_at", [1, 5, 7, 10]
)  # an epoch has 5 steps: in the middle, at an end, just after one
def test_resume_ends_where_an_uninterrupted_run_ends(
    pixels: np.ndarray, tmp_path: Path, stop_at: int
) -> None:
    expected_history, expected = run(pixels)
    file = tmp_path / "training.safetensors"
    steps: list[int] = []

    def stop(progress: object) -> bool:
        steps.append(1)
        return len(steps) == stop_at

    with pytest.raises(TrainingStopped, match="epoch"):
        run(pixels, checkpoint=file, on_progress=stop)
    history, weights = run(pixels, checkpoint=file)
    assert history == expected_history
    assert same(weights, expected)


def test_a_finished_checkpoint_trains_no_more(pixels: np.ndarray, tmp_path: Path) -> None:
    file = tmp_path / "training.safetensors"
    expected = run(pixels, checkpoint=file)
    steps: list[object] = []
    history, weights = run(pixels, checkpoint=file, on_progress=steps.append)
    assert not steps
    assert history == expected[0]
    assert same(weights, expected[1])


def test_a_checkpoint_of_another_run_is_refused(pixels: np.ndarray, tmp_path: Path) -> None:
    file = tmp_path / "training.safetensors"
    run(pixels, checkpoint=file)
    with pytest.raises(ModelFileError, match="another training"):
        run(pixels, checkpoint=file, config=CONFIG.replace({"training.epochs": 4}))
    with pytest.raises(ModelFileError, match="another images"):
        run(pixels[:100], checkpoint=file)
    with pytest.raises(ModelFileError, match="not a selfsort model"):
        load_tensors(file, kind="model")


def test_progress_counts_every_step(pixels: np.ndarray) -> None:
    told: list[Progress] = []
    run(pixels, on_progress=told.append)
    seen = [(progress.record.epoch, progress.step, progress.n_steps) for progress in told]
    assert seen == [(epoch, step, 5) for epoch in (1, 2, 3) for step in (1, 2, 3, 4, 5)]


def test_a_loss_that_is_no_number_stops_with_a_remedy(pixels: np.ndarray) -> None:
    with pytest.raises(TrainingError, match="use a smaller"):
        run(
            pixels,
            config=CONFIG.replace(
                {"training.learning_rate": 10.0, "objective.frobenius_weight": 1e38}
            ),
        )


def test_weights_that_are_no_numbers_never_reach_a_checkpoint(
    pixels: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, steps = tmp_path / "training.safetensors", []
    monkeypatch.setenv("SELFSORT_CHECKPOINT_SECONDS", "0")

    def spoil(progress: Progress) -> None:
        steps.append(file.read_bytes() if file.exists() else b"")
        if len(steps) == 7:
            network = next(
                item for item in gc.get_objects() if isinstance(item, AcolNetwork) and item.training
            )
            network.head.linear.bias.data[0] = torch.inf

    gc.collect()
    with pytest.raises(
        TrainingError, match="training: weights are NaN or infinite; use a smaller learning_rate"
    ):
        run(pixels, checkpoint=file, on_progress=spoil)
    assert file.read_bytes() == steps[-1], "the last good one stays"
    smaller = CONFIG.replace({"training.learning_rate": 1e-4})
    history, _ = run(pixels, checkpoint=file, config=smaller)
    assert len(history) == 3


@pytest.mark.parametrize("text", ["soon", "-1", "nan"])
def test_a_wrong_interval_is_said(
    pixels: np.ndarray, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("SELFSORT_CHECKPOINT_SECONDS", text)
    with pytest.raises(
        ConfigError, match=f"SELFSORT_CHECKPOINT_SECONDS={text} should be a number >= 0"
    ):
        run(pixels)


def test_the_pseudo_task_is_learned(digits: np.ndarray) -> None:
    history, _ = run(
        digits,
        config=CONFIG.replace(
            {"training.epochs": 12, "network.width": 8, "network.latent_width": 128}
        ),
    )
    assert history[0].terms["classification"] > 2  # chance is log 8 = 2.08
    assert history[-1].terms["classification"] < 1.7
    assert history[-1].terms["pseudo_accuracy"] > history[0].terms["pseudo_accuracy"]


def test_objective_weighs_its_parts(generator: torch.Generator) -> None:
    logits = torch.randn(6, 8, 3, generator=generator)
    parents = torch.arange(6)
    activations = Activations(torch.zeros(6, 2), logits, pool_parents(logits))
    terms = objective(
        activations,
        parents,
        config=ObjectiveConfig(affinity_weight=2, balance_weight=3, frobenius_weight=0.5),
    )
    expected = (
        terms.classification + 2 * terms.affinity + 3 * (1 - terms.balance) + 0.5 * terms.frobenius
    )
    assert float(terms.loss) == pytest.approx(float(expected))
    bound = objective(activations, parents, config=ObjectiveConfig(frobenius="all"))
    assert float(bound.frobenius) == pytest.approx(float(logits.square().sum()))
    right = (activations.parent_log_probs.argmax(dim=1) == parents).tolist()
    assert float(terms.pseudo_accuracy) == pytest.approx(sum(right) / 6)
    assert float(terms.worst_parent) == min(right), "each parent has one image here"
    assert float(terms.classification) == pytest.approx(
        float(-activations.parent_log_probs[range(6), range(6)].mean())
    )
