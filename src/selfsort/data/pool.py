"""Decodes image files in processes of their own, so that a file can neither take the memory and the
time of this one nor crash it; several at a time.
"""

import atexit
import json
import math
import os
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

from selfsort.data.decode import Decoded
from selfsort.data.worker import HEADER, LARGE, MAX_TEXT, REFUSED, SOUND, Header
from selfsort.errors import DataError

MAX_WORKERS = 8
"""So that all together take no more than 8 · `MEMORY` and once `LARGE_MEMORY`."""

SECONDS = 30.0
"""How long one image may take."""

IDLE_SECONDS = 60.0
"""How long a process that has nothing to do is kept."""

CHUNK = 16
"""Files that a process is given at a time."""


def decode_files(
    files: Sequence[Path], size: int, *, fit: str = "square"
) -> Generator[Decoded | DataError, None, None]:
    """Each file as a picture of `size`, as one of `FITS` makes it (or the spectrogram of a sound),
    in their order; or the error that says why not.
    """
    import joblib  # slow to import, and not needed by the processes

    n_workers = min(MAX_WORKERS, joblib.cpu_count(), -(-len(files) // 4))
    length = max(1, min(CHUNK, len(files) // (4 * max(1, n_workers))))
    chunks = [files[start : start + length] for start in range(0, len(files), length)]
    if n_workers < 2:
        for chunk in chunks:
            yield from _decode_chunk(chunk, size, fit)
        return
    pool = ThreadPoolExecutor(n_workers)
    try:
        for answers in pool.map(lambda chunk: _decode_chunk(chunk, size, fit), chunks):
            yield from answers
    finally:
        # Also if nobody wants the rest. It must not wait: a generator that nobody closed ends in
        # whichever thread collects it, which may be one of the pool's own.
        pool.shutdown(wait=False, cancel_futures=True)


def decode_file(file: Path, size: int, *, fit: str = "square") -> Decoded:
    """One file as a picture; raises why not."""
    (answer,) = _decode_chunk([file], size, fit)
    if isinstance(answer, DataError):
        raise answer
    return answer


def _decode_chunk(files: Sequence[Path], size: int, fit: str) -> list[Decoded | DataError]:
    answers: list[Decoded | DataError] = []
    while len(answers) < len(files):  # what is left after a crash goes to another process
        with _WORKERS.one() as worker:
            answers += worker.ask(files[len(answers) :], size, fit)
    return answers


class _CrashError(Exception):
    """A process ended in the middle of an image."""


class _Worker:
    """A process that decodes; it is asked by one thread at a time."""

    def __init__(self) -> None:
        path = [os.path.abspath(place) for place in sys.path if place]
        self.place = os.getcwd()
        self.process = subprocess.Popen(
            # -P: what lies in the current folder is never imported
            [sys.executable, "-P", "-m", "selfsort.data.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # not that of the terminal: Ctrl-C is for this process alone
            process_group=0 if os.name == "posix" else None,
            stderr=subprocess.DEVNULL,  # C libraries write there what they think of a file
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(path),
                "OMP_NUM_THREADS": "1",
                "OPENBLAS_NUM_THREADS": "1",
                "MALLOC_ARENA_MAX": "1",
            },
        )
        self.deadline = math.inf
        self.is_late = False

    def ask(self, files: Sequence[Path], size: int, fit: str) -> list[Decoded | DataError]:
        """Pictures of the files, up to the first that ends the process."""
        answers: list[Decoded | DataError] = []
        try:
            # absolute if need be only: who may enter this folder need not come from its root
            is_here = self.place == os.getcwd()
            names = [os.fspath(file) if is_here else os.path.abspath(file) for file in files]
            self._send({"size": size, "fit": fit, "files": names})
            for file in files:
                self.deadline = time.monotonic() + SECONDS
                answers.append(self._answer(file, size, fit))
        except (_CrashError, OSError):
            self.close()
            reason = f"took more than {SECONDS:g} s" if self.is_late else "its decoder crashed"
            answers.append(_refusal(files[len(answers)], reason, fit))
        finally:
            self.deadline = math.inf
        return answers

    def _answer(self, file: Path, size: int, fit: str) -> Decoded | DataError:
        header = self._header(size)
        if header.kind != LARGE:
            return self._body(file, header, fit)
        self.deadline = math.inf
        with _ONE_LARGE_IMAGE:
            self.deadline = time.monotonic() + SECONDS
            self._send({})
            return self._body(file, self._header(size), fit)

    def _header(self, size: int) -> Header:
        header = Header._make(HEADER.unpack(self._read(HEADER.size)))
        most = MAX_TEXT if header.kind == REFUSED else size
        if header.kind > LARGE or header.width > size or header.height > most:
            raise _CrashError  # whatever it is now, it is not our program
        return header

    def _body(self, file: Path, header: Header, fit: str) -> Decoded | DataError:
        if header.kind == REFUSED:
            return _refusal(file, self._read(header.height).decode("utf-8", "replace"), fit)
        pixels = np.frombuffer(self._read(3 * header.height * header.width), dtype=np.uint8)
        return Decoded(
            pixels.reshape(header.height, header.width, 3),
            bool(header.is_grey),
            header.file_width,
            header.file_height,
            header.n_pages,
        )

    def _send(self, job: dict[str, object]) -> None:
        assert self.process.stdin
        self.process.stdin.write(json.dumps(job).encode() + b"\n")
        self.process.stdin.flush()

    def _read(self, n_bytes: int) -> bytes:
        assert self.process.stdout
        content = self.process.stdout.read(n_bytes)
        if len(content) < n_bytes:
            raise _CrashError
        return content

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            with suppress(OSError):  # what was not sent is of no use any more
                if stream:
                    stream.close()


class _Workers:
    """The processes that run at present: started when they are needed, ended when they take too
    long or have had nothing to do for a while.
    """

    def __init__(self) -> None:
        self._slots = threading.BoundedSemaphore(MAX_WORKERS)
        self._lock = threading.Lock()
        self._idle: list[tuple[float, _Worker]] = []
        self._busy: list[_Worker] = []
        self._watch: threading.Thread | None = None

    @contextmanager
    def one(self) -> Iterator[_Worker]:
        """A process that nobody else uses meanwhile."""
        with self._slots:
            with self._lock:
                while self._idle and self._idle[-1][1].process.poll() is not None:
                    self._idle.pop()[1].close()  # somebody has killed it
                worker = self._idle.pop()[1] if self._idle else _Worker()
                self._busy.append(worker)
                if self._watch is None:
                    self._watch = threading.Thread(target=self._look_after, daemon=True)
                    self._watch.start()
            try:
                yield worker
            except BaseException:  # it may still be answering
                worker.close()
                raise
            finally:
                with self._lock:
                    self._busy.remove(worker)
                    if worker.process.returncode is None:
                        self._idle.append((time.monotonic(), worker))

    def _look_after(self) -> None:
        while True:
            time.sleep(min(0.5, SECONDS / 4))
            now = time.monotonic()
            with self._lock:
                for worker in self._busy:
                    if now > worker.deadline:
                        worker.is_late = True
                        worker.process.kill()
                tired = [worker for since, worker in self._idle if now > since + IDLE_SECONDS]
                self._idle = [entry for entry in self._idle if entry[1] not in tired]
                if not self._idle and not self._busy:
                    self._watch = None
            for worker in tired:
                worker.close()
            if self._watch is None:
                return

    def close(self) -> None:
        """End those that are idle; the others end with their threads."""
        with self._lock:
            idle = self._idle
            self._idle = []
        for _, worker in idle:
            worker.close()


_ONE_LARGE_IMAGE = threading.Lock()
_WORKERS = _Workers()
_OF_THE_PARENT: list[_Workers] = []


def _start_anew() -> None:
    """After a fork: the processes belong to the parent, and so do whatever locks were held."""
    global _WORKERS, _ONE_LARGE_IMAGE
    _OF_THE_PARENT.append(_WORKERS)  # kept, so that nothing closes or waits for what is not ours
    _WORKERS = _Workers()
    _ONE_LARGE_IMAGE = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_anew)
atexit.register(lambda: _WORKERS.close())


def thing_of(fit: str) -> str:
    """What a file that is read so should hold."""
    return "sound" if fit == SOUND else "image"


def _refusal(file: Path, reason: str, fit: str) -> DataError:
    """What a reader says may hold bytes of the file, which must not reach a terminal."""
    printable = "".join(letter if letter.isprintable() else "?" for letter in reason)
    return DataError(
        f"{file}: not a readable {thing_of(fit)} ({printable}); remove it or use "
        "`skip_broken=True`."
    )
