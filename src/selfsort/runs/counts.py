"""What the curve of `-k auto` says besides the number that was taken, in words."""

from collections.abc import Sequence

NEAR = 0.25
"""Numbers within this share of another one are the same number of clusters, roughly."""

WORTH = 0.25
"""A peak of the curve is worth naming from this share of the highest one."""


def alternatives(
    curve: Sequence[Sequence[float]], n_clusters: int
) -> tuple[int | None, int | None]:
    """The best peak below and above the number that was taken, if there are any worth naming; the
    ends of the curve are no peaks.

    >>> alternatives([(2, 0.1), (3, 0.5), (4, 0.1), (5, 0.0), (6, 0.9), (7, 0.2), (9, 0.1)], 6)
    (3, None)
    """
    heights = [height for _, height in curve]
    least = WORTH * max(heights, default=0.0)
    inner = zip(curve[1:-1], heights, heights[2:], strict=False)
    peaks = {
        int(number): height
        for (number, height), before, after in inner
        if height > max(before, after, 0.0) and height >= least
    }
    far = {k: height for k, height in peaks.items() if abs(k - n_clusters) > NEAR * n_clusters}
    coarser = [k for k in far if k < n_clusters]
    finer = [k for k in far if k > n_clusters]
    return max(coarser, key=far.__getitem__, default=None), max(
        finer, key=far.__getitem__, default=None
    )


def say_number(curve: Sequence[Sequence[float]], n_clusters: int) -> str:
    """One sentence for people.

    >>> say_number([(2, 0.1), (3, 0.5), (4, 0.1), (6, 0.9), (7, 0.2)], 6)
    '6, or 3 if you want coarser groups'
    """
    coarser, finer = alternatives(curve, n_clusters)
    groups = [f"{coarser} if you want coarser groups"] if coarser else []
    groups += [f"{finer} if you want finer groups"] if finer else []
    return ", or ".join([str(n_clusters), *groups])
