"""Measures what a little knowledge is worth, on the sets of the zoo and digits.

    python benchmarks/teaching.py [--sets digits kthtips …] [--draws 3] [--each 5] [--seed 0]
                                  [--data DIR] [--out DIR]

For each set the network is trained once and the images are compared once; then they are sorted
without labels, and with so many labels of each class for each draw, as `selfsort fit --labels`
does. Labelled images are left out of the score. Beside it: the same with 5 % of the labels wrong; a
classifier (logistic regression) that learns the labels alone, on HOG and on selfsort's own vectors;
and scikit-learn's LabelSpreading on HOG. `answers` counts the simulated answers, ten at a time,
until 98 % of the images are right. One file per set is written as soon as it is there; those that
are there are not computed again.
"""

import argparse
import json
import statistics
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.semi_supervised import LabelSpreading

import selfsort
from baselines import descriptions
from selfsort.data.image_set import ImageSet
from selfsort.data.taught import Teaching
from selfsort.explore.asking import choose_questions
from selfsort.files import make_folder, save_json
from selfsort.metrics import align_clusters, score
from selfsort.recipes import resolve_config
from selfsort.runs.record import current_versions
from selfsort.runs.state import State
from selfsort.sorting.by_sources import Compared, SortedBySources, compare, settle
from selfsort.sorting.trained import TrainedNetwork, start_network
from selfsort.training.hooks import Hooks
from selfsort.training.pretrain import share_learned

HERE = Path(__file__).parent
DATA = HERE.parents[1] / "shared" / "data" / "zoo"
WRONG = 0.05
LESSON = 10
ENOUGH = 0.98
MOST_ANSWERS = 100
DIRECTIONS = 48
Labels = NDArray[np.int64]


def train(images: ImageSet, seed: int) -> TrainedNetwork:
    """A network as `fit` trains it, from the images alone."""
    channels = images.pixels.shape[1]
    config = resolve_config("standard", channels=channels, encoder="none")
    trained = start_network(images, config=config, seed=seed, hooks=Hooks())
    history = trained.train(images, Hooks())
    return replace(trained, learned=share_learned(history, trained.network.head.nodes[0]))


def draw_labels(truth: Labels, each: int, seed: int, wrong: float) -> Labels:
    """Some labels of each class, -1 for the other images; a share of them is wrong."""
    draw = np.random.default_rng(seed)
    n_classes = int(truth.max()) + 1
    given = np.full(len(truth), -1)
    for one in range(n_classes):
        rows = draw.permutation(np.flatnonzero(truth == one))[:each]
        given[rows] = one
    rows = np.flatnonzero(given >= 0)
    for row in draw.permutation(rows)[: round(wrong * len(rows))]:
        given[row] = (given[row] + draw.integers(1, n_classes)) % n_classes
    return given


