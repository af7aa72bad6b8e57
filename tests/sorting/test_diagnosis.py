"""A run that went wrong says so; a good one is silent."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from conftest import SMALL
from selfsort import SelfSort
from selfsort.clustering.spectral import ClusterCount
from selfsort.clustering.views import Agreement
from selfsort.method.devices import prepare_process
from selfsort.metrics import LabelFreeScores
from selfsort.recipes import get_recipe
from selfsort.sorting.diagnosis import Watch, diagnose
from selfsort.sorting.model import Model
from selfsort.training.loop import EpochRecord


@pytest.fixture
def good(digits: np.ndarray) -> Model:
    """A fitted model whose figures are set to those of a good run."""
    model = SelfSort(4, recipe="paper", epochs=1, settings=SMALL).fit(digits[:100]).model_
    assert isinstance(model, Model)
    return replace(
        model,
        history=(EpochRecord("training", 1, {"loss": 0.5, "pseudo_accuracy": 0.9}),),
        agreement=Agreement(
            np.zeros(100, np.int64), [1, 1, 1, 1, 0.5], ClusterCount(4, 5.0), False
        ),
    )


SCORES = LabelFreeScores(0.5, [30, 25, 25, 20], 5)


def test_a_good_run_is_silent(good: Model) -> None:
    assert diagnose(good, SCORES) == {}


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        (LabelFreeScores(0.5, [30, 25, 25, 20], 1), "collapse"),
        (LabelFreeScores(0.5, [50, 49, 1, 0], 5), "2 of 4 clusters are nearly empty"),
        (LabelFreeScores(0.5, [90, 4, 3, 3], 5), "one cluster holds 90% of the images"),
    ],
)
def test_suspicious_scores_are_named_with_a_remedy(
    good: Model, scores: LabelFreeScores, message: str
) -> None:
    (warning,) = diagnose(good, scores).values()
    assert message in warning
    assert ";" in warning


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"history": (EpochRecord("training", 1, {"pseudo_accuracy": 0.13}),)},
            "only 13% of the images (chance: 12%)",
        ),
        (
            {"agreement": Agreement(np.zeros(2000, np.int64), [1], ClusterCount(5, 1.1), True)},
            "no clear number of groups",
        ),
        (
            {"agreement": Agreement(np.zeros(2000, np.int64), [1], ClusterCount(7, 3.0), True)},
            "the images fall into 7 clear groups, not 4",
        ),
    ],
)
def test_each_fault_is_named_with_a_remedy(
    good: Model, change: dict[str, Any], message: str
) -> None:
    (warning,) = diagnose(replace(good, **change), SCORES).values()
    assert message in warning
    assert ";" in warning


def counted(model: Model, n_clusters: int, clarity: float) -> Model:
    """The same where the graph shows so many clusters."""
    assert model.agreement is not None
    count = ClusterCount(n_clusters, clarity)
    return replace(model, agreement=model.agreement._replace(cluster_count=count))


def test_a_narrow_gap_at_the_number_asked_for_is_no_fault(good: Model) -> None:
    narrow = counted(good, 4, 1.05)
    assert diagnose(narrow, SCORES) == {}
    assert (
        "no clear number of groups"
        in diagnose(replace(narrow, asked=None), SCORES)["cluster count"]
    )


def test_few_images_do_not_speak_against_the_number_asked_for(good: Model) -> None:
    few = Agreement(np.zeros(100, np.int64), [1, 0.9], ClusterCount(2, 3.0), True)
    good = replace(good, agreement=few)
    for clarity in (1.0, 3.0):
        warning = diagnose(counted(good, 2, clarity), SCORES)["cluster count"]
        groups = "2 clear groups" if clarity > 2 else "2 groups"
        assert f"fall into {groups}, not 4, but 100 images are too few to tell" in warning
        assert "keep the number if you know it" in warning
        assert "recluster.opinions=5" in warning
    config = good.config.replace({"recluster.opinions": 5})
    asked = replace(good, trained=replace(good.trained, config=config))
    assert "recluster.opinions" not in diagnose(asked, SCORES)["cluster count"], "they were asked"


def test_an_untrained_network_is_reported(digits: np.ndarray) -> None:
    settings = {**SMALL, "training.learning_rate": 0.0}
    sorter = SelfSort(10, recipe="paper", epochs=1, settings=settings).fit(digits[:300])
    assert any(
        "has learned little" in warning
        for warning in diagnose(sorter.model_, sorter.label_free_scores_).values()
    )


def test_threads_are_those_asked_for() -> None:
    before = torch.get_num_threads()
    assert prepare_process(1) == 1
    assert torch.get_num_threads() == 1
    prepare_process(before)


def told(
    settings: dict[str, Any], pixels: np.ndarray, *, epochs: int = 4
) -> tuple[list[str], Watch, SelfSort]:
    """What is said while a sorter learns from these images."""
    said: list[str] = []
    watch = Watch(get_recipe("paper").replace(SMALL | settings), 1000, said.append)
    sorter = SelfSort(
        4, recipe="paper", epochs=epochs, settings=SMALL | settings, on_progress=watch
    ).fit(pixels)
    return said, watch, sorter


def test_chance_is_said_once_and_while_it_happens(digits: np.ndarray) -> None:
    said, watch, sorter = told({"training.learning_rate": 0.0}, digits[:300])
    assert len(said) == 1
    assert said[0].startswith(
        "warning: after 50% of the training the network names the right transformation for only"
    )
    assert "use transforms that change" in said[0]
    assert list(watch.found(sorter.history_)) == ["chance"]
    assert "chance" in diagnose(sorter.model_, sorter.label_free_scores_)


def test_collapse_is_said_while_it_happens(digits: np.ndarray) -> None:
    settings = {
        "objective.balance_weight": 0.0,
        "objective.affinity_weight": 300.0,
        "training.learning_rate": 0.01,
    }
    said, watch, sorter = told(settings, digits[:600], epochs=20)
    assert any("collapse" in message and "objective.balance_weight" in message for message in said)
    assert len(said) == len(set(said))
    assert "collapse" in watch.found(sorter.history_)


def test_a_dead_parent_is_said_unless_nothing_is_learned_at_all(good: Model) -> None:
    watch = Watch(get_recipe("paper").replace(SMALL), 1000, lambda message: None)
    records = [
        EpochRecord("training", epoch, {"pseudo_accuracy": 0.8, "worst_parent": 0.0})
        for epoch in (1, 2)
    ]
    assert "never recognised (a dead parent)" in watch.found(records)["dead parent"]
    weak = EpochRecord("training", 1, {"pseudo_accuracy": 0.25, "worst_parent": 0.0})
    assert watch.found([weak]) == {}
    assert list(diagnose(replace(good, history=tuple(records)), SCORES)) == ["dead parent"]


def test_a_good_training_is_not_disturbed() -> None:
    slope = np.linspace(0, 1, 8)[:, None] + np.linspace(
        0, 0.5, 8
    )  # so that every transformation is plain to see
    pixels = (slope + np.random.default_rng(0).random((400, 8, 8)) / 2).astype(np.float32)
    settings = {
        "network.batch_norm": True,
        "network.dropout_1": 0.0,
        "network.dropout_2": 0.0,
        "network.dropout_latent": 0.0,
    }
    said, watch, sorter = told(settings | {"training.learning_rate": 0.01}, pixels, epochs=6)
    assert sorter.history_[-1].terms["pseudo_accuracy"] > 0.8
    assert said == []
    assert watch.found(sorter.history_) == {}
