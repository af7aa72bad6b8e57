"""A training that is done once: a folder with its exact state and with the network as it was at chosen epochs."""

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from selfsort.checkpoint import load_tensors, load_weights, save_tensors
from selfsort.clustering import Assignment, Clustering, cluster
from selfsort.container import damaged
from selfsort.datasets import DATASETS, load_dataset
from selfsort.encoder import device_of
from selfsort.estimator import SelfSort
from selfsort.files import locked, save_json
from selfsort.images import ImageSet, sample_rows
from selfsort.loop import Hook, Progress
from selfsort.metrics import Scores, score
from selfsort.network import AcolNetwork, Activations
from selfsort.recipes import get_recipe
from selfsort.representation import Representation
from selfsort.trainer import n_epochs

FIRST_MILESTONES, MILESTONE_STEP = (1, 2, 3, 5, 10, 20, 30, 75), 50
SNAPSHOT = "snapshot"
SPACES = {"latent": "F", "logits": "Z", "softmax": "softmax(Z)"}
QUICK_EPOCHS, QUICK_IMAGES = 5, 10_000

StageHook = Callable[[str, int, int], None]
LoadImages = Callable[[], ImageSet]


def milestones(epochs: int) -> list[int]:
    """The epochs after which the network is kept: many at first, then every fiftieth and the last.

    >>> milestones(60)
    [1, 2, 3, 5, 10, 20, 30, 50, 60]
    """
    return sorted(
        {epoch for epoch in (*FIRST_MILESTONES, *range(MILESTONE_STEP, epochs, MILESTONE_STEP), epochs) if epoch <= epochs}
    )


@dataclass(frozen=True)
class Spec:
    """What is asked for: an experiment on this data set with these seeds; `settings` change the recipe throughout."""

    dataset: str
    recipe: str = "paper"
    epochs: int | None = None
    seeds: tuple[int, ...] = (0,)
    quick: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)


def slug(changes: Mapping[str, Any]) -> str:
    """Changes to a recipe as part of a file's name: readable, and with a hash that tells all of them apart.

    >>> slug({"transforms": "T1,T3"})
    '_transforms-T1-T3_6db768'
    """
    if not changes:
        return ""
    text = "_".join(f"{name.rpartition('.')[2]}-{value}" for name, value in sorted(changes.items()))
    digest = hashlib.sha256(json.dumps(changes, sort_keys=True).encode()).hexdigest()[:6]
    return f"_{re.sub(r'[^A-Za-z0-9_.]+', '-', text).strip('-')[:80]}_{digest}"


