"""A classifier learns the clusters from the clusters themselves, under stronger jitter, and corrects them.

Wrong labels are few and scattered, so a short training under strong jitter learns what the images of a cluster share before
it could learn the exceptions.
"""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from selfsort.config import Config, NetworkConfig, RefinementConfig
from selfsort.encoder import Dropout, build_encoder, device_of, initialise, place
from selfsort.images import ImageSet
from selfsort.jitter import jitter, swap_context
from selfsort.loop import EpochRecord, Hook, Task, one_cycle, run_loop
from selfsort.machine import mixed_precision
from selfsort.preparation import Preparation
from selfsort.pseudo import derive_generator
from selfsort.shapes import Images

STAGE = "refinement"
BATCH = 512
CALIBRATION_SAMPLE = 5000
AVERAGING = 0.99
"""Share of itself that the averaged classifier keeps at each step."""


class LabelledBatch(NamedTuple):
    """Jittered images and the clusters they are to be told as."""

    images: Tensor
    targets: Tensor


class Classifier(nn.Module):
    """The paper's network with one output per cluster."""

    def __init__(self, encoder: nn.Module, dropout: Dropout, head: nn.Linear) -> None:
        super().__init__()
        self.encoder = encoder
        self.dropout = dropout
        self.head = head

    def forward(self, images: Images) -> Tensor:
        """Logits, (batch, cluster)."""
        latent = self.encoder(images.contiguous(memory_format=torch.channels_last))
        logits: Tensor = self.head(self.dropout(latent))
        return logits.float()  # mixed precision ends here

    def reorder(self, order: NDArray[np.integer[Any]]) -> None:
        """Number the clusters anew: what was `order[i]` becomes i."""
        with torch.no_grad():
            self.head.weight.copy_(self.head.weight[order])
            self.head.bias.copy_(self.head.bias[order])


def build_classifier(
    config: RefinementConfig | NetworkConfig, *, channels: int, size: int, n_clusters: int, generator: torch.Generator
) -> Classifier:
    """A classifier with fresh weights drawn from `generator`; with the settings of a network, one that fits its encoder."""
    network = config if isinstance(config, NetworkConfig) else _network(config)
    with torch.random.fork_rng(devices=[]):
        encoder = build_encoder(network, channels=channels, size=size, generator=generator)
        head = nn.Linear(config.latent_width, n_clusters)
    initialise(head, generator)
    return Classifier(encoder, Dropout(config.dropout_latent, generator), head)


def _network(config: RefinementConfig) -> NetworkConfig:
    return NetworkConfig(width=config.width, latent_width=config.latent_width, batch_norm=True, dropout_1=0, dropout_2=0)


