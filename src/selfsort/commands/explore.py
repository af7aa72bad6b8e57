"""`selfsort explore`: work with the clusters of a run in the browser."""

import os
import socket
import webbrowser
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from selfsort.commands.common import load_run_images
from selfsort.console import say
from selfsort.errors import SelfsortError

if TYPE_CHECKING:
    from selfsort.gallery import Gallery
    from selfsort.run import Assignments, Run


@click.command()
@click.argument("run", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port on 127.0.0.1.  [default: any that is free]")
@click.option("--no-browser", is_flag=True, help="Only print the address.")
def explore(run: Path, port: int, no_browser: bool) -> None:
    """Browse, name, merge, split and correct the clusters in DIR on a local web page; Ctrl-C ends it.

    The edits are kept in DIR/edits.jsonl, `predict` uses them, and the images and the results of `fit` stay as they are. Only who
    has the printed address can use the page.
    """
    import secrets
    import tempfile
    import warnings

    import uvicorn

    from selfsort.edits import State
    from selfsort.files import locked
    from selfsort.journal import Journal
    from selfsort.run import load_run
    from selfsort.server import Explorer, build_app

    record, assignments = load_run(run)
    if len(assignments.names) != record.n_samples:
        raise SelfsortError(
            f"{run}: assignments.csv has {len(assignments.names):,} rows for {record.n_samples:,} images; fit again."
        )
    with _listen(port) as listener:
        port = listener.getsockname()[1]
        journal = Journal(run, State.of(assignments.labels, record.n_clusters))
        with closing(journal), locked(run):  # so that no `fit` replaces the run meanwhile
            gallery = _open_gallery(record, assignments)
            if n_edits := len(journal.history.edits):
                say(f"{journal.path}: {n_edits:,} edit{'s' if n_edits > 1 else ''} found")
            if journal.lost_bytes:
                say(f"{journal.path}: its last entry was never finished and is left out")
            token = secrets.token_urlsafe(24)
            app = build_app(Explorer(run, record, assignments, gallery, journal), token=token, port=port, log=say)
            config = uvicorn.Config(app, log_level="error", access_log=False, server_header=False, timeout_graceful_shutdown=2)
            address = f"http://127.0.0.1:{port}/{token}/"
            with tempfile.TemporaryDirectory(prefix="selfsort-") as private:
                click.echo(f"exploring {run} at {address}")
                say("whoever has this address can edit the run; Ctrl-C ends it")
                if not no_browser:
                    _open_browser(address, Path(private))
                warnings.simplefilter("ignore")  # Pillow's, about odd image files
                with suppress(KeyboardInterrupt):
                    uvicorn.Server(config).run([listener])
            say(
                f"ended; {len(journal.history.edits):,} edits are in {journal.path}"
                if journal.size
                else "ended; nothing was edited"
            )


def _open_gallery(run: "Run", assignments: "Assignments") -> "Gallery":
    """The files of a folder are read when they are looked at; everything else is read now."""
    from selfsort.gallery import ArrayGallery, FolderGallery
    from selfsort.images import FOLDER_SIZE

    source = Path(run.reading.get("source", ""))
    if run.reading and source.is_dir():
        return FolderGallery(source, assignments.names, max(run.reading["size"] or 0, FOLDER_SIZE))
    return ArrayGallery(load_run_images(run))


def _listen(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        if os.name == "posix":  # elsewhere it would let others take the port over
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen()  # so that a browser which is faster than the server waits instead of failing
    except OSError as error:
        listener.close()
        raise SelfsortError(f"port {port} cannot be used ({error.strerror}); choose another with --port.") from error
    return listener


def _open_browser(address: str, private: Path) -> None:
    """Through a file that only this user can read: other users see the command lines of this user's programs."""
    page = private / "open.html"
    page.write_text(f'<!doctype html><meta http-equiv="refresh" content="0;url={address}"><a href="{address}">selfsort</a>\n')
    if not webbrowser.open(page.as_uri()):
        say("no browser could be started; open the address yourself")
