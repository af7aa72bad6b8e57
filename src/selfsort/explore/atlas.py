"""A place on the map for every image of a run, also for those that the report's map leaves out."""

import numpy as np
from numpy.typing import NDArray

from selfsort.explore.likeness import neighbours
from selfsort.report.map import Projection
from selfsort.report.typical import Points

NEAREST = 5
"""Mapped images between which another one is placed."""

SPREAD = 0.004
"""So far from there, at random, or images with the same neighbours would hide each other."""


def place_all(projection: Projection, points: Points, seed: int) -> NDArray[np.float32]:
    """Places of all images in [0, 1]: those of the map, and for the others the mean of their
    nearest neighbours on it.
    """
    found = np.full((len(points), 2), np.nan, dtype=np.float32)
    found[projection.rows] = projection.points
    others = np.flatnonzero(np.isnan(found[:, 0]))
    jitter = np.random.default_rng(seed).normal(scale=SPREAD, size=(len(points), 2))
    for rows, near in neighbours(points, others, projection.rows.astype(np.intp)):
        found[rows] = found[near[:, :NEAREST]].mean(axis=1) + jitter[rows]
    return np.clip(found, 0, 1)
