"""The work on one run: its clusters, its pages of images, its edits. Every edit goes through the
journal.
"""

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from starlette.concurrency import run_in_threadpool

from selfsort.data.gallery import Gallery
from selfsort.data.image_set import sample_rows
from selfsort.errors import EditError
from selfsort.explore.atlas import place_all
from selfsort.explore.learning import Learner, Learning
from selfsort.explore.likeness import likely_clusters, most_similar
from selfsort.explore.suggest import halves_of, list_suggestions
from selfsort.report.map import (
    DEFAULT_POINTS,
    Projection,
    load_projection,
    project,
    save_projection,
)
from selfsort.report.typical import Points, most_typical, places
from selfsort.runs.arrays import load_vectors, save_vectors
from selfsort.runs.edits import Edit, parse_edit
from selfsort.runs.export import export
from selfsort.runs.folder import RunFolder
from selfsort.runs.journal import Journal
from selfsort.runs.record import Run
from selfsort.runs.table import Assignments, load_columns

N_EXAMPLES = 5
"""Images that stand for a cluster."""

N_SIMILAR = 300
"""Neighbours of an image that are shown."""


class Session:
    """A run that somebody works with: what its pages show and what may be done to it."""

    def __init__(
        self,
        folder: Path,
        run: Run,
        assignments: Assignments,
        gallery: Gallery,
        journal: Journal,
        export_to: Path | None = None,
        learner: Learner | None = None,
    ) -> None:
        self.folder = folder
        self.gallery = gallery
        self.export_to = export_to
        self.learning = Learning(self, learner)
        self.progress = ""
        self.turn = asyncio.Lock()
        self.adopt(run, assignments, journal)

    def adopt(self, run: Run, assignments: Assignments, journal: Journal) -> None:
        """Show this version of the run."""
        self.run = run
        self.assignments = assignments
        self.journal = journal
        self.confidence = np.nan_to_num(assignments.confidence, nan=0.0)
        self.map = load_projection(self.folder, assignments)
        self.vectors = load_vectors(self.folder, assignments)
        self.points = places(len(assignments.labels), self.map, self.vectors)
        self.places: NDArray[np.float32] | None = None
        self.columns = load_columns(RunFolder(self.folder).metadata, len(assignments.labels))
        self.sorted: tuple[object, NDArray[np.intp]] = (None, np.zeros(0, dtype=np.intp))
        """The order of the view that was asked for last."""

    def overview(self) -> dict[str, Any]:
        """All clusters with size, mean confidence and most typical images; what can be undone."""
        state = self.journal.state
        history = self.journal.history
        inner = np.flatnonzero(~state.outliers)
        labels = state.labels[inner]
        confidence = self.confidence[inner]
        sizes = np.bincount(labels, minlength=state.free)
        totals = np.bincount(labels, weights=confidence, minlength=state.free)
        clusters = [
            {
                "id": cluster,
                "name": state.names.get(cluster, ""),
                "size": int(sizes[cluster]),
                "confidence": round(float(totals[cluster] / max(sizes[cluster], 1)), 4),
                "examples": self._examples(inner[labels == cluster]),
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
            "undo": history.done[-1][0].describe(history.done[-1][1].state)
            if history.done
            else None,
            "redo": history.undone[-1].describe(state) if history.undone else None,
        }

    def _examples(self, members: NDArray[np.intp]) -> list[int]:
        """The images that stand for a cluster, the most typical first."""
        central = most_typical(members, self.confidence, self.points)
        return [int(row) for row in central[:N_EXAMPLES]]

    def rows(self, view: str) -> NDArray[np.intp]:
        """The images of a view: a cluster's number, `all`, `outliers`, or `review` (those
        that nobody has decided on yet).
        """
        state = self.journal.state
        if view == "all":
            return np.arange(len(state.labels))
        if view == "outliers":
            return np.flatnonzero(state.outliers)
        if view == "review":
            return np.flatnonzero(~state.reviewed & ~state.outliers)
        is_number = view.isascii() and view.isdecimal() and len(view) < 10
        if not is_number or int(view) not in state.clusters:
            raise EditError(f"there is no cluster {view[:40]!r} (any more).")
        return state.members(int(view))

    def page(self, view: str, *, ascending: bool, offset: int, limit: int) -> dict[str, Any]:
        """One page of a view, in order of confidence."""
        key = (view, ascending, self.journal.version)
        if self.sorted[0] != key:
            rows = self.rows(view)
            keys = self.confidence[rows]
            self.sorted = key, rows[np.argsort(keys if ascending else -keys, kind="stable")]
        rows = self.sorted[1]
        items = [self._item(int(row)) for row in rows[offset : offset + limit]]
        return {"total": len(rows), "offset": offset, "pack": self.gallery.pack, "items": items}

    def items(self, rows: NDArray[np.intp]) -> dict[str, Any]:
        """These images, in this order."""
        return {"pack": self.gallery.pack, "items": [self._item(int(row)) for row in rows]}

    def likely(self, rows: NDArray[np.intp]) -> list[dict[str, Any]]:
        """All clusters, the likeliest for these images first; without vectors and a map, as they
        are.
        """
        state = self.journal.state
        points = self.points
        if points is None:
            points = np.full((len(state.labels), 1), np.nan, dtype=np.float32)
        found = likely_clusters(points, state, rows)
        return [{"id": cluster, "share": share} for cluster, share in found]

    async def similar(self, row: int) -> list[int]:
        """The images nearest to one in the whole set, that one first."""
        points = await self.described()
        return [int(one) for one in most_similar(points, row, N_SIMILAR)]

    def search(self, text: str) -> list[int]:
        """The images whose name or metadata hold a text; `column: text` looks in one column."""
        column, colon, value = text.partition(":")
        if colon and column.strip() in self.columns:
            searched = [self.columns[column.strip()]]
            text = value
        else:
            searched = [list(self.assignments.names), *self.columns.values()]
        sought = text.strip().casefold()
        hits = [np.array([sought in cell.casefold() for cell in cells]) for cells in searched]
        return np.flatnonzero(np.any(hits, axis=0)).tolist()

    async def atlas(self) -> NDArray[np.float32]:
        """A place on the map for every image; the map is drawn if the run has none yet."""
        points = await self.described()
        async with self.turn:
            if self.places is None:
                try:
                    self.places = await run_in_threadpool(self._draw_map, points)
                finally:
                    self.progress = ""
        return self.places

    def _draw_map(self, points: Points) -> NDArray[np.float32]:
        if self.map is None:
            seed = self.run.seed
            rows = sample_rows(len(points), DEFAULT_POINTS, seed)
            assert self.vectors is not None
            drawn = project(
                self.vectors[rows],
                seed=seed,
                on_step=lambda done, total: self._tell("drawing the map", done, total),
            )
            self.map = Projection(rows, drawn)
            save_projection(self.folder, self.map, self.assignments)
        return place_all(self.map, points, self.run.seed)

    async def suggestions(self) -> dict[str, Any]:
        """Merges and splits that the neighbours of the images speak for, with the reason."""
        points = await self.described()
        state = self.journal.state
        return await run_in_threadpool(list_suggestions, points, state, self._examples)

    async def described(self) -> Points:
        """Where all images lie; computed by the model, once, if the run has no vectors yet."""
        async with self.turn:
            if self.vectors is None:
                try:
                    await run_in_threadpool(self._describe)
                finally:
                    self.progress = ""
            assert self.points is not None
            return self.points

    def _describe(self) -> None:
        self.progress = "loading the model"
        from selfsort.explore.modelled import describe  # torch, only when it is needed

        n_images = len(self.assignments.labels)
        vectors = describe(self.folder, self.gallery, n_images, self._tell)
        _, self.vectors = save_vectors(self.folder, vectors, self.assignments)
        self.points = places(n_images, self.map, self.vectors)

    def _item(self, row: int) -> dict[str, Any]:
        state = self.journal.state
        return {
            "i": row,
            "name": self.assignments.names[row],
            "confidence": round(float(self.confidence[row]), 4),
            "cluster": int(state.labels[row]),
            "outlier": bool(state.outliers[row]),
            "columns": [[name, values[row]] for name, values in self.columns.items()],
        }

    async def edit(self, content: dict[str, Any]) -> str:
        """Carry out one edit; returns what was done, in words."""
        async with self.turn:
            if content.pop("version", None) != self.journal.version:
                raise EditError(
                    "this run was changed elsewhere meanwhile (another tab?); the page now shows "
                    "that change, so try again."
                )
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
        cluster = content.get("cluster")
        parts = content.get("parts")
        is_known = type(cluster) is int and (type(parts) is int or parts == "suggested")
        if not is_known or set(content) != {"op", "cluster", "parts"}:
            raise EditError("split should have exactly these fields: cluster: int, parts: int.")
        assert isinstance(cluster, int)
        state = self.journal.state
        state.require(cluster)
        self.progress = "loading the model"
        try:
            from selfsort.explore.modelled import split_as_suggested, split_cluster  # torch

            if isinstance(parts, int):
                return split_cluster(self.folder, state, self.gallery, cluster, parts, self._tell)
            found = None if self.points is None else halves_of(self.points, state, cluster)
            if found is None:
                raise EditError(f"there is no suggestion for {state.title(cluster)} (any more).")
            halves = (found.members[~found.is_second], found.members[found.is_second])
            return split_as_suggested(self.folder, state, self.gallery, cluster, halves, self._tell)
        finally:
            self.progress = ""

    async def export(self, kind: str) -> Path:
        """Write the edited run in one of `EXPORTS`; returns the new file or folder."""
        async with self.turn:
            try:
                return await run_in_threadpool(
                    export,
                    kind,
                    self.folder,
                    self.assignments,
                    self.journal.state,
                    self.gallery,
                    self._tell,
                    self.export_to,
                )
            finally:
                self.progress = ""

    def _tell(self, stage: str, done: int, total: int) -> None:
        self.progress = f"{stage} {done:,}/{total:,}"
