"""What a person sees in the terminal: tables, one-line notices; and Ctrl-C as a polite request."""

import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from selfsort.cli.remedies import in_flags
from selfsort.progress import progress_bars
from selfsort.text import printable

if TYPE_CHECKING:
    from rich.console import Console

    from selfsort.metrics import Scores
    from selfsort.workflow.images import Callbacks
    from selfsort.workflow.profile import Profile


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
        active = label_free["active_duplicates"]
        console.print(
            f"without truth: silhouette {'–' if silhouette is None else f'{silhouette:.3f}'}, "
            + ("" if active is None else f"{active} duplicates in use, ")
            + f"cluster sizes {label_free['cluster_sizes']}"
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


@contextmanager
def callbacks() -> "Iterator[Callbacks]":
    """Bars and notices for a call of the library; Ctrl-C and SIGTERM ask it to stop."""
    from selfsort.workflow.images import Callbacks

    with progress_bars(say) as bars, stop_signal() as stopped:
        yield Callbacks(partial(bars.training, stopped), partial(bars.stage, stopped=stopped), say)
