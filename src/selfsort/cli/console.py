"""What a person sees in the terminal: progress bars, tables, one-line notices; and Ctrl-C as a
polite request.
"""

import math
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from selfsort.cli.remedies import in_flags
from selfsort.errors import TrainingStopped
from selfsort.text import duration, printable

if TYPE_CHECKING:
    from rich.console import Console

    from selfsort.metrics import Scores
    from selfsort.training.loop import Progress
    from selfsort.workflow.images import Callbacks
    from selfsort.workflow.profile import Profile

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


def say(message: str) -> None:
    """One line on standard error."""
    click.echo(printable(in_flags(message)), err=True)


def echo(*lines: str) -> None:
    """Lines on standard output; whatever a file has put into one of them stays on it, escaped."""
    for line in lines:
        click.echo(printable(in_flags(line)))


def print_written(files: Sequence[str]) -> None:
    """Which files were written, the last thing that a command says."""
    for number, file in enumerate(files):
        echo(f"{'      ' if number else 'wrote '}{file}")


def table_console() -> "Console":
    """Standard output for tables, in which names are shown as they are."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else 120, markup=False, highlight=False)


def print_scores(scores: dict[str, "Scores"], label_free: dict[str, Any]) -> None:
    from rich.table import Table

    console = table_console()
    if scores:
        table = Table("images", "ACC", "purity", "NMI", "ARI")
        for name, values in scores.items():
            table.add_row(
                printable(name),
                *(
                    f"{100 * value:.2f} %"
                    for value in (values.accuracy, values.purity, values.nmi, values.ari)
                ),
            )
        console.print(table)
    if label_free:
        silhouette = label_free["silhouette"]
        console.print(
            f"without truth: silhouette {'–' if silhouette is None else f'{silhouette:.3f}'}, "
            f"{label_free['active_duplicates']} duplicates in use, cluster sizes "
            f"{label_free['cluster_sizes']}"
        )


def print_profile(profile: "Profile") -> None:
    """What each stage of a command has taken, and all of them."""
    from rich.table import Table

    table = Table("stage", "seconds", "CPU seconds", "share", "GFLOP", "GFLOP/s")
    for column in table.columns[1:]:
        column.justify = "right"
    for name, spent in (profile.stages | {"all": profile.total}).items():
        table.add_row(
            name,
            f"{spent.wall:.1f}",
            f"{spent.cpu:.1f}",
            f"{spent.cpu / profile.total.cpu:.0%}",
            f"{spent.flops / 1e9:,.0f}",
            f"{spent.flops / 1e9 / max(spent.cpu, 1e-9):.0f}",
        )
    table_console().print(table)


@contextmanager
def stop_signal() -> Iterator[list[int]]:
    """Within, the first Ctrl-C or SIGTERM asks to stop after the step at hand; a second one stops
    at once.
    """
    received: list[int] = []

    def note(number: int, frame: Any) -> None:
        if received:
            raise KeyboardInterrupt
        received.append(number)

    previous = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


class Bars:
    """Progress bars on standard error: one for training, one per stage after it."""

    def __init__(self, display: Any) -> None:
        self.display = display
        self.tasks: dict[str, Any] = {}
        self.is_shown = display.console.is_terminal
        self.told: dict[str, float] = {}
        """In a log: when a line was written about each step that is under way."""

    def training(self, stopped: list[int], progress: "Progress") -> bool:
        """One training step is done; answers whether to stop."""
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
            say(f"{name} {detail}")

    def _show(self, name: str, done: int, total: int, detail: str) -> None:
        if name not in self.tasks:
            shown = [task.id for task in self.display.tasks if task.visible]
            for oldest in shown[: max(0, len(shown) + 1 - MOST_BARS)]:
                self.display.update(oldest, visible=False)
            self.tasks[name] = self.display.add_task(name, total=total, detail=detail)
        self.display.update(self.tasks[name], completed=done, total=total, detail=detail)


@contextmanager
def progress_bars() -> Iterator[Bars]:
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as Display

    columns = (
        TextColumn("{task.description:21}"),
        BarColumn(bar_width=16),
        TextColumn("{task.fields[detail]}"),
    )
    console = Console(stderr=True)
    with Display(*columns, console=console, disable=not console.is_terminal) as display:
        yield Bars(display)


@contextmanager
def callbacks() -> "Iterator[Callbacks]":
    """Bars and notices for a call of the library; Ctrl-C and SIGTERM ask it to stop."""
    from selfsort.workflow.images import Callbacks

    with progress_bars() as bars, stop_signal() as stopped:
        yield Callbacks(partial(bars.training, stopped), partial(bars.stage, stopped=stopped), say)
