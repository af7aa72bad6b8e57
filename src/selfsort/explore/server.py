"""Serves the application to the browser of one person: few connections, each with a time limit, an
orderly end.
"""

import asyncio
import os
import socket
from contextlib import suppress

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_CONNECTIONS = 64
"""A browser opens six at a time to one server."""

HEADER_SECONDS = 10.0
"""How long a connection may take to send its first, or next, whole header."""


class _LimitedProtocol(H11Protocol):
    """HTTP for so many connections; one that says nothing, or only half of it, is closed."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > MAX_CONNECTIONS:
            transport.abort()
        else:
            self._watch(is_waiting=True)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch(is_waiting=self.cycle is None or self.cycle.response_complete)

    def connection_lost(self, exc: Exception | None) -> None:
        self._watch(is_waiting=False)
        super().connection_lost(exc)

    def _watch(self, *, is_waiting: bool) -> None:
        if not is_waiting and self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        elif is_waiting and self._deadline is None:
            self._deadline = self.loop.call_later(HEADER_SECONDS, self.transport.abort)


def listen(port: int) -> socket.socket:
    """A socket on 127.0.0.1 only; port 0 takes any that is free. A failure is an `OSError`."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        if os.name == "posix":  # elsewhere it would let others take the port over
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        # so that a browser which is faster than the server waits instead of failing
        listener.listen()
    except OSError:
        listener.close()
        raise
    return listener


def serve(app: ASGIApp, listener: socket.socket) -> None:
    """Answer requests until Ctrl-C or SIGTERM; then return, so that the caller can tidy up.

    uvicorn raises the signal again when it has ended; the caller has made it a KeyboardInterrupt.
    """
    with suppress(KeyboardInterrupt):
        build_server(app).run([listener])


def build_server(app: ASGIApp) -> uvicorn.Server:
    """A quiet server with the limits above."""
    config = uvicorn.Config(
        app,
        http=_LimitedProtocol,
        log_level="error",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=2,
    )
    return uvicorn.Server(config)
