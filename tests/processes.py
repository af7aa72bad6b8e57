"""The command line in processes that are cheap to start and can be killed: forked from one that has
imported everything.
"""

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

MODULES = [
    "selfsort.cli.fit",
    "selfsort.workflow.fit",
    "selfsort.sorting.diagnosis",
    "selfsort.data.pictures",
    "selfsort.runs.results",
    "sklearn.datasets",
    "torch._dynamo",
]


class Command:
    """`selfsort ARGUMENTS` in a process of its own, with a checkpoint every `interval` seconds.

    With `moment` it kills itself before (odd) or after (even) so many changes of a folder, counted
    in halves.
    """

    def __init__(
        self, *arguments: object, log: Path, interval: float = 1e9, moment: int = 0
    ) -> None:
        os.environ["OMP_NUM_THREADS"] = "1"  # of the process that all are forked from
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(MODULES)
        self.log = log
        log.write_text("")
        self.process: ForkServerProcess = context.Process(
            target=_run, args=(list(map(str, arguments)), log, interval, moment)
        )
        self.process.start()

    @property
    def errors(self) -> str:
        return self.log.read_text(errors="surrogateescape")

    def wait_for(self, text: str) -> None:
        """Wait until standard error has this text, or the process has ended."""
        while text not in self.errors and self.process.is_alive():
            time.sleep(0.005)

    def signal(self, number: int) -> None:
        assert self.process.pid
        with suppress(ProcessLookupError):  # it may have ended by itself
            os.kill(self.process.pid, number)

    def end(self) -> int:
        """Wait for the end; answers the exit code."""
        self.process.join()
        assert self.process.exitcode is not None
        return self.process.exitcode


def _run(arguments: list[str], log: Path, interval: float, moment: int) -> None:
    for stream, target in ((1, os.devnull), (2, log)):
        os.dup2(os.open(target, os.O_WRONLY | os.O_APPEND), stream)
    sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w", buffering=1)
    os.environ["SELFSORT_CHECKPOINT_SECONDS"] = str(interval)
    count = 0

    def dying(function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*values: Any, **options: Any) -> Any:
            nonlocal count
            count += 2
            if count == moment + 1:
                os.kill(os.getpid(), signal.SIGKILL)
            try:
                return function(*values, **options)
            finally:
                if count == moment:
                    os.kill(os.getpid(), signal.SIGKILL)

        return wrapped

    if moment:
        os.replace, os.unlink = dying(os.replace), dying(os.unlink)
    from selfsort.cli.main import main

    main(arguments, prog_name="selfsort")
