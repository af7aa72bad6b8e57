"""Sorts many kinds of images with selfsort and with cheap baselines, and writes zoo.md and zoo.png.

    python benchmarks/zoo.py [--sets yaleb discs …] [--seeds 0 1 2] [--encoders none auto]
                             [--threads 2] [--data DIR] [--out DIR] [--again | --page]

Every fit is a fresh process of `selfsort fit`. Each result is a small file in results/zoo/, written
when it is there; one that this code has found with these settings is not computed again. A set is
DIR/NAME.npz with images `x` and truth `y`; discs are drawn here, digits come with scikit-learn;
usps, mnist and svhn are sorted when asked for by name (their files as `selfsort fit` finds them).
"""

import argparse
import hashlib
import json
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import roc_auc_score
from sklearn.metrics.cluster import contingency_matrix

import selfsort
from selfsort.cli.fit import command
from selfsort.files import make_folder, save_json
from selfsort.method.lite0 import weights_file
from selfsort.runs.record import current_versions
from zoo_page import KINDS, NAMED, Baselines, Measured, write_page

HERE = Path(__file__).parent
DATA = HERE.parents[1] / "shared" / "data" / "zoo"
Arrays = tuple[NDArray[np.uint8], NDArray[np.int64]]
PACKAGE = Path(selfsort.__file__).parent
CODE = ("clustering/*", "data/*", "method/*", "sorting/*", "training/*", "[crs]*.py")
"""The files of the package that decide where an image goes: a result is out of date when one of
them has changed.
"""


@dataclass(frozen=True)
class Task:
    """One result to find: `encoder` None means the baselines."""

    name: str
    seed: int = 0
    encoder: str | None = None

    @property
    def file(self) -> str:
        """The name of the file that keeps it."""
        if self.encoder is None:
            return f"{self.name}_baselines.json"
        return f"{self.name}_{self.encoder}_seed-{self.seed}.json"


def version_of(files: Iterable[Path]) -> str:
    """A hash of what is in these files."""
    return hashlib.sha256(b"".join(file.read_bytes() for file in sorted(files))).hexdigest()[:12]


def draw_discs(seed: int, *, n_images: int = 300, side: int = 48) -> Arrays:
    """Red, green and blue discs of random size at random places on black."""
    draw = np.random.default_rng(seed)
    truth = np.arange(n_images) % 3
    radius = draw.uniform(side / 12, side / 4, n_images)
    centre = radius + draw.random((2, n_images)) * (side - 2 * radius)
    rows, columns = np.mgrid[:side, :side]
    down = rows - centre[0, :, None, None]
    right = columns - centre[1, :, None, None]
    inside = np.hypot(down, right) <= radius[:, None, None]
    pixels = np.zeros((n_images, side, side, 3), np.uint8)
    for colour in range(3):
        pixels[..., colour] = 255 * (inside & (truth == colour)[:, None, None])
    return pixels, truth


def wrong_images(truth: Sequence[str], labels: NDArray[np.int64]) -> NDArray[np.bool_]:
    """The images that the best one-to-one mapping of clusters to classes has in another class."""
    classes = np.unique(truth, return_inverse=True)[1]
    clusters = np.unique(labels, return_inverse=True)[1]
    table = contingency_matrix(classes, clusters)
    pairs = set(zip(*map(list, linear_sum_assignment(table, maximize=True)), strict=True))
    return np.array([pair not in pairs for pair in zip(classes, clusters, strict=True)])


