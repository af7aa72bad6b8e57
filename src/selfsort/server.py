"""`selfsort explore`'s local web application: pages of images out, edits in; every edit goes through the journal."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from numpy.typing import NDArray
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from selfsort.edits import Edit, parse_edit
from selfsort.errors import EditError, SelfsortError
from selfsort.export import export
from selfsort.gallery import MAX_PACK, Gallery, Picture
from selfsort.guard import Guard
from selfsort.journal import Journal
from selfsort.run import Assignments, Run

STATIC = Path(__file__).with_name("static")
KINDS = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
FILES = {file.name: file for file in sorted(STATIC.iterdir()) if file.suffix in KINDS}
KEEP = {"cache-control": "private, max-age=86400, immutable"}
"""A browser may keep these: every start of the server has addresses of its own."""

MAX_PAGE = 500


class Explorer:
    """A run that is being worked with: what its pages show and what may be done to it."""

    def __init__(self, folder: Path, run: Run, assignments: Assignments, gallery: Gallery, journal: Journal) -> None:
        self.folder, self.run, self.assignments, self.gallery, self.journal = folder, run, assignments, gallery, journal
        self.confidence = np.nan_to_num(assignments.confidence, nan=0.0)
        self.progress = ""
        self.turn = asyncio.Lock()
        self.sorted: tuple[object, NDArray[np.intp]] = (None, np.zeros(0, dtype=np.intp))
        """The order of the view that was asked for last."""

    def overview(self) -> dict[str, Any]:
        """All clusters with size, mean confidence and most typical image; what can be undone."""
        state, history = self.journal.state, self.journal.history
        inner = np.flatnonzero(~state.outliers)
        labels, confidence = state.labels[inner], self.confidence[inner]
        sizes = np.bincount(labels, minlength=state.free)
        totals = np.bincount(labels, weights=confidence, minlength=state.free)
        typical = np.full(state.free, -1)
        order = np.argsort(confidence, kind="stable")
        typical[labels[order]] = inner[order]  # the last one written is the most confident
        clusters = [
            {
                "id": cluster,
                "name": state.names.get(cluster, ""),
                "size": int(sizes[cluster]),
                "confidence": round(float(totals[cluster] / max(sizes[cluster], 1)), 4),
                "typical": int(typical[cluster]),
            }
            for cluster in state.clusters
        ]
        return {
            "version": self.journal.version,
            "pack": self.gallery.pack,
            "images": len(state.labels),
            "outliers": int(state.outliers.sum()),
            "unreviewed": int((~state.reviewed & ~state.outliers).sum()),
            "clusters": clusters,
            "free": state.free,
            "undo": history.done[-1][0].describe(history.done[-1][1].state) if history.done else None,
            "redo": history.undone[-1].describe(state) if history.undone else None,
        }

    def rows(self, view: str) -> NDArray[np.intp]:
        """The images of a view: a cluster's number, `all`, `outliers`, or `review` (what nobody has decided on yet)."""
        state = self.journal.state
        if view == "all":
            return np.arange(len(state.labels))
        if view == "outliers":
            return np.flatnonzero(state.outliers)
        if view == "review":
            return np.flatnonzero(~state.reviewed & ~state.outliers)
        if not (view.isascii() and view.isdecimal() and len(view) < 10) or int(view) not in state.clusters:
            raise EditError(f"there is no cluster {view[:40]!r} (any more).")
        return state.members(int(view))

    def page(self, view: str, *, ascending: bool, offset: int, limit: int) -> dict[str, Any]:
        """Some images of a view in the order of their confidence."""
        key = (view, ascending, self.journal.version)
        if self.sorted[0] != key:
            rows = self.rows(view)
            keys = self.confidence[rows]
            self.sorted = key, rows[np.argsort(keys if ascending else -keys, kind="stable")]
        rows = self.sorted[1]
        items = [self._item(int(row)) for row in rows[offset : offset + limit]]
        return {"total": len(rows), "offset": offset, "pack": self.gallery.pack, "items": items}

    def _item(self, row: int) -> dict[str, Any]:
        state = self.journal.state
        return {
            "i": row,
            "name": self.assignments.names[row],
            "confidence": round(float(self.confidence[row]), 4),
            "cluster": int(state.labels[row]),
            "outlier": bool(state.outliers[row]),
        }

    async def edit(self, content: dict[str, Any]) -> str:
        """Carry out one request to change something; says what was done."""
        async with self.turn:
            if content.pop("version", None) != self.journal.version:
                raise EditError("this run was changed elsewhere meanwhile (another tab?); the page now shows that, try again.")
            return await run_in_threadpool(self._edit, content)

    def _edit(self, content: dict[str, Any]) -> str:
        entry: Edit | str
        if content in ({"op": "undo"}, {"op": "redo"}):
            entry = str(content["op"])
        elif content.get("op") == "split":
            entry = self._split(content)
        elif content.get("op") == "move" and content.get("to") == "new":
            entry = parse_edit({**content, "to": self.journal.state.free})
        else:
            entry = parse_edit(content)
        return self.journal.add(entry)

    def _split(self, content: dict[str, Any]) -> Edit:
        cluster, parts = content.get("cluster"), content.get("parts")
        if set(content) != {"op", "cluster", "parts"} or type(cluster) is not int or type(parts) is not int:
            raise EditError("split should have exactly these fields: cluster: int, parts: int.")
        self.progress = "loading the model"
        try:
            from selfsort.splitting import split_cluster  # torch, only when it is needed

            return split_cluster(self.folder, self.journal.state, self.gallery, cluster, parts, self._tell)
        finally:
            self.progress = ""

    async def export(self, kind: str) -> Path:
        """Write the edited run in one of three forms; answers the new file or folder."""
        async with self.turn:
            try:
                arguments = kind, self.folder, self.assignments, self.journal.state, self.gallery, self._tell
                return await run_in_threadpool(export, *arguments)
            finally:
                self.progress = ""

    def _tell(self, stage: str, done: int, total: int) -> None:
        self.progress = f"{stage} {done:,}/{total:,}"


