"""A finished run to one self-contained HTML page; no torch."""

import base64
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined

from selfsort.data.image_set import ImageSet
from selfsort.report.cards import (
    Cluster,
    cluster_card,
    confusion,
    falling_apart,
    odd_images,
    shown,
)
from selfsort.report.charts import count_chart, spectrum_chart, training_charts
from selfsort.report.map import Projection
from selfsort.report.map_drawing import N_COLOURS, N_SHAPES, draw_map
from selfsort.report.static import read_static
from selfsort.report.tree_drawing import Tree, draw_tree
from selfsort.report.typical import Points, places
from selfsort.runs.counts import say_number
from selfsort.runs.record import Run
from selfsort.runs.table import Assignments
from selfsort.runs.tree import joins
from selfsort.text import duration

MAX_CLUSTERS = 256
MAX_TREE = 100
"""Clusters of a tree that can be drawn, at most."""


def render_report(
    run: Run,
    assignments: Assignments,
    images: ImageSet | None,
    projection: Projection | None,
    vectors: Points | None = None,
    *,
    columns: Mapping[str, Sequence[str]] | None = None,
    without_images: str = "",
    without_map: str = "",
    on_step: Callable[[int, int], None] | None = None,
) -> str:
    """The page of a run; `columns` are its metadata. `without_images` and `without_map` say why
    these are missing. The same arguments always give the same page.
    """
    sizes = np.bincount(assignments.labels[assignments.inner], minlength=run.n_clusters)
    order = np.argsort(-sizes, kind="stable")
    if assignments.outliers is not None:
        order = order[sizes[order] > 0]  # a person has merged or emptied the others
    numbers = np.sort(order[:MAX_CLUSTERS])
    points = places(len(assignments.labels), projection, vectors)
    clusters = []
    for done, number in enumerate(numbers, start=1):
        clusters.append(
            cluster_card(int(number), len(numbers), assignments, images, points, columns)
        )
        if on_step:
            on_step(done, len(numbers))
    history = [record for record in run.history if {"stage", "epoch", "terms"} <= record.keys()]
    style = read_static("base.css") + read_static("report.css")
    script = read_static("dom.js") + read_static("points.js") + read_static("report.js")
    page: str = _template().render(
        run=replace(run, n_clusters=len(order)),
        clusters=clusters,
        tree=_tree(clusters, assignments, points),
        apart=falling_apart(assignments, images, points, numbers.tolist()),
        odd=odd_images(run.oddities, assignments, images),
        has_file_names=not all(name.isdecimal() for name in assignments.names),
        confidence=float(assignments.confidence.mean()) if len(assignments.confidence) else 0.0,
        history=history,
        warnings=remedies(run.warnings),
        settings=list(_settings(run.config)),
        terms=list(dict.fromkeys(name for record in history for name in record["terms"])),
        charts=training_charts(history),
        spectrum=spectrum_chart(run.eigenvalues, run.cluster_count.get("n_clusters"))
        if run.eigenvalues
        else None,
        curve=count_chart(run.count_curve, run.n_clusters) if run.count_curve else None,
        number=say_number(run.count_curve, run.cluster_count.get("n_clusters", run.n_clusters)),
        confusion=confusion(assignments, run.n_clusters),
        map=draw_map(assignments, images, projection, numbers) if projection is not None else None,
        without_images=without_images,
        without_map=without_map,
        style=style,
        script=script,
        style_hash=_hash(style),
        script_hash=_hash(script),
    )
    return page


def _tree(
    clusters: Sequence[Cluster], assignments: Assignments, points: Points | None
) -> Tree | None:
    """How the clusters join into coarser ones, if there are enough of them and it can be seen."""
    there = [cluster for cluster in clusters if cluster.size]
    if points is None or not 3 <= len(there) <= MAX_TREE:
        return None
    numbers = [cluster.number for cluster in there]
    labels = np.where(assignments.inner, assignments.labels, -1)
    names = [cluster.name for cluster in there]
    sizes = [cluster.size for cluster in there]
    return draw_tree(joins(points, labels, numbers), numbers, names, sizes)


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@cache
def _template() -> Any:
    environment = Environment(
        loader=PackageLoader("selfsort.report", "assets"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        percent=lambda value: f"{100 * value:.1f} %", shown=shown, title=_title, duration=duration
    )
    environment.globals.update(
        colour=lambda number: number % N_COLOURS,
        shape=lambda number: number // N_COLOURS % N_SHAPES,
    )
    return environment.get_template("report.html.j2")


def _title(source: str) -> str:
    """A source without the folders above it, which are private."""
    return shown(os.path.basename(source.rstrip("/")) or source)


def _settings(config: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in config.items():
        if isinstance(value, dict):
            yield from _settings(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def remedies(warnings: Sequence[str]) -> list[tuple[str, str]]:
    """Each warning as what is wrong and what to do.

    >>> remedies(["one cluster holds all images; train longer."])
    [('One cluster holds all images.', 'Train longer.')]
    """
    parts = [warning.rstrip(".").partition("; ") for warning in warnings]
    return [
        (f"{what[:1].upper()}{what[1:]}.", f"{do[:1].upper()}{do[1:]}." if do else "")
        for what, _, do in parts
    ]
