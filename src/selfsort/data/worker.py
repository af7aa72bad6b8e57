"""A process that decodes image and sound files within limits of memory: jobs come on standard
input, pictures leave on standard output.
"""

import json
import os
import signal
import struct
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

from selfsort.data.decode import Decoded, Fit, decode, fill_square, fit_square, load_readers, shrink
from selfsort.data.hearing import hear
from selfsort.errors import first_line

MEMORY = 384 << 20
"""Bytes that each process may take for an image."""

LARGE_MEMORY = 1 << 30
"""Bytes for a large image, of which only one is decoded at a time."""

MAX_TEXT = 1000

FITS: dict[str, Fit] = {"fill": fill_square, "square": fit_square, "shrink": shrink}
SOUND = "sound"
"""In the place of a fit: the file is heard, not seen."""

HEADER = struct.Struct("<7I")
PICTURE, REFUSED, LARGE = range(3)


class Header(NamedTuple):
    """Of an answer: its kind, the shape of the picture (or the length of the text), and what the
    file held.
    """

    kind: int
    height: int = 0
    width: int = 0
    is_grey: int = 0
    file_width: int = 0
    file_height: int = 0
    n_pages: int = 0


def serve(jobs: BinaryIO, answers: BinaryIO) -> None:
    """Answer jobs, one line of JSON each, until there are no more."""
    warnings.simplefilter("ignore")
    formats = load_readers()
    allow = _memory_limit()
    allow(MEMORY)

    def say(header: Header, content: bytes = b"") -> None:
        answers.write(HEADER.pack(*header) + content)
        answers.flush()

    @contextmanager
    def large() -> Iterator[None]:
        """Wait until no other process decodes a large image."""
        say(Header(LARGE))
        jobs.readline()
        allow(LARGE_MEMORY)
        try:
            yield
        finally:
            allow(MEMORY)

    def read(path: Path, size: int, fit: str) -> Decoded:
        if fit == SOUND:
            return hear(path)
        return decode(path, size, FITS[fit], formats=formats, large=large)

    for line in jobs:
        job = json.loads(line)
        for name in job["files"]:
            try:
                image = read(Path(name), job["size"], job["fit"])
            except MemoryError:
                reason = f"needs more than {LARGE_MEMORY >> 20} MiB of memory"
            except Exception as error:  # Pillow's many readers raise whatever they stumble over
                reason = first_line(error)
            else:
                height, width, _ = image.pixels.shape
                say(Header(PICTURE, height, width, *image[1:]), image.pixels.tobytes())
                continue
            text = reason.encode("utf-8", "replace")[:MAX_TEXT]
            say(Header(REFUSED, len(text)), text)


def _memory_limit() -> Callable[[int], None]:
    """A function that limits the memory of this process to so many bytes more than it has now;
    where the system cannot do that, it does nothing.
    """
    try:
        import resource

        n_pages = int(Path("/proc/self/statm").read_text().split()[0])
    except (ImportError, OSError):
        return lambda n_bytes: None
    present = n_pages * resource.getpagesize()
    limits = [limit for limit in resource.getrlimit(resource.RLIMIT_AS) if limit >= 0]

    def allow(n_bytes: int) -> None:
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        resource.setrlimit(resource.RLIMIT_AS, (min([present + n_bytes, *limits]), hard))

    return allow


def main() -> None:
    """Keep the streams for pictures alone: nothing that a reader prints may come between them."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    jobs = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    serve(jobs, answers)


if __name__ == "__main__":
    with suppress(BrokenPipeError):  # who asked has ended
        main()
