"""Where the time of a command goes: seconds and operations of each stage, as the hooks tell them.

A hook is called when a part of a stage is done, so the time since the call before belongs to it.
The first call of a stage says that nothing of it is done yet; the time before that call belongs to
the stage before.
"""

import time
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Self

from selfsort.workflow.images import Callbacks

if TYPE_CHECKING:
    from torch.utils.flop_counter import FlopCounterMode

    from selfsort.training.loop import Progress

FIRST = "starting up"
"""What comes before the first stage: imports and checks."""


@dataclass
class Spent:
    """What a stage has taken: seconds on the clock, of all processors together, and operations of
    torch's convolutions and matrix products (2 per multiply-add).
    """

    wall: float = 0.0
    cpu: float = 0.0
    flops: int = 0


class Profile(AbstractContextManager["Profile"]):
    """Counts from its beginning to its end what each stage takes."""

    def __init__(self) -> None:
        self.stages: dict[str, Spent] = {}
        self._present = FIRST
        self._done: dict[str, int] = {}
        self._before = Spent(time.perf_counter(), 0.0)
        self._counter: FlopCounterMode | None = None

    def __enter__(self) -> Self:
        from torch.utils.flop_counter import FlopCounterMode  # slow to import, and to be counted

        self._counter = FlopCounterMode(display=False)
        self._counter.__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._spend(self._present)
        assert self._counter is not None, "it was entered"
        self._counter.__exit__(kind, error, trace)  # type: ignore[no-untyped-call]

    @property
    def total(self) -> Spent:
        """All stages together."""
        parts = zip(*(vars(spent).values() for spent in self.stages.values()), strict=True)
        return Spent(*map(sum, parts))

    def listen(self, callbacks: Callbacks) -> Callbacks:
        """Callbacks that count, and then do what these do."""

        def progress(progress: "Progress") -> bool | None:
            record = progress.record
            self._tell(record.stage, (record.epoch - 1) * progress.n_steps + progress.step)
            return callbacks.on_progress(progress)

        def stage(name: str, done: int, total: int) -> None:
            self._tell(name, done)
            callbacks.on_stage(name, done, total)

        return Callbacks(progress, stage, callbacks.tell)

    def _tell(self, stage: str, done: int) -> None:
        """So much of a stage is done; no more than before: it goes on now."""
        is_start = done == self._done.get(stage, 0)
        self._spend(self._present if is_start else stage)
        self._present = stage
        self._done[stage] = done

    def _spend(self, stage: str) -> None:
        flops = self._counter.get_total_flops() if self._counter else 0
        now = Spent(time.perf_counter(), time.process_time(), flops)
        spent = self.stages.setdefault(stage, Spent())
        spent.wall += now.wall - self._before.wall
        spent.cpu += now.cpu - self._before.cpu
        spent.flops += now.flops - self._before.flops
        self._before = now
