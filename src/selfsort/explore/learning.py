"""Learning from a person's changes in the background, while the page goes on."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from starlette.concurrency import run_in_threadpool

from selfsort.errors import EditError, SelfsortError
from selfsort.runs.changes import changes_of
from selfsort.runs.folder import RunFolder
from selfsort.runs.journal import Journal
from selfsort.runs.results import load_run, start_of
from selfsort.runs.versions import accept, reject, switch, waiting

if TYPE_CHECKING:
    from selfsort.explore.session import Session

OnStage = Callable[[str, int, int], None]


class Learner(Protocol):
    """Makes a new version of the run from its edits; stops without a trace when it is told to."""

    def __call__(self, on_stage: OnStage, is_stopped: Callable[[], bool]) -> None: ...


class Learning:
    """One learning at a time for a session: whether it runs, how far it is, and how it ended."""

    def __init__(self, session: "Session", learner: Learner | None) -> None:
        self.session = session
        self.learner = learner
        self.task: asyncio.Task[None] | None = None
        self.stopped = threading.Event()
        self.progress = ""
        self.error = ""

    @property
    def is_running(self) -> bool:
        return self.task is not None and not self.task.done()

    def start(self) -> None:
        """Begin to learn; the page asks how far it is."""
        if self.learner is None:
            raise EditError("this run cannot learn here; use `selfsort learn`.")
        if self.is_running:
            raise EditError("it is learning already; wait, or stop it.")
        self.stopped.clear()
        self.error = ""
        self.progress = "loading the model"
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        assert self.learner is not None, "checked when it started"
        try:
            await run_in_threadpool(self.learner, self._tell, self.stopped.is_set)
        except SelfsortError as error:
            self.error = " ".join(str(error).split())
        except Exception as error:  # whatever it is, the page must hear that it is over
            self.error = f"learning failed ({type(error).__name__}: {error}); nothing was changed."
        finally:
            self.progress = ""

    def stop(self) -> None:
        """Ask it to stop; what it was making goes."""
        self.stopped.set()

    async def end(self) -> None:
        """Stop, and wait until it has."""
        self.stop()
        if self.task is not None:
            await self.task

    def _tell(self, stage: str, done: int, total: int) -> None:
        self.progress = f"{stage} {done:,}/{total:,}"

    async def act(self, action: str) -> str:
        """Start or stop learning, or decide on what was learned; says what was done."""
        async with self.session.turn:
            if action == "start":
                self.start()
                return "learning"
            if action == "stop":
                self.stop()
                return "stopping"
            if self.is_running:
                raise EditError("it is learning; wait until it is done, or stop it.")
            return await run_in_threadpool(self._decide, action)

    def _decide(self, action: str) -> str:
        session = self.session
        folder = session.folder
        target = session.run.learned_from if action == "rollback" else waiting(folder)
        if action not in ("accept", "reject", "rollback") or not target:
            raise EditError("there is no such version (any more); reload the page.")
        if action == "reject":
            reject(folder, target)
            return "what was learned is removed"
        known = session.journal.version
        session.journal.close()
        try:
            (accept if action == "accept" else switch)(folder, target)
        finally:
            found = load_run(folder, edited=False)
            journal = Journal(folder, start_of(RunFolder(folder), found))
            journal.version = known + 1  # the page tells by it that something has changed
            session.adopt(found.run, found.assignments, journal)
        return f"the run is version {session.run.version} now"

    def describe(self) -> dict[str, Any]:
        """What the page is told: how far it is, and what the version that is waiting would
        change.
        """
        session = self.session
        number = None if self.is_running else waiting(session.folder)
        return {
            "running": self.is_running,
            "progress": self.progress,
            "error": self.error,
            "version": session.run.version,
            "before": session.run.learned_from,
            "waiting": number,
            "pack": session.gallery.pack,
            "changes": [] if number is None else _groups(session.folder, number),
        }


def _groups(folder: Path, number: int) -> list[dict[str, Any]]:
    """The images that move, by where from and where to; the largest group first."""
    groups: dict[tuple[str, str], list[int]] = {}
    for change in changes_of(folder, number):
        groups.setdefault((change.old, change.new), []).append(change.row)
    ordered = sorted(groups.items(), key=lambda group: -len(group[1]))
    return [{"old": old, "new": new, "images": rows} for (old, new), rows in ordered]
