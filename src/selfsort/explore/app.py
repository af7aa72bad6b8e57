"""The local web application of `selfsort explore`: a session's pages and edits over HTTP."""

import base64
import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from numpy.typing import NDArray
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from selfsort.data.gallery import MAX_PACK, EncodedPicture
from selfsort.errors import EditError, SelfsortError
from selfsort.explore.asking import choose_questions
from selfsort.explore.guard import Guard
from selfsort.explore.session import Session
from selfsort.report.odd import TITLES, odd_rows
from selfsort.report.static import read_static
from selfsort.runs.export import EXPORTS

KINDS = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
PLAYED = {
    ".wav": "audio/wav",
    ".flac": "audio/flac",
    ".ogg": "audio/ogg",
    ".oga": "audio/ogg",
    ".opus": "audio/ogg",
    ".mp3": "audio/mpeg",
}
"""What a browser is told of a sound file; no other file is sent."""

MODULES = (
    "api.js",
    "app.js",
    "dialogs.js",
    "grid.js",
    "learn.js",
    "map.js",
    "picker.js",
    "pictures.js",
    "review.js",
    "suggestions.js",
)
SHARED = ("base.css", "dom.js", "points.js")  # with the report
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
        name = _shown(Path(session.folder.resolve().name))
        return HTMLResponse(
            page.render(
                run=session.run,
                folder=name,
                state=session.overview(),
                lists={
                    kind: {"title": TITLES[kind], "images": rows}
                    for kind, rows in odd_rows(session.run.oddities).items()
                },
                has_clips=session.gallery.has_clips,
                exports=[[kind, form.title, form.text] for kind, form in EXPORTS.items()],
                exports_go_to=_shown(session.export_to),
                columns=list(session.columns),
                modules=MODULES,
            )
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

    async def items(request: Request) -> Response:
        rows = _rows(await _content(request))
        if len(rows) > MAX_PAGE:
            raise EditError(f"at most {MAX_PAGE} images at a time.")
        return _json(session.items(rows))

    def rows(request: Request) -> Response:
        return _json({"images": session.rows(request.query_params.get("view", "")).tolist()})

    def search(request: Request) -> Response:
        return _json({"images": session.search(request.query_params.get("text", "")[:500])})

    async def likely(request: Request) -> Response:
        content = await _content(request)
        if isinstance(cluster := content.get("cluster"), int):
            rows = session.rows(str(cluster))
        else:
            rows = _rows(content)
        return _json({"clusters": await run_in_threadpool(session.likely, rows)})

    async def similar(request: Request) -> Response:
        return _json({"images": await session.similar(row_of(request.path_params["index"]))})

    async def suggestions(request: Request) -> Response:
        return _json(await session.suggestions())

    async def map_points(request: Request) -> Response:
        places = await session.atlas()
        return _json({"points": _packed(places * 65535, "<u2"), "pack": session.gallery.pack})

    def labels(request: Request) -> Response:
        state = session.journal.state
        outliers = _packed(state.outliers, "u1")
        return _json({"labels": _packed(state.labels, "<u4"), "outliers": outliers})

    def sheet(request: Request) -> Response:
        wanted = request.query_params.get("images", "").split(",", MAX_PACK - 1)
        is_fine = request.query_params.get("fine") == "1"
        rows = [row_of(text) for text in wanted]
        return _picture(session.gallery.sheet(rows, is_fine=is_fine))

    def image(request: Request) -> Response:
        picture = session.gallery.large(row_of(request.path_params["index"]))
        if picture is None:
            return PlainTextResponse("the original file is missing or cannot be read\n", 410)
        return _picture(picture)

    def clip(request: Request) -> Response:
        file = session.gallery.clip(row_of(request.path_params["index"]))
        kind = PLAYED.get(file.suffix.lower()) if file else None
        if file is None or kind is None or not file.is_file():
            return PlainTextResponse("no sound file, or it is missing by now\n", 410)
        return FileResponse(file, media_type=kind, headers=KEEP)  # answers requests for a range

    def _rows(content: dict[str, Any]) -> NDArray[np.intp]:
        images = content.get("images")
        if not isinstance(images, list) or any(type(row) is not int for row in images):
            raise EditError("images should be a list of their numbers.")
        return session.journal.state.rows(images)

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

    async def learning(request: Request) -> Response:
        return _json(await run_in_threadpool(session.learning.describe))

    async def learn(request: Request) -> Response:
        done = await session.learning.act(str((await _content(request)).get("action")))
        return _json({"done": done, "state": session.overview()})

    async def questions(request: Request) -> Response:
        count = min(_number(request.query_params.get("count", "10")), MAX_PAGE)
        points = await session.described()
        state = session.journal.state
        rows = await run_in_threadpool(choose_questions, points, state, session.confidence, count)
        return _json(session.items(np.array(rows, dtype=np.intp)))

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
            await session.learning.end()
            session.journal.close()

    return Starlette(
        routes=[
            Route("/", index),
            Route("/static/{file}", static),
            Route("/api/state", state),
            Route("/api/images", images),
            Route("/api/items", items, methods=["POST"]),
            Route("/api/rows", rows),
            Route("/api/search", search),
            Route("/api/likely", likely, methods=["POST"]),
            Route("/api/similar/{index}", similar),
            Route("/api/suggestions", suggestions),
            Route("/api/map", map_points),
            Route("/api/labels", labels),
            Route("/api/sheet", sheet),
            Route("/api/image/{index}", image),
            Route("/api/clip/{index}", clip),
            Route("/api/progress", progress),
            Route("/api/edit", edit, methods=["POST"]),
            Route("/api/learning", learning),
            Route("/api/learn", learn, methods=["POST"]),
            Route("/api/questions", questions),
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


def _shown(path: Path | None) -> str:
    """A path as text that every browser can show; nothing for none."""
    return os.fsencode(path).decode(errors="replace") if path else ""


def _packed(values: NDArray[Any], kind: str) -> str:
    """Numbers as a browser unpacks them."""
    return base64.b64encode(np.rint(values).astype(kind).tobytes()).decode()


def _picture(picture: EncodedPicture) -> Response:
    return Response(picture.content, media_type=picture.media_type, headers=KEEP)


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise EditError(f"{text[:40]!r} should be a whole number >= 0.")
    return int(text)
