"""The training loop that every learning stage shares, read top to bottom; it tells the outside
through one hook.
"""

import math
import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from selfsort.container import damaged
from selfsort.errors import ConfigError, TrainingError, TrainingStopped
from selfsort.files import make_folder
from selfsort.method.encoder import device_of
from selfsort.training.checkpoint import load_checkpoint, save_checkpoint

CHECKPOINT_SECONDS = 120.0
"""How often a checkpoint is written, unless SELFSORT_CHECKPOINT_SECONDS says otherwise."""

WARM_UP = 0.25
"""Share of the training in which the learning rate of the one-cycle schedule rises."""


REMEDY = (
    "use a smaller learning_rate (training.learning_rate, refinement.learning_rate or "
    "recluster.learning_rate) "
    "or objective.affinity_weight."
)


@dataclass(frozen=True)
class EpochRecord:
    """Means over one epoch of a stage (or, while it runs, over its steps so far); `terms` begins
    with the loss.
    """

    stage: str
    epoch: int
    terms: dict[str, float]


@dataclass(frozen=True)
class Progress:
    """Told after every step; `record` covers the epoch so far, and the whole epoch when `step`
    equals `n_steps`.
    """

    record: EpochRecord
    n_epochs: int
    step: int
    n_steps: int
    images_per_second: float
    seconds_left: float


Hook = Callable[[Progress], bool | None]
"""Called after every step; returning True stops training after a checkpoint is written."""


@dataclass(frozen=True)
class Task:
    """What a stage hands to the loop.

    `batches(epoch, start)` yields an epoch's batches from the given one on, `loss(batch)` a batch's
    terms, of which the first is minimised. All state that training changes is in `module`,
    `optimizer` and `generator`; `job` tells whether a checkpoint belongs to this task. `give_up`
    is asked after each epoch whether the rest is worth while.
    """

    stage: str
    module: nn.Module
    optimizer: torch.optim.Optimizer
    generator: torch.Generator
    n_epochs: int
    n_steps: int
    batches: Callable[[int, int], Iterable[Any]]
    loss: Callable[[Any], Mapping[str, Tensor]]
    learning_rate: Callable[[float], float]
    job: Mapping[str, Any]
    after_step: Callable[[], None] = lambda: None
    give_up: Callable[[list[EpochRecord]], bool] = lambda history: False


def one_cycle(peak: float, done: float) -> float:
    """The learning rate when the share `done` of the training is done: up to the peak, then down to
    nothing.

    >>> [round(one_cycle(1e-3, done), 6) for done in (0, 0.25, 0.625, 1)]
    [4e-05, 0.001, 0.0005, 0.0]
    """
    if done < WARM_UP:
        return peak * (0.04 + 0.96 * done / WARM_UP)
    return peak * (1 + math.cos(math.pi * (done - WARM_UP) / (1 - WARM_UP))) / 2


def training_flops(module: nn.Module, shape: tuple[int, ...]) -> int:
    """Floating-point operations to train on one image of this shape: three times those of the
    forward pass (6 per multiply-add).
    """
    was_training = module.training
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        module.eval()(torch.zeros(1, *shape, device=device_of(module)))
    module.train(was_training)
    return 3 * int(counter.get_total_flops())


