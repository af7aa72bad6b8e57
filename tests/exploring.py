"""Starts the real `selfsort explore` for tests and talks to it."""

import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import Self


class Server:
    """`selfsort explore` in a process of its own; `address` holds the token, `log` what it wrote to
    standard error.
    """

    def __init__(
        self, folder: Path, *options: str, environment: dict[str, str] | None = None
    ) -> None:
        command = [sys.executable, "-m", "selfsort", "explore", str(folder), *options]
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="surrogateescape",
            env={**os.environ, "OMP_NUM_THREADS": "1", **(environment or {})},
        )
        assert self.process.stdout
        assert self.process.stderr
        line, self.log = self.process.stdout.readline(), list[str]()
        found = re.search(r"(http://127\.0\.0\.1:(\d+))/([\w-]{20,})/$", line.strip())
        assert found, line + self.process.stderr.read()
        self.address, self.origin, self.port, self.token = (
            found[0],
            found[1],
            int(found[2]),
            found[3],
        )
        self.reader = threading.Thread(
            target=lambda stream: self.log.extend(stream), args=[self.process.stderr]
        )
        self.reader.start()

    def end(self, number: int = signal.SIGINT) -> int:
        """Send a signal, wait, answer the exit code."""
        self.process.send_signal(number)
        code = self.process.wait(60)
        self.reader.join()
        for stream in (self.process.stdout, self.process.stderr):
            assert stream
            stream.close()
        return code

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.end(signal.SIGKILL)
