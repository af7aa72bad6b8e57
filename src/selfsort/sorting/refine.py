"""A classifier learns the clusters from the clusters themselves, under stronger jitter, and
corrects them.

Wrong labels are few and scattered, so a short training under strong jitter learns what the images
of a cluster share before it could learn the exceptions.
"""

from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from selfsort.config import Config
from selfsort.method.encoder import place
from selfsort.method.inputs import Inputs
from selfsort.method.seeds import derive_generator
from selfsort.sorting.classifier import Classifier, build_classifier, probabilities
from selfsort.sorting.merging import most_confident
from selfsort.sorting.self_training import Lessons, Student, student_task
from selfsort.training.hooks import Hooks
from selfsort.training.loop import EpochRecord, run_loop

STAGE = "refinement"

ANCHORED = 0.2
"""Share of a batch that are images whose class is known."""


class Known(NamedTuple):
    """What is known of the images: the clusters that each may belong to (images × clusters), those
    whose class is known, and the share of the others that is likely to be right at first.
    """

    allowed: NDArray[np.bool_]
    anchors: NDArray[np.intp]
    sure: float = 1.0


def refine(
    inputs: Inputs,
    labels: NDArray[np.int64],
    *,
    n_clusters: int,
    config: Config,
    seed: int,
    device: torch.device | str = "cpu",
    known: Known | None = None,
    hooks: Hooks | None = None,
) -> tuple[Classifier, list[EpochRecord]]:
    """A classifier that was trained on `labels` (-1: none yet) and, from the second round on, on
    its own predictions, as far as they keep to what is `known`.
    """
    settings = config.refinement
    hooks = hooks or Hooks()
    generator = derive_generator("classifier", seed)
    build = partial(
        build_classifier,
        settings,
        shape=inputs.preparation.shape,
        n_clusters=n_clusters,
        generator=generator,
        modality=inputs.modality,
        precision=config.precision,
    )
    classifier = build()
    average = build()
    place(classifier, device)
    place(average, device)
    # a copy of the labels: each round writes its own
    student = Student(classifier, average, torch.tensor(labels))
    lessons = Lessons(
        n_epochs=settings.rounds,
        n_steps=max(1, settings.steps // settings.rounds),
        batch_size=settings.batch_size,
        learning_rate=settings.learning_rate,
    )
    both_signs = config.refinement_jitter.invert
    select = partial(
        _select,
        student=student,
        inputs=inputs,
        lessons=lessons,
        both_signs=both_signs,
        seed=seed,
        known=known,
    )
    task = student_task(STAGE, student, inputs, select, lessons, config=config, key=(seed,))
    history = run_loop(task, on_progress=hooks.progress, checkpoint=hooks.checkpoint(STAGE))
    return student.average.eval(), history


def _select(
    epoch: int,
    is_new: bool,
    *,
    student: Student,
    inputs: Inputs,
    lessons: Lessons,
    both_signs: bool,
    seed: int,
    known: Known | None,
) -> Tensor:
    """All labelled rows; each round but the first begins with labels from the average, of no more
    images than the round will see.
    """
    if epoch and is_new:
        draw = derive_generator("refined images", seed, epoch)
        n_seen = lessons.n_steps * lessons.batch_size
        rows = torch.randperm(len(inputs), generator=draw)[:n_seen].sort().values
        sample = inputs.take(rows.numpy()) if len(rows) < len(inputs) else inputs
        probable = probabilities(student.average, sample, both_signs=both_signs)
        student.labels.fill_(-1)
        if known is None:
            student.labels[rows] = torch.from_numpy(probable.argmax(axis=1))
        else:
            labels = keep_to(known, probable, rows.numpy(), epoch / max(1, lessons.n_epochs - 1))
            student.labels[rows] = torch.from_numpy(labels)
    chosen = (student.labels >= 0).nonzero()[:, 0]
    if known is None or not len(known.anchors):
        return chosen
    anchors = torch.from_numpy(known.anchors)
    student.labels[anchors] = torch.from_numpy(known.allowed[known.anchors].argmax(axis=1))
    times = max(1, round(ANCHORED / (1 - ANCHORED) * len(chosen) / len(anchors)))
    return torch.cat([chosen, anchors.repeat(times)])


def keep_to(
    known: Known, probable: NDArray[np.float32], rows: NDArray[np.intp], done: float
) -> NDArray[np.int64]:
    """The most probable cluster that each image may belong to; -1 for those that are not clear
    enough yet, when the share `done` of the rounds is over. In the end all are.
    """
    possible = probable * known.allowed[rows]
    possible /= np.maximum(possible.sum(axis=1, keepdims=True), 1e-12)
    labels = possible.argmax(axis=1)
    share = known.sure + (1 - known.sure) * done
    return np.where(most_confident(labels, possible.max(axis=1), share), labels, -1)