def run_loop(
    task: Task, *, on_progress: Hook | None = None, checkpoint: Path | None = None
) -> list[EpochRecord]:
    """Train `task.module` in place and return one record per epoch.

    With `checkpoint`, training resumes where that file says if it exists, and writes it every few
    minutes, when stopped and at the end.
    """
    history: list[EpochRecord] = []
    start = 0
    sums = torch.zeros(0, dtype=torch.float64)
    begin = time.monotonic()
    interval = checkpoint_seconds()
    if checkpoint and checkpoint.exists():
        progress = load_checkpoint(
            checkpoint, task.module, task.optimizer, task.generator, task.job
        )
        try:
            history = [EpochRecord(**record) for record in progress["history"]]
            start = int(progress["step"])
            sums = torch.tensor(progress["sums"], dtype=torch.float64)
            begin -= float(progress["seconds"])
        except (KeyError, TypeError, ValueError) as error:
            raise damaged(checkpoint, error) from error
    elif checkpoint:
        make_folder(checkpoint.parent)

    def save(step: int) -> None:
        if any(
            not tensor.isfinite().all()
            for tensor in task.module.state_dict().values()
            if tensor.is_floating_point()
        ):
            raise TrainingError(f"{task.stage}: weights are NaN or infinite; {REMEDY}")
        if checkpoint:
            state = {
                "job": task.job,
                "history": [asdict(record) for record in history],
                "step": step,
                "sums": sums.tolist(),
                "seconds": round(time.monotonic() - begin, 3),
            }
            save_checkpoint(checkpoint, task.module, task.optimizer, task.generator, state)

    n_steps = task.n_steps
    n_all = task.n_epochs * n_steps
    was_finished = len(history) == task.n_epochs or (start == 0 and task.give_up(history))
    clock = _Clock(n_all - len(history) * n_steps - start)
    last_saved = time.monotonic()
    for epoch in range(len(history), len(history) if was_finished else task.n_epochs):
        for step, batch in enumerate(task.batches(epoch, start), start=start + 1):
            for group in task.optimizer.param_groups:
                group["lr"] = task.learning_rate((epoch * n_steps + step - 1) / n_all)
            terms = task.loss(batch)
            task.optimizer.zero_grad()
            loss, *_ = terms.values()
            loss.backward()  # type: ignore[no-untyped-call]
            values = torch.stack([term.detach() for term in terms.values()]).cpu().double()
            if not math.isfinite(values[0].item()):
                raise TrainingError(
                    f"{task.stage}: the loss is {values[0].item()} in epoch {epoch + 1}; {REMEDY}"
                )
            task.optimizer.step()
            task.after_step()
            sums = sums + values if len(sums) else values
            record = EpochRecord(
                task.stage, epoch + 1, dict(zip(terms, (sums / step).tolist(), strict=True))
            )
            if step == n_steps:
                history.append(record)
                sums = torch.zeros(0, dtype=torch.float64)
            clock.tick(len(batch[0]))
            stop = on_progress and on_progress(
                Progress(
                    record,
                    task.n_epochs,
                    step,
                    n_steps,
                    clock.images_per_second,
                    clock.seconds_left,
                )
            )
            if stop or time.monotonic() - last_saved > interval:
                save(step % n_steps)
                last_saved = time.monotonic()
            if stop:
                raise TrainingStopped(
                    f"{task.stage} stopped in epoch {epoch + 1} of {task.n_epochs}, step {step} "
                    f"of {n_steps}."
                )
        start = 0
        if task.give_up(history):
            break
    if not was_finished:
        save(0)
    return history


def checkpoint_seconds() -> float:
    """The seconds between two checkpoints, as the environment has it."""
    text = os.environ.get("SELFSORT_CHECKPOINT_SECONDS") or str(CHECKPOINT_SECONDS)
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not seconds >= 0:
        raise ConfigError(f"SELFSORT_CHECKPOINT_SECONDS={text} should be a number >= 0.")
    return seconds


class _Clock:
    """Speed over the steps of this process, and the time that the rest will take at that speed."""

    def __init__(self, n_steps: int) -> None:
        self.begin = time.monotonic()
        self.steps_left = n_steps
        self.steps_done = 0
        self.images_done = 0

    def tick(self, n_images: int) -> None:
        self.steps_left -= 1
        self.steps_done += 1
        self.images_done += n_images
        elapsed = max(time.monotonic() - self.begin, 1e-9)
        self.images_per_second = self.images_done / elapsed
        self.seconds_left = elapsed / self.steps_done * self.steps_left
