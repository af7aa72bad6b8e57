"""The trainings that experiments share: images, recipe and seeds; each is done once."""

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selfsort.data.datasets import DATASETS, load_dataset
from selfsort.data.image_set import ImageSet, sample_rows
from selfsort.recipes import get_recipe, resolve_config
from selfsort.reproduce.trained import Trained
from selfsort.sorting.trained import start_network
from selfsort.training.hooks import Hooks, StageHook
from selfsort.training.loop import Hook
from selfsort.training.pretrain import n_epochs

FIRST_MILESTONES = (1, 2, 3, 5, 10, 20, 30, 75)
MILESTONE_STEP = 50
SPACES = {"latent": "F", "logits": "Z", "softmax": "softmax(Z)"}
QUICK_EPOCHS = 5
QUICK_IMAGES = 10_000

LoadImages = Callable[[], ImageSet]


def milestones(epochs: int) -> list[int]:
    """The epochs after which the network is kept: many at first, then every fiftieth and the last.

    >>> milestones(60)
    [1, 2, 3, 5, 10, 20, 30, 50, 60]
    """
    return sorted(
        {
            epoch
            for epoch in (*FIRST_MILESTONES, *range(MILESTONE_STEP, epochs, MILESTONE_STEP), epochs)
            if epoch <= epochs
        }
    )


@dataclass(frozen=True)
class Spec:
    """What is asked for: an experiment on this data set with these seeds; `settings` change the
    recipe throughout.
    """

    dataset: str
    recipe: str = "paper"
    epochs: int | None = None
    seeds: tuple[int, ...] = (0,)
    quick: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)


def slug(changes: Mapping[str, Any]) -> str:
    """Changes to a recipe as part of a file's name: readable, and with a hash that tells all of
    them apart.

    >>> slug({"transforms": "T1,T3"})
    '_transforms-T1-T3_6db768'
    """
    if not changes:
        return ""
    text = "_".join(f"{name.rpartition('.')[2]}-{value}" for name, value in sorted(changes.items()))
    digest = hashlib.sha256(json.dumps(changes, sort_keys=True).encode()).hexdigest()[:6]
    return f"_{re.sub(r'[^A-Za-z0-9_.]+', '-', text).strip('-')[:80]}_{digest}"


class Lab:
    """The images of a data set and the trainings on them; each is done once and found again in its
    folder under `work`.
    """

    def __init__(
        self,
        spec: Spec,
        *,
        work: Path,
        data_dir: Path | None = None,
        device: str = "auto",
        on_progress: Hook | None = None,
        on_stage: StageHook | None = None,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        self.spec, self.work, self.device = spec, work, device
        self.images, self.scored = load_splits(spec.dataset, data_dir)
        if spec.quick and len(self.images) > QUICK_IMAGES:
            self.images = self.images.take(sample_rows(len(self.images), QUICK_IMAGES, seed=0))
        assert self.scored.truth is not None
        self.truth = self.scored.truth
        # as many bits on every machine, the paper's
        recipe = get_recipe(spec.recipe, channels=self.images.pixels.shape[1])
        self.recipe = recipe.replace({"precision": 32})
        self.config = self.recipe.replace(spec.settings)
        recipe_epochs = (
            QUICK_EPOCHS if spec.quick else n_epochs(self.config.training, len(self.images))
        )
        self.epochs = spec.epochs or recipe_epochs
        self.milestones = milestones(self.epochs)
        self.used_seeds: set[int] = set()
        self.on_progress, self.on_stage, self.tell = on_progress, on_stage, tell

    def trainings(self, jobs: Sequence[tuple[int, Mapping[str, Any]]]) -> Iterator[Trained]:
        """The networks for these seeds and changes to the recipe, trained unless that is done
        already.
        """
        for number, (seed, changes) in enumerate(jobs, start=1):
            trained = self._trained(seed, changes)
            self.used_seeds.add(seed)
            if self.tell:
                self.tell(f"training {number} of {len(jobs)}: {trained.folder.name}")
            trained.train(self.images)
            yield trained

    def by_seed(self) -> Iterator[Trained]:
        """The recipe's network for each seed."""
        return self.trainings([(seed, {}) for seed in self.spec.seeds])

    def first(self) -> Trained:
        """The recipe's network for the first seed."""
        return next(iter(self.trainings([(self.spec.seeds[0], {})])))

    def sample(self, n_samples: int) -> NDArray[np.int64]:
        """Rows of the scored images to look at, drawn by the first seed."""
        return sample_rows(
            len(self.scored), n_samples // 4 if self.spec.quick else n_samples, self.spec.seeds[0]
        )

    def stage(self, name: str) -> Callable[[int, int], None]:
        """Tells how much of a step is done."""
        return lambda done, total: self.on_stage(name, done, total) if self.on_stage else None

    def _trained(self, seed: int, changes: Mapping[str, Any]) -> Trained:
        known = {name: value for name, value, _ in self.recipe.settings()}
        wanted = {
            name: value
            for name, value in (dict(self.spec.settings) | dict(changes)).items()
            if known.get(name) != value
        }
        size = (
            f"_{len(self.images)}-images"
            if self.spec.quick and len(self.images) == QUICK_IMAGES
            else ""
        )
        name = (
            f"{self.spec.dataset}_{self.spec.recipe}_{self.epochs}-epochs"
            f"_seed-{seed}{size}{slug(wanted)}"
        )
        config = resolve_config(
            self.spec.recipe,
            {"precision": 32} | wanted,
            epochs=self.epochs,
            channels=self.images.pixels.shape[1],
        )
        folder = self.work / name
        hooks = Hooks(self.on_progress, self.on_stage, folder, self.device)
        network = start_network(self.images, config=config, seed=seed, hooks=hooks)
        return Trained(folder, network, hooks, self.scored, self.milestones)


def load_splits(dataset: str, data_dir: Path | None) -> tuple[ImageSet, ImageSet]:
    """The images that are trained on and those that are scored: the test split, or all of them
    where all are trained on.
    """
    images = load_dataset(dataset, data_dir=data_dir)
    return images, load_dataset(dataset, "test", data_dir=data_dir) if DATASETS[
        dataset
    ].default == "train" else images
