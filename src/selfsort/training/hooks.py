"""What a caller lends to a fit: ears, a folder for checkpoints, a device, own transformations."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from selfsort.method.transforms import TransformSet
from selfsort.training.loop import Hook, Progress

StageHook = Callable[[str, int, int], None]
"""Called as (stage, done, total) during the steps after training; first with nothing done."""


@dataclass(frozen=True)
class Hooks:
    """`transforms` replace those that the configuration names; `suffix` ends the names of stages
    and checkpoints, where one fit is part of another.
    """

    on_progress: Hook | None = None
    on_stage: StageHook | None = None
    folder: Path | None = None
    device: str = "auto"
    transforms: TransformSet | None = None
    suffix: str = ""

    def checkpoint(self, stage: str) -> Path | None:
        """The checkpoint file of a learning stage."""
        return self.folder / f"{stage}{self.suffix}.safetensors" if self.folder else None

    def tell(self, name: str, done: int, total: int) -> None:
        """So much of a step is done."""
        if self.on_stage:
            self.on_stage(name + self.suffix, done, total)

    def stage(self, name: str) -> Callable[[int, int], None] | None:
        """What is told (done, total) while a step lasts."""
        return partial(self.tell, name) if self.on_stage else None

    def progress(self, progress: Progress) -> bool | None:
        """One step is done; True stops the training."""
        record = replace(progress.record, stage=progress.record.stage + self.suffix)
        return self.on_progress(replace(progress, record=record)) if self.on_progress else None