class Bench:
    """One set, ready to be sorted again and again."""

    def __init__(self, images: ImageSet, seed: int) -> None:
        assert images.truth is not None, "it is scored"
        self.truth = images.truth
        self.n_classes = int(self.truth.max()) + 1
        self.trained = train(images, seed)
        self.compared: Compared = compare(self.trained, images, Hooks())
        self.hog = dict(descriptions(images))["HOG"]().numpy()

    def sort(self, known: Teaching | None) -> SortedBySources:
        """Sort with what is known, as the package does."""
        return settle(self.trained, self.compared, known, self.n_classes, Hooks())

    def accuracy(self, found: Labels, given: Labels) -> float:
        """Of the images without a label."""
        rest = given < 0
        return float((found == self.truth)[rest].mean())

    def measure(self, each: int, seed: int) -> dict[str, float]:
        """All figures of one draw of labels."""
        names = tuple(map(str, range(self.n_classes)))
        given = draw_labels(self.truth, each, seed, 0.0)
        wrong = draw_labels(self.truth, each, seed, WRONG)
        rows = np.flatnonzero(given >= 0)
        vectors = self.compared.vectors.numpy()
        spreading = LabelSpreading("knn", n_neighbors=7, max_iter=100).fit(self.hog, given)
        found = {
            "labels": self.sort(Teaching(given, names)).assignment.labels,
            "5 % wrong": self.sort(Teaching(wrong, names)).assignment.labels,
            "classifier on HOG": classify(self.hog, rows, given),
            "classifier on own vectors": classify(vectors, rows, given),
            "LabelSpreading on HOG": spreading.transduction_,
        }
        return {name: self.accuracy(labels, given) for name, labels in found.items()}

    def answers(self) -> list[tuple[int, float]]:
        """The accuracy of all images after so many answers."""
        first = self.sort(None).assignment
        order = align_clusters(first.labels, self.truth, self.n_classes)
        state = State.of(np.argsort(order)[first.labels], self.n_classes)
        confidence = first.confidence
        vectors = self.compared.vectors.numpy() - self.compared.vectors.numpy().mean(axis=0)
        left, strength, _ = np.linalg.svd(vectors, full_matrices=False)
        points = (left * strength)[:, :DIRECTIONS].astype(np.float32)
        told: list[tuple[int, float]] = []
        while True:
            right = float((state.labels == self.truth).mean())
            told.append((int(state.reviewed.sum()), right))
            if right >= ENOUGH or told[-1][0] >= MOST_ANSWERS:
                return told
            rows = choose_questions(points, state, confidence, LESSON)
            reviewed = state.reviewed.copy()
            labels = state.labels.copy()
            reviewed[rows] = True
            labels[rows] = self.truth[rows]
            given = np.where(reviewed, labels, -1)
            learned = self.sort(Teaching(given, ("",) * self.n_classes, weak=labels)).assignment
            state = replace(state, labels=learned.labels, reviewed=reviewed)
            confidence = learned.confidence


def classify(points: NDArray[np.float32], rows: NDArray[np.intp], given: Labels) -> Labels:
    """What a classifier says that has learned the labels alone."""
    fitted = LogisticRegression(C=100, max_iter=1000).fit(points[rows], given[rows])
    found: Labels = fitted.predict(points)
    return found


def run(name: str, data: Path, seed: int, each: int, n_draws: int) -> dict[str, Any]:
    """All figures of a set."""
    images = selfsort.load_source(name if name == "digits" else str(data / f"{name}.npz"))
    bench = Bench(images, seed)
    free = bench.sort(None).assignment.labels
    draws = [bench.measure(each, draw) for draw in range(n_draws)]
    return {
        "set": name,
        "images": len(images),
        "classes": bench.n_classes,
        "seed": seed,
        "each": each,
        "without labels": score(bench.truth, free).accuracy,
        "draws": draws,
        "answers": bench.answers(),
        "versions": current_versions(),
    }


def show(found: list[dict[str, Any]], tell: Callable[[str], None] = print) -> None:
    """A table of the means over the draws, and over the sets."""
    names = list(found[0]["draws"][0])
    tell("| set | without | " + " | ".join(names) + " | answers to 98 % |")
    tell("|---|" + "---:|" * (len(names) + 2))
    columns: dict[str, list[float]] = {name: [] for name in ("without", *names)}
    for one in found:
        columns["without"].append(100 * one["without labels"])
        cells = [f"{columns['without'][-1]:.1f}"]
        for name in names:
            values = [100 * draw[name] for draw in one["draws"]]
            columns[name].append(statistics.mean(values))
            cells.append(f"{statistics.mean(values):.1f} ± {statistics.pstdev(values):.1f}")
        count, right = one["answers"][-1]
        cells.append(str(count) if right >= ENOUGH else f"– ({100 * right:.1f} after {count})")
        tell(f"| {one['set']} | " + " | ".join(cells) + " |")
    means = " | ".join(f"{statistics.mean(values):.1f}" for values in columns.values())
    tell(f"| mean of {len(found)} | {means} | |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    sets = sorted(path.stem for path in DATA.glob("*.npz"))
    parser.add_argument("--sets", nargs="+", default=["digits", *sets])
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--each", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--out", type=Path, default=HERE / "results" / "teaching")
    chosen = parser.parse_args()
    make_folder(chosen.out)
    found = []
    for name in chosen.sets:
        file = chosen.out / f"{name}_seed-{chosen.seed}_each-{chosen.each}.json"
        if not file.exists():
            save_json(file, run(name, chosen.data, chosen.seed, chosen.each, chosen.draws))
        found.append(json.loads(file.read_text()))
    show(found)


if __name__ == "__main__":
    main()
