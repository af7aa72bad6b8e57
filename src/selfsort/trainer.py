"""The training loop, read top to bottom; it tells the outside through one hook."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from selfsort.checkpoint import load_checkpoint, save_checkpoint
from selfsort.config import Config
from selfsort.errors import ModelFileError, TrainingError, TrainingStopped
from selfsort.images import ImageSet
from selfsort.network import AcolNetwork
from selfsort.objective import LossTerms, objective
from selfsort.preparation import Preparation
from selfsort.pseudo import n_batches, pseudo_batches
from selfsort.transforms import TransformSet

CHECKPOINT_SECONDS = 120.0
"""How often a checkpoint is written."""


@dataclass(frozen=True)
class EpochRecord:
    """Means over one epoch (or, while it runs, over its steps so far)."""

    epoch: int
    loss: float
    classification: float
    affinity: float
    balance: float
    frobenius: float
    pseudo_accuracy: float


@dataclass(frozen=True)
class Progress:
    """Told after every step; `record` covers the epoch so far, and the whole epoch when `step` equals `n_steps`."""

    record: EpochRecord
    n_epochs: int
    step: int
    n_steps: int
    images_per_second: float
    seconds_left: float


Hook = Callable[[Progress], bool | None]
"""Called after every step; returning True stops training after a checkpoint is written."""


def train(
    network: AcolNetwork,
    images: ImageSet,
    *,
    preparation: Preparation,
    transforms: TransformSet,
    config: Config,
    seed: int,
    on_progress: Hook | None = None,
    checkpoint: Path | None = None,
) -> list[EpochRecord]:
    """Train `network` in place and return one record per epoch.

    With `checkpoint`, training goes on where that file says if it exists, and writes it every few minutes and when stopped.
    """
    settings = config.training
    optimizer = torch.optim.Adam(network.parameters(), lr=settings.learning_rate, fused=True)
    history: list[EpochRecord] = []
    start, sums = 0, torch.zeros(len(LossTerms._fields), dtype=torch.float64)
    job = {"config": config.to_dict(), "seed": seed, "shape": list(images.pixels.shape)}
    if checkpoint and checkpoint.exists():
        progress = load_checkpoint(checkpoint, network, optimizer)
        _check_same_job(checkpoint, progress["job"], job)
        history = [EpochRecord(**record) for record in progress["history"]]
        start, sums = progress["step"], torch.tensor(progress["sums"], dtype=torch.float64)

    def save(step: int) -> None:
        if checkpoint:
            records = [asdict(record) for record in history]
            save_checkpoint(checkpoint, network, optimizer, {"job": job, "history": records, "step": step, "sums": sums.tolist()})

    n_steps = n_batches(len(images), settings.batch_size)
    clock = _Clock(settings.epochs * n_steps - len(history) * n_steps - start)
    last_saved = time.monotonic()
    network.train()
    for epoch in range(len(history), settings.epochs):
        batches = pseudo_batches(
            images,
            preparation=preparation,
            transforms=transforms,
            batch_size=settings.batch_size,
            generator=epoch_generator(seed, epoch),
            start=start,
        )
        for step, batch in enumerate(batches, start=start + 1):
            terms = objective(network(batch.images), batch.parents, config=config.objective)
            optimizer.zero_grad()
            terms.total.backward()  # type: ignore[no-untyped-call]
            values = torch.stack([term.detach() for term in terms])
            if not math.isfinite(values[0].item()):
                raise TrainingError(
                    f"the loss is {values[0].item()} in epoch {epoch + 1}; use a smaller training.learning_rate "
                    f"(now {settings.learning_rate}) or objective.affinity_weight (now {config.objective.affinity_weight})."
                )
            optimizer.step()
            sums += values
            record = EpochRecord(epoch + 1, *(sums / step).tolist())
            if step == n_steps:
                history.append(record)
                sums.zero_()
            clock.tick(len(batch.parents))
            stop = on_progress and on_progress(
                Progress(record, settings.epochs, step, n_steps, clock.images_per_second, clock.seconds_left)
            )
            if stop or time.monotonic() - last_saved > CHECKPOINT_SECONDS:
                save(step % n_steps)
                last_saved = time.monotonic()
            if stop:
                raise TrainingStopped(f"stopped in epoch {epoch + 1} of {settings.epochs}, step {step} of {n_steps}.")
        start = 0
    save(0)
    network.eval()
    return history


def epoch_generator(seed: int, epoch: int) -> torch.Generator:
    """The generator that an epoch's order and parents are drawn from: an epoch can be entered without those before it."""
    state = np.random.SeedSequence([seed, epoch]).generate_state(1, np.uint64)
    return torch.Generator().manual_seed(int(state[0] >> np.uint64(1)))


def _check_same_job(path: Path, found: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    for name, value in wanted.items():
        if found.get(name) != value:
            raise ModelFileError(f"{path}: belongs to a run with another {name}; resume with the same one, or remove the file.")


class _Clock:
    """Speed over the steps of this process, and the time that the rest will take at that speed."""

    def __init__(self, n_steps: int) -> None:
        self.begin = time.monotonic()
        self.steps_left, self.steps_done, self.images_done = n_steps, 0, 0

    def tick(self, n_images: int) -> None:
        self.steps_left -= 1
        self.steps_done += 1
        self.images_done += n_images
        elapsed = max(time.monotonic() - self.begin, 1e-9)
        self.images_per_second = self.images_done / elapsed
        self.seconds_left = elapsed / self.steps_done * self.steps_left
