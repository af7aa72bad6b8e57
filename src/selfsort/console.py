"""What a person sees in the terminal: progress bars, tables, one-line notices; and Ctrl-C as a polite request."""

import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from selfsort.errors import TrainingStopped

if TYPE_CHECKING:
    from rich.console import Console

    from selfsort.loop import Progress
    from selfsort.metrics import Scores

MOST_BARS = 10
"""Progress bars that are shown at a time; older ones make room."""

SHORT_NAMES = {
    "loss": "loss",
    "classification": "class",
    "affinity": "α",
    "balance": "β",
    "pseudo_accuracy": "pseudo acc",
    "agreement": "agreement",
}


def say(message: str) -> None:
    click.echo("\n".join(map(printable, message.split("\n"))), err=True)


def printable(text: str) -> str:
    r"""Text in which a file's name cannot steer the terminal.

    >>> printable("\x1b[31mred")
    '\\x1b[31mred'
    """
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


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
            table.add_row(name, *(f"{100 * value:.2f} %" for value in (values.accuracy, values.purity, values.nmi, values.ari)))
        console.print(table)
    if label_free:
        silhouette = label_free["silhouette"]
        console.print(
            f"without truth: silhouette {'–' if silhouette is None else f'{silhouette:.3f}'}, "
            f"{label_free['active_duplicates']} duplicates in use, cluster sizes {label_free['cluster_sizes']}"
        )


@contextmanager
def stop_signal() -> Iterator[list[int]]:
    """Within, the first Ctrl-C or SIGTERM asks to stop after the step at hand; a second one stops at once."""
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

    def training(self, stopped: list[int], progress: "Progress") -> bool:
        """One training step is done; answers whether to stop."""
        record = progress.record
        done = (record.epoch - 1) * progress.n_steps + progress.step
        terms = "  ".join(f"{SHORT_NAMES[name]} {value:.3f}" for name, value in record.terms.items() if name in SHORT_NAMES)
        detail = (
            f"{record.epoch}/{progress.n_epochs}  {terms}  "
            f"{progress.images_per_second:,.0f} img/s  {duration(progress.seconds_left)} left"
        )
        self._show(record.stage, done, progress.n_epochs * progress.n_steps, detail)
        if progress.step == progress.n_steps and not self.display.console.is_terminal:
            say(f"{record.stage} {detail}")
        return bool(stopped)

    def stage(self, name: str, done: int, total: int, *, stopped: Sequence[int] = ()) -> None:
        """So much of a stage is done."""
        if stopped:
            raise TrainingStopped("stopped after training.")
        self._show(name, done, total, f"{done:,}/{total:,}")

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

    columns = TextColumn("{task.description:21}"), BarColumn(bar_width=16), TextColumn("{task.fields[detail]}")
    console = Console(stderr=True)
    with Display(*columns, console=console, disable=not console.is_terminal) as display:
        yield Bars(display)


def duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s" if minutes else f"{rest} s"
