"""How all pictures look: one column of print, ten colours that colour-blind people can tell apart,
a caption in each.
"""

import io
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from selfsort.errors import SelfsortError
from selfsort.files import save_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = (
    "#304cdc",
    "#f1155a",
    "#08a17c",
    "#662d8f",
    "#505502",
    "#e255b7",
    "#4e8bf8",
    "#4b1c1a",
    "#b87c00",
    "#5c486d",
)
"""Those of the report."""

MARKERS = "os^Dvx"
WIDTH, DPI, GRID = 7.0, 160, 999
SETTINGS = {
    "font.size": 8,
    "axes.titlesize": 8.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.5,
    "legend.frameon": False,
    "lines.linewidth": 1.4,
    "lines.markersize": 3.5,
}


def need_matplotlib() -> None:
    """Say what to install, before hours are spent on what could not be drawn."""
    from importlib.util import find_spec

    if find_spec("matplotlib") is None or find_spec("networkx") is None:
        raise SelfsortError(
            "pictures need matplotlib and networkx; install them with: pip install "
            "'selfsort[reproduce]'"
        )


def panels(rows: int, columns: int, *, height: float) -> tuple["Figure", list["Axes"]]:
    """A figure as wide as a page, `height` inches for each row, and its axes in reading order."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, rows * height + 0.45), layout="constrained")
    return figure, list(figure.subplots(rows, columns, squeeze=False).flat)


def save_picture(draw: Callable[[], "Figure"], path: Path, caption: str) -> Path:
    """Draw in this style and write a PNG file with the caption below the picture."""
    from matplotlib import rc_context

    buffer = io.BytesIO()
    with rc_context(SETTINGS):  # type: ignore[arg-type]
        figure = draw()
        figure.supxlabel(
            textwrap.fill(caption, 135), fontsize=7, color="#444444", x=0.01, ha="left"
        )
        figure.savefig(buffer, format="png", dpi=DPI, metadata={"Software": None})
    save_bytes(path, buffer.getvalue())
    return path


def draw_map(
    axes: "Axes", points: Sequence[int], truth: Sequence[int], names: Sequence[str], title: str
) -> None:
    """A t-SNE map, coloured by truth, with each class's name in its middle."""
    places, classes = np.array(points).reshape(-1, 2), np.array(truth)
    scatter(axes, places, truth, size=3)
    for value in np.unique(classes):
        label(axes, np.median(places[classes == value], axis=0), names[value])
    bare(axes, title)


def scatter(axes: "Axes", places: NDArray[Any], classes: Sequence[int], *, size: float) -> None:
    """Points in the colours of their classes, the whole in the middle of a square."""
    axes.scatter(
        places[:, 0],
        places[:, 1],
        c=[COLOURS[value % len(COLOURS)] for value in classes],
        s=size,
        linewidths=0,
        zorder=2,
    )
    middle = (places.min(axis=0) + places.max(axis=0)) / 2
    axes.set(
        xlim=(middle[0] - GRID * 0.53, middle[0] + GRID * 0.53),
        ylim=(middle[1] - GRID * 0.53, middle[1] + GRID * 0.53),
    )


def label(axes: "Axes", place: NDArray[Any], text: str) -> None:
    """A short text that can be read on top of points."""
    from matplotlib.patheffects import withStroke

    effects = [withStroke(linewidth=2, foreground="white")]
    axes.text(
        place[0],
        place[1],
        text,
        fontsize=8,
        fontweight="bold",
        ha="center",
        va="center",
        path_effects=effects,
    )


def bare(axes: "Axes", title: str) -> None:
    """Axes without ticks: places on a map have no meaning by themselves."""
    axes.set(title=title, xticks=[], yticks=[], aspect="equal")
    axes.spines[:].set_visible(True)
    axes.spines[:].set_color("#bbbbbb")


def as_grid(points: NDArray[Any]) -> list[int]:
    """Points on a grid of 1000 × 1000, both axes on one scale: x, y, x, y, … for a small file."""
    low, span = points.min(axis=0), float(np.ptp(points, axis=0).max())
    whole: list[int] = (
        np.round((points - low) / max(span, 1e-12) * GRID).astype(int).ravel().tolist()
    )
    return whole
