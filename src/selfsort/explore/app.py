"""The local web application of `selfsort explore`: a session's pages and edits over HTTP."""

import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from selfsort.data.gallery import MAX_PACK, EncodedPicture
from selfsort.errors import EditError, SelfsortError
from selfsort.explore.guard import Guard
from selfsort.explore.session import Session
from selfsort.report.static import read_static

KINDS = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
MODULES = ("api.js", "app.js", "dialogs.js", "grid.js", "pictures.js", "review.js")
SHARED = ("base.css", "dom.js")  # with the report
OWN = ("explore.css", "icon.svg", *MODULES)
KEEP = {"cache-control": "private, max-age=86400, immutable"}
"""A browser may keep these: each start of the server has its own addresses."""

MAX_PAGE = 500


def build_app(session: Session, *, token: str, port: int, log: Callable[[str], None]) -> Starlette:
    """The application for one session, token and port. `log` gets a line for each refused
    request.
    """
    templates = Environment(
        loader=PackageLoader("selfsort.explore", "assets"),
        autoescape=True,
        undefined=StrictUndefined,
    )
    page = templates.get_template("explore.html.j2")

    def index(request: Request) -> Response:
        name = os.fsencode(session.folder.resolve().name).decode(errors="replace")
        return HTMLResponse(
            page.render(run=session.run, folder=name, state=session.overview(), modules=MODULES)
        )

    def static(request: Request) -> Response:
        name = request.path_params["file"]
        if name in SHARED:
            text = read_static(name)
        elif name in OWN:  # known names only, so no path can lead elsewhere
            text = files("selfsort.explore").joinpath("assets", name).read_text(encoding="utf-8")
        else:
            return PlainTextResponse("no such file\n", 404)
        return Response(text, media_type=KINDS[os.path.splitext(name)[1]], headers=KEEP)

    def state(request: Request) -> Response:
        return _json(session.overview())

    def images(request: Request) -> Response:
        query = request.query_params
        offset = _number(query.get("offset", "0"))
        limit = _number(query.get("limit", "100"))
        is_ascending = query.get("order", "ascending") == "ascending"
        return _json(
            session.page(
                query.get("view", "all"),
                ascending=is_ascending,
                offset=offset,
                limit=min(limit, MAX_PAGE),
            )
        )

    def sheet(request: Request) -> Response:
        wanted = request.query_params.get("images", "").split(",", MAX_PACK - 1)
        return _picture(session.gallery.sheet([row_of(text) for text in wanted]))

    def image(request: Request) -> Response:
        picture = session.gallery.large(row_of(request.path_params["index"]))
        if picture is None:
            return PlainTextResponse("the original file is missing or cannot be read\n", 410)
        return _picture(picture)

    def row_of(text: str) -> int:
        row = _number(text)
        if row >= len(session.assignments.names):
            raise EditError(f"there is no image {row}.")
        return row

    def progress(request: Request) -> Response:
        return _json({"progress": session.progress})

    async def edit(request: Request) -> Response:
        done = await session.edit(await _content(request))
        return _json({"done": done, "state": session.overview()})

    async def write(request: Request) -> Response:
        content = await _content(request)
        written = await session.export(str(content.get("kind")))
        return _json({"written": str(written)})

    async def refuse(request: Request, error: Exception) -> Response:
        status = 400 if isinstance(error, EditError) else 500
        return _json({"error": " ".join(str(error).split()), "state": session.overview()}, status)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            session.journal.close()

    return Starlette(
        routes=[
            Route("/", index),
            Route("/static/{file}", static),
            Route("/api/state", state),
            Route("/api/images", images),
            Route("/api/sheet", sheet),
            Route("/api/image/{index}", image),
            Route("/api/progress", progress),
            Route("/api/edit", edit, methods=["POST"]),
            Route("/api/export", write, methods=["POST"]),
        ],
        middleware=[Middleware(Guard, token=token, port=port, log=log)],
        exception_handlers={SelfsortError: refuse},
        lifespan=lifespan,
    )


async def _content(request: Request) -> dict[str, Any]:
    try:
        content = json.loads(await request.body())
    except (ValueError, RecursionError) as error:
        raise EditError("the request is not JSON.") from error
    if not isinstance(content, dict):
        raise EditError("the request should be a JSON object.")
    return content


def _json(content: dict[str, Any], status: int = 200) -> Response:
    """ASCII only, so that file names that are not UTF-8 pass too."""
    return Response(json.dumps(content), status, media_type="application/json")


def _picture(picture: EncodedPicture) -> Response:
    return Response(picture.content, media_type=picture.media_type, headers=KEEP)


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise EditError(f"{text[:40]!r} should be a whole number >= 0.")
    return int(text)
