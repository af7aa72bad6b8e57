"""Time series as pictures: one as a line for each channel, a cluster as faint lines with their
mean.
"""

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

PAPER = (255, 255, 255)
COLOURS = ((31, 90, 160), (200, 80, 20), (40, 130, 60), (140, 60, 150), (110, 110, 110))
FAINT = (185, 203, 226)
AXIS = (225, 225, 225)
SHARP = 3
"""Pictures are drawn so many times as large and made smaller: lines become smooth."""

MARGIN = 0.06
MOST_LINES = 60
"""Lines that are laid over each other, at most."""

Points = list[tuple[float, float]]


def draw_series(series: NDArray[np.float32], side: int) -> Image.Image:
    """A square picture of one series (channel, length), over its own range."""
    low, high = float(series.min()), float(series.max())
    canvas, draw = _paper(side)
    for number in reversed(range(len(series))):
        colour = COLOURS[number % len(COLOURS)]
        _line(draw, series[number], low, high, side, colour, _width(side))
    return canvas.resize((side, side), Image.Resampling.LANCZOS)


def draw_group(series: NDArray[np.float32], side: int) -> Image.Image:
    """Many series (n, channel, length) over each other, each on its own scale, with their mean."""
    spread = series.std(axis=2, keepdims=True)
    scaled = (series - series.mean(axis=2, keepdims=True)) / np.where(spread > 0, spread, 1)
    low, high = (float(value) for value in np.percentile(scaled, (0.5, 99.5)))
    canvas, draw = _paper(side)
    rows = np.linspace(0, len(series) - 1, min(MOST_LINES, len(series))).astype(int)
    for row in rows:
        for channel in scaled[row]:
            _line(draw, channel, low, high, side, FAINT, SHARP)
    for number, channel in enumerate(scaled.mean(axis=0)):
        _line(draw, channel, low, high, side, COLOURS[number % len(COLOURS)], 2 * _width(side))
    return canvas.resize((side, side), Image.Resampling.LANCZOS)


def _paper(side: int) -> tuple[Image.Image, ImageDraw.ImageDraw]:
    canvas = Image.new("RGB", (SHARP * side, SHARP * side), PAPER)
    draw = ImageDraw.Draw(canvas)
    middle = SHARP * side // 2
    draw.line([(0, middle), (SHARP * side, middle)], fill=AXIS, width=1)
    return canvas, draw


def _width(side: int) -> int:
    return SHARP * max(1, round(side / 128))


def _line(
    draw: ImageDraw.ImageDraw,
    values: NDArray[np.float32],
    low: float,
    high: float,
    side: int,
    colour: tuple[int, int, int],
    width: int,
) -> None:
    size = SHARP * side
    inner = size * (1 - 2 * MARGIN)
    thin = thinned(values, size)
    right = np.linspace(size * MARGIN, size * (1 - MARGIN), len(thin))
    height = (thin - low) / (high - low) if high > low else np.full(len(thin), 0.5)
    down = size * (1 - MARGIN) - np.clip(height, -0.05, 1.05) * inner
    draw.line(list(zip(right.tolist(), down.tolist(), strict=True)), fill=colour, width=width)


def thinned(values: NDArray[np.float32], n_columns: int) -> NDArray[np.float32]:
    """At most two values for each column of a picture, the lowest and the highest in their order.

    >>> thinned(np.arange(12, dtype=np.float32), 2).tolist()
    [0.0, 5.0, 6.0, 11.0]
    """
    if len(values) <= 2 * n_columns:
        return values
    parts = np.array_split(values, n_columns)
    ends = [part[sorted((part.argmin(), part.argmax()))] for part in parts]
    return np.concatenate(ends)
