"""Reads files with a limit, writes them so that each appears whole or not at all, and keeps a
folder to one process.
"""

import errno
import json
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from typing import Any

from selfsort.errors import DataError, SelfsortError

TEMPORARY = ".selfsort-"
"""How the names of files begin that are still being written; one may be left behind when a process
is killed.
"""

LOCK = ".selfsort.lock"

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EIO}
"""What a disk says that is full or ill."""

MAX_ARRAY_BYTES = min(
    8 * 2**30,
    os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    if hasattr(os, "sysconf")
    else 2**31,
)
"""Arrays that must be read whole are refused above this size, before memory is taken for them."""


def open_file(path: Path, *, limit: int | None = None) -> BufferedReader:
    """Open a file of ours for reading: a regular file of at most `limit` bytes.

    A pipe or a device in its place is refused instead of read for ever.
    """
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("not a regular file")
        if limit is not None and status.st_size > limit:
            raise ValueError(f"{status.st_size:,} bytes are more than the limit of {limit:,}")
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def read_file(path: Path, *, limit: int) -> bytes:
    """All bytes of such a file, and no more than `limit` even if it grows meanwhile."""
    with open_file(path, limit=limit) as file:
        return file.read(limit)


def save_bytes(path: Path, content: bytes, *, new_folder: bool = True) -> None:
    """Write `content` to `path`: temporary file beside it, fsync, rename, fsync of the folder.

    With `new_folder` a missing folder is made, else it is an error: it has vanished.
    """
    save_pieces(path, [content], new_folder=new_folder)


def save_pieces(
    path: Path, pieces: Iterable[bytes | memoryview], *, new_folder: bool = True
) -> None:
    """The same for content that comes in pieces and need not fit into memory."""
    with _replacing(path, new_folder=new_folder) as temporary, open(temporary, "xb") as file:
        for piece in pieces:
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())


def copy_file(source: Path, path: Path) -> None:
    """Copy a file with its times, so that it appears whole or not at all."""
    try:
        file = open_file(source)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise SelfsortError(
            f"cannot copy {source}: {reason}; put it back, or sort the folder again."
        ) from error
    with file, _replacing(path, new_folder=True) as temporary, open(temporary, "xb") as copy:
        shutil.copyfileobj(file, copy)
        copy.flush()
        shutil.copystat(source, temporary)
        os.fsync(copy.fileno())


@contextmanager
def _replacing(path: Path, *, new_folder: bool) -> Iterator[Path]:
    """A name beside `path` to write to; when that is done it takes its place, and if it fails
    nothing is left of it.
    """
    # not path.name, which may be as long as names can be
    temporary = path.with_name(f"{TEMPORARY}{secrets.token_hex(8)}")
    with _one_line(path):
        if path.exists() and not path.is_file():
            raise OSError("not a regular file")
        if new_folder:
            path.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield temporary
            os.replace(temporary, path)
        except BaseException:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)


def save_text(path: Path, text: str) -> None:
    """Write `text` as UTF-8; bytes of file names that are not UTF-8 come out as they were."""
    save_bytes(path, text.encode("utf-8", "surrogateescape"))


def save_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write `content` as indented JSON."""
    save_text(path, json.dumps(content, indent=1, allow_nan=False) + "\n")


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, unless it is there."""
    with _one_line(folder):
        folder.mkdir(parents=True, exist_ok=True)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold `folder` for this process, made if it is missing, with those above it; they go again if
    nothing was put into them.

    The lock is the operating system's: it ends with the process, however that ends.
    """
    from filelock import FileLock, Timeout

    new = [place for place in (folder, *folder.parents) if not place.exists()]
    make_folder(folder)
    with _one_line(folder):
        lock = FileLock(folder / LOCK, timeout=0)
        try:
            lock.acquire()
        except Timeout as error:
            raise SelfsortError(
                f"{folder}: another selfsort is writing to it; wait for it, or choose another "
                "folder."
            ) from error
    try:
        _remove_temporary(folder)
        yield
    finally:
        # removed while it is held: whoever waits for it sees that and makes a new one
        with suppress(OSError):
            (folder / LOCK).unlink(missing_ok=True)
        lock.release()
        with suppress(OSError):
            for place in new:
                place.rmdir()


def _remove_temporary(folder: Path) -> None:
    """Remove what killed processes were writing to a folder that is locked, or to a folder in
    it.
    """
    for file in (*folder.glob(f"{TEMPORARY}*"), *folder.glob(f"*/{TEMPORARY}*")):
        if re.fullmatch(f"{re.escape(TEMPORARY)}[0-9a-f]{{16}}", file.name):
            with suppress(OSError):
                file.unlink()


def sync_folder(folder: Path) -> None:
    """Make a rename last through a loss of power, where folders can be synced."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def _one_line(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        is_full = error.errno in FULL
        remedy = "free some space or choose another place" if is_full else "choose another place"
        raise SelfsortError(f"cannot write {path}: {error.strerror or error}; {remedy}") from error


def inside(folder: Path, name: str) -> Path:
    """The file called `name` below `folder`; a name that leads out of it is refused."""
    if os.path.isabs(name) or os.pardir in Path(name).parts or "\0" in name:
        raise DataError(f"{name!r}: leads out of {folder}.")
    return folder / name


def open_regular(path: str, flags: int) -> int:
    """Opening a pipe would wait for ever, reading a device may never end."""
    handle = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
    status = os.fstat(handle)
    if stat.S_ISREG(status.st_mode) and status.st_size:
        return handle
    os.close(handle)
    # What the kernel only shows as a file seems empty, and may never end.
    raise OSError("it is empty" if stat.S_ISREG(status.st_mode) else "not a regular file")
