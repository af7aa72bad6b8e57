"""Images unlike all others are told from those that are like them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from selfsort.data.datasets import load_dataset
from selfsort.data.image_set import ImageSet
from selfsort.method.familiar import FEWEST, N_DIRECTIONS, Look
from selfsort.recipes import resolve_config
from selfsort.sorting.familiarity import learn_familiarity
from selfsort.sorting.model_file import load_model, save_model
from selfsort.sorting.pipeline import fit_one
from selfsort.sorting.trained import start_network
from selfsort.training.hooks import Hooks

CONFIG = resolve_config("paper", {"network.width": 4, "network.latent_width": 16}, epochs=1)


@pytest.fixture(scope="module")
def digits() -> ImageSet:
    return load_dataset("digits")


def test_far_and_odd_are_those_of_a_slow_reference() -> None:
    draw = np.random.default_rng(0)
    values = draw.normal(size=(300, 5)) * [5, 3, 1, 0.1, 0] + 2
    look = Look(5)
    look.learn(torch.from_numpy(values[:200]).float())
    seen = values[:200] - values[:200].mean(axis=0)
    _, strengths, axes = np.linalg.svd(seen, full_matrices=False)
    new = values[200:] - values[:200].mean(axis=0)
    squares = np.square(new @ axes[:4].T) / (np.square(strengths[:4]) / 200)
    found = look(torch.from_numpy(values[200:]).float())
    assert min(5, N_DIRECTIONS) == 5
    np.testing.assert_allclose(found[:, 0].exp() * 5, squares.sum(axis=1), rtol=0.1)


def test_strangers_are_marked_and_one_in_twenty_of_the_others(
    digits: ImageSet, tmp_path: Path
) -> None:
    order = np.random.default_rng(0).permutation(len(digits))
    known, new = digits.take(order[:1200]), digits.take(order[1200:])
    trained = start_network(known, config=CONFIG, seed=0, hooks=Hooks())
    familiarity = learn_familiarity(trained, known, Hooks())
    assert familiarity is not None
    false = familiarity.unlike(new, Hooks())
    assert 0.01 < false.mean() < 0.1
    draw = np.random.default_rng(1)
    noise = replace(new, pixels=draw.random(new.pixels.shape, dtype=np.float32))
    assert familiarity.unlike(noise, Hooks()).mean() > 0.95
    upside = replace(new, pixels=1 - new.pixels)
    assert familiarity.unlike(upside, Hooks()).mean() > 0.95
    model = replace(
        fit_one(known.take(np.arange(120)), n_clusters=3, config=CONFIG, seed=0, hooks=Hooks()),
        familiarity=familiarity,
    )
    again = load_model(save_model(tmp_path / "model.safetensors", model))
    found = again.unlike(new)
    assert found is not None
    assert (found == false).all()


def test_too_few_images_are_no_measure(digits: ImageSet) -> None:
    few = digits.take(np.arange(FEWEST - 1))
    trained = start_network(few, config=CONFIG, seed=0, hooks=Hooks())
    assert learn_familiarity(trained, few, Hooks()) is None
