"""A finished run to one self-contained HTML page; no torch."""

import base64
import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from selfsort.charts import spectrum_chart, training_charts
from selfsort.images import ImageSet
from selfsort.projection import Projection
from selfsort.run import Assignments, Run
from selfsort.thumbnails import data_uri, sharp_picture, sprite_sheets

N_COLOURS, N_SHAPES = 10, 3
MAX_CLUSTERS, MAX_TABLE = 256, 40
N_TYPICAL, N_BORDERLINE = 14, 7
MANY_CLUSTERS = 40
"""From here on each cluster shows fewer and smaller pictures, so that the page stays small."""

SHOWN_SIDE, SMALL_SIDE, SHARP_SIDE = 56, 64, 96
MAP_SIDE = 1000
SPRITE_BYTES = 5_000_000
LONGEST_NAME = 100


class Picture(NamedTuple):
    """One image on the page; `uri` is empty where the image cannot be shown."""

    uri: str
    side: int
    name: str
    file: str
    confidence: float


@dataclass(frozen=True)
class Cluster:
    """What the page shows of one cluster."""

    number: int
    size: int
    share: float
    confidence: float
    truth: tuple[str, float] | None
    typical: list[Picture]
    borderline: list[Picture]


class Confusion(NamedTuple):
    """Clusters (rows) against classes (columns, each below the cluster it fits best)."""

    classes: list[str]
    rows: list[list[int]]
    shades: list[list[int]]


def render_report(
    run: Run,
    assignments: Assignments,
    images: ImageSet | None,
    projection: Projection | None,
    *,
    without_images: str = "",
    without_map: str = "",
    on_step: Callable[[int, int], None] | None = None,
) -> str:
    """The page of a run; `without_images` and `without_map` say why these are missing. The same arguments, the same page."""
    sizes = np.bincount(assignments.labels, minlength=run.n_clusters)
    numbers = np.sort(np.argsort(-sizes, kind="stable")[:MAX_CLUSTERS])
    clusters = []
    for done, number in enumerate(numbers, start=1):
        clusters.append(_cluster(int(number), len(numbers), assignments, images))
        if on_step:
            on_step(done, len(numbers))
    history = [record for record in run.history if {"stage", "epoch", "terms"} <= record.keys()]
    style, script = _static("report.css"), _static("report.js")
    page: str = _template().render(
        run=run,
        clusters=clusters,
        has_file_names=not all(name.isdecimal() for name in assignments.names),
        confidence=float(assignments.confidence.mean()) if len(assignments.confidence) else 0.0,
        history=history,
        warnings=remedies(run.warnings),
        settings=list(_settings(run.config)),
        terms=list(dict.fromkeys(name for record in history for name in record["terms"])),
        charts=training_charts(history),
        spectrum=spectrum_chart(run.eigenvalues, run.cluster_count.get("n_clusters")) if run.eigenvalues else None,
        confusion=confusion(assignments, run.n_clusters),
        map=_map(assignments, images, projection, numbers) if projection is not None else None,
        without_images=without_images,
        without_map=without_map,
        style=style,
        script=script,
        style_hash=_hash(style),
        script_hash=_hash(script),
    )
    return page


def shown(name: str) -> str:
    r"""A file name that can be shown anywhere: what is not printable is escaped, what is too long is cut in the middle.

    >>> shown("line\nbreak, caf\udce9")
    'line\\nbreak, caf\\xe9'
    """
    visible = "".join(letter if letter.isprintable() else _escaped(letter) for letter in name)
    if len(visible) <= LONGEST_NAME:
        return visible
    return f"{visible[: LONGEST_NAME // 3]}…{visible[-(LONGEST_NAME - LONGEST_NAME // 3 - 1) :]}"


def _escaped(letter: str) -> str:
    if 0xDC80 <= ord(letter) <= 0xDCFF:  # a byte of a file name that is not UTF-8
        return f"\\x{ord(letter) - 0xDC00:02x}"
    return letter.encode("unicode_escape").decode("ascii")


def confusion(assignments: Assignments, n_clusters: int) -> Confusion | None:
    """Counts of images per cluster and class; none without truth, or with more clusters or classes than can be read."""
    if assignments.truth is None:
        return None
    truth = np.array(assignments.truth, dtype=object)
    known = truth != ""
    classes = sorted(set(truth[known]), key=lambda name: (not name.isdecimal(), int(name) if name.isdecimal() else 0, name))
    if not classes or max(len(classes), n_clusters) > MAX_TABLE:
        return None
    place = {name: column for column, name in enumerate(classes)}
    table = np.zeros((n_clusters, len(classes)), dtype=np.int64)
    np.add.at(table, (assignments.labels[known], [place[name] for name in truth[known]]), 1)
    matched = linear_sum_assignment(table, maximize=True)[1]
    order = [*matched, *(column for column in range(len(classes)) if column not in matched)]
    table = table[:, order]
    shades = np.ceil(9 * table / np.maximum(table.sum(axis=1, keepdims=True), 1)).astype(int)
    return Confusion([shown(classes[column]) for column in order], table.tolist(), shades.tolist())


