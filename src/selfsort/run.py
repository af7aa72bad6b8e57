"""What a finished run leaves on disk: `run.json` for the whole and `assignments.csv` for each image; no torch."""

import csv
import hashlib
import json
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace, UnionType
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from selfsort.errors import ModelFileError
from selfsort.files import save_json, save_text

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""A spreadsheet takes a cell that begins so for a formula (the last ones in East Asian settings)."""

FILES = {"assignments.csv", "model.safetensors", "clusters.png"}
"""What `run.json` may have the hash of."""

QUOTED = ";\t\r\n"
"""Cells with these are quoted as well as those with a comma: some spreadsheets take a semicolon or a tab for the next cell."""


@dataclass(frozen=True)
class Assignments:
    """One row per image: its name, its cluster, how clear that is, and its truth if known.

    `cluster_names` and `outliers` are what a person has added with `selfsort explore`.
    """

    names: Sequence[str]
    labels: NDArray[np.int64]
    confidence: NDArray[np.float32]
    truth: Sequence[str] | None = None
    cluster_names: Sequence[str] | None = None
    outliers: NDArray[np.bool_] | None = None


@dataclass(frozen=True)
class Run:
    """Everything about a finished run except the weights; `scores` holds a table per protocol.

    `reading` says how the images can be read again: source, data_dir, size, folder_truth, skip_broken.
    `seconds` include the training of earlier processes if it was resumed. `alignment`: the run whose numbers the clusters
    took over, images in common and the share of them with the same number. `files`: the SHA-256 of each file beside it.
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
    skipped: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    reading: dict[str, Any] = field(default_factory=dict)
    alignment: dict[str, Any] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)


def current_versions() -> dict[str, str]:
    """The versions that a result depends on."""
    packages = ("selfsort", "torch", "numpy", "scikit-learn", "pillow")
    return {"python": platform.python_version(), **{name: version(name) for name in packages}}


def save_run(folder: Path, run: Run, assignments: Assignments, *, beside: Sequence[str] = ()) -> None:
    """Write `assignments.csv` and then `run.json`, with the hashes of it and of the files `beside` them, into `folder`."""
    save_assignments(folder / "assignments.csv", assignments)
    hashes = {name: file_hash(folder / name) for name in ("assignments.csv", *beside)}
    save_json(folder / "run.json", asdict(replace(run, files=hashes)))