class Student(nn.Module):
    """All that refinement changes: the classifier, its running average (the teacher) and the labels of this round.

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
        pairs = zip(self.average.state_dict().values(), self.classifier.state_dict().values(), strict=True)
        floats = [(mine, its) for mine, its in pairs if mine.is_floating_point()]
        torch._foreach_lerp_([mine for mine, _ in floats], [its for _, its in floats], 1 - keep)


def refine(
    images: ImageSet,
    labels: NDArray[np.int64],
    *,
    n_clusters: int,
    preparation: Preparation,
    config: Config,
    seed: int,
    device: torch.device | str = "cpu",
    on_progress: Hook | None = None,
    checkpoint: Path | None = None,
) -> tuple[Classifier, list[EpochRecord]]:
    """A classifier that was trained on `labels` (-1: none yet) and, from the second round on, on its own predictions."""
    settings = config.refinement
    generator = derive_generator("classifier", seed)
    shape = {"channels": preparation.channels, "size": preparation.size, "n_clusters": n_clusters}
    classifier, average = (build_classifier(settings, **shape, generator=generator) for _ in range(2))
    place(classifier, device)
    place(average, device)
    student = Student(classifier, average, torch.tensor(labels))  # a copy of the labels: each round writes its own

    def select(epoch: int, is_new: bool) -> Tensor:
        if epoch and is_new:
            probable = probabilities(student.average, images, preparation=preparation, both_signs=config.refinement_jitter.invert)
            student.labels.copy_(torch.from_numpy(probable.argmax(axis=1)))
        return (student.labels >= 0).nonzero()[:, 0]

    task = student_task(
        STAGE,
        student,
        images,
        select,
        n_epochs=settings.rounds,
        n_steps=max(1, settings.steps // settings.rounds),
        batch_size=settings.batch_size,
        learning_rate=settings.learning_rate,
        preparation=preparation,
        config=config,
        key=(seed,),
    )
    history = run_loop(task, on_progress=on_progress, checkpoint=checkpoint)
    return student.average.eval(), history


def student_task(
    stage: str,
    student: Student,
    images: ImageSet,
    select: Callable[[int, bool], Tensor],
    *,
    n_epochs: int,
    n_steps: int,
    batch_size: int,
    learning_rate: float,
    preparation: Preparation,
    config: Config,
    key: tuple[int, ...],
) -> Task:
    """Learn the student's labels of the rows that `select(epoch, is_new)` names, under `refinement_jitter`.

    `select` may change the labels when an epoch is new, that is, not gone on with.
    """

    def batches(epoch: int, start: int) -> Iterator[LabelledBatch]:
        rows = select(epoch, start == 0)
        order = _endless_order(len(rows), n_steps * batch_size, derive_generator("lesson order", *key, epoch))
        student.classifier.train()
        for step in range(start, n_steps):
            chosen = rows[order[step * batch_size : (step + 1) * batch_size]]
            draw = derive_generator("lesson jitter", *key, epoch, step)
            jittered = jitter(preparation(images.read(chosen.numpy()), device), config.refinement_jitter, draw)
            seen = swap_context(jittered, config.refinement_jitter.context, draw)
            yield LabelledBatch(seen, student.labels[chosen].to(device))

    def loss(batch: LabelledBatch) -> dict[str, Tensor]:
        with mixed_precision(device):
            logits = student.classifier(batch.images)
        value = functional.cross_entropy(logits, batch.targets, label_smoothing=config.refinement.label_smoothing)
        return {"loss": value, "agreement": (logits.detach().argmax(dim=1) == batch.targets).float().mean()}

    n_clusters, device = student.classifier.head.out_features, device_of(student.classifier)
    return Task(
        stage=stage,
        module=student,
        optimizer=torch.optim.AdamW(student.classifier.parameters(), weight_decay=1e-3, fused=True),
        generator=student.classifier.dropout.generator,
        n_epochs=n_epochs,
        n_steps=n_steps,
        batches=batches,
        loss=loss,
        learning_rate=partial(one_cycle, learning_rate),
        job={
            "config": config.to_dict(),
            "seed": key[0],
            "device": device.type,
            "images": [len(images), images.fingerprint()],
            "n_clusters": n_clusters,
        },
        after_step=student.follow,
    )


def calibrate(classifier: Classifier, images: ImageSet, *, preparation: Preparation, config: Config, seed: int) -> None:
    """Scale the logits so that the mean confidence is how often a jittered image keeps its cluster; changes no label.

    That share stands in for the accuracy, which nobody knows without truth.
    """
    sample = images.take(np.random.default_rng(seed).permutation(len(images))[:CALIBRATION_SAMPLE])
    generator = derive_generator("calibration", seed)
    logits, kept = [], []
    with torch.inference_mode():
        for start in range(0, len(sample), BATCH):
            prepared = preparation(sample.read(slice(start, start + BATCH)), device_of(classifier))
            plain = _logits(classifier.eval(), prepared, both_signs=config.refinement_jitter.invert)
            moved = classifier(jitter(prepared, config.refinement_jitter, generator))
            logits.append(plain.cpu())
            kept.append((plain.argmax(dim=1) == moved.argmax(dim=1)).cpu())
    all_logits, target = torch.cat(logits), float(torch.cat(kept).float().mean())
    low, high = 0.05, 20.0
    for _ in range(40):  # the mean confidence falls as the temperature rises
        middle = (low * high) ** 0.5
        too_sure = float((all_logits / middle).softmax(dim=1).amax(dim=1).mean()) > target
        low, high = (middle, high) if too_sure else (low, middle)
    with torch.no_grad():
        classifier.head.weight.div_(low)
        classifier.head.bias.div_(low)


def _endless_order(n_samples: int, n_wanted: int, generator: torch.Generator) -> Tensor:
    """Random orders of all images one after the other, cut to the wanted length."""
    n_orders = -(-n_wanted // n_samples)
    return torch.cat([torch.randperm(n_samples, generator=generator) for _ in range(n_orders)])[:n_wanted]


def probabilities(
    classifier: Classifier,
    images: ImageSet,
    *,
    preparation: Preparation,
    both_signs: bool = False,
    on_batch: Callable[[int, int], None] | None = None,
) -> NDArray[np.float32]:
    """How probable each cluster is for each image, (images, cluster); with `both_signs` also by its negative."""
    classifier.eval()
    pieces = []
    with torch.inference_mode():
        for start in range(0, len(images), BATCH):
            prepared = preparation(images.read(slice(start, start + BATCH)), device_of(classifier))
            pieces.append(_logits(classifier, prepared, both_signs=both_signs).softmax(dim=1).cpu().numpy())
            if on_batch:
                on_batch(min(start + BATCH, len(images)), len(images))
    return np.concatenate(pieces)


def _logits(classifier: Classifier, prepared: Images, *, both_signs: bool) -> Tensor:
    logits: Tensor = classifier(prepared)
    return (logits + classifier(-prepared)) / 2 if both_signs else logits
