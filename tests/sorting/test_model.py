"""A `Model` fits, saves, loads and assigns without scikit-learn; methods and assigners can be added
from outside.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from conftest import SMALL
from selfsort import ConfigError, ModelFileError, SelfSort, load_dataset
from selfsort.clustering import Assignment, cluster
from selfsort.config import Config
from selfsort.data.image_set import ImageSet
from selfsort.recipes import resolve_config
from selfsort.sorting import ASSIGNERS, METHODS, Model, fit_model, load_model, save_model
from selfsort.sorting.assigners import Centres
from selfsort.sorting.trained import TrainedNetwork, start_network
from selfsort.training import Hooks

FORMAT_2 = Path(__file__).parent / "format-2"
CONFIG = resolve_config("paper", SMALL, epochs=1)


@pytest.fixture(scope="module")
def images() -> ImageSet:
    return load_dataset("digits").take(np.arange(120))


def test_a_model_is_what_the_estimator_shows(images: ImageSet, tmp_path: Path) -> None:
    model = fit_model(images, n_clusters=3, config=CONFIG, seed=1)
    sorter = SelfSort(3, recipe="paper", epochs=1, settings=SMALL, random_state=1).fit(images)
    labels, confidence = model.assign(images)
    assert (labels == sorter.labels_).all()
    assert (confidence == sorter.confidence_).all()
    assert list(model.history) == sorter.history_
    loaded = load_model(save_model(tmp_path, model))
    assert (loaded.assign(images).labels == labels).all()
    assert (SelfSort.load(tmp_path).predict(images) == labels).all(), "no notes are needed"


@pytest.mark.parametrize("kind", ["centres", "refined", "reclustered"])
def test_models_of_format_2_still_load(kind: str, images: ImageSet, tmp_path: Path) -> None:
    """The files and what they said were written by selfsort at commit e716ae6."""
    expected = json.loads((FORMAT_2 / "expected.json").read_text())[kind]
    sorter = SelfSort.load(FORMAT_2 / f"{kind}.safetensors", device="cpu")
    assert sorter.model_.assigner.kind == kind
    assert sorter.predict(images).tolist() == expected["labels"]
    assert sorter.score_samples(images) == pytest.approx(expected["confidence"], abs=1e-4)
    again = SelfSort.load(sorter.save(tmp_path))
    assert again.predict(images).tolist() == expected["labels"]


def fit_untrained(
    images: ImageSet, *, n_clusters: int | None, config: Config, seed: int, hooks: Hooks
) -> Model:
    """k-means on the features of a network that has learned nothing."""
    trained = start_network(images, config=config, seed=seed, hooks=hooks)
    points = trained.represent(images, hooks).latent
    clustering = cluster(points, n_clusters or 2, n_init=1, seed=seed)
    return Model(trained, Centres(trained, clustering), n_clusters)


@dataclass(frozen=True)
class Brightness:
    """Dark images are cluster 0, bright ones 1."""

    threshold: float
    order: tuple[int, ...] = (0, 1)
    kind: ClassVar[str] = "brightness"

    @property
    def n_clusters(self) -> int:
        return 2

    def assign(self, images: ImageSet, hooks: Hooks) -> Assignment:
        probable = self.probable(images, hooks)
        return Assignment(probable.argmax(axis=1), probable.max(axis=1))

    def probable(self, images: ImageSet, hooks: Hooks) -> NDArray[np.float32]:
        bright = images.pixels.mean(axis=(1, 2, 3)) > self.threshold
        labels = np.argsort(self.order)[bright.astype(np.int64)]
        probable: NDArray[np.float32] = np.eye(2, dtype=np.float32)[labels]
        return probable

    def reorder(self, order: NDArray[np.integer[Any]]) -> Self:
        return type(self)(self.threshold, tuple(np.array(self.order)[order].tolist()))

    def tensors(self) -> dict[str, Tensor]:
        return {"threshold": torch.tensor([self.threshold]), "order": torch.tensor(self.order)}

    @classmethod
    def load(
        cls, file: Path, tensors: Mapping[str, Tensor], trained: TrainedNetwork, n_clusters: int
    ) -> Self:
        return cls(tensors["threshold"].item(), tuple(tensors["order"].tolist()))


def fit_brightness(
    images: ImageSet, *, n_clusters: int | None, config: Config, seed: int, hooks: Hooks
) -> Model:
    trained = start_network(images, config=config, seed=seed, hooks=hooks)
    threshold = float(np.float32(np.median(images.pixels.mean(axis=(1, 2, 3)))))
    return Model(trained, Brightness(threshold), n_clusters)


@pytest.fixture
def toys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "untrained", fit_untrained)
    monkeypatch.setitem(METHODS, "brightness", fit_brightness)
    monkeypatch.setitem(ASSIGNERS, Brightness.kind, Brightness)


@pytest.mark.usefixtures("toys")
@pytest.mark.parametrize("method", ["untrained", "brightness"])
def test_a_method_from_outside_fits_saves_loads_and_predicts(
    method: str, images: ImageSet, tmp_path: Path
) -> None:
    sorter = SelfSort(2, recipe="paper", method=method, settings=SMALL).fit(images)
    assert sorter.config_.method == method
    assert set(sorter.labels_) == {0, 1}
    loaded = SelfSort.load(sorter.save(tmp_path))
    assert loaded.config_.method == method
    assert (loaded.predict(images) == sorter.labels_).all()
    turned = 1 - sorter.labels_
    sorter.align(turned)
    assert (SelfSort.load(sorter.save(tmp_path)).predict(images) == turned).all()


def test_methods_and_assigners_that_nobody_knows_are_refused(
    images: ImageSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match="method='magic' should be one of: selfsort"):
        SelfSort(2, method="magic").fit(images)
    with pytest.raises(ConfigError, match="seed=-1 should be >= 0"):
        SelfSort(2, random_state=-1).fit(images)
    with pytest.raises(ConfigError, match="seed=4294967296 should be >= 0 and < "):
        SelfSort(2, random_state=2**32).fit(images)
    monkeypatch.setitem(METHODS, "brightness", fit_brightness)
    file = SelfSort(2, recipe="paper", method="brightness", settings=SMALL).fit(images)
    with pytest.raises(ModelFileError, match="no 'brightness'"):
        load_model(file.save(tmp_path))