def _cluster(number: int, n_clusters: int, assignments: Assignments, images: ImageSet | None) -> Cluster:
    members = np.flatnonzero(assignments.labels == number)
    clearest = members[np.argsort(-assignments.confidence[members], kind="stable")]
    share = min(1.0, max(0.3, MANY_CLUSTERS / n_clusters))
    n_typical, n_borderline = round(share * N_TYPICAL), round(share * N_BORDERLINE)
    side = SHARP_SIDE if n_clusters <= MANY_CLUSTERS else SMALL_SIDE
    typical, rest = clearest[:n_typical], clearest[n_typical:]
    truth = None
    if assignments.truth is not None and (known := [name for row in members.tolist() if (name := assignments.truth[row])]):
        names, counts = np.unique(known, return_counts=True)
        truth = shown(str(names[counts.argmax()])), float(counts.max() / len(known))
    return Cluster(
        number=number,
        size=len(members),
        share=len(members) / max(len(assignments.labels), 1),
        confidence=float(assignments.confidence[members].mean()) if len(members) else 0.0,
        truth=truth,
        typical=[_picture(int(row), assignments, images, side) for row in typical],
        borderline=[_picture(int(row), assignments, images, side) for row in rest[::-1][:n_borderline]],
    )


def _picture(row: int, assignments: Assignments, images: ImageSet | None, max_side: int) -> Picture:
    path, confidence = assignments.names[row], float(assignments.confidence[row])
    name, file = shown(path), shown(os.path.basename(path))
    if images is None:
        return Picture("", 0, name, file, confidence)
    picture = sharp_picture(images, row, max_side)
    side = max(picture.size)
    return Picture(data_uri(picture), side * max(1, round(SHOWN_SIDE / side)) if side < 64 else 64, name, file, confidence)


def _map(assignments: Assignments, images: ImageSet | None, projection: Projection, numbers: NDArray[np.int64]) -> dict[str, Any]:
    """The map twice: as SVG paths that need no script, and as numbers for the script."""
    rows, labels = projection.rows, assignments.labels[projection.rows]
    places = np.rint(projection.points * MAP_SIDE).astype(int)
    clusters: list[dict[str, Any]] = []
    for number in numbers:
        own = places[labels == number]
        if len(own):
            x, y = (int(middle) for middle in np.median(own, axis=0))
            clusters.append({"number": int(number), "path": _markers(own, int(number)), "x": x, "y": y})
    sheets = sprite_sheets(images, rows, max_bytes=SPRITE_BYTES) if images is not None else None
    return {
        "clusters": clusters,
        "height": int(places[:, 1].max()) if len(places) else 0,
        "n_points": len(rows),
        "sheets": [base64.b64encode(sheet).decode() for sheet in sheets.sheets] if sheets else [],
        "names": {
            "names": [shown(assignments.names[row]) for row in rows],
            "truth": [shown(assignments.truth[row]) for row in rows] if assignments.truth is not None else None,
        },
        "data": {
            "centres": [[cluster["number"], cluster["x"] / MAP_SIDE, cluster["y"] / MAP_SIDE] for cluster in clusters],
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


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _static(name: str) -> str:
    return files("selfsort").joinpath("templates", name).read_text(encoding="utf-8")


@cache
def _template() -> Any:
    environment = Environment(
        loader=PackageLoader("selfsort"), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(percent=lambda value: f"{100 * value:.1f} %", shown=shown, title=_title, duration=_duration)
    environment.globals.update(colour=lambda number: number % N_COLOURS, shape=lambda number: number // N_COLOURS % N_SHAPES)
    return environment.get_template("report.html.j2")


def _title(source: str) -> str:
    """A source without the folders above it, which are nobody else's business."""
    return shown(os.path.basename(source.rstrip("/")) or source)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s" if minutes else f"{seconds:.1f} s"


def _settings(config: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in config.items():
        if isinstance(value, dict):
            yield from _settings(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def remedies(warnings: Sequence[str]) -> list[tuple[str, str]]:
    """Each warning as what is wrong and what to do about it.

    >>> remedies(["one cluster holds all images; train longer."])
    [('One cluster holds all images.', 'Train longer.')]
    """
    parts = [warning.rstrip(".").partition("; ") for warning in warnings]
    return [(f"{what[:1].upper()}{what[1:]}.", f"{do[:1].upper()}{do[1:]}." if do else "") for what, _, do in parts]
