"""Recipes: named, complete configurations. To add one, add a line here."""

import json
from collections.abc import Mapping
from typing import Any

from selfsort.config import Config
from selfsort.errors import ConfigError
from selfsort.settings import (
    ClusteringConfig,
    ImagesConfig,
    JitterConfig,
    NetworkConfig,
    ObjectiveConfig,
    ReclusterConfig,
    RefinementConfig,
    SourcesConfig,
    TrainingConfig,
)

RECIPES: dict[str, Config] = {
    # Kilinc & Uysal, ICLR 2018, section 4.1: the defaults of `Config` are the paper's.
    "paper": Config(),
    # The same authors' method for a few labels, with the network above; needs --labels.
    "gar": Config(method="gar", transforms="none", training=TrainingConfig(epochs=50)),
    # More accurate at a small part of the cost; docs/method.md explains each choice,
    # benchmarks/ablations.md measures it.
    "standard": Config(
        images=ImagesConfig(size=16, crop=True, grey=True, normalise="image"),
        jitter=JitterConfig(shift=0.0625, rotation=0.15, scale=0.1),
        network=NetworkConfig(
            width=16, n_duplicates=10, batch_norm=True, dropout_1=0.0, dropout_2=0.0
        ),
        objective=ObjectiveConfig(affinity_weight=0.3),
        training=TrainingConfig(
            epochs=1,
            min_steps=1000,
            min_images=100_000,
            min_batches=16,
            learning_rate=2e-3,
            schedule="one-cycle",
            give_up=0.12,
        ),
        sources=SourcesConfig(max_images=5000, unsure=0.4),
        clustering=ClusteringConfig(method="agreement", max_samples=20_000, max_clusters=60),
        recluster=ReclusterConfig(factor=2),
        refinement=RefinementConfig(rounds=2, max_size=24, steps=1000, batch_size=200),
        refinement_jitter=JitterConfig(
            shift=0.08, rotation=0.2, scale=0.1, aspect=0.05, shear=0.15, elastic=0.04
        ),
    ),
}

PHOTOGRAPHS: dict[str, dict[str, Any]] = {
    # Light on dark and dark on light are the same thing, the middle of the picture counts, and
    # tones vary.
    "standard": {
        "jitter.invert": True,
        "jitter.context": 0.7,
        "training.epochs": 16,
        "refinement_jitter.shift": 1.5 / 16,
        "refinement_jitter.rotation": 0.25,
        "refinement_jitter.scale": 0.2,
        "refinement_jitter.aspect": 0.15,
        "refinement_jitter.shear": 0.25,
        "refinement_jitter.elastic": 0.0,
        "refinement_jitter.invert": True,
        "refinement_jitter.contrast": 0.3,
        "refinement_jitter.brightness": 0.3,
        "refinement_jitter.tone": 1.0,
        "refinement_jitter.cutout": 0.7,
        "refinement_jitter.context": 0.5,
    },
}
"""What a recipe changes for photographs, that is for images with three channels."""

MIRRORS = "identity,reversal,inversion,both"
SERIES: dict[str, dict[str, Any]] = {
    "paper": {"transforms": MIRRORS},
    # The network is one source of many; a short training is enough.
    "standard": {
        "transforms": MIRRORS,
        "images.size": 128,
        "jitter.shift": 0.05,
        "jitter.rotation": 0.0,
        "jitter.elastic": 0.02,
        "jitter.contrast": 0.1,
        "jitter.tone": 0.1,
        "network.latent_width": 512,
        "training.min_steps": 100,
        "training.min_images": 12_000,
        "training.give_up": 0.0,
        "sources.max_images": 1_000_000,
        "clustering.max_samples": 5000,
    },
}
"""What a recipe changes for time series."""

