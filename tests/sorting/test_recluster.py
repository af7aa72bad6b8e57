"""Reclustering: what is kept and what is merged, by hand; it goes on exactly and repeats."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from selfsort import SelfSort, load_dataset, score
from selfsort.clustering.spectral import consensus_spectrum
from selfsort.clustering.views import consensus
from selfsort.data.image_set import ImageSet, as_image_set
from selfsort.errors import TrainingStopped
from selfsort.method.inputs import Inputs
from selfsort.method.network import build_network
from selfsort.method.preparation import Preparation
from selfsort.recipes import get_recipe
from selfsort.settings import ClusteringConfig, ReclusterConfig
from selfsort.sorting.merging import coherent_part, merge, merge_views, most_confident
from selfsort.sorting.recluster import FREE_SHARES, HELD_SHARES, Learned, recluster
from selfsort.training.hooks import Hooks

TINY: dict[str, Any] = {
    "images.size": 8,
    "network.width": 4,
    "network.latent_width": 32,
    "training.min_steps": 10,
    "training.min_images": 0,
    "training.epochs": 1,
    "refinement.steps": 4,
    "refinement.width": 4,
    "recluster.opinions": 1,
    "sources.max_images": 0,
    "recluster.min_steps": 10,
    "recluster.n_views": 2,
    "recluster.batch_size": 64,
    "recluster.final_batch_size": 64,
}
N_HELD, N_FREE = len(HELD_SHARES), len(FREE_SHARES)


@pytest.fixture(scope="module")
def colour() -> ImageSet:
    """Digits in two random colours each, some dark on light."""
    digits = load_dataset("digits").take(np.arange(240))
    draw = np.random.default_rng(0)
    front, back = draw.uniform(0, 1, (2, 240, 3, 1, 1))
    shape = digits.pixels / digits.high
    return as_image_set(np.uint8(255 * (shape * front + (1 - shape) * back)))


def joint_of(*pairs: tuple[int, int, float], masses: tuple[float, ...]) -> np.ndarray:
    """A joint distribution with these masses, in which the named pairs are confused."""
    joint = np.diag(np.array(masses))
    for one, other, value in pairs:
        joint[[one, other, one, other], [other, one, one, other]] += np.array(
            [value, value, -value, -value]
        )
    return joint


def partition(groups: np.ndarray) -> set[frozenset[int]]:
    """Which clusters are together, whatever their groups are called."""
    return {
        frozenset(np.flatnonzero(groups == group).tolist())
        for group in np.unique(groups[groups >= 0])
    }


def lift(joint: np.ndarray, first: Iterable[int], second: Iterable[int]) -> float:
    """How much more often than by chance the two groups are seen in two views of one image, by
    loops.
    """

    def mass(rows: Iterable[int], columns: Iterable[int]) -> float:
        return float(sum(joint[row, column] for row in rows for column in columns))

    everything = range(len(joint))
    return mass(first, second) / (mass(first, everything) * mass(everything, second))


def test_clusters_that_are_confused_become_one() -> None:
    joint = joint_of((0, 3, 0.05), (1, 2, 0.02), masses=(0.2, 0.2, 0.2, 0.2, 0.2))
    assert partition(merge(joint, 4, present=range(5))) == {
        frozenset({0, 3}),
        frozenset({1}),
        frozenset({2}),
        frozenset({4}),
    }
    assert partition(merge(joint, 3, present=range(5))) == {
        frozenset({0, 3}),
        frozenset({1, 2}),
        frozenset({4}),
    }


@given(st.lists(st.floats(0, 1), min_size=25, max_size=25).filter(lambda values: sum(values) > 0.1))
def test_each_union_joins_the_two_that_are_confused_most_by_what_chance_would_give(
    values: list[float],
) -> None:
    square = np.array(values).reshape(5, 5) + 1e-3
    joint = (square + square.T) / (square + square.T).sum()
    before, after = (partition(merge(joint, n_groups, present=range(5))) for n_groups in (4, 3))
    joined = lift(joint, *(before - after))
    assert joined == pytest.approx(max(lift(joint, *pair) for pair in combinations(before, 2)))


def test_absent_clusters_have_no_group_and_few_stay_as_they_are() -> None:
    assert merge(np.eye(4) / 4, 3, present=[1, 3]).tolist() == [-1, 0, -1, 1]
    assert len(partition(merge(np.eye(3) / 3, 2, present=range(3)))) == 2, (
        "nothing is confused, yet k are wanted"
    )


def test_what_smoothing_spread_is_taken_off() -> None:
    """A small cluster is no more like every other one because smoothed probabilities are never
    0.
    """
    truth = np.repeat([0, 1, 2, 3], [60, 60, 60, 6])
    views = []
    for view in range(2):
        told = np.eye(4)[
            np.where((truth == 3) & (np.arange(186) % 3 == view), 0, truth)
        ]  # the small one is confused with 0
        views.append((0.6 * told + 0.4 / 4).astype(np.float32))
    merged = merge_views(views, 3, smoothing=0.4)
    assert partition(merged) == partition(np.where(truth == 3, 0, truth))


def test_the_coherent_part_leaves_out_junk_and_the_least_confident() -> None:
    confidence = np.array([0.9] * 9 + [0.6] + [0.95] * 5 + [0.5] * 5)
    labels = np.array([0] * 10 + [1] * 5 + [2] * 5)
    probable = np.full((20, 3), 0.0) + ((1 - confidence) / 2)[:, None]
    probable[np.arange(20), labels] = confidence
    views = [probable.astype(np.float32)] * 2
    assert coherent_part(views, ReclusterConfig(share=0.9, junk=0.85)).tolist() == [
        *range(9),
        *range(10, 15),
    ]
    assert coherent_part(views, ReclusterConfig(share=1.0, junk=0.5)).tolist() == list(range(20))


def test_at_least_one_image_of_each_cluster_is_chosen() -> None:
    confidence = np.linspace(0, 1, 6, dtype=np.float32)
    assert np.flatnonzero(
        most_confident(np.array([0, 0, 0, 0, 1, -1]), confidence, 0.3)
    ).tolist() == [2, 3, 4]


@pytest.mark.parametrize(
    "stop_at", [("recluster-0", 3, 1), ("recluster-1", 2, 2), ("recluster-3", 4, 1)]
)
def test_resume_ends_where_an_uninterrupted_run_ends(
    colour: ImageSet, tmp_path: Path, stop_at: tuple[str, int, int]
) -> None:
    config = get_recipe("standard", channels=3).replace(TINY)
    preparation = Preparation(1, 8, colour.low, colour.high, "image")
    network = build_network(
        config.network, shape=(1, 8, 8), n_parents=8, generator=torch.Generator().manual_seed(0)
    )
    labels = np.arange(240) % 6
    labels[200:] = -1

    def run(**hooks: Any) -> Learned:
        return recluster(
            network.encoder.eval(),
            Inputs(colour, preparation),
            labels,
            n_clusters=3,
            config=config,
            seed=0,
            hooks=Hooks(**hooks),
        )

    def stop(progress: Any) -> bool:
        return (progress.record.stage, progress.record.epoch, progress.step) == stop_at

    expected = run()
    with pytest.raises(TrainingStopped):
        run(folder=tmp_path, on_progress=stop)
    assert (tmp_path / f"{stop_at[0]}.safetensors").exists()
    found = run(folder=tmp_path)
    assert found.history == expected.history
    assert found.n_images == expected.n_images
    weights = found.classifier.state_dict()
    assert all(
        torch.equal(weights[name], tensor)
        for name, tensor in expected.classifier.state_dict().items()
    )


def test_a_whole_run_on_colour_images_repeats_saves_and_loads(
    colour: ImageSet, tmp_path: Path
) -> None:
    sorter = SelfSort(3, recipe="standard", settings=TINY, checkpoint=tmp_path).fit(colour)
    assert sorter.agreement_ is not None
    assert sorter.agreement_.is_over
    assert int(sorter.agreement_.labels.max()) == 5
    assert sorter.n_clusters_ == 3
    stages = [record.stage for record in sorter.history_ if record.stage != "training"]
    assert (
        stages
        == [f"recluster-{step}" for step in (0, 1, 2) for _ in range(N_HELD)]
        + ["recluster-3"] * N_FREE
    )
    assert sorted(path.stem for path in tmp_path.glob("recluster-*")) == [
        f"recluster-{step}" for step in range(4)
    ]
    again = SelfSort(3, recipe="standard", settings=TINY).fit(colour)
    assert (again.labels_ == sorter.labels_).all()
    assert (again.confidence_ == sorter.confidence_).all()
    assert (sorter.predict(colour.take(np.arange(7))) == sorter.labels_[:7]).all()
    negative = replace(colour, pixels=255 - colour.pixels)
    assert (sorter.predict(negative) == sorter.labels_).mean() > 0.95, (
        "light on dark and dark on light are the same"
    )
    sorter.save(tmp_path)
    assert (SelfSort.load(tmp_path).predict(colour) == sorter.labels_).all()
    assert len(sorter.cluster_anew(colour)) == 240


def test_when_the_graph_shows_the_number_asked_for_nothing_is_reclustered(colour: ImageSet) -> None:
    sorter = SelfSort("auto", recipe="standard", settings=TINY).fit(colour)
    assert sorter.agreement_ is not None
    asked = SelfSort(sorter.n_clusters_, recipe="standard", settings=TINY).fit(colour)
    never = SelfSort(3, recipe="standard", settings=TINY | {"recluster.factor": 0}).fit(colour)
    assert not any(
        record.stage.startswith("recluster")
        for run in (sorter, asked, never)
        for record in run.history_
    )
    assert (asked.labels_ == sorter.labels_).all()


def test_photographs_are_treated_as_such_unless_told_otherwise() -> None:
    grey, colour = get_recipe("standard"), get_recipe("standard", channels=3)
    assert not grey.jitter.invert
    assert colour.jitter.invert
    assert colour.refinement_jitter.invert
    assert (colour.training.epochs, grey.training.epochs) == (16, 1)
    assert get_recipe("paper", channels=3) == get_recipe("paper")


def test_the_consensus_is_what_most_say_whatever_they_call_it() -> None:
    truth = np.repeat(np.arange(3), 20)
    opinions = []
    for number in range(5):
        draw = np.random.default_rng(number)
        names, wrong = draw.permutation(3), draw.permutation(60)[:6]
        labels = names[truth]
        labels[wrong] = names[(truth[wrong] + 1) % 3]
        opinions.append(labels)
    alone = [score(truth, labels).accuracy for labels in opinions]
    agreed = consensus(opinions, 3, config=ClusteringConfig(), seed=0)
    assert score(truth, agreed).accuracy > max(alone) == pytest.approx(0.9)
    assert partition(consensus(opinions[::-1], 3, config=ClusteringConfig(), seed=0)) == partition(
        agreed
    )


def test_unanimous_opinions_with_fewer_clusters_leave_the_others_empty() -> None:
    labels = np.repeat([0, 1], 30)
    assert partition(consensus([labels] * 5, 4, config=ClusteringConfig(), seed=0)) == partition(
        labels
    )


def test_the_spectrum_of_the_consensus_is_that_of_the_graph_of_pairs() -> None:
    draw = np.random.default_rng(0)
    opinions = [draw.integers(0, 3, 30) for _ in range(4)]
    together = np.zeros((30, 30))
    for labels in opinions:
        for image, label in enumerate(labels):
            together[image, labels == label] += 1 / (labels == label).sum() / len(opinions)
    found = consensus_spectrum(opinions, 5)
    assert found.values == pytest.approx(np.linalg.eigvalsh(together)[::-1][:5])
    assert together @ found.vectors == pytest.approx(found.vectors * found.values)


@pytest.mark.parametrize(
    "stop_at",
    [
        pytest.param(None, marks=pytest.mark.slow),
        pytest.param(("training (2 of 3)", 1), marks=pytest.mark.slow),
        ("recluster-1 (3 of 3)", 2),
        pytest.param(("refinement", 1), marks=pytest.mark.slow),
    ],
)
def test_several_opinions_are_heard_and_a_run_of_them_goes_on_exactly(
    colour: ImageSet, tmp_path: Path, stop_at: tuple[str, int] | None
) -> None:
    seen: list[str] = []

    def hook(progress: Any) -> bool:
        seen.append(progress.record.stage)
        return (progress.record.stage, progress.record.epoch) == stop_at and not stopped

    def on_stage(name: str, done: int, total: int) -> None:
        seen.append(name)

    sorter = SelfSort(
        3,
        settings=TINY | {"recluster.opinions": 3},
        checkpoint=tmp_path,
        on_progress=hook,
        on_stage=on_stage,
    )
    stopped = False
    if stop_at:
        with pytest.raises(
            TrainingStopped, match="network" if "of 3" in stop_at[0] else "refinement"
        ):
            sorter.fit(colour)
        assert not sorter.__sklearn_is_fitted__()
        stopped = True
    sorter.fit(colour)
    one, whole = (
        SelfSort(3, settings=TINY | {"recluster.opinions": number}).fit(colour) for number in (1, 3)
    )
    assert (sorter.labels_ == whole.labels_).all()
    assert (sorter.confidence_ == whole.confidence_).all()
    assert (sorter.history_, sorter.training_flops_) == (whole.history_, whole.training_flops_)
    assert whole.history_[: len(one.history_)] == one.history_
    assert {record.stage for record in whole.history_[len(one.history_) :]} == {"refinement"}
    assert whole.training_flops_ > 3 * one.training_flops_
    assert {
        "training (2 of 3)",
        "training (3 of 3)",
        "comparing views",
        "comparing views (3 of 3)",
    } <= set(seen)
    assert (tmp_path / "recluster-3 (3 of 3).safetensors").exists()
    sorter.save(tmp_path)
    assert (SelfSort.load(tmp_path).predict(colour) == whole.labels_).all()
