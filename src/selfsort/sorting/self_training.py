"""A classifier learns labels under strong jitter; its running average may correct them."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from selfsort.config import Config
from selfsort.method.encoder import device_of
from selfsort.method.inputs import Inputs
from selfsort.method.seeds import derive_generator
from selfsort.sorting.classifier import Classifier
from selfsort.training.loop import Task, one_cycle

AVERAGING = 0.99
"""Share of itself that the averaged classifier keeps at each step."""


class LabelledBatch(NamedTuple):
    """Jittered images and the clusters they are to be told as."""

    images: Tensor
    targets: Tensor


class Lessons(NamedTuple):
    """How long and how fast a student learns."""

    n_epochs: int
    n_steps: int
    batch_size: int
    learning_rate: float


class Student(nn.Module):
    """All that self-training changes: the classifier, its running average (the teacher) and the
    labels of this round.

    The labels stay on the CPU, wherever the two networks are.
    """

    def __init__(self, classifier: Classifier, average: Classifier, labels: Tensor) -> None:
        super().__init__()
        self.classifier = classifier
        self.average = average.requires_grad_(False)
        self.average.load_state_dict(classifier.state_dict())
        self.register_buffer("labels", labels)
        self.labels: Tensor
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))
        self.steps: Tensor

    def follow(self) -> None:
        """Move the average a little towards the classifier; faster at the start."""
        self.steps += 1
        done = int(self.steps)
        keep = min(AVERAGING, done / (done + 9))
        pairs = zip(
            self.average.state_dict().values(), self.classifier.state_dict().values(), strict=True
        )
        floats = [(mine, its) for mine, its in pairs if mine.is_floating_point()]
        torch._foreach_lerp_([mine for mine, _ in floats], [its for _, its in floats], 1 - keep)


def student_task(
    stage: str,
    student: Student,
    inputs: Inputs,
    select: Callable[[int, bool], Tensor],
    lessons: Lessons,
    *,
    config: Config,
    key: tuple[int, ...],
) -> Task:
    """Learn the student's labels of the rows that `select(epoch, is_new)` names, under
    `refinement_jitter`; `key` names its random streams.

    `select` may change the labels when an epoch is new, that is, not resumed.
    """
    device = device_of(student.classifier)
    n_steps = lessons.n_steps
    batch_size = lessons.batch_size

    def batches(epoch: int, start: int) -> Iterator[LabelledBatch]:
        rows = select(epoch, start == 0)
        draw_order = derive_generator("lesson order", *key, epoch)
        order = _endless_order(len(rows), n_steps * batch_size, draw_order)
        student.classifier.train()
        for step in range(start, n_steps):
            chosen = rows[order[step * batch_size : (step + 1) * batch_size]]
            seen = inputs.view(
                chosen.numpy(),
                device,
                config=config.refinement_jitter,
                generator=derive_generator("lesson jitter", *key, epoch, step),
            )
            yield LabelledBatch(seen, student.labels[chosen].to(device))

    def loss(batch: LabelledBatch) -> dict[str, Tensor]:
        logits = student.classifier(batch.images)
        value = functional.cross_entropy(
            logits, batch.targets, label_smoothing=config.refinement.label_smoothing
        )
        met = logits.detach().argmax(dim=1) == batch.targets
        return {"loss": value, "target_accuracy": met.float().mean()}

    return Task(
        stage=stage,
        module=student,
        optimizer=torch.optim.AdamW(student.classifier.parameters(), weight_decay=1e-3, fused=True),
        generator=student.classifier.dropout.generator,
        n_epochs=lessons.n_epochs,
        n_steps=n_steps,
        batches=batches,
        loss=loss,
        learning_rate=partial(one_cycle, lessons.learning_rate),
        job={
            "precision": student.classifier.precision,
            "config": config.to_dict(),
            "seed": key[0],
            "device": device.type,
            "images": [len(inputs), inputs.images.fingerprint()],
            "n_clusters": student.classifier.head.out_features,
        },
        after_step=student.follow,
    )


def _endless_order(n_samples: int, n_wanted: int, generator: torch.Generator) -> Tensor:
    """Random orders of all images one after the other, cut to the wanted length."""
    n_orders = -(-n_wanted // n_samples)
    orders = [torch.randperm(n_samples, generator=generator) for _ in range(n_orders)]
    return torch.cat(orders)[:n_wanted]
