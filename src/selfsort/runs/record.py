"""`run.json`: everything about a finished run except its weights and its table; no torch."""

import json
import platform
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from selfsort.data.kinds import Reading
from selfsort.data.oddities import Oddities
from selfsort.errors import ModelFileError, first_line
from selfsort.files import read_file, save_json
from selfsort.runs.folder import GIVEN, METADATA, MODEL, PICTURE, TABLE
from selfsort.runs.limits import MAX_JSON_BYTES, MAX_SEED
from selfsort.runs.state import name_problem
from selfsort.schema import check, fits, limits

FILES = {TABLE, MODEL, PICTURE, METADATA, GIVEN}
"""What `run.json` may have the hash of."""

SCORES = {"accuracy", "purity", "nmi", "ari"}
SMALLEST = 1e-45
"""The smallest number of 32 bits; anything below it divides to infinity when it is drawn."""


@dataclass(frozen=True)
class Run:
    """Everything about a finished run except the weights; `scores` holds a table per protocol.

    `reading` says how the images can be read again: the fields of a `Reading`. `seconds` include
    the training of earlier processes if it was resumed. `alignment`: the run whose numbers the
    clusters took over, images in common and the share of them with the same number. `files`: the
    SHA-256 of each file beside it. `stamp`: see `workflow.images.stamp_of`. `sources`: the share of
    the votes that each source took part in. `count_curve`: numbers of clusters that were tried, and
    how well each was learned; `estimate`: the accuracy that is to be expected, and how far it may
    be off.

    `names` are what clusters are called whose class or parent was known ("": no name), `retired`
    the numbers of clusters that are no more. `given` counts what was known, and lists labels that
    look wrong. `version` numbers the versions of a run that has learned from a person's changes,
    `learned_from` the one that it has learned from.

    `notes` say what became of the files, `skipped` which could not be read and why. `dropped` are
    copies that were left out, each with the image that was kept. `oddities` are rows of the table:
    in groups under `identical` and `similar`, single ones under `blank`, `dark` and `blurred`.
    """

    source: str
    recipe: str
    config: dict[str, Any]
    seed: int
    n_clusters: int
    n_samples: int
    image_shape: list[int]
    history: list[dict[str, Any]]
    scores: dict[str, dict[str, float]]
    label_free: dict[str, Any]
    seconds: float
    training_flops: int = 0
    eigenvalues: list[float] = field(default_factory=list)
    cluster_count: dict[str, Any] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    dropped: dict[str, str] = field(default_factory=dict)
    oddities: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    reading: dict[str, Any] = field(default_factory=dict)
    alignment: dict[str, Any] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    stamp: str = ""
    sources: dict[str, float] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    retired: list[int] = field(default_factory=list)
    given: dict[str, Any] = field(default_factory=dict)
    version: int = field(default=1, metadata=limits(low=1))
    learned_from: int = field(default=0, metadata=limits(low=0))
    count_curve: list[list[float]] = field(default_factory=list)
    estimate: dict[str, float] = field(default_factory=dict)


def current_versions() -> dict[str, str]:
    """The versions that a result depends on."""
    packages = ("selfsort", "torch", "numpy", "scikit-learn", "pillow")
    return {"python": platform.python_version(), **{name: version(name) for name in packages}}


def save_record(path: Path, run: Run) -> None:
    """Write `run.json`."""
    save_json(path, asdict(run))


def load_record(path: Path) -> Run:
    """Read what `save_record` wrote."""
    try:
        content = read_file(path, limit=MAX_JSON_BYTES).decode("utf-8")
        run = Run(**json.loads(content, parse_constant=_refuse_constant))
        _check(run)
    except FileNotFoundError as error:
        raise ModelFileError(
            f"{path}: no such file; is this the folder that `selfsort fit` wrote?"
        ) from error
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise ModelFileError(
            f"{path}: damaged ({first_line(error)[:200]}); restore it or train again."
        ) from error
    return run


def _refuse_constant(text: str) -> float:
    raise ValueError(f"{text} is no number")


RECORD = {"stage": str, "epoch": int, "terms": dict[str, float]}
COUNT = {"n_clusters": int, "clarity": float}
ESTIMATE = {"accuracy": float, "within": float}
LABEL_FREE = {
    "silhouette": float | None,
    "cluster_sizes": list[int],
    "active_duplicates": int | None,
}


def _check(run: Run) -> None:
    """Refuse what no run can have written, so that whoever uses it needs not look again."""
    check(run)
    parts: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
        ("cluster_count", run.cluster_count, COUNT),
        ("estimate", run.estimate, ESTIMATE),
        ("label_free", run.label_free, LABEL_FREE),
    ]
    parts += [("history", record, RECORD) for record in run.history]
    for name, content, hints in parts:
        is_whole = content.keys() == hints.keys() and all(
            fits(content[key], hint) for key, hint in hints.items()
        )
        if not is_whole and (content or name == "history"):
            raise TypeError(f"{name} should have {', '.join(hints)}")
    if run.reading:
        Reading(**run.reading)
    if not all(0 <= row < run.n_samples for row in Oddities(**run.oddities).rows()):
        raise ValueError("oddities name an image that is not there")
    if len(run.names) not in (0, run.n_clusters) or any(map(name_problem, run.names)):
        raise ValueError("its names of clusters are not those of its clusters")
    if not all(0 <= number < run.n_clusters for number in run.retired):
        raise ValueError("a cluster that is no more never was")
    if not all(len(point) == 2 and point[0] >= 1 for point in run.count_curve):
        raise ValueError("its curve of numbers of clusters has no pairs")
    numbers = [value for record in run.history for value in record["terms"].values()]
    if any(0 < abs(value) < SMALLEST for value in numbers):
        raise ValueError("a number in its history is smaller than training computes with")
    if not all(table.keys() == SCORES for table in run.scores.values()):
        raise ValueError(f"a table of scores should have {', '.join(sorted(SCORES))}")
    if (
        not 0 <= run.seed <= MAX_SEED
        or not 1 <= run.n_clusters <= run.n_samples
        or not set(run.files) <= FILES
    ):
        raise ValueError("seed, number of clusters or files make no sense")
    json.dumps(asdict(run), ensure_ascii=False).encode("utf-8", "surrogateescape")
