"""For images whose graph shows another number of clusters than the one asked for: find too many, learn them, merge them.

Where classes have several looks and some images show no class clearly, a graph that is cut into k clusters joins classes and
keeps a cluster for the unclear images. Twice as many clusters are purer. A classifier learns them, the coherent part of the
images is clustered anew in its latent layer, and clusters that jitter confuses are merged until k are left. From these
the classifier teaches itself all images, the clearest ones first.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from torch import Tensor, nn

from selfsort.clustering import cluster
from selfsort.config import ClusteringConfig, Config, JitterConfig, ReclusterConfig
from selfsort.encoder import device_of, place
from selfsort.graph import embedding, neighbour_graph, spectrum
from selfsort.images import ImageSet
from selfsort.jitter import jitter, swap_context
from selfsort.loop import EpochRecord, Hook, run_loop
from selfsort.preparation import Preparation
from selfsort.pseudo import derive_generator
from selfsort.refinement import BATCH, Classifier, Student, build_classifier, student_task

STAGE = "recluster"
LAST_STEP = 3
KEY = 10
"""Its random draws are told from those of other stages by this and the numbers after it."""

HELD_SHARES = (1.0, 1.0, 0.8, 0.8, 0.8)
"""Share of each cluster that is learned in each epoch while the labels are held."""

FREE_SHARES = (0.6, 0.7, 0.8, 0.8, 0.9, 0.9)
"""The same while the classifier labels all images itself."""

Probable = NDArray[np.float32]


class Reclustered(NamedTuple):
    """The classifier, what its training went through, and on how many images (repetitions counted)."""

    classifier: Classifier
    history: list[EpochRecord]
    n_images: int


class Look(NamedTuple):
    """One jittered view of a batch of images: latent layer and probabilities of the clusters."""

    latent: NDArray[np.float32]
    probable: Probable


def recluster(
    encoder: nn.Module,
    images: ImageSet,
    labels: NDArray[np.int64],
    *,
    n_clusters: int,
    preparation: Preparation,
    config: Config,
    seed: int,
    on_progress: Hook | None = None,
    checkpoint: Callable[[str], Path | None] = lambda stage: None,
) -> Reclustered:
    """A classifier with `n_clusters` outputs from labels (-1: none) that are more, and the encoder that found them."""
    settings, weak, device = config.recluster, replace(config.jitter, context=0.0), device_of(encoder)
    chosen = np.flatnonzero(labels >= 0)
    sample, labels = images.take(chosen), labels[chosen]
    n_over = int(labels.max()) + 1
    history: list[EpochRecord] = []
    n_images = 0

    def look(classifier: Classifier, images: ImageSet, config: JitterConfig, *key: int) -> Iterator[Look]:
        return _look(classifier, images, config, preparation=preparation, generator=derive_generator("look", seed, *key))

    def probable(*arguments: Any) -> Probable:
        return np.concatenate([batch.probable for batch in look(*arguments)])

    def latent(*arguments: Any) -> NDArray[np.float32]:
        return np.concatenate([batch.latent for batch in look(*arguments)])

    def learn(step: int, images: ImageSet, labels: NDArray[np.int64], n_clusters: int, start: dict[str, Tensor]) -> Classifier:
        """Labels (-1: none) are held; in the last step the classifier labels all images itself, anew in each epoch."""
        nonlocal n_images
        stage, is_last = f"{STAGE}-{step}", step == LAST_STEP
        shares, batch_size = (FREE_SHARES, settings.final_batch_size) if is_last else (HELD_SHARES, settings.batch_size)
        student = _student(start, labels, n_clusters, preparation=preparation, config=config, key=(seed, KEY + step))
        place(student.classifier, device)
        place(student.average, device)
        belief = student.get_buffer("belief")

        def select(epoch: int, is_new: bool) -> Tensor:
            if is_new and shares[epoch] < 1:
                seen = torch.from_numpy(probable(student.average, images, weak, KEY + step, 0, epoch))
                belief.copy_((belief + seen) / 2 if belief.any() else seen)
                if is_last:
                    student.labels.copy_(belief.argmax(dim=1))
            own = belief.gather(1, student.labels.clamp(min=0)[:, None])[:, 0]
            return torch.from_numpy(np.flatnonzero(most_confident(student.labels.numpy(), own.numpy(), shares[epoch])))

        n_wanted = max(int((labels >= 0).sum()) * sum(shares), settings.min_steps * settings.batch_size)
        task = student_task(
            stage,
            student,
            images,
            select,
            n_epochs=len(shares),
            n_steps=math.ceil(n_wanted / batch_size / len(shares)),
            batch_size=batch_size,
            learning_rate=settings.learning_rate,
            preparation=preparation,
            config=config,
            key=(seed, KEY + step),
        )
        history.extend(run_loop(task, on_progress=on_progress, checkpoint=checkpoint(stage)))
        n_images += task.n_epochs * task.n_steps * batch_size
        return student.average.eval()

    views = range(settings.n_views)
    classifier = learn(0, sample, labels, n_over, encoder.state_dict(prefix="encoder."))
    kept = coherent_part([probable(classifier, sample, weak, KEY, 3, view) for view in views], settings)
    latents = (latent(classifier, sample.take(kept), weak, KEY, 4, view) for view in views)
    labels = np.full(len(sample), -1)
    labels[kept] = _cluster_latents(latents, n_over, config=config.clustering, seed=seed)

    classifier = learn(1, sample, labels, n_over, classifier.encoder.state_dict(prefix="encoder."))
    kept = coherent_part([probable(classifier, sample, config.refinement_jitter, KEY, 5, view) for view in views], settings)
    seen = [probable(classifier, sample.take(kept), weak, KEY, 6, view) for view in views]
    labels = np.full(len(sample), -1)
    labels[kept] = merge_views(seen, n_clusters, smoothing=config.refinement.label_smoothing)

    classifier = learn(2, sample, labels, n_clusters, classifier.encoder.state_dict(prefix="encoder."))
    classifier = learn(LAST_STEP, images, np.zeros(len(images), dtype=np.int64), n_clusters, classifier.state_dict())
    return Reclustered(classifier, history, n_images)


def _student(
    start: dict[str, Tensor],
    labels: NDArray[np.int64],
    n_clusters: int,
    *,
    preparation: Preparation,
    config: Config,
    key: tuple[int, int],
) -> Student:
    """A student that starts from these weights (without those of a head: from a new one) and remembers what it believes."""
    network, generator = replace(config.network, dropout_1=0.0, dropout_2=0.0), derive_generator("student", *key)
    shape = {"channels": preparation.channels, "size": preparation.size, "n_clusters": n_clusters}
    classifier, average = (build_classifier(network, **shape, generator=generator) for _ in range(2))
    classifier.load_state_dict(start, strict=False)
    student = Student(classifier, average, torch.tensor(labels))
    student.register_buffer("belief", torch.zeros(len(labels), n_clusters))
    return student


def _look(
    classifier: Classifier, images: ImageSet, config: JitterConfig, *, preparation: Preparation, generator: torch.Generator
) -> Iterator[Look]:
    """What the classifier makes of one jittered view of each image, a batch at a time."""
    classifier.eval()
    for start in range(0, len(images), BATCH):
        with torch.inference_mode():
            prepared = preparation(images.read(slice(start, start + BATCH)), device_of(classifier))
            jittered = jitter(prepared, config, generator)
            seen = swap_context(jittered, config.context, generator)
            latent = classifier.encoder(seen.contiguous(memory_format=torch.channels_last))
            probable = classifier.head(latent).softmax(dim=1)
        yield Look(latent.cpu().numpy(), probable.cpu().numpy())


def _cluster_latents(
    latents: Iterator[NDArray[np.float32]], n_clusters: int, *, config: ClusteringConfig, seed: int
) -> NDArray[np.int64]:
    """Spectral clusters of the sum of the views' neighbour graphs."""
    sizes = {"n_neighbours": config.n_neighbours, "n_components": config.n_components}
    units = (latent / np.maximum(np.linalg.norm(latent, axis=1, keepdims=True), 1e-12) for latent in latents)
    graph: Any = sum(neighbour_graph(unit, **sizes, seed=seed) for unit in units)
    n_clusters = min(n_clusters, graph.shape[0])
    points = embedding(spectrum(csr_array(graph), n_clusters), n_clusters)
    return cluster(points, n_clusters, n_init=config.n_init, seed=seed).assign(points).labels


