"""For images whose graph shows another number of clusters than the one asked for: find too many,
learn them, merge them.

Where classes have several looks and some images show no class clearly, a graph that is cut into k
clusters joins classes and keeps a cluster for the unclear images. Twice as many clusters are purer.
A classifier learns them, the coherent part of the images is clustered anew in its latent layer, and
clusters that jitter confuses are merged until k are left. From these the classifier teaches itself
all images, the clearest ones first.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from torch import Tensor, nn

from selfsort.clustering.spectral import neighbour_graph, spectrum
from selfsort.clustering.views import spectral_clusters
from selfsort.config import Config
from selfsort.method.encoder import device_of, place
from selfsort.method.inputs import Inputs, infer_all
from selfsort.method.seeds import derive_generator
from selfsort.settings import ClusteringConfig, JitterConfig
from selfsort.sorting.classifier import Classifier, build_classifier
from selfsort.sorting.merging import Probable, coherent_part, merge_views, most_confident
from selfsort.sorting.self_training import Lessons, Student, student_task
from selfsort.training.hooks import Hooks
from selfsort.training.loop import EpochRecord, run_loop

STAGE = "recluster"

KEY = 10
"""Namespaces this stage's random streams; the four learnings have KEY to KEY + 3."""

BELIEF = 0
COHERENT = 3
LATENT = 4
CLEAR = 5
CONFUSED = 6
"""Random streams of looks at images: what the classifier believes, which images are coherent, their
latent layer, which are clear under strong jitter, which clusters are confused.
"""

HELD_SHARES = (1.0, 1.0, 0.8, 0.8, 0.8)
"""Share of each cluster that is learned in each epoch while the labels are held."""

FREE_SHARES = (0.6, 0.7, 0.8, 0.8, 0.9, 0.9)
"""The same while the classifier labels all images itself."""


class Learned(NamedTuple):
    """The classifier, what its training went through, and on how many images (repetitions
    counted).
    """

    classifier: Classifier
    history: list[EpochRecord]
    n_images: int


@dataclass(frozen=True)
class Course:
    """What all steps share."""

    config: Config
    seed: int
    device: torch.device
    hooks: Hooks

    @property
    def weak(self) -> JitterConfig:
        """The jitter of the first training, without foreign edges: a look at the image itself."""
        return replace(self.config.jitter, context=0.0)


def recluster(
    encoder: nn.Module,
    inputs: Inputs,
    labels: NDArray[np.int64],
    *,
    n_clusters: int,
    config: Config,
    seed: int,
    hooks: Hooks | None = None,
) -> Learned:
    """A classifier with `n_clusters` outputs from labels (-1: none) that are more, and the encoder
    that found them.
    """
    course = Course(config, seed, device_of(encoder), hooks or Hooks())
    found = np.flatnonzero(labels >= 0)
    sample = inputs.take(found)
    first = learn_fine_clusters(course, encoder, sample, labels[found])
    second = cluster_coherent_part(course, first.classifier, sample)
    merged = merge_confused(course, second.classifier, sample, n_clusters)
    third, fourth = learn_merged(course, second.classifier, sample, merged, inputs, n_clusters)
    learned = (first, second, third, fourth)
    return Learned(
        fourth.classifier,
        [record for one in learned for record in one.history],
        sum(one.n_images for one in learned),
    )


def learn_fine_clusters(
    course: Course, encoder: nn.Module, sample: Inputs, labels: NDArray[np.int64]
) -> Learned:
    """Step 1: a classifier that starts from the trained encoder learns the graph's clusters."""
    start = encoder.state_dict(prefix="encoder.")
    return _learn(course, 0, sample, labels, int(labels.max()) + 1, start)


def cluster_coherent_part(course: Course, classifier: Classifier, sample: Inputs) -> Learned:
    """Step 2: the clear images are clustered anew, into as many, in the classifier's latent layer,
    which has learned what jitter must not change; it learns these clusters.
    """
    n_over = classifier.head.out_features
    views = range(course.config.recluster.n_views)
    seen = [_probable(course, classifier, sample, course.weak, KEY, COHERENT, v) for v in views]
    kept = coherent_part(seen, course.config.recluster)
    coherent = sample.take(kept)
    latents = (_latent(course, classifier, coherent, course.weak, KEY, LATENT, v) for v in views)
    labels = np.full(len(sample), -1)
    labels[kept] = _cluster_latents(
        latents, n_over, config=course.config.clustering, seed=course.seed
    )
    start = classifier.encoder.state_dict(prefix="encoder.")
    return _learn(course, 1, sample, labels, n_over, start)


def merge_confused(
    course: Course, classifier: Classifier, sample: Inputs, n_clusters: int
) -> NDArray[np.int64]:
    """Step 3: of the images that are clear under strong jitter, the clusters that weak jitter
    confuses become one until `n_clusters` are left; -1 are the unclear images.
    """
    strong = course.config.refinement_jitter
    views = range(course.config.recluster.n_views)
    seen = [_probable(course, classifier, sample, strong, KEY, CLEAR, v) for v in views]
    kept = coherent_part(seen, course.config.recluster)
    clear = sample.take(kept)
    seen = [_probable(course, classifier, clear, course.weak, KEY, CONFUSED, v) for v in views]
    smoothing = course.config.refinement.label_smoothing
    labels = np.full(len(sample), -1)
    labels[kept] = merge_views(seen, n_clusters, smoothing=smoothing)
    return labels


