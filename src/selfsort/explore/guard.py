"""Lets in only the person with the printed address: checks token, Host, Origin, kind and size of
each request.
"""

import hmac
from collections.abc import Callable, Mapping

from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_BODY = 2**20
"""Enough to name 100,000 images in one request."""

HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; "
    "style-src 'self'; img-src 'self' data:; media-src 'self'; "
    "connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class Guard:
    """Stands in front of the application. The first part of every path is the token, so there is no
    cookie that could leak to another port.

    A refused request gets one line in the log, without the token, and never reaches the
    application.
    """

    def __init__(self, app: ASGIApp, *, token: str, port: int, log: Callable[[str], None]) -> None:
        self.app = app
        self.token = token
        self.log = log
        self.hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":  # a web socket is refused by closing it
            self.log(f"refused: {scope['type']}")
            await send({"type": "websocket.close", "code": 1008})
            return
        headers = {
            name.decode("latin-1").lower(): value.decode("latin-1")
            for name, value in scope["headers"]
        }
        token, slash, rest = scope["path"].removeprefix("/").partition("/")
        is_known = hmac.compare_digest(token.encode(errors="surrogatepass"), self.token.encode())
        shown = f"{ascii(scope['method'])[1:-1]} /…" + (
            f"/{ascii(rest[:80])[1:-1]}" if is_known else ""
        )
        status, reason = self._refusal(scope["method"], headers, is_known, rest)
        body = b""
        if not status and scope["method"] == "POST":
            body, is_whole = await _read(receive)
            if not is_whole:
                status, reason = 413, f"the body is larger than {MAX_BODY:,} bytes"
        answer: Response | None = None
        if status:
            self.log(f"refused: {shown}: {reason}")
            answer = PlainTextResponse(f"{reason}\n", status)
        elif not slash:
            answer = RedirectResponse(f"/{self.token}/")
        inner = scope if answer else {**scope, "path": f"/{rest}", "raw_path": None}
        await (answer or self.app)(inner, _once(body, receive), self._watch(send, shown))

    def _refusal(
        self, method: str, headers: Mapping[str, str], is_known: bool, rest: str
    ) -> tuple[int, str]:
        host = headers.get("host", "")
        origin = headers.get("origin")
        if host not in self.hosts:
            return 421, f"Host {host[:80]!a} is not this server"
        if not is_known:
            return 403, "missing or wrong token; use the address that `selfsort explore` printed"
        if origin is not None and origin != f"http://{host}":
            return 403, f"Origin {origin[:80]!a} is another site"
        is_visit = (
            method == "GET"
            and headers.get("sec-fetch-mode") == "navigate"
            and headers.get("sec-fetch-dest") == "document"
        )
        if headers.get("sec-fetch-site", "none") not in ("same-origin", "none") and not is_visit:
            return 403, "asked for by another site"
        if ".." in rest.replace("\\", "/").split("/"):
            return 403, "the path leads elsewhere"
        if method in ("GET", "HEAD"):
            return 0, ""
        if origin is None:
            return 403, "a change needs an Origin"
        if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            return 415, "a change must be application/json"
        if (
            headers.get("content-length", "0").isdecimal()
            and int(headers.get("content-length", "0")[:20]) > MAX_BODY
        ):
            return 413, f"the body is larger than {MAX_BODY:,} bytes"
        return 0, ""

    def _watch(self, send: Send, shown: str) -> Send:
        """Adds the headers to every answer, and logs requests for what is not there."""

        async def secured(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = {name for name, _ in message["headers"]}
                added = [
                    (name.encode(), value.encode())
                    for name, value in HEADERS.items()
                    if name.encode() not in given
                ]
                message = {**message, "headers": [*message["headers"], *added]}
                if message["status"] in (404, 405):
                    self.log(f"refused: {shown}: nothing there")
            await send(message)

        return secured


async def _read(receive: Receive) -> tuple[bytes, bool]:
    """The body, and whether all of it was within the limit. It is counted while it arrives,
    whatever its header says.
    """
    body = bytearray()
    while True:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > MAX_BODY or message["type"] == "http.disconnect":
            return b"", False
        if not message.get("more_body"):
            return bytes(body), True


def _once(body: bytes, receive: Receive) -> Receive:
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return messages.pop() if messages else await receive()

    return replay
