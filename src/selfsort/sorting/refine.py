"""A classifier learns the clusters from the clusters themselves, under stronger jitter, and
corrects them.

Wrong labels are few and scattered, so a short training under strong jitter learns what the images
of a cluster share before it could learn the exceptions.
"""

from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from selfsort.config import Config
from selfsort.method.encoder import place
from selfsort.method.inputs import Inputs
from selfsort.method.seeds import derive_generator
from selfsort.sorting.classifier import Classifier, build_classifier, probabilities
from selfsort.sorting.self_training import Lessons, Student, student_task
from selfsort.training.hooks import Hooks
from selfsort.training.loop import EpochRecord, run_loop

STAGE = "refinement"


def refine(
    inputs: Inputs,
    labels: NDArray[np.int64],
    *,
    n_clusters: int,
    config: Config,
    seed: int,
    device: torch.device | str = "cpu",
    hooks: Hooks | None = None,
) -> tuple[Classifier, list[EpochRecord]]:
    """A classifier that was trained on `labels` (-1: none yet) and, from the second round on, on
    its own predictions.
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
        _select, student=student, inputs=inputs, lessons=lessons, both_signs=both_signs, seed=seed
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
        student.labels[rows] = torch.from_numpy(probable.argmax(axis=1))
    return (student.labels >= 0).nonzero()[:, 0]