def build_app(explorer: Explorer, *, token: str, port: int, log: Callable[[str], None]) -> Starlette:
    """The application for one run, token and port; `log` gets a line for each request that is refused."""
    templates = Environment(loader=PackageLoader("selfsort"), autoescape=True, undefined=StrictUndefined)
    page = templates.get_template("explore.html.j2")

    def index(request: Request) -> Response:
        name = os.fsencode(explorer.folder.resolve().name).decode(errors="replace")
        modules = [file for file in FILES if file.endswith(".js")]
        return HTMLResponse(page.render(run=explorer.run, folder=name, state=explorer.overview(), modules=modules))

    def static(request: Request) -> Response:
        file = FILES.get(request.path_params["file"])  # known names only, so no path can lead elsewhere
        if file is None:
            return PlainTextResponse("no such file\n", 404)
        return Response(file.read_bytes(), media_type=KINDS[file.suffix], headers=KEEP)

    def state(request: Request) -> Response:
        return _json(explorer.overview())

    def images(request: Request) -> Response:
        query = request.query_params
        offset, limit = _number(query.get("offset", "0")), _number(query.get("limit", "100"))
        is_ascending = query.get("order", "ascending") == "ascending"
        return _json(explorer.page(query.get("view", "all"), ascending=is_ascending, offset=offset, limit=min(limit, MAX_PAGE)))

    def sheet(request: Request) -> Response:
        wanted = request.query_params.get("images", "").split(",", MAX_PACK - 1)
        return _picture(explorer.gallery.sheet([explorer_row(text) for text in wanted]))

    def image(request: Request) -> Response:
        picture = explorer.gallery.large(explorer_row(request.path_params["index"]))
        if picture is None:
            return PlainTextResponse("the original file is gone or cannot be read\n", 410)
        return _picture(picture)

    def explorer_row(text: str) -> int:
        row = _number(text)
        if row >= len(explorer.assignments.names):
            raise EditError(f"there is no image {row}.")
        return row

    def progress(request: Request) -> Response:
        return _json({"progress": explorer.progress})

    async def edit(request: Request) -> Response:
        done = await explorer.edit(await _content(request))
        return _json({"done": done, "state": explorer.overview()})

    async def write(request: Request) -> Response:
        content = await _content(request)
        written = await explorer.export(str(content.get("kind")))
        return _json({"written": str(written)})

    async def refuse(request: Request, error: Exception) -> Response:
        status = 400 if isinstance(error, EditError) else 500
        return _json({"error": " ".join(str(error).split()), "state": explorer.overview()}, status)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            explorer.journal.close()

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
    """ASCII only, so that file names which are not UTF-8 pass too."""
    return Response(json.dumps(content), status, media_type="application/json")


def _picture(picture: Picture) -> Response:
    return Response(picture.content, media_type=picture.media_type, headers=KEEP)


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise EditError(f"{text[:40]!r} should be a whole number >= 0.")
    return int(text)