class Zoo:
    """Where sets come from and results go, and what makes a result out of date."""

    def __init__(self, data: Path, out: Path, threads: int, changes: Sequence[str]) -> None:
        self.data = data
        self.results = out / "results" / "zoo"
        self.threads = threads
        self.changes = changes
        code = version_of(
            file for part in CODE for file in PACKAGE.glob(part) if file.suffix == ".py"
        )
        self.settings = {"threads": threads, "set": list(changes), "code": code}
        code = version_of([HERE / "baselines.py", PACKAGE / "method" / "descriptors.py"])
        self.baselines = {"threads": threads, "lite0": weights_file() is not None, "code": code}

    def is_there(self, name: str) -> bool:
        """Whether a set can be read."""
        return name in NAMED or (self.data / f"{name}.npz").exists()

    def settings_of(self, task: Task) -> dict[str, Any]:
        """What the result depends on besides its name."""
        return self.baselines if task.encoder is None else self.settings

    def is_done(self, task: Task) -> bool:
        """Whether its result is there, found by this code with these settings."""
        path = self.results / task.file
        return path.exists() and json.loads(path.read_text())["settings"] == self.settings_of(task)

    def run(self, task: Task) -> Baselines | Measured:
        """Find one result in a fresh process and keep it."""
        with tempfile.TemporaryDirectory() as folder:
            source = self._source(task, Path(folder))
            images = selfsort.load_source(source)
            assert images.truth is not None, f"{task.name} needs truth"
            n_clusters = len(np.unique(images.truth))
            options = [source, "-k", str(n_clusters), "--threads", str(self.threads)]
            found: Baselines | Measured
            if task.encoder is None:
                printed = _call([str(HERE / "baselines.py"), *options])
                found = Baselines(task.name, len(images), n_clusters, json.loads(printed))
            else:
                found = self._fit(task, options, Path(folder) / "sorted")
        make_folder(self.results)
        record = {**asdict(found), "settings": self.settings_of(task)}
        save_json(self.results / task.file, {**record, "versions": current_versions()})
        return found

    def _source(self, task: Task, folder: Path) -> str:
        """What `selfsort fit` is given."""
        if task.name == "discs":
            pixels, truth = draw_discs(task.seed)
            np.savez(folder / "discs.npz", x=pixels, y=truth)
            return str(folder / "discs.npz")
        return task.name if task.name in NAMED else str(self.data / f"{task.name}.npz")

    def _fit(self, task: Task, options: list[str], out: Path) -> Measured:
        assert task.encoder is not None
        options += ["--seed", str(task.seed), "--json", "--no-report", "--out", str(out)]
        options += [part for change in self.changes for part in ("--set", change)]
        if has_encoders():
            options += ["--encoder", task.encoder]
        begin = time.perf_counter()
        printed = json.loads(_call(["-m", "selfsort", "fit", *options]))
        seconds = time.perf_counter() - begin
        run, assignments = selfsort.load_run(out)
        assert assignments.truth is not None
        wrong = wrong_images(assignments.truth, assignments.labels)
        confidence = assignments.confidence.astype(float)
        protocols = {
            protocol.replace(options[0], task.name): table["accuracy"]  # no paths of this machine
            for protocol, table in printed["scores"].items()
        }
        predicted = [protocols[name] for name in protocols if "predicted from" in name]
        return Measured(
            task.name,
            task.encoder,
            task.seed,
            n_images=run.n_samples,
            n_clusters=run.n_clusters,
            accuracy=(predicted or [float(1 - wrong.mean())])[
                0
            ],  # of a test split where there is one
            estimated=float(confidence.mean()),
            auroc=float(roc_auc_score(wrong, -confidence)) if 0 < wrong.mean() < 1 else None,
            seconds=round(seconds, 1),
            protocols=protocols,
        )


def has_encoders() -> bool:
    """Whether `selfsort fit` has the option."""
    return any(option.name == "encoder" for option in command.params)


def _call(arguments: list[str]) -> str:
    """Run Python in a process of its own; what it printed."""
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise RuntimeError(f"{shlex.join(arguments)} failed: {reason}")
    return done.stdout


def main(arguments: Sequence[str] | None = None) -> int:
    """Find what is missing, then write the page; returns how many results could not be found."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", nargs="+", default=[*KINDS, "discs", "digits"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--encoders", nargs="+", default=["none", "auto"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", dest="changes")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--out", type=Path, default=HERE)
    parser.add_argument("--again", action="store_true", help="compute also what is there")
    parser.add_argument("--page", action="store_true", help="only write the page")
    chosen = parser.parse_args(arguments)
    zoo = Zoo(chosen.data, chosen.out, chosen.threads, chosen.changes)
    sets = [name for name in chosen.sets if zoo.is_there(name)]
    if absent := sorted(set(chosen.sets) - set(sets)):
        print(f"left out, not in {zoo.data}: {', '.join(absent)}", file=sys.stderr)
    encoders = [name for name in chosen.encoders if name == "none" or has_encoders()]
    if absent := sorted(set(chosen.encoders) - set(encoders)):
        print(f"left out, `selfsort fit` has no --encoder: {', '.join(absent)}", file=sys.stderr)
    tasks = [Task(name) for name in sets]
    tasks += [Task(*rest, code) for code in encoders for rest in _pairs(sets, chosen.seeds)]
    n_failed = 0
    for task in [] if chosen.page else tasks:
        if zoo.is_done(task) and not chosen.again:
            continue
        try:
            print(zoo.run(task), flush=True)
        except RuntimeError as error:  # the others may still succeed
            print(error, file=sys.stderr)
            n_failed += 1
    write_page(zoo.results, chosen.out)
    return n_failed


def _pairs(sets: Sequence[str], seeds: Sequence[int]) -> Iterator[tuple[str, int]]:
    """All sets with the first seed, then with the next: what is stopped has seen all kinds."""
    return ((name, seed) for seed in seeds for name in sets)


if __name__ == "__main__":
    raise SystemExit(main() > 0)
