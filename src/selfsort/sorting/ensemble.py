"""Several networks from different starts, and a classifier that learns what most of them say."""

from dataclasses import replace

import numpy as np

from selfsort.clustering.views import consensus
from selfsort.config import Config
from selfsort.data.image_set import ImageSet
from selfsort.errors import TrainingError, TrainingStopped
from selfsort.sorting.model import Model
from selfsort.sorting.pipeline import fit_one, learn_clusters
from selfsort.training.hooks import Hooks


def fit_selfsort(
    images: ImageSet, *, n_clusters: int | None, config: Config, seed: int, hooks: Hooks
) -> Model:
    """The method of this package: one network, or several where the clusters asked for are not
    those that the first one's graph shows.
    """
    model = fit_one(images, n_clusters=n_clusters, config=config, seed=seed, hooks=hooks)
    is_unsure = model.agreement is not None and model.agreement.is_over
    if is_unsure and model.fusion is None and config.recluster.opinions > 1:
        return ask_others(model, images, hooks)
    return model


def ask_others(model: Model, images: ImageSet, hooks: Hooks) -> Model:
    """Fit further networks, each from another start, and learn what most of them say."""
    trained = model.trained
    n_opinions = model.config.recluster.opinions
    opinions = [model.assign_fitted(images, hooks).labels]
    flops = model.training_flops
    for number in range(2, n_opinions + 1):
        try:
            other = fit_one(
                images,
                n_clusters=model.asked,
                config=model.config.replace({"recluster.opinions": 1}),
                seed=derive_seed(trained.seed, number),
                hooks=replace(hooks, suffix=f" ({number} of {n_opinions})"),
            )
        except (TrainingStopped, TrainingError) as error:
            raise type(error)(f"network {number} of {n_opinions}: {error}") from error
        opinions.append(other.assign_fitted(images, hooks).labels)
        flops += other.training_flops
    labels = consensus(
        opinions, model.n_clusters, config=model.config.clustering, seed=trained.seed
    )
    lesson = learn_clusters(trained, images, labels, model.n_clusters, hooks)
    return replace(
        model,
        assigner=lesson.assigner,
        assignment=lesson.assignment,
        history=(*model.history, *lesson.history),
        training_flops=flops + lesson.training_flops,
    )


def derive_seed(seed: int, number: int) -> int:
    """The seed of one of several networks."""
    sequence = np.random.SeedSequence(seed, spawn_key=(number,))
    return int(sequence.generate_state(1)[0] >> 1)
