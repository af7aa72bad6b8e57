"""`selfsort explore`: work with the clusters of a run in the browser."""

import signal
import socket
import webbrowser
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from selfsort.cli.console import echo, say
from selfsort.cli.options import images_option
from selfsort.errors import SelfsortError

if TYPE_CHECKING:
    from collections.abc import Callable

    from selfsort.data.gallery import Gallery
    from selfsort.explore.learning import Learner
    from selfsort.runs.record import Run
    from selfsort.runs.table import Assignments
    from selfsort.training.loop import Progress
    from selfsort.workflow.learn import Pupil


@click.command("explore")
@click.argument("run", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    help="Port on 127.0.0.1.  [default: any that is free]",
)
@click.option("--no-browser", is_flag=True, help="Only print the address.")
@click.option(
    "--export-to",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for exports.  [default: DIR/export]",
)
@images_option
def command(
    run: Path, port: int, no_browser: bool, export_to: Path | None, images: Path | None
) -> None:
    """Browse, name, merge, split and correct the clusters in DIR on a local web page; Ctrl-C ends
    it.

    The edits are kept in DIR/edits.jsonl; `predict`, `report` and `score` use them. The images and
    the results of `fit` stay as they are. Only who has the printed address can use the page.
    """
    came = _notice_signals()
    import secrets
    import tempfile
    import warnings

    from selfsort.explore.app import build_app
    from selfsort.explore.server import serve
    from selfsort.explore.session import Session
    from selfsort.runs.folder import RunFolder
    from selfsort.runs.journal import Journal
    from selfsort.runs.results import load_run, start_of
    from selfsort.workflow.images import changed_since, refuse_inside, with_images

    folder = RunFolder(run)
    found = load_run(run, edited=False)
    record, assignments = found
    if len(assignments.names) != record.n_samples:
        raise SelfsortError(
            f"{run}: {folder.table.name} has {len(assignments.names):,} rows for "
            f"{record.n_samples:,} images; fit again."
        )
    with _listen(port) as listener:
        port = listener.getsockname()[1]
        journal = Journal(run, start_of(folder, found))
        with closing(journal), folder.locked():  # so that no `fit` replaces the run meanwhile
            record = with_images(record, images, assignments.names)
            if export_to:
                refuse_inside(export_to, record.reading.get("source", ""))
            gallery = open_gallery(record, assignments)
            if changed := changed_since(record, assignments.names):
                say(f"warning: {changed}")
            if n_edits := len(journal.history.edits):
                say(f"{journal.path}: {n_edits:,} edit{'s' if n_edits > 1 else ''} found")
            if journal.lost_bytes:
                say(f"{journal.path}: its last entry was never finished and is left out")
            token = secrets.token_urlsafe(24)
            app = build_app(
                Session(
                    run, record, assignments, gallery, journal, export_to, _learner(run, images)
                ),
                token=token,
                port=port,
                log=say,
            )
            address = f"http://127.0.0.1:{port}/{token}/"
            with tempfile.TemporaryDirectory(prefix="selfsort-") as private:
                echo(f"exploring {run} at {address}")
                say("whoever has this address can edit the run; Ctrl-C ends it")
                if not no_browser:
                    _open_browser(address, Path(private))
                warnings.simplefilter("ignore")  # Pillow's, about odd image files
                if came:
                    raise KeyboardInterrupt
                serve(app, listener)
            say(
                f"ended; {len(journal.history.edits):,} edits are in {journal.path}"
                if journal.size
                else "ended; nothing was edited"
            )


def _notice_signals() -> list[int]:
    """Ctrl-C and SIGTERM raise KeyboardInterrupt as long as the command runs. The list says which
    have come: a library that is being imported may swallow the exception.
    """
    came: list[int] = []

    def interrupt(number: int, frame: Any) -> None:
        came.append(number)
        raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM):
        previous = signal.signal(number, interrupt)
        click.get_current_context().call_on_close(partial(signal.signal, number, previous))
    return came


def _learner(run: Path, images: Path | None) -> "Learner":
    """Learns from the run's edits when it is asked to; only then are model and images loaded."""
    pupils: list[Pupil] = []

    def learn(
        on_stage: "Callable[[str, int, int], None]", is_stopped: "Callable[[], bool]"
    ) -> None:
        from selfsort.workflow.images import Callbacks
        from selfsort.workflow.learn import Pupil

        if not pupils:
            pupils.append(Pupil(run, images=images))
        pupils[0].learn(Callbacks(on_stage=on_stage, on_progress=_steps(on_stage)), is_stopped)

    return learn


def _steps(on_stage: "Callable[[str, int, int], None]") -> "Callable[[Progress], None]":
    """Tells each training step as part of a stage."""

    def tell(progress: "Progress") -> None:
        done = (progress.record.epoch - 1) * progress.n_steps + progress.step
        on_stage(progress.record.stage, done, progress.n_epochs * progress.n_steps)

    return tell


def open_gallery(run: "Run", assignments: "Assignments") -> "Gallery":
    """Image files are read when they are looked at; everything else is read now."""
    from selfsort.data.folder import FOLDER_SIZE
    from selfsort.data.gallery import ArrayGallery, FolderGallery, SoundGallery
    from selfsort.data.kinds import IMAGES, SOUNDS
    from selfsort.workflow.images import Callbacks, read_run_images

    galleries = {IMAGES: FolderGallery, SOUNDS: SoundGallery}
    source = Path(run.reading.get("source", ""))
    gallery = galleries.get(run.reading.get("kind") or IMAGES)
    if run.reading and source.is_dir() and gallery:
        return gallery(source, assignments.names, max(run.reading.get("size") or 0, FOLDER_SIZE))
    images = read_run_images(run, Callbacks(tell=say))
    gallery = galleries.get(images.modality)
    if images.root is not None and gallery and list(images.names) == list(assignments.names):
        return gallery(images.root, assignments.names, max(images.pixels.shape[2:]))
    return ArrayGallery(images)


def _listen(port: int) -> socket.socket:
    from selfsort.explore.server import listen

    try:
        return listen(port)
    except OSError as error:
        raise SelfsortError(
            f"port {port} cannot be used ({error.strerror}); choose another with --port."
        ) from error


def _open_browser(address: str, private: Path) -> None:
    """Through a file that only this user can read: other users see the command lines of this user's
    programs.
    """
    page = private / "open.html"
    page.write_text(
        f'<!doctype html><meta http-equiv="refresh" content="0;url={address}"><a '
        f'href="{address}">selfsort</a>\n'
    )
    if not webbrowser.open(page.as_uri()):
        say("no browser could be started; open the address yourself")
