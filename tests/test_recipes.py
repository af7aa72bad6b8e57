"""Recipes: what a fit uses follows from recipe, data and changes, in this order, however it is
asked for.
"""

import re
from pathlib import Path

import numpy as np
import pytest

from selfsort import SelfSort, load_dataset
from selfsort.config import load_toml
from selfsort.recipes import RECIPES, get_recipe, recipe_toml, resolve_config


@pytest.mark.parametrize("recipe", RECIPES)
def test_the_printed_recipe_changes_nothing_whatever_the_images_are(
    recipe: str, tmp_path: Path
) -> None:
    file = tmp_path / "recipe.toml"
    file.write_text(recipe_toml(recipe), encoding="utf-8")
    changes = load_toml(file)
    assert changes.pop("recipe") == recipe
    for channels in (1, 3):
        config = resolve_config(recipe, changes, channels=channels)
        assert config == get_recipe(recipe, channels=channels)


@pytest.mark.parametrize("recipe", RECIPES)
def test_each_printed_setting_can_be_uncommented(recipe: str, tmp_path: Path) -> None:
    file = tmp_path / "recipe.toml"
    text = re.sub(r"^# (\w+ = \S)", r"\1", recipe_toml(recipe), flags=re.MULTILINE)
    file.write_text(text, encoding="utf-8")
    changes = load_toml(file)
    changes.pop("recipe")
    values = {name: value for name, value, _ in get_recipe(recipe).settings()}
    assert changes == {name: value for name, value in values.items() if value is not None}


def test_a_change_wins_over_the_rules_also_where_it_says_what_the_recipe_says() -> None:
    changes = {"jitter.invert": False, "recluster.opinions": 1}
    config = resolve_config("standard", changes, channels=3)
    assert not config.jitter.invert
    assert config.recluster.opinions == 1
    assert config.refinement_jitter.invert, "a rule that nobody spoke against"


def test_epochs_replace_the_least_amounts_of_training() -> None:
    training = resolve_config("standard", epochs=3).training
    assert (training.epochs, training.min_steps, training.min_images) == (3, 0, 0)


def test_the_rules_are_printed_beside_the_settings_that_they_change() -> None:
    text = recipe_toml("standard")
    assert re.search(r"# invert = false .*; photographs: true$", text, flags=re.MULTILINE)
    assert "photographs" not in recipe_toml("paper")


def test_the_estimator_resolves_as_everybody_does() -> None:
    images = load_dataset("digits").take(np.arange(40))
    changes: dict[str, int] = {"network.width": 2, "network.latent_width": 8, "precision": 32}
    changes |= {"refinement.steps": 1, "refinement.width": 2, "recluster.factor": 0}
    sorter = SelfSort(2, epochs=1, settings=changes).fit(images)
    config = resolve_config("standard", changes, epochs=1, encoder="none", channels=1)
    assert sorter.config_ == config, "8×8 pixels: `auto` means no encoder"
