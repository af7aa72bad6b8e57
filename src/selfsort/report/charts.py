"""Numbers to the parts of a line chart that a template draws as SVG, without JavaScript."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

WIDTH = 480
HEIGHT = 240
LEFT = 52
RIGHT = 12
TOP = 12
BOTTOM = 38

TERM_GROUPS = {
    "Loss": ("loss", "classification"),
    "Shares": ("pseudo_accuracy", "affinity", "balance", "target_accuracy", "agreement"),
    "Activity": ("frobenius",),
}
TERM_NAMES = {
    "loss": "total loss",
    "classification": "classification",
    "pseudo_accuracy": "pseudo accuracy",
    "affinity": "affinity α",
    "balance": "balance β",
    "target_accuracy": "targets met",
    "agreement": "targets met",  # what runs of earlier versions call it
    "frobenius": "activity ‖B‖²",
}


STAGE_NAMES = {"training": "Pseudo-supervised training", "recluster": "Reclustering"}


class Tick(NamedTuple):
    """A place on an axis, in the chart's units, and its label."""

    place: float
    label: str


class Line(NamedTuple):
    """One series: its name, its path and its single points (drawn where they are few)."""

    name: str
    path: str
    dots: list[tuple[float, float]]
    last: str


@dataclass(frozen=True)
class Chart:
    """Everything a template needs to draw a chart; `description` is for screen readers."""

    title: str
    description: str
    x_label: str
    x_ticks: list[Tick]
    y_ticks: list[Tick]
    lines: list[Line]
    mark: Tick | None = None
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    right: int = WIDTH - RIGHT
    top: int = TOP
    bottom: int = HEIGHT - BOTTOM


def training_charts(history: Sequence[Mapping[str, Any]]) -> dict[str, list[Chart]]:
    """The curves of each stage of training; the rounds of one stage (`recluster-1`, `recluster-2`)
    follow each other.
    """
    stages: dict[str, list[Mapping[str, float]]] = {}
    for record in history:
        stage, _, number = record["stage"].rpartition("-")
        stages.setdefault(stage if number.isdecimal() else record["stage"], []).append(
            record["terms"]
        )
    charts = {}
    for stage, records in stages.items():
        found = []
        for title, names in TERM_GROUPS.items():
            values = {
                name: [float(record[name]) for record in records if name in record]
                for name in names
            }
            values = {TERM_NAMES[name]: series for name, series in values.items() if series}
            if values:
                found.append(
                    line_chart(
                        title, values, x_label="epoch", bounds=(0, 1) if title == "Shares" else None
                    )
                )
        if found:
            charts[STAGE_NAMES.get(stage, stage.capitalize())] = found
    return charts


def spectrum_chart(eigenvalues: Sequence[float], n_clusters: int | None) -> Chart:
    """The eigenvalues of the graph of neighbours, with a mark after those of clusters."""
    low = min(eigenvalues)
    mark = (n_clusters + 0.5, f"{n_clusters} clusters") if n_clusters else None
    values = {"eigenvalue": [float(value) for value in eigenvalues]}
    return line_chart(
        "Spectrum", values, x_label="number of the eigenvalue", bounds=(low, 1.0), mark=mark
    )


def count_chart(curve: Sequence[Sequence[float]], n_clusters: int) -> Chart:
    """How much better each number of clusters can be learned than is usual; the numbers are drawn
    evenly, however far apart they are.
    """
    heights = [float(height) for _, height in curve]
    numbers = [int(number) for number, _ in curve]
    place = numbers.index(n_clusters) + 1 if n_clusters in numbers else None
    return line_chart(
        "Learnability",
        {"above the usual": heights},
        x_label="number of clusters",
        bounds=(min(heights), max(heights)),
        mark=(place, f"{n_clusters} clusters") if place else None,
        x_names=numbers,
    )


def line_chart(
    title: str,
    series: Mapping[str, Sequence[float]],
    *,
    x_label: str,
    x_names: Sequence[int] | None = None,
    bounds: tuple[float, float] | None = None,
    mark: tuple[float, str] | None = None,
) -> Chart:
    """A chart of series that count from 1, or have `x_names`; NaN and infinity are left out."""
    shown = {
        name: [(x, y) for x, y in enumerate(values, start=1) if math.isfinite(y)]
        for name, values in series.items()
    }
    heights = [y for points in shown.values() for _, y in points] or [0.0]
    low, high = bounds or (min(0.0, *heights), max(heights))
    y_values = nice_ticks(low, high)
    low = min(low, y_values[0])
    high = max(high, y_values[-1])
    count = max(2, *(len(values) for values in series.values()))
    x_values = sorted({round(value) for value in nice_ticks(1, count)} - {0} | {1})

    def across(x: float) -> float:
        return round(LEFT + (x - 0.5) / count * (WIDTH - LEFT - RIGHT), 1)

    def up(y: float) -> float:
        return round(
            HEIGHT - BOTTOM - (y - low) / max(high - low, 1e-12) * (HEIGHT - BOTTOM - TOP), 1
        )

    lines = []
    for name, points in shown.items():
        places = [(across(x), up(y)) for x, y in points]
        path = "M" + "L".join(f"{x} {y}" for x, y in places) if places else ""
        lines.append(
            Line(
                name,
                path,
                places if len(places) <= 60 else [],
                _brief(points[-1][1]) if points else "–",
            )
        )
    ends = ", ".join(
        f"{name} from {_brief(points[0][1])} to {_brief(points[-1][1])}"
        for name, points in shown.items()
        if points
    )
    return Chart(
        title=title,
        description=f"{title} over {x_label}: {ends}." + (f" Mark: {mark[1]}." if mark else ""),
        x_label=x_label,
        x_ticks=[
            Tick(across(x), f"{x_names[x - 1] if x_names else x:,}")
            for x in x_values
            if x <= (len(x_names) if x_names else count)
        ],
        y_ticks=[Tick(up(y), f"{y:,.6g}") for y in y_values if low <= y <= high],
        lines=lines,
        mark=Tick(across(mark[0]), mark[1]) if mark else None,
    )


def _brief(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def nice_ticks(low: float, high: float, count: int = 5) -> list[float]:
    """About `count` round numbers from at most `low` to at least `high`.

    >>> nice_ticks(0, 2.3)
    [0.0, 0.5, 1.0, 1.5, 2.0, 2.5]
    """
    if high - low <= 1e-6 * abs(high):  # one value only
        high = low + (abs(low) or 1.0)
    span = high - low
    power = 10.0 ** math.floor(math.log10(span / count))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power * count >= span)
    first = math.floor(low / step + 1e-9)
    last = math.ceil(high / step - 1e-9)
    return [float(f"{number * step:.10g}") for number in range(first, max(last, first + 1) + 1)]
