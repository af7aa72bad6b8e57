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
from selfsort.errors import EditError
from selfsort.report.map import load_projection
from selfsort.report.typical import most_typical
from selfsort.runs.edits import Edit, parse_edit
from selfsort.runs.export import export
from selfsort.runs.journal import Journal
from selfsort.runs.record import Run
from selfsort.runs.table import Assignments


class Session:
    """A run that somebody works with: what its pages show and what may be done to it."""

    def __init__(
        self, folder: Path, run: Run, assignments: Assignments, gallery: Gallery, journal: Journal
    ) -> None:
        self.folder = folder
        self.run = run
        self.assignments = assignments
        self.gallery = gallery
        self.journal = journal
        self.confidence = np.nan_to_num(assignments.confidence, nan=0.0)
        self.map = load_projection(folder, assignments)
        self.progress = ""
        self.turn = asyncio.Lock()
        self.sorted: tuple[object, NDArray[np.intp]] = (None, np.zeros(0, dtype=np.intp))
        """The order of the view that was asked for last."""

    def overview(self) -> dict[str, Any]:
        """All clusters with size, mean confidence and most typical image; what can be undone."""
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
                "typical": self._cover(inner[labels == cluster]),
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

    def _cover(self, members: NDArray[np.intp]) -> int:
        """The image that stands for a cluster; -1 for none."""
        return int(most_typical(members, self.confidence, self.map)[0]) if len(members) else -1

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
        is_whole = set(content) == {"op", "cluster", "parts"}
        if not is_whole or type(cluster) is not int or type(parts) is not int:
            raise EditError("split should have exactly these fields: cluster: int, parts: int.")
        self.progress = "loading the model"
        try:
            from selfsort.explore.split import split_cluster  # torch, only when it is needed

            return split_cluster(
                self.folder, self.journal.state, self.gallery, cluster, parts, self._tell
            )
        finally:
            self.progress = ""

    async def export(self, kind: str) -> Path:
        """Write the edited run in one of three forms; returns the new file or folder."""
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
                )
            finally:
                self.progress = ""

    def _tell(self, stage: str, done: int, total: int) -> None:
        self.progress = f"{stage} {done:,}/{total:,}"