def most_confident(labels: NDArray[np.int64], confidence: NDArray[np.float32], share: float) -> NDArray[np.bool_]:
    """Which images are among the most confident `share` of their cluster (-1: in none).

    >>> most_confident(np.array([0, 0, 1, -1]), np.array([0.5, 0.9, 0.1, 1.0], dtype=np.float32), 0.5).tolist()
    [False, True, True, False]
    """
    chosen = np.zeros(len(labels), dtype=bool)
    for label in np.unique(labels[labels >= 0]):
        rows = np.flatnonzero(labels == label)
        best = rows[np.argsort(-confidence[rows], kind="stable")]
        chosen[best[: int(np.ceil(share * len(rows)))]] = True
    return chosen


def coherent_part(views: Sequence[Probable], config: ReclusterConfig) -> NDArray[np.intp]:
    """The clear images: the most confident share of each cluster, without clusters of low mean confidence.

    A cluster below `junk` times the median of the clusters' mean confidences gathers what belongs nowhere.
    """
    probable = np.mean(views, axis=0)
    labels, confidence = probable.argmax(axis=1), probable.max(axis=1)
    sizes = np.bincount(labels, minlength=probable.shape[1])
    means = np.bincount(labels, weights=confidence, minlength=probable.shape[1]) / np.maximum(sizes, 1)
    clear = means >= config.junk * np.quantile(means, 0.5, method="lower")
    return np.flatnonzero(most_confident(labels, confidence, config.share) & clear[labels])


