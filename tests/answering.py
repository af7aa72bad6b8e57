"""A run of digits in four classes that is partly wrong, and what a person would answer."""

import csv
import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from selfsort.metrics import align_clusters
from test_cli import succeed

CLASSES = (1, 2, 3, 8)


def rows_of_digits() -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Four hundred digits as rows of features, and their class, 0 to 3."""
    rows, truth = load_digits(return_X_y=True)
    chosen = np.flatnonzero(np.isin(truth, CLASSES))[:400]
    return rows[chosen].astype(np.float32), np.searchsorted(CLASSES, truth[chosen])


def write_rows(folder: Path) -> Path:
    file = folder / "rows.npy"
    np.save(file, rows_of_digits()[0])
    return file


def write_labels(file: Path, rows: NDArray[np.intp], classes: NDArray[np.int64]) -> Path:
    with open(file, "w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(["index", "class"])
        writer.writerows(
            (row, f"digit {CLASSES[one]}") for row, one in zip(rows, classes, strict=True)
        )
    return file


def some_rows(each: int, seed: int, classes: int = 4) -> NDArray[np.intp]:
    """So many rows of each class, drawn by a seed."""
    _, truth = rows_of_digits()
    draw = np.random.default_rng(seed)
    return np.concatenate(
        [draw.permutation(np.flatnonzero(truth == one))[:each] for one in range(classes)]
    )


def clusters_of_classes(labels: NDArray[np.int64]) -> list[int]:
    """The cluster that a person would take for each class, a different one for each."""
    _, truth = rows_of_digits()
    return list(map(int, align_clusters(labels, truth, 4)))


def fit_digits(folder: Path, *options: object) -> Path:
    out = folder / "run"
    succeed("fit", write_rows(folder), "--kind", "features", "--out", out, "--no-report", *options)
    return out


def answer_questions(run: Path, folder: Path, count: int, clusters: list[int]) -> int:
    """Ask, answer by truth, and keep the answers."""
    _, truth = rows_of_digits()
    questions = json.loads(succeed("ask", run, "-n", count, "--json"))["questions"]
    with open(folder / "answers.csv", "w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(["name", "cluster"])
        writer.writerows((one["name"], clusters[int(truth[one["row"]])]) for one in questions)
    succeed("ask", run, "--answers", folder / "answers.csv")
    return len(questions)
