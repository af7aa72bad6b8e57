"""How many clusters the images fall into: the number whose clusters can be learned best.

The graphs of all sources together and of each alone are cut into k clusters, for many k. The share
of a clustering's information that a source can tell of images it has not seen, L_s (`judge.py`),
falls slowly with k, whatever the images are, and is higher where the cuts meet what is there. So

    y(k) = mean over cuts and sources of L_s,    k = argmax (y(k) − q(log k))

with q the quadratic that comes closest to y. Then the numbers between this k and the next ones that
were tried are tried as well.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from selfsort.clustering.judge import Labels, Vectors, learnability
from selfsort.clustering.spectral import ClusterCount

TRIED = (2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 17, 20, 24, 28, 34, 40, 48, 58, 70, 84, 100)
"""Numbers of clusters that are tried first."""

SMALLEST = 12
"""Images of a cluster, in the mean, at least."""

NEAR = 0.25
"""Numbers within this share of another one are the same number, roughly."""


class Curve(NamedTuple):
    """The number of clusters, and how far above what is usual each number is that was tried."""

    best: ClusterCount
    points: list[tuple[int, float]]


def count_by_learning(
    cut_all: Callable[[int], Sequence[Labels]],
    sources: Sequence[Vectors],
    *,
    most: int,
    on_step: Callable[[int, int], None] | None = None,
) -> Curve:
    """The number of clusters, from 2 to `most`, that the sources can learn best; `cut_all` answers
    several clusterings of so many clusters.
    """
    numbers = [k for k in TRIED if k <= most] or [2]
    heights: list[float] = []

    def height(k: int) -> float:
        cuts = cut_all(k)
        return float(np.mean([learnability(cuts, vectors, k) for vectors in sources]))

    for k in numbers:
        heights.append(height(k))
        if on_step:
            on_step(len(heights), len(numbers) + 1)
    usual = np.polyfit(np.log(numbers), heights, min(2, len(numbers) - 1))
    above = dict(zip(numbers, heights - np.polyval(usual, np.log(numbers)), strict=True))
    place = numbers.index(max(above, key=above.__getitem__))
    low, high = numbers[max(place - 1, 0)], numbers[min(place + 1, len(numbers) - 1)]
    for k in {*range(low, high)} - {*numbers}:
        above[k] = height(k) - np.polyval(usual, np.log(k))
    best = max(above, key=above.__getitem__)
    others = [value for k, value in above.items() if abs(k - best) > NEAR * best]
    clarity = max(float(above[best]), 1e-3) / max([*others, 1e-3])
    if on_step:
        on_step(len(numbers) + 1, len(numbers) + 1)
    points = [(k, round(float(above[k]), 4)) for k in sorted(above)]
    return Curve(ClusterCount(best, round(clarity, 3)), points)
