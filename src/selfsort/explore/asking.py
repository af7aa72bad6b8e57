"""Which images to ask a person about: those whose answer would teach most.

An image is worth asking if its neighbours are unsure: one answer then settles the whole group.
Images near one that was answered, or that is asked already, are worth less: twenty copies
of one teach as much as one.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from selfsort.errors import EditError
from selfsort.explore.likeness import Rows, neighbours, spread
from selfsort.report.typical import Points
from selfsort.runs.edits import Accept, Edit, Move
from selfsort.runs.journal import Journal
from selfsort.runs.state import State

MAX_CANDIDATES = 6000
"""Images among which those to be asked are chosen, at most."""

REACH = 1.0
"""How far an answer reaches, in mean distances to the farthest neighbour that counts."""


def choose_questions(
    points: Points, state: State, confidence: NDArray[np.float32], count: int
) -> list[int]:
    """At most so many images that nobody has decided on, the one that would teach most first."""
    is_open = ~state.reviewed & ~state.outliers & ~np.isnan(points[:, 0])
    candidates = np.flatnonzero(is_open)
    if len(candidates) > MAX_CANDIDATES:  # the less sure half of them, and some of all
        order = candidates[np.argsort(confidence[candidates], kind="stable")]
        half = MAX_CANDIDATES // 2
        candidates = np.union1d(order[:half], spread(order[half:], half))
    if not len(candidates):
        return []
    doubt, reach = _doubts(points, state, confidence, candidates)
    answered = np.flatnonzero(state.reviewed & ~np.isnan(points[:, 0]))
    for row in answered:
        doubt *= _unreached(points, candidates, row, reach)
    chosen: list[int] = []
    while len(chosen) < min(count, len(candidates)):
        best = int(doubt.argmax())
        chosen.append(int(candidates[best]))
        doubt *= _unreached(points, candidates, candidates[best], reach)
        doubt[best] = -1
    return chosen


def _doubts(
    points: Points, state: State, confidence: NDArray[np.float32], candidates: Rows
) -> tuple[NDArray[np.float64], float]:
    """How unsure the neighbours of each candidate are, and how far they are away."""
    everyone = np.flatnonzero(~state.outliers & ~np.isnan(points[:, 0]))
    found = np.zeros(len(candidates))
    distances = []
    place = 0
    for rows, near in neighbours(points, candidates, everyone):
        found[place : place + len(rows)] = (1 - confidence[near]).mean(axis=1)
        distances.append(np.square(points[near[:, -1]] - points[rows]).sum(axis=1))
        place += len(rows)
    return found, float(np.sqrt(np.concatenate(distances)).mean()) * REACH


def _unreached(
    points: Points, candidates: Rows, row: int | np.integer, reach: float
) -> NDArray[np.float64]:
    """What is left of each candidate's worth when one image is answered."""
    squares = np.square(points[candidates] - points[row]).sum(axis=1)
    return np.asarray(1 - np.exp(-squares / (2 * max(reach, 1e-9) ** 2)), dtype=np.float64)


def answer(journal: Journal, names: Sequence[str], said: Mapping[str, str]) -> int:
    """Write answers into a journal: the cluster of each image, by its name or number; answers how
    many there were. What does not fit is refused before anything is written.
    """
    place = {name: row for row, name in enumerate(names)}
    if unknown := [name for name in said if name not in place]:
        raise EditError(
            f"{len(unknown):,} of {len(said):,} answers are for images that are not there "
            f"({unknown[0]!r}); correct the names. Nothing was changed."
        )
    by_cluster: dict[str, list[int]] = {}
    for name, cluster in said.items():
        by_cluster.setdefault(cluster, []).append(place[name])
    for cluster in by_cluster:
        if cluster.isdecimal() and int(cluster) not in journal.state.clusters:
            raise EditError(f"there is no cluster {cluster[:20]}. Nothing was changed.")
    for cluster, rows in by_cluster.items():
        for edit in _edits_for(journal.state, cluster, rows):
            journal.add(edit)
    return len(said)


def _edits_for(state: State, cluster: str, rows: list[int]) -> list[Edit]:
    numbers = {name.casefold(): number for number, name in state.names.items()}
    numbers |= {f"cluster {number}": number for number in state.clusters}
    number = int(cluster) if cluster.isdecimal() else numbers.get(cluster.casefold())
    if number is None:
        return [Move(rows, state.free, cluster)]
    stay = [row for row in rows if state.labels[row] == number and not state.outliers[row]]
    move = [row for row in rows if row not in set(stay)]
    return [*([Accept(stay)] if stay else []), *([Move(move, number)] if move else [])]
