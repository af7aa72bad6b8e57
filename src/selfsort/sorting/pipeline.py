"""Images to a `Model`, as one network does it: train, find clusters, learn them."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from selfsort.clustering.kmeans import Assignment, cluster, order_by_size
from selfsort.clustering.views import Agreement, agree
from selfsort.config import Config
from selfsort.data.image_set import ImageSet, sample_rows
from selfsort.errors import ConfigError
from selfsort.method.encoder import device_of
from selfsort.sorting.assigners import Assigner, Centres, Reclustered, Refined
from selfsort.sorting.by_features import sort_by_features
from selfsort.sorting.by_joining import sort_by_joining
from selfsort.sorting.by_sources import sort_by_sources
from selfsort.sorting.by_teaching import find_taught, keep_known
from selfsort.sorting.classifier import calibrate
from selfsort.sorting.model import Model
from selfsort.sorting.recluster import recluster
from selfsort.sorting.refine import Known, refine
from selfsort.sorting.trained import TrainedNetwork, start_network
from selfsort.training.hooks import Hooks
from selfsort.training.loop import EpochRecord, training_flops
from selfsort.training.pretrain import share_learned

SORT_BY_SOURCES = {
    "images": sort_by_sources,
    "series": sort_by_joining,
    "sounds": sort_by_joining,
    "features": sort_by_features,
}
"""How a modality is sorted by all sources together."""


class Found(NamedTuple):
    """Clusters of a trained network's images: a label each (-1: was not looked at), and how many
    there are to be; `centres` or the `agreement` say how they were found.
    """

    labels: NDArray[np.int64]
    n_clusters: int
    centres: Centres | None = None
    agreement: Agreement | None = None


class Lesson(NamedTuple):
    """What has learned clusters, what it says of the images, its history, and what it has cost."""

    assigner: Assigner
    assignment: Assignment
    history: tuple[EpochRecord, ...]
    training_flops: int


def fit_one(
    images: ImageSet, *, n_clusters: int | None, config: Config, seed: int, hooks: Hooks
) -> Model:
    """Train one network and sort the images by it."""
    check_pipeline(config, n_clusters)
    if not config.sources.max_images:  # nothing else is to sort the images
        config = config.replace({"training.give_up": 0.0, "sources.unsure": 0.0})
    trained = start_network(images, config=config, seed=seed, hooks=hooks)
    assert trained.transforms is not None, "a new network knows them"
    if not trained.has_task and trained.modality.name == "images":
        raise ConfigError(
            "transforms='none' leaves nothing to learn from; give parents (`parents`), or "
            "transformations."
        )
    history = trained.train(images, hooks) if trained.has_task else []
    if history:
        trained = replace(trained, learned=share_learned(history, trained.network.head.nodes[0]))
    model = sort_images(trained, images, n_clusters, hooks)
    return replace(
        model,
        history=(*history, *model.history),
        training_flops=trained.training_flops(len(images) * len(history)) + model.training_flops,
    )


def check_pipeline(config: Config, n_clusters: int | None) -> None:
    """Refuse settings that do not go together, before anything is trained."""
    if config.clustering.method == "agreement" and not config.refinement.rounds:
        raise ConfigError(
            "clustering.method='agreement' labels no new images by itself; it needs "
            "refinement.rounds >= 1."
        )
    if n_clusters is None and config.clustering.method == "k-means":
        raise ConfigError(
            "n_clusters='auto' should be a number with clustering.method='k-means', or use "
            "'agreement'."
        )


def sort_images(
    trained: TrainedNetwork, images: ImageSet, n_clusters: int | None, hooks: Hooks
) -> Model:
    """Find `n_clusters` clusters (None: as many as the images show) and learn them; the largest is
    cluster 0.
    """
    sources = trained.config.sources
    limit = max(sources.unsure, trained.config.training.give_up)
    if len(images) <= sources.max_images or trained.learned < limit:
        sort = SORT_BY_SOURCES[trained.modality.name]
        assigner, fusion, assignment = sort(trained, images, n_clusters, hooks)
        names = fusion.taught.names if fusion.taught else ()
        return Model(
            trained, assigner, n_clusters, fusion=fusion, assignment=assignment, names=names
        )
    if images.taught is not None:
        taught = find_taught(trained, images, n_clusters, hooks)
        lesson = learn_clusters(
            trained, images, taught.labels, taught.n_clusters, hooks, taught.known
        )
        return Model(
            trained,
            lesson.assigner,
            n_clusters,
            assignment=keep_known(lesson.assignment, taught.known),
            history=lesson.history,
            training_flops=lesson.training_flops,
            names=taught.names,
        )
    if trained.config.clustering.method == "k-means":
        assert n_clusters is not None, "checked with the configuration"
        found = find_by_k_means(trained, images, n_clusters, hooks)
    else:
        found = find_by_agreement(trained, images, n_clusters, hooks)
    if not trained.config.refinement.rounds:
        assert found.centres is not None, "checked with the configuration"
        return Model(trained, found.centres, n_clusters)
    if found.agreement is not None and found.agreement.is_over:
        lesson = learn_merged_clusters(trained, images, found.labels, found.n_clusters, hooks)
    else:
        lesson = learn_clusters(trained, images, found.labels, found.n_clusters, hooks)
    return Model(
        trained,
        lesson.assigner,
        n_clusters,
        found.agreement,
        assignment=lesson.assignment,
        history=lesson.history,
        training_flops=lesson.training_flops,
    )


def cluster_anew(model: Model, images: ImageSet, hooks: Hooks) -> NDArray[np.int64]:
    """Clusters fitted on these images alone, with the one network as it is (the paper's protocol
    for a test set).
    """
    # the checkpoints there belong to other images
    hooks = replace(hooks, folder=None, suffix=" (anew)")
    anew = sort_images(model.trained, images, model.asked, hooks)
    return anew.assign_fitted(images, hooks).labels


def find_by_k_means(
    trained: TrainedNetwork, images: ImageSet, n_clusters: int, hooks: Hooks
) -> Found:
    """k-means in one space, as the paper does."""
    settings = trained.config.clustering
    chosen = sample_rows(len(images), settings.max_samples, trained.seed)
    sample = images.take(chosen) if len(chosen) < len(images) else images
    points = trained.represent(sample, hooks).space(settings.space)
    on_start = hooks.stage("k-means")
    clustering = cluster(
        points, n_clusters, n_init=settings.n_init, seed=trained.seed, on_start=on_start
    )
    labels = np.full(len(images), -1)
    labels[chosen] = clustering.assign(points).labels
    return Found(labels, n_clusters, centres=Centres(trained, clustering))


def find_by_agreement(
    trained: TrainedNetwork, images: ImageSet, n_clusters: int | None, hooks: Hooks
) -> Found:
    """Clusters of the graph of all views; there may be more than asked for, to be merged."""
    if trained.transforms is None:
        raise ConfigError(
            f"transforms={trained.config.transforms!r} are not in the model file; clustering "
            "needs them."
        )
    agreement = agree(
        trained.network,
        trained.inputs(images),
        n_clusters,
        transforms=trained.transforms,
        config=trained.config,
        seed=trained.seed,
        on_stage=hooks.tell,
    )
    n_found = int(agreement.labels.max()) + 1
    n_wanted = n_clusters if agreement.is_over and n_clusters else n_found
    return Found(agreement.labels, n_wanted, agreement=agreement)


def learn_clusters(
    trained: TrainedNetwork,
    images: ImageSet,
    labels: NDArray[np.int64],
    n_clusters: int,
    hooks: Hooks,
    known: Known | None = None,
) -> Lesson:
    """Have a small classifier learn the clusters that were found (-1: none)."""
    settings = trained.config.refinement
    classifier, history = refine(
        Refined.inputs(trained, images),
        labels,
        n_clusters=n_clusters,
        config=trained.config,
        seed=trained.seed,
        device=device_of(trained.network),
        known=known,
        hooks=hooks,
    )
    assigner = Refined(trained, classifier)
    n_images = settings.steps * settings.batch_size
    return _finish(assigner, images, history, n_images, hooks, is_numbered=known is not None)


def learn_merged_clusters(
    trained: TrainedNetwork,
    images: ImageSet,
    labels: NDArray[np.int64],
    n_clusters: int,
    hooks: Hooks,
) -> Lesson:
    """Have a classifier merge clusters that are too many (-1: none) while it learns them."""
    classifier, history, n_images = recluster(
        trained.network.encoder,
        Reclustered.inputs(trained, images),
        labels,
        n_clusters=n_clusters,
        config=trained.config,
        seed=trained.seed,
        hooks=hooks,
    )
    return _finish(Reclustered(trained, classifier), images, history, n_images, hooks)


def _finish(
    assigner: Refined,
    images: ImageSet,
    history: list[EpochRecord],
    n_images: int,
    hooks: Hooks,
    *,
    is_numbered: bool = False,
) -> Lesson:
    """Calibrate the classifier and number its clusters by size, unless they have their numbers."""
    trained = assigner.trained
    inputs = assigner.inputs(trained, images)
    hooks.tell("calibrating", 0, 1)
    calibrate(assigner.classifier, inputs, config=trained.config, seed=trained.seed)
    hooks.tell("calibrating", 1, 1)
    assignment = assigner.assign(images, hooks)
    if not is_numbered:
        assigner = assigner.reorder(order_by_size(assignment.labels, assigner.n_clusters))
        # asked again: with 16 bits two clusters may tie, and the order decides between them
        assignment = assigner.assign(images, hooks)
    flops = training_flops(assigner.classifier, inputs.preparation.shape) * n_images
    return Lesson(assigner, assignment, tuple(history), flops)
