"""Agreement of the views and refinement: they correct labels, go on exactly, number and calibrate
the clusters.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from selfsort import ConfigError, SelfSort, load_dataset, score
from selfsort.config import Config
from selfsort.data.image_set import ImageSet
from selfsort.errors import TrainingStopped
from selfsort.method.inputs import Inputs
from selfsort.method.preparation import Preparation
from selfsort.recipes import get_recipe
from selfsort.sorting.classifier import Classifier, build_classifier, calibrate, probabilities
from selfsort.sorting.refine import refine
from selfsort.training.hooks import Hooks
from selfsort.training.loop import EpochRecord, Hook, training_flops

CONFIG = get_recipe("standard").replace(
    {"refinement.steps": 60, "refinement.width": 8, "refinement.latent_width": 64}
)
TINY: dict[str, Any] = {
    "network.width": 4,
    "network.latent_width": 32,
    "training.min_steps": 1,
    "training.min_images": 0,
    "training.epochs": 1,
    "refinement.steps": 4,
    "refinement.width": 4,
    "recluster.factor": 0,
    "sources.max_images": 0,
}


@pytest.fixture(scope="module")
def images() -> ImageSet:
    return load_dataset("digits").take(np.arange(600))


@pytest.fixture(scope="module")
def preparation(images: ImageSet) -> Preparation:
    return Preparation(1, 16, images.low, images.high, "image")


def run(
    images: ImageSet,
    labels: np.ndarray,
    preparation: Preparation,
    *,
    config: Config = CONFIG,
    checkpoint: Path | None = None,
    on_progress: Hook | None = None,
) -> tuple[Classifier, list[EpochRecord]]:
    return refine(
        Inputs(images, preparation),
        labels,
        n_clusters=10,
        config=config,
        seed=0,
        hooks=Hooks(on_progress=on_progress, folder=checkpoint.parent if checkpoint else None),
    )


@pytest.fixture(scope="module")
def refined(images: ImageSet, preparation: Preparation) -> tuple[np.ndarray, Classifier]:
    """Labels of which a seventh are wrong and a tenth are missing, and what is learned from
    them.
    """
    assert images.truth is not None
    draw = np.random.default_rng(0)
    labels = np.where(draw.random(600) < 1 / 7, draw.integers(0, 10, 600), images.truth)
    labels[draw.random(600) < 0.1] = -1
    classifier, _ = run(
        images, labels, preparation, config=CONFIG.replace({"refinement.steps": 300})
    )
    return labels, classifier


def test_scattered_errors_are_corrected(
    images: ImageSet, preparation: Preparation, refined: tuple[np.ndarray, Classifier]
) -> None:
    labels, classifier = refined
    assert images.truth is not None
    predicted = probabilities(classifier, Inputs(images, preparation)).argmax(axis=1)
    assert np.mean(labels == images.truth) < 0.83
    assert np.mean(predicted == images.truth) > 0.93


def test_calibration_changes_confidence_but_no_label(
    images: ImageSet, preparation: Preparation, refined: tuple[np.ndarray, Classifier]
) -> None:
    _, classifier = refined
    before = probabilities(classifier, Inputs(images, preparation))
    calibrate(classifier, Inputs(images, preparation), config=CONFIG, seed=0)
    after = probabilities(classifier, Inputs(images, preparation))
    assert (before.argmax(axis=1) == after.argmax(axis=1)).all()
    assert images.truth is not None
    accuracy = np.mean(after.argmax(axis=1) == images.truth)
    assert abs(after.max(axis=1).mean() - accuracy) < abs(before.max(axis=1).mean() - accuracy)


def test_reorder_renames_the_clusters(generator: torch.Generator) -> None:
    classifier = build_classifier(
        CONFIG.refinement, shape=(1, 16, 16), n_clusters=3, generator=generator
    ).eval()
    pixels = torch.randn(5, 1, 16, 16, generator=generator)
    before = classifier(pixels)
    classifier.reorder(np.array([2, 0, 1]))
    assert torch.equal(classifier(pixels), before[:, [2, 0, 1]])


@pytest.mark.parametrize("stop_at", [1, 30, 31, 45])  # two rounds of 30 steps
def test_resume_ends_where_an_uninterrupted_run_ends(
    images: ImageSet, preparation: Preparation, tmp_path: Path, stop_at: int
) -> None:
    assert images.truth is not None
    expected, expected_history = run(images, images.truth, preparation)
    file = tmp_path / "refinement.safetensors"
    steps: list[int] = []

    def stop(progress: object) -> bool:
        steps.append(1)
        return len(steps) == stop_at

    with pytest.raises(TrainingStopped):
        run(images, images.truth, preparation, checkpoint=file, on_progress=stop)
    classifier, history = run(images, images.truth, preparation, checkpoint=file)
    assert history == expected_history
    weights = classifier.state_dict()
    assert all(torch.equal(weights[name], tensor) for name, tensor in expected.state_dict().items())


@pytest.mark.parametrize("n_clusters", [4, "auto"])
def test_the_whole_recipe_saves_loads_and_repeats(
    images: ImageSet, tmp_path: Path, n_clusters: int | str
) -> None:
    sorter = SelfSort(n_clusters, recipe="standard", settings=TINY).fit(images)
    again = SelfSort(n_clusters, recipe="standard", settings=TINY).fit(images)
    assert (sorter.labels_ == again.labels_).all()
    assert (sorter.confidence_ == again.confidence_).all()
    assert sorter.labels_.max() < sorter.n_clusters_
    sizes = sorter.label_free_scores_.cluster_sizes
    assert sizes == sorted(sizes, reverse=True)
    assert [record.stage for record in sorter.history_] == ["training", "refinement", "refinement"]
    reference = (sorter.labels_ + 1) % sorter.n_clusters_
    assert (sorter.align(reference).labels_ == reference).all()
    assert (
        sorter.label_free_scores_.cluster_sizes
        == np.bincount(reference, minlength=sorter.n_clusters_).tolist()
    )
    sorter.save(tmp_path)
    assert (SelfSort.load(tmp_path).predict(images) == reference).all()
    assert sorter.agreement_ is not None
    assert sorter.agreement_.eigenvalues[0] == pytest.approx(1, abs=1e-4)


def test_images_outside_the_graph_are_labelled_too(images: ImageSet) -> None:
    sorter = SelfSort(4, recipe="standard", settings={**TINY, "clustering.max_samples": 200}).fit(
        images
    )
    assert sorter.agreement_ is not None
    assert int((sorter.agreement_.labels >= 0).sum()) == 200
    assert (sorter.labels_ >= 0).all()
    assert len(sorter.cluster_anew(images)) == 600


def test_what_does_not_go_together_is_said(images: ImageSet) -> None:
    with pytest.raises(ConfigError, match=r"needs refinement\.rounds >= 1"):
        SelfSort(recipe="standard", settings={"refinement.rounds": 0}).fit(images)
    with pytest.raises(ConfigError, match="n_clusters='auto' should be a number"):
        SelfSort("auto", recipe="paper").fit(images)
    with pytest.raises(ConfigError, match="n_clusters='many' should be"):
        SelfSort("many", recipe="standard").fit(images)


def test_cost_by_hand(generator: torch.Generator) -> None:
    classifier = build_classifier(
        CONFIG.refinement, shape=(1, 16, 16), n_clusters=10, generator=generator
    )
    area = 16 * 16
    convolutions = area * 9 * (1 * 8 + 8 * 8) + area // 4 * 9 * (8 * 16 + 16 * 16)
    assert training_flops(classifier, (1, 16, 16)) == 6 * (convolutions + 16 * 4 * 4 * 64 + 64 * 10)


@pytest.mark.slow
def test_a_short_run_learns() -> None:
    """A floor for every change: the transformations are told apart, and clusters of F survive being
    learned.

    The accuracy alone would not tell: on digits even the features of an untrained network cluster
    well.
    """
    images = load_dataset("digits")
    assert images.truth is not None
    settings = {
        "network.width": 8,
        "network.latent_width": 256,
        "training.min_steps": 100,
        "training.min_images": 0,
        "clustering.method": "k-means",
        "sources.max_images": 0,
        "refinement.steps": 80,
        "refinement.width": 8,
        "refinement.max_size": 16,
    }
    sorter = SelfSort(10, settings=settings).fit(images)
    learned = [
        record.terms["pseudo_accuracy"] for record in sorter.history_ if record.stage == "training"
    ]
    assert learned[-1] > 0.25, "chance is 0.125"
    assert score(images.truth, sorter.labels_).accuracy > 0.65


@pytest.mark.slow
def test_learning_pays() -> None:
    """An accuracy floor on the embedded digits: fails if a change breaks learning."""
    images = load_dataset("digits")
    assert images.truth is not None
    assert score(images.truth, SelfSort(10).fit(images).labels_).accuracy > 0.85