FLIPS = "identity,reversal,upturn,both"
SOUNDS: dict[str, dict[str, Any]] = {
    "paper": {"transforms": FLIPS},
    "standard": {
        "transforms": FLIPS,
        "images.size": 32,
        "jitter.rotation": 0.0,
        "jitter.elastic": 0.05,
        "jitter.contrast": 0.1,
        "jitter.tone": 0.2,
        "jitter.cutout": 0.3,
        "network.latent_width": 512,
        "training.min_steps": 200,
        "training.min_images": 24_000,
        "training.give_up": 0.0,
        "sources.max_images": 1_000_000,
        "clustering.max_samples": 5000,
    },
}
"""What a recipe changes for sounds."""

FEATURES: dict[str, Any] = {
    # No network is trained on what another one has computed, or a person.
    "precision": 32,
    "transforms": "none",
    "images.size": 64,
    "network.n_duplicates": 1,
    "network.latent_width": 256,
    "clustering.space": "latent",
    "sources.encoder": "none",
    "sources.max_images": 1_000_000_000,
}
"""What every recipe changes for features of somebody's own."""

TAUGHT: dict[str, dict[str, Any]] = {
    # What somebody knows is worth a larger classifier that learns longer.
    "standard": {
        "refinement.rounds": 3,
        "refinement.steps": 2000,
        "refinement.width": 24,
    },
}
"""What a recipe changes where labels or parents are given."""

DEFAULT_RECIPE = "standard"


def resolve_config(
    recipe: str,
    changes: Mapping[str, Any] | None = None,
    *,
    epochs: int | None = None,
    method: str | None = None,
    transforms: str | None = None,
    encoder: str | None = None,
    channels: int = 1,
    kind: str = "images",
    is_taught: bool = False,
) -> Config:
    """The configuration that a fit uses: the recipe, then its rules for such data, then `changes`.

    A setting in `changes` is the caller's, also where it says what the recipe says. `epochs`
    replaces the recipe's epochs and its least amounts of training; None changes nothing.

    >>> resolve_config("standard", {"jitter.invert": False}, channels=3).jitter.invert
    False
    """
    wanted = dict(changes or {})
    if epochs is not None:
        wanted |= {"training.epochs": epochs, "training.min_steps": 0, "training.min_images": 0}
    if method is not None:
        wanted["method"] = method
    if transforms is not None:
        wanted["transforms"] = transforms
    if encoder is not None:
        wanted["sources.encoder"] = encoder
    rules = TAUGHT.get(recipe, {}) if is_taught else {}
    return get_recipe(recipe, channels=channels, kind=kind).replace(rules | wanted)


def get_recipe(name: str, *, channels: int = 1, kind: str = "images") -> Config:
    """The configuration called `name`, for images with so many channels, or for another kind.

    >>> get_recipe("paper").network.n_duplicates
    20
    """
    if name not in RECIPES:
        raise ConfigError(f"recipe={name!r} should be one of: {', '.join(RECIPES)}.")
    rules: dict[str, Any] = {}
    if kind == "series":
        rules |= SERIES.get(name, {})
    elif kind == "sounds":
        rules |= SOUNDS.get(name, {})
    elif kind == "features":
        rules |= FEATURES
    elif channels == 3:
        rules |= PHOTOGRAPHS.get(name, {})
    return RECIPES[name].replace(rules)


def recipe_toml(name: str) -> str:
    """A recipe as a TOML file that changes nothing: every setting is a comment to be uncommented.

    A line without `#` is a change and wins over the recipe's rules; all others follow the recipe.
    """
    lines = [
        f"# Settings of a recipe; all recipes: {', '.join(RECIPES)}. Remove the # before a setting",
        "# to change it. Settings that stay comments follow the recipe and its rules.",
        f"recipe = {json.dumps(name)}",
    ]
    photographs = PHOTOGRAPHS.get(name, {})
    part = ""
    for setting, value, explanation in get_recipe(name).settings():
        prefix, _, option = setting.rpartition(".")
        if prefix != part:
            lines += ["", f"[{prefix}]"]
            part = prefix
        if setting in photographs:
            explanation += f"; photographs: {json.dumps(photographs[setting])}"
        text = f"# {option} = {'' if value is None else json.dumps(value)}"
        lines.append(f"{text:34} # {explanation}")
    return "\n".join(lines) + "\n"