def merge_views(views: Sequence[Probable], n_clusters: int, *, smoothing: float) -> NDArray[np.int64]:
    """Labels of `n_clusters` clusters from the probabilities of more in several views of the images.

    The share of every label that smoothing spread over all clusters says nothing about two of them, so it is taken off.
    """
    probable = np.stack(views).astype(np.float64)
    over = probable.sum(axis=0).argmax(axis=1)
    probable = np.maximum(probable - smoothing / probable.shape[2], 0)
    probable /= np.maximum(probable.sum(axis=2, keepdims=True), 1e-300)
    total = probable.sum(axis=0)
    joint = total.T @ total - sum(view.T @ view for view in probable)  # of all pairs of different views
    labels: NDArray[np.int64] = merge(joint / joint.sum(), n_clusters, present=np.unique(over).tolist())[over]
    return labels


def merge(joint: NDArray[np.float64], n_clusters: int, *, present: Sequence[int]) -> NDArray[np.int64]:
    """The group of each cluster, -1 for those not present, from how probable each pair is in two views of one image.

    Again and again the two groups become one that are seen together most often, by what chance would give them.
    """
    groups = np.eye(len(joint))[list(present)]
    while len(groups) > n_clusters:
        both = groups @ joint @ groups.T
        shares = both.sum(axis=1)
        lift = np.triu(both / np.maximum(np.outer(shares, shares), 1e-300), k=1) - np.tri(len(both))
        first, second = np.unravel_index(lift.argmax(), lift.shape)
        groups[first] += groups[second]
        groups = np.delete(groups, second, axis=0)
    found: NDArray[np.int64] = np.where(groups.any(axis=0), groups.argmax(axis=0), -1)
    return found