def file_hash(path: Path) -> str:
    """SHA-256 of a file."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ModelFileError(f"{path}: cannot be read ({error.strerror}); restore it or train again.") from error


def load_run(folder: Path | str) -> tuple[Run, Assignments]:
    """Read what `save_run` wrote."""
    path = Path(folder) / "run.json"
    try:
        run = Run(**json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse_constant))
        _check(run)
    except FileNotFoundError as error:
        raise ModelFileError(f"{path}: no such file; is this the folder that `selfsort fit` wrote?") from error
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise ModelFileError(f"{path}: damaged ({str(error).splitlines()[0]}); restore it or train again.") from error
    return run, load_assignments(Path(folder) / "assignments.csv")


def _refuse_constant(text: str) -> float:
    raise ValueError(f"{text} is no number")


READING = {"source": str, "data_dir": str | None, "size": int | None, "folder_truth": bool, "skip_broken": bool}
RECORD = {"stage": str, "epoch": int, "terms": dict[str, float]}
COUNT = {"n_clusters": int, "clarity": float}
LABEL_FREE = {"silhouette": float | None, "cluster_sizes": list[int], "active_duplicates": int | None}


def _check(run: Run) -> None:
    """Refuse what no run can have written, so that whoever uses it needs not look again."""
    for name, hint in get_type_hints(Run).items():
        if not _fits(getattr(run, name), hint):
            raise TypeError(f"{name} is not of type {getattr(hint, '__name__', hint)}")
    parts: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
        ("reading", run.reading, READING),
        ("cluster_count", run.cluster_count, COUNT),
        ("label_free", run.label_free, LABEL_FREE),
    ]
    parts += [("history", record, RECORD) for record in run.history]
    for name, content, hints in parts:
        is_whole = content.keys() == hints.keys() and all(_fits(content[key], hint) for key, hint in hints.items())
        if not is_whole and (content or name == "history"):
            raise TypeError(f"{name} should have {', '.join(hints)}")
    if run.seed < 0 or not 1 <= run.n_clusters <= run.n_samples or not set(run.files) <= FILES:
        raise ValueError("seed, number of clusters or files make no sense")
    json.dumps(asdict(run), ensure_ascii=False).encode("utf-8", "surrogateescape")


def _fits(value: Any, hint: Any) -> bool:
    """Whether plain values are of a type such as dict[str, list[float]]; a number must not be too large to work with."""
    if hint is Any:
        return True
    if isinstance(hint, UnionType):
        return any(_fits(value, one) for one in get_args(hint))
    if hint is float or hint is int:
        return type(value) in (int, hint) and abs(value) < 1e300
    if get_origin(hint) is list:
        return isinstance(value, list) and all(_fits(entry, get_args(hint)[0]) for entry in value)
    if get_origin(hint) is dict:
        return isinstance(value, dict) and all(_fits(entry, get_args(hint)[1]) for entry in value.values())
    return isinstance(value, hint)


def save_assignments(path: Path, assignments: Assignments) -> None:
    """Write a CSV file that is safe to open in a spreadsheet: a name that looks like a formula gets a leading quote."""
    columns: dict[str, Iterable[object]] = {"name": map(guard, assignments.names), "cluster": assignments.labels.tolist()}
    if assignments.cluster_names is not None:
        columns["cluster_name"] = map(guard, assignments.cluster_names)
    columns["confidence"] = (f"{value:.4f}" for value in assignments.confidence)
    if assignments.outliers is not None:
        columns["outlier"] = assignments.outliers.astype(int).tolist()
    if assignments.truth is not None:
        columns["truth"] = map(guard, assignments.truth)
    save_table(path, columns)


def save_table(path: Path, columns: Mapping[str, Iterable[object]]) -> None:
    """Write columns of equal length as CSV; text from outside should have gone through `guard`."""
    lines: list[str] = []
    writer = csv.writer(SimpleNamespace(write=lines.append), lineterminator=QUOTED)  # it quotes cells with any of these
    writer.writerows([list(columns), *zip(*columns.values(), strict=True)])
    save_text(path, "".join(line.removesuffix(QUOTED) + "\n" for line in lines))


def load_table(path: Path, *columns: str) -> Iterator[dict[str, str]]:
    """The rows of a CSV file that has at least these columns, without the quotes that guard against formulas."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape", newline="") as file:
            for row in csv.DictReader(file):
                if missing := [column for column in columns if row.get(column) is None]:
                    raise ModelFileError(f"{path}: a row has no {missing[0]}; the columns should be {', '.join(columns)}.")
                yield {name: _unguard(cell) for name, cell in row.items() if isinstance(name, str) and isinstance(cell, str)}
    except FileNotFoundError as error:
        raise ModelFileError(f"{path}: no such file.") from error
    except (OSError, csv.Error) as error:
        raise ModelFileError(f"{path}: cannot be read as CSV ({error}).") from error


def load_assignments(path: Path) -> Assignments:
    """Read what `save_assignments` wrote."""
    rows = list(load_table(path, "name", "cluster", "confidence"))
    try:
        confidence = np.array([float(row["confidence"]) for row in rows])
        if not ((confidence >= 0) & (confidence <= 1)).all():
            raise ValueError("a confidence is not in [0, 1]")
        return Assignments(
            [row["name"] for row in rows],
            np.array([int(row["cluster"]) for row in rows], dtype=np.int64),
            confidence.astype(np.float32),
            [row.get("truth", "") for row in rows] if rows and "truth" in rows[0] else None,
        )
    except (ValueError, OverflowError) as error:
        raise ModelFileError(f"{path}: cluster and confidence should be numbers ({error}).") from error


def guard(name: str) -> str:
    """A cell that no spreadsheet takes for a formula; `load_table` takes the quote away again."""
    return f"'{name}" if name.startswith((*FORMULA_STARTS, "'")) else name


def _unguard(cell: str) -> str:
    return cell[1:] if cell.startswith("'") else cell