class Lab:
    """The images of a data set and the trainings on them; each is done once and found again in its folder under `work`."""

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
        self.recipe = get_recipe(spec.recipe, channels=self.images.pixels.shape[1], n_samples=len(self.images))
        self.config = self.recipe.replace(spec.settings)
        recipe_epochs = QUICK_EPOCHS if spec.quick else n_epochs(self.config.training, len(self.images))
        self.epochs = spec.epochs or recipe_epochs
        self.milestones = milestones(self.epochs)
        self.used_seeds: set[int] = set()
        self.on_progress, self.on_stage, self.tell = on_progress, on_stage, tell

    def trainings(self, jobs: Sequence[tuple[int, Mapping[str, Any]]]) -> Iterator["Trained"]:
        """The networks for these seeds and changes to the recipe, trained unless that is done already."""
        for number, (seed, changes) in enumerate(jobs, start=1):
            trained = self._trained(seed, changes)
            self.used_seeds.add(seed)
            if self.tell:
                self.tell(f"training {number} of {len(jobs)}: {trained.folder.name}")
            trained.train(self.images)
            yield trained

    def by_seed(self) -> Iterator["Trained"]:
        """The recipe's network for each seed."""
        return self.trainings([(seed, {}) for seed in self.spec.seeds])

    def first(self) -> "Trained":
        """The recipe's network for the first seed."""
        return next(iter(self.trainings([(self.spec.seeds[0], {})])))

    def sample(self, n_samples: int) -> NDArray[np.int64]:
        """Rows of the scored images to look at, drawn by the first seed."""
        return sample_rows(len(self.scored), n_samples // 4 if self.spec.quick else n_samples, self.spec.seeds[0])

    def stage(self, name: str) -> Callable[[int, int], None]:
        """Tells how much of a step is done."""
        return lambda done, total: self.on_stage(name, done, total) if self.on_stage else None

    def _trained(self, seed: int, changes: Mapping[str, Any]) -> "Trained":
        known = {name: value for name, value, _ in self.recipe.settings()}
        wanted = {name: value for name, value in (dict(self.spec.settings) | dict(changes)).items() if known.get(name) != value}
        size = f"_{len(self.images)}-images" if self.spec.quick and len(self.images) == QUICK_IMAGES else ""
        name = f"{self.spec.dataset}_{self.spec.recipe}_{self.epochs}-epochs_seed-{seed}{size}{slug(wanted)}"
        sorter = SelfSort(
            len(self.scored.truth_names),
            recipe=self.spec.recipe,
            epochs=self.epochs,
            settings=wanted,
            random_state=seed,
            checkpoint=self.work / name,
            device=self.device,
            on_progress=self.on_progress,
            on_stage=self.on_stage,
        )
        return Trained(self.work / name, sorter, self.scored, self.milestones, self.stage)


class Trained:
    """A training and what follows from it: the network, F and Z of the scored images and their clusters at each milestone."""

    def __init__(
        self,
        folder: Path,
        sorter: SelfSort,
        scored: ImageSet,
        epochs: Sequence[int],
        stage: Callable[[str], Callable[[int, int], None]],
    ) -> None:
        self.folder, self.sorter, self.scored, self.epochs, self.stage = folder, sorter, scored, epochs, stage
        self._represented: tuple[int, Representation] | None = None

    def train(self, images: ImageSet) -> None:
        """Train, or go on, and keep the network at each milestone; nothing is done if it is finished."""
        hook = self.sorter.on_progress

        def keep(progress: Progress) -> bool | None:
            if progress.step == progress.n_steps and progress.record.epoch in self.epochs:
                self._keep(progress.record.epoch)
            return hook(progress) if hook else None

        self.sorter.on_progress = keep
        with nullcontext() if self._file(self.epochs[-1]).exists() else locked(self.folder):  # many may look at a finished one
            self.sorter.train(images)
            if not self._file(self.epochs[-1]).exists():
                self._keep(self.epochs[-1])

    def network(self, epoch: int) -> AcolNetwork:
        """The network as it was after `epoch`."""
        path, network = self._file(epoch), self.sorter.network_
        tensors, values = load_tensors(path, kind=SNAPSHOT)
        if values.get("epoch") != epoch:
            raise damaged(path, ValueError("it is of another epoch"))
        load_weights(path, network, {f"network.{name}": tensor for name, tensor in tensors.items()}, "network")
        network.eval()
        return network

    def represent(self, epoch: int) -> Representation:
        """F and Z of the scored images, untransformed, after `epoch`; the last answer is kept."""
        if self._represented is None or self._represented[0] != epoch:
            self.network(epoch)
            self._represented = epoch, self.sorter.represent(self.scored)
        return self._represented[1]

    def transformed(self, epoch: int, images: ImageSet, parents: Tensor) -> Activations:
        """What the network said after `epoch` of images under the transformations of these parents."""
        network, transforms = self.network(epoch), self.sorter.transforms_
        assert transforms is not None
        prepared = self.sorter.preparation_.for_images(images)(images.pixels, device_of(network))
        with torch.inference_mode():
            return Activations(*(values.cpu() for values in network(transforms.apply(prepared, parents))))

    def clusters(self, epoch: int, n_clusters: int, space: str = "latent") -> Assignment:
        """k-means on the scored images alone, in one space."""
        points = self.represent(epoch).space(space)
        return self.fit_clusters(points, n_clusters).assign(points)

    def fit_clusters(self, points: NDArray[np.float32], n_clusters: int) -> Clustering:
        """k-means as the recipe has it."""
        n_init = self.sorter.config_.clustering.n_init
        return cluster(points, n_clusters, n_init=n_init, seed=self.sorter.seed_, on_start=self.stage("k-means"))

    def score(self, epoch: int, space: str = "latent") -> Scores:
        """Scores of k-means after `epoch`, with as many clusters as there are classes; computed once."""
        path, key = self.folder / "scores.json", f"{epoch} {space}"
        known = _load_scores(path)
        if key not in known:
            labels = self.clusters(epoch, len(self.scored.truth_names), space).labels
            known = _load_scores(path) | {key: asdict(score(self.scored.truth, labels))}  # type: ignore[arg-type]
            save_json(path, known)  # with what another process has added meanwhile
        return Scores(**known[key])

    def curve(self) -> list[dict[str, float]]:
        """Accuracy and purity at each milestone."""
        points = []
        for number, epoch in enumerate(self.epochs, start=1):
            scores = self.score(epoch)
            points.append({"epoch": epoch, "accuracy": scores.accuracy, "purity": scores.purity})
            self.stage("scoring epochs")(number, len(self.epochs))
        return points

    def _file(self, epoch: int) -> Path:
        return self.folder / f"epoch-{epoch:04}.safetensors"

    def _keep(self, epoch: int) -> None:
        save_tensors(self._file(epoch), self.sorter.network_.state_dict(), {"epoch": epoch}, kind=SNAPSHOT)


def _load_scores(path: Path) -> dict[str, dict[str, float]]:
    """Scores that were computed before; what cannot be read is computed again."""
    try:
        known: dict[str, dict[str, float]] = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def load_splits(dataset: str, data_dir: Path | None) -> tuple[ImageSet, ImageSet]:
    """The images that are trained on and those that are scored: the test split, or all of them where all are trained on."""
    images = load_dataset(dataset, data_dir=data_dir)
    return images, load_dataset(dataset, "test", data_dir=data_dir) if DATASETS[dataset].default == "train" else images