def learn_merged(
    course: Course,
    classifier: Classifier,
    sample: Inputs,
    labels: NDArray[np.int64],
    inputs: Inputs,
    n_clusters: int,
) -> tuple[Learned, Learned]:
    """Step 4: the classifier learns the merged clusters, then labels all images itself, epoch by
    epoch, and learns from the most confident of each cluster.
    """
    start = classifier.encoder.state_dict(prefix="encoder.")
    held = _learn(course, 2, sample, labels, n_clusters, start)
    unknown = np.zeros(len(inputs), dtype=np.int64)
    start = held.classifier.state_dict()
    free = _learn(course, 3, inputs, unknown, n_clusters, start, is_free=True)
    return held, free


def _learn(
    course: Course,
    step: int,
    inputs: Inputs,
    labels: NDArray[np.int64],
    n_clusters: int,
    start: dict[str, Tensor],
    *,
    is_free: bool = False,
) -> Learned:
    """Learn labels (-1: none) from these weights on. They are held, unless it `is_free`: then the
    classifier labels all images itself, anew in each epoch.
    """
    settings = course.config.recluster
    stage = f"{STAGE}-{step}"
    key = (course.seed, KEY + step)
    shares = FREE_SHARES if is_free else HELD_SHARES
    batch_size = settings.final_batch_size if is_free else settings.batch_size
    student = _student(start, labels, n_clusters, inputs=inputs, config=course.config, key=key)
    place(student.classifier, course.device)
    place(student.average, course.device)
    # small sets are shown more often, so that every learning has its least number of steps
    least = settings.min_steps * settings.batch_size
    n_wanted = max(int((labels >= 0).sum()) * sum(shares), least)
    lessons = Lessons(
        n_epochs=len(shares),
        n_steps=math.ceil(n_wanted / batch_size / len(shares)),
        batch_size=batch_size,
        learning_rate=settings.learning_rate,
    )
    select = partial(_select, course, step, student, inputs, shares, is_free)
    task = student_task(stage, student, inputs, select, lessons, config=course.config, key=key)
    hooks = course.hooks
    history = run_loop(task, on_progress=hooks.progress, checkpoint=hooks.checkpoint(stage))
    n_images = task.n_epochs * task.n_steps * batch_size
    return Learned(student.average.eval(), history, n_images)


def _select(
    course: Course,
    step: int,
    student: Student,
    inputs: Inputs,
    shares: tuple[float, ...],
    is_free: bool,
    epoch: int,
    is_new: bool,
) -> Tensor:
    """The rows that are learned in an epoch: the share of each cluster that the average, over this
    look and the earlier ones, is most sure of.
    """
    belief = student.get_buffer("belief")
    if is_new and shares[epoch] < 1:
        look = (KEY + step, BELIEF, epoch)
        probable = _probable(course, student.average, inputs, course.weak, *look)
        seen = torch.from_numpy(probable)
        belief.copy_((belief + seen) / 2 if belief.any() else seen)
        if is_free:
            student.labels.copy_(belief.argmax(dim=1))
    own = belief.gather(1, student.labels.clamp(min=0)[:, None])[:, 0]
    chosen = most_confident(student.labels.numpy(), own.numpy(), shares[epoch])
    return torch.from_numpy(np.flatnonzero(chosen))


def _student(
    start: dict[str, Tensor],
    labels: NDArray[np.int64],
    n_clusters: int,
    *,
    inputs: Inputs,
    config: Config,
    key: tuple[int, int],
) -> Student:
    """A student that starts from these weights (without those of a head: from a new one) and
    remembers what it believes.
    """
    build = partial(
        build_classifier,
        replace(config.network, dropout_1=0.0, dropout_2=0.0),
        shape=inputs.preparation.shape,
        n_clusters=n_clusters,
        generator=derive_generator("student", *key),
        modality=inputs.modality,
        precision=config.precision,
    )
    classifier = build()
    average = build()
    classifier.load_state_dict(start, strict=False)
    student = Student(classifier, average, torch.tensor(labels))
    student.register_buffer("belief", torch.zeros(len(labels), n_clusters))
    return student


def _probable(
    course: Course, classifier: Classifier, inputs: Inputs, config: JitterConfig, *stream: int
) -> Probable:
    """Probabilities of the clusters in one jittered view of each image."""
    generator = derive_generator("look", course.seed, *stream)
    look = partial(inputs.view, config=config, generator=generator)
    (probable,) = infer_all(
        classifier, lambda batch: (classifier(batch).softmax(dim=1),), inputs, look=look
    )
    return probable


def _latent(
    course: Course, classifier: Classifier, inputs: Inputs, config: JitterConfig, *stream: int
) -> NDArray[np.float32]:
    """The classifier's latent layer in one jittered view of each image."""
    generator = derive_generator("look", course.seed, *stream)
    look = partial(inputs.view, config=config, generator=generator)
    (latent,) = infer_all(classifier, lambda batch: (classifier.encode(batch),), inputs, look=look)
    return latent


def _cluster_latents(
    latents: Iterator[NDArray[np.float32]], n_clusters: int, *, config: ClusteringConfig, seed: int
) -> NDArray[np.int64]:
    """Spectral clusters of the sum of the views' neighbour graphs."""
    sizes = {"n_neighbours": config.n_neighbours, "n_components": config.n_components}
    units = (
        latent / np.maximum(np.linalg.norm(latent, axis=1, keepdims=True), 1e-12)
        for latent in latents
    )
    graph: Any = sum(neighbour_graph(unit, **sizes, seed=seed) for unit in units)
    n_clusters = min(n_clusters, graph.shape[0])
    found = spectrum(csr_array(graph), n_clusters)
    return spectral_clusters(found, n_clusters, n_init=config.n_init, seed=seed)
