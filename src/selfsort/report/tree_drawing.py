"""The tree of clusters as lines and places that a template draws as SVG."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from selfsort.report.charts import Tick
from selfsort.runs.tree import Join

ROW = 26
WIDTH = 720
LABELS = 230
"""Room for the names of the clusters, on the left."""

MARGIN = 14


class Leaf(NamedTuple):
    """A cluster at the end of a branch."""

    number: int
    name: str
    size: int
    y: float


@dataclass(frozen=True)
class Tree:
    """All that is drawn; each path joins two branches, `ticks` say how many groups are left."""

    width: int
    height: int
    left: int
    leaves: list[Leaf]
    paths: list[str]
    ticks: list[Tick]
    description: str


def draw_tree(
    joins: Sequence[Join], numbers: Sequence[int], names: Sequence[str], sizes: Sequence[int]
) -> Tree:
    """The joins of these clusters from left to right, evenly spaced, the first on the left."""
    order: list[int] = []
    members = [[place] for place in range(len(numbers))]
    for one in joins:
        members.append(members[one.first] + members[one.second])
    order = members[-1]
    heights = {place: MARGIN + ROW * (row + 0.5) for row, place in enumerate(order)}
    step = (WIDTH - LABELS - MARGIN) / max(len(joins), 1)
    ends = {place: (float(LABELS), heights[place]) for place in order}
    paths = []
    for place, one in enumerate(joins):
        (x_1, y_1), (x_2, y_2) = ends[one.first], ends[one.second]
        x = round(LABELS + (place + 1) * step, 1)
        paths.append(f"M{x_1} {y_1}H{x}V{y_2}H{x_2}")
        ends[len(numbers) + place] = (x, round((y_1 + y_2) / 2, 1))
    every = -(-len(joins) // 12) if joins else 1
    ticks = [
        Tick(round(LABELS + (place + 1) * step, 1), str(len(numbers) - place - 1))
        for place in range(len(joins))
        if place % every == every - 1 or place == len(joins) - 1
    ]
    first = [f"{numbers[place]}" for place in members[len(numbers)]] if joins else []
    return Tree(
        WIDTH,
        round(2 * MARGIN + ROW * len(order) + 16),
        LABELS,
        [Leaf(numbers[place], names[place], sizes[place], heights[place]) for place in order],
        paths,
        ticks,
        f"Tree of {len(numbers)} clusters; the most alike are {' and '.join(first)}.",
    )
