"""The map as a page needs it: SVG paths that need no script, and packed numbers for the script."""

import base64
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selfsort.data.image_set import ImageSet
from selfsort.data.pictures import sprite_sheets
from selfsort.report.cards import shown
from selfsort.report.map import Projection
from selfsort.runs.table import Assignments

N_COLOURS = 10
N_SHAPES = 3
MAP_SIDE = 1000
SPRITE_BYTES = 5_000_000


def draw_map(
    assignments: Assignments,
    images: ImageSet | None,
    projection: Projection,
    numbers: NDArray[np.int64],
) -> dict[str, Any]:
    """The points of these clusters, with names and small pictures of their images."""
    rows = projection.rows
    labels = assignments.labels[rows]
    places = np.rint(projection.points * MAP_SIDE).astype(int)
    clusters: list[dict[str, Any]] = []
    for number in numbers:
        own = places[labels == number]
        if len(own):
            x, y = (int(middle) for middle in np.median(own, axis=0))
            clusters.append(
                {"number": int(number), "path": _markers(own, int(number)), "x": x, "y": y}
            )
    sheets = sprite_sheets(images, rows, max_bytes=SPRITE_BYTES) if images is not None else None
    return {
        "clusters": clusters,
        "height": int(places[:, 1].max()) if len(places) else 0,
        "n_points": len(rows),
        "sheets": [base64.b64encode(sheet).decode() for sheet in sheets.sheets] if sheets else [],
        "names": {
            "names": [shown(assignments.names[row]) for row in rows],
            "truth": [shown(assignments.truth[row]) for row in rows]
            if assignments.truth is not None
            else None,
        },
        "data": {
            "centres": [
                [cluster["number"], cluster["x"] / MAP_SIDE, cluster["y"] / MAP_SIDE]
                for cluster in clusters
            ],
            "points": _packed(projection.points * 65535, "<u2"),
            "labels": _packed(labels, "<u4"),
            "confidence": _packed(assignments.confidence[rows] * 10_000, "<u2"),
            "side": sheets.side if sheets else 0,
            "columns": sheets.columns if sheets else 0,
        },
    }


def _markers(places: NDArray[np.int64], cluster: int) -> str:
    """Lines without length, whose round or square ends are the markers, or crosses."""
    marker = "m-3-3l6 6m0-6l-6 6" if cluster // N_COLOURS % N_SHAPES == 2 else "h0"
    return "".join(f"M{x} {y}{marker}" for x, y in places)


def _packed(values: NDArray[Any], kind: str) -> str:
    return base64.b64encode(np.rint(values).astype(kind).tobytes()).decode()
