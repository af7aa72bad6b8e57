"""A trained network and images to what sorts them: k-means or agreement of the views, then reclustering or refinement."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selfsort.agreement import Agreement, agree
from selfsort.clustering import Assignment, Clustering, cluster, order_by_size
from selfsort.config import Config
from selfsort.encoder import device_of
from selfsort.errors import ConfigError
from selfsort.images import ImageSet, sample_rows
from selfsort.loop import EpochRecord, Hook
from selfsort.network import AcolNetwork
from selfsort.preparation import Preparation
from selfsort.recluster import recluster
from selfsort.refinement import Classifier, calibrate, probabilities, refine
from selfsort.representation import Representation, extract, extract_batches
from selfsort.transforms import TransformSet

Stage = Callable[[str], Callable[[int, int], None] | None]
"""Gives, for the name of a step, what is told (done, total) while it lasts."""


@dataclass(frozen=True)
class TrainedNetwork:
    """A trained network and how it is used; `transforms` is None where a model file does not hold them."""

    network: AcolNetwork
    preparation: Preparation
    refinement_preparation: Preparation
    transforms: TransformSet | None
    config: Config
    seed: int

    def represent(self, images: ImageSet, stage: Stage) -> Representation:
        """F and Z of each image."""
        return extract(self.network, images, **self._extraction(images, stage))

    def represent_batches(self, images: ImageSet, stage: Stage) -> Iterator[Representation]:
        """The same, a batch at a time."""
        return extract_batches(self.network, images, **self._extraction(images, stage))

    def _extraction(self, images: ImageSet, stage: Stage) -> dict[str, Any]:
        return {"preparation": self.preparation.for_images(images), "on_batch": stage("computing features")}

    def classifier_preparation(self, is_reclustered: bool) -> Preparation:
        """Reclustering goes on from the network's encoder, so it sees what the network sees."""
        return self.preparation if is_reclustered else self.refinement_preparation


@dataclass(frozen=True)
class Sorter:
    """What assigns images to clusters: centres of k-means, or the refined (or reclustered) classifier."""

    n_clusters: int
    is_reclustered: bool = False
    centres: Clustering | None = None
    classifier: Classifier | None = None
    agreement: Agreement | None = None
    history: list[EpochRecord] = field(default_factory=list)
    n_images: int = 0

    def reorder(self, order: NDArray[np.integer[Any]]) -> "Sorter":
        """Number the clusters anew: what was `order[i]` becomes i."""
        if self.classifier is not None:
            self.classifier.reorder(order)
        return self if self.centres is None else replace(self, centres=Clustering(self.centres.centres[order]))

    def assign(self, trained: TrainedNetwork, images: ImageSet, stage: Stage) -> Assignment:
        """Cluster and confidence of each image."""
        if self.classifier is not None:
            probable = probabilities(
                self.classifier,
                images,
                preparation=trained.classifier_preparation(self.is_reclustered).for_images(images),
                both_signs=trained.config.refinement_jitter.invert,
                on_batch=stage("assigning"),
            )
            return Assignment(probable.argmax(axis=1), probable.max(axis=1))
        assert self.centres is not None
        space = trained.config.clustering.space
        pieces = [self.centres.assign(batch.space(space)) for batch in trained.represent_batches(images, stage)]
        labels, confidence = (np.concatenate(column) for column in zip(*pieces, strict=True))
        return Assignment(labels, confidence)


def sort_images(
    trained: TrainedNetwork,
    images: ImageSet,
    n_clusters: int | None,
    *,
    checkpoint: Callable[[str], Path | None],
    on_progress: Hook | None,
    stage: Stage,
) -> Sorter:
    """Find `n_clusters` clusters (None: as many as the images show) and learn them; the largest is cluster 0."""
    is_k_means = trained.config.clustering.method == "k-means"
    found, labels = (_k_means if is_k_means else _agree)(trained, images, n_clusters, stage)
    if not trained.config.refinement.rounds:
        return found
    return teach(trained, images, labels, found, checkpoint=checkpoint, on_progress=on_progress, stage=stage)


def teach(
    trained: TrainedNetwork,
    images: ImageSet,
    labels: NDArray[np.int64],
    found: Sorter,
    *,
    checkpoint: Callable[[str], Path | None],
    on_progress: Hook | None,
    stage: Stage,
) -> Sorter:
    """Have a classifier learn the clusters that were found (labels, -1: none) and put it in charge; the largest is cluster 0."""
    config, seed = trained.config, trained.seed
    preparation = trained.classifier_preparation(found.is_reclustered).for_images(images)
    common: dict[str, Any] = {
        "n_clusters": found.n_clusters,
        "preparation": preparation,
        "config": config,
        "seed": seed,
        "on_progress": on_progress,
    }
    if found.is_reclustered:
        classifier, history, n_images = recluster(trained.network.encoder, images, labels, **common, checkpoint=checkpoint)
    else:
        device = device_of(trained.network)
        classifier, history = refine(images, labels, **common, device=device, checkpoint=checkpoint("refinement"))
        n_images = config.refinement.steps * config.refinement.batch_size
    found = replace(found, classifier=classifier, history=history, n_images=n_images)
    calibrate(classifier, images, preparation=preparation, config=config, seed=seed)
    return found.reorder(order_by_size(found.assign(trained, images, stage).labels, found.n_clusters))


def _k_means(trained: TrainedNetwork, images: ImageSet, n_clusters: int | None, stage: Stage) -> tuple[Sorter, NDArray[np.int64]]:
    """k-means in one space, as the paper does; -1 are images that it has not seen."""
    assert n_clusters is not None, "checked with the configuration"
    settings, labels = trained.config.clustering, np.full(len(images), -1)
    chosen = sample_rows(len(images), settings.max_samples, trained.seed)
    sample = images.take(chosen) if len(chosen) < len(images) else images
    points = trained.represent(sample, stage).space(settings.space)
    centres = cluster(points, n_clusters, n_init=settings.n_init, seed=trained.seed, on_start=stage("k-means"))
    labels[chosen] = centres.assign(points).labels
    return Sorter(n_clusters, centres=centres), labels


def _agree(trained: TrainedNetwork, images: ImageSet, n_clusters: int | None, stage: Stage) -> tuple[Sorter, NDArray[np.int64]]:
    """Clusters of the graph of all views; there may be more than asked for, to be reclustered."""
    if trained.transforms is None:
        raise ConfigError(f"transforms={trained.config.transforms!r} are not in the model file; clustering needs them.")
    agreement = agree(
        trained.network,
        images,
        n_clusters,
        preparation=trained.preparation.for_images(images),
        transforms=trained.transforms,
        config=trained.config,
        seed=trained.seed,
        on_batch=stage("comparing views"),
    )
    n_wanted = n_clusters if agreement.is_over and n_clusters else int(agreement.labels.max()) + 1
    return Sorter(n_wanted, is_reclustered=agreement.is_over, agreement=agreement), agreement.labels
