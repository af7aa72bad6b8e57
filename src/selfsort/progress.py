"""How far something is: bars where somebody watches, a line every few seconds in a log."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from selfsort.errors import TrainingStopped
from selfsort.text import duration

LOG_SECONDS = 5.0
"""In a log, a step that takes long has a line about this often."""

MOST_BARS = 10
"""Progress bars that are shown at a time; older ones make room."""

SHORT_NAMES = {
    "loss": "loss",
    "classification": "class",
    "affinity": "α",
    "balance": "β",
    "pseudo_accuracy": "pseudo acc",
    "target_accuracy": "targets",
}


class Bars:
    """Progress bars on standard error: one for training, one per stage after it."""

    def __init__(self, display: Any, say: Callable[[str], object]) -> None:
        self.display = display
        self.say = say
        self.tasks: dict[str, Any] = {}
        self.is_shown = not display.disable
        self.told: dict[str, float] = {}
        """In a log: when a line was written about each step that is under way."""

    def training(self, stopped: list[int], progress: Any) -> bool:
        """A training step is done, as a `training.loop.Progress` says; answers whether to stop."""
        record = progress.record
        done = (record.epoch - 1) * progress.n_steps + progress.step
        terms = "  ".join(
            f"{SHORT_NAMES[name]} {value:.3f}"
            for name, value in record.terms.items()
            if name in SHORT_NAMES
        )
        detail = (
            f"{record.epoch}/{progress.n_epochs}  {terms}  "
            f"{progress.images_per_second:,.0f} img/s  {duration(progress.seconds_left)} left"
        )
        is_epoch = progress.step == progress.n_steps
        is_last = is_epoch and record.epoch == progress.n_epochs
        self._show(record.stage, done, progress.n_epochs * progress.n_steps, detail)
        if is_epoch:
            self._log(record.stage, detail, is_last)
        return bool(stopped)

    def stage(self, name: str, done: int, total: int, *, stopped: Sequence[int] = ()) -> None:
        """So much of a stage is done."""
        if stopped:
            raise TrainingStopped(f"stopped ({name}).")
        detail = f"{done:,}/{total:,}"
        self._show(name, done, total, detail)
        self.told.setdefault(name, time.monotonic())  # nothing is said of what is done at once
        self._log(name, detail, is_last=False)

    def _log(self, name: str, detail: str, is_last: bool) -> None:
        """A line every few seconds, and the last one, where nobody sees the bars."""
        now = time.monotonic()
        is_due = is_last or now - self.told.get(name, -math.inf) >= LOG_SECONDS
        if is_due and not self.is_shown:
            self.told[name] = now
            self.say(f"{name} {detail}")

    def _show(self, name: str, done: int, total: int, detail: str) -> None:
        if name not in self.tasks:
            shown = [task.id for task in self.display.tasks if task.visible]
            for oldest in shown[: max(0, len(shown) + 1 - MOST_BARS)]:
                self.display.update(oldest, visible=False)
            self.tasks[name] = self.display.add_task(name, total=total, detail=detail)
        self.display.update(self.tasks[name], completed=done, total=total, detail=detail)


@contextmanager
def progress_bars(say: Callable[[str], object]) -> Iterator[Bars]:
    """Bars on standard error or in a notebook; `say` gets the lines of a log where neither is."""
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as Display

    columns = (
        TextColumn("{task.description:21}"),
        BarColumn(bar_width=16),
        TextColumn("{task.fields[detail]}"),
    )
    console = Console(stderr=True)
    is_shown = console.is_terminal or (console.is_jupyter and find_spec("ipywidgets") is not None)
    with Display(*columns, console=console, disable=not is_shown) as display:
        yield Bars(display, say)
