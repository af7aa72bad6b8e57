"""Recipes: named, complete configurations. To add one, add a line here."""

from typing import Any

from selfsort.config import (
    ClusteringConfig,
    Config,
    ImagesConfig,
    JitterConfig,
    NetworkConfig,
    ObjectiveConfig,
    ReclusterConfig,
    RefinementConfig,
    TrainingConfig,
)
from selfsort.errors import ConfigError

RECIPES: dict[str, Config] = {
    # Kilinc & Uysal, ICLR 2018, section 4.1: the defaults of `Config` are the paper's.
    "paper": Config(),
    # More accurate at a small part of the cost; docs/method.md explains each choice, benchmarks/ablations.md measures it.
    "standard": Config(
        images=ImagesConfig(size=16, crop=True, grey=True, normalise="image"),
        jitter=JitterConfig(shift=0.0625, rotation=0.15, scale=0.1),
        network=NetworkConfig(width=16, n_duplicates=10, batch_norm=True, dropout_1=0.0, dropout_2=0.0),
        objective=ObjectiveConfig(affinity_weight=0.3),
        training=TrainingConfig(
            epochs=1, min_steps=1000, min_images=200_000, min_batches=16, learning_rate=2e-3, schedule="one-cycle"
        ),
        clustering=ClusteringConfig(method="agreement", max_samples=20_000),
        recluster=ReclusterConfig(factor=2),
        refinement=RefinementConfig(rounds=2, max_size=24, steps=1000, batch_size=200),
        refinement_jitter=JitterConfig(shift=0.08, rotation=0.2, scale=0.1, aspect=0.05, shear=0.15, elastic=0.04),
    ),
}

PHOTOGRAPHS: dict[str, dict[str, Any]] = {
    # Light on dark and dark on light are the same thing, the middle of the picture counts, and tones vary.
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

SMALL_SET = 3200
SMALL_SETS: dict[str, dict[str, Any]] = {"standard": {"recluster.opinions": 5}}
"""What a recipe changes for sets of at most so many images: there a single network is a matter of luck, and costs little."""

DEFAULT_RECIPE = "standard"


def get_recipe(name: str, *, channels: int = 1, n_samples: int | None = None) -> Config:
    """The configuration called `name`, for so many images with so many channels.

    >>> get_recipe("paper").network.n_duplicates
    20
    """
    if name not in RECIPES:
        raise ConfigError(f"recipe={name!r} should be one of: {', '.join(RECIPES)}.")
    changes = PHOTOGRAPHS.get(name, {}) if channels == 3 else {}
    if n_samples is not None and n_samples <= SMALL_SET:
        changes = changes | SMALL_SETS.get(name, {})
    return RECIPES[name].replace(changes)
