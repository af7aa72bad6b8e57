"""What an experiment leaves: a small JSON file with its findings and all that is needed to judge
and repeat them.
"""

import json
import os
import platform
import re
import shlex
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from selfsort.config import Config
from selfsort.container import damaged
from selfsort.errors import ConfigError
from selfsort.files import read_file, save_text
from selfsort.reproduce import EXPERIMENTS
from selfsort.reproduce.training import Lab, slug
from selfsort.runs.limits import MAX_JSON_BYTES
from selfsort.runs.record import current_versions

NUMBERS = re.compile(r"\[\s+([-\d][-+.eE\d,\s]*?)\s+\]")
"""A list of plain numbers, as indented JSON has it; one line is enough for it."""


@dataclass(frozen=True)
class Result:
    """An experiment's findings; `images` says what was trained on and what was scored, `seeds` are
    those that were used.
    """

    experiment: str
    dataset: str
    recipe: str
    epochs: int
    seeds: list[int]
    quick: bool
    settings: dict[str, Any]
    images: dict[str, Any]
    config: dict[str, Any]
    versions: dict[str, str]
    machine: dict[str, Any]
    command: str
    findings: dict[str, Any]

    @property
    def stem(self) -> str:
        """The name of its files."""
        quick = "_quick" if self.quick else ""
        return f"{self.dataset}_{self.recipe}_{self.epochs}-epochs{slug(self.settings)}{quick}"

    @property
    def caption(self) -> str:
        """Data, recipe, epochs and seeds in a line."""
        same = self.images["trained"] == self.images["scored"]
        scored = (
            "" if same else f", scored on {self.images['scored']} ({self.images['n_scored']:,})"
        )
        changes = "".join(f", {name}={value}" for name, value in self.settings.items())
        length = f"{self.epochs} epoch{'s' if self.epochs > 1 else ''}"
        return (
            f"{self.images['trained']} ({self.images['n_trained']:,} images){scored}; recipe "
            f"{self.recipe}{changes}, {length}, "
            f"seed{'s' if len(self.seeds) > 1 else ''} "
            f"{', '.join(map(str, self.seeds))}{'; a quick run' if self.quick else ''}"
        )


def make_result(experiment: str, lab: Lab, findings: dict[str, Any]) -> Result:
    """Findings with the record of how they came about."""
    spec = lab.spec
    seeds = [seed for seed in spec.seeds if seed in lab.used_seeds]
    return Result(
        experiment,
        spec.dataset,
        spec.recipe,
        lab.epochs,
        seeds,
        spec.quick,
        dict(spec.settings),
        images={
            "trained": lab.images.source,
            "n_trained": len(lab.images),
            "scored": lab.scored.source,
            "n_scored": len(lab.scored),
        },
        config=lab.config.replace(
            {"training.epochs": lab.epochs, "training.min_steps": 0, "training.min_images": 0}
        ).to_dict(),
        versions=current_versions(),
        machine=describe_machine(),
        command=_command(experiment, lab, seeds),
        findings=findings,
    )


def describe_machine() -> dict[str, Any]:
    """What figures may depend on, and nothing that names the machine."""
    return {
        "system": platform.system(),
        "processor": platform.machine(),
        "vectors": torch.backends.cpu.get_cpu_capability(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
    }


def _command(experiment: str, lab: Lab, seeds: Sequence[int]) -> str:
    spec = lab.spec
    words = [
        "selfsort",
        "reproduce",
        experiment,
        "--dataset",
        spec.dataset,
        "--recipe",
        spec.recipe,
    ]
    words += ["--epochs", str(lab.epochs), "--seeds", ",".join(map(str, seeds))]
    for name, value in spec.settings.items():
        words += ["--set", f"{name}={str(value).lower() if isinstance(value, bool) else value}"]
    return shlex.join([*words, "--quick"] if spec.quick else words)


def earlier_runs(folder: Path, experiment: str, lab: Lab) -> list[dict[str, Any]]:
    """The runs that a result of the same name in `folder` has, each with where it was made; another
    configuration is refused.
    """
    wanted = make_result(experiment, lab, {})
    for result in load_results(folder):
        if (result.experiment, result.stem) == (experiment, wanted.stem):
            before = {"precision": 32, **result.config}  # results from before this setting
            if Config.from_dict(before) != Config.from_dict(wanted.config):
                raise ConfigError(
                    f"{folder / experiment / result.stem}.json has another configuration; run "
                    "its seeds again, too."
                )
            return [
                {"versions": result.versions, "machine": result.machine} | run
                for run in result.findings["runs"]
            ]
    return []


def add_runs(result: Result, lab: Lab, earlier: Iterable[Mapping[str, Any]]) -> Result:
    """A result with earlier runs of other seeds beside its own."""
    runs = {run["seed"]: run for run in (*earlier, *result.findings["runs"])}
    seeds = sorted(runs)
    findings = {"runs": [runs[seed] for seed in seeds]}
    return replace(
        result, seeds=seeds, command=_command(result.experiment, lab, seeds), findings=findings
    )


def save_result(folder: Path, result: Result) -> Path:
    """Write `NAME/….json` into the folder of results."""
    path = folder / result.experiment / f"{result.stem}.json"
    text = json.dumps(asdict(result), indent=1, allow_nan=False)
    save_text(path, NUMBERS.sub(lambda match: "[" + " ".join(match[1].split()) + "]", text) + "\n")
    return path


def load_results(folder: Path) -> list[Result]:
    """All that `save_result` has written, in the order of their names."""
    results = []
    for path in sorted(path for name in EXPERIMENTS for path in (folder / name).glob("*.json")):
        try:
            results.append(Result(**json.loads(read_file(path, limit=MAX_JSON_BYTES))))
        except (OSError, ValueError, TypeError) as error:
            raise damaged(path, error) from error
    return results


def spread(scores: Sequence[Mapping[str, float]], name: str = "accuracy") -> str:
    """One of the scores over several runs, in per cent: mean ± standard deviation.

    >>> spread([{"accuracy": 0.96}, {"accuracy": 0.97}])
    '96.50 ± 0.71'
    """
    shares = [100 * entry[name] for entry in scores]
    return f"{statistics.mean(shares):.2f}" + (
        f" ± {statistics.stdev(shares):.2f}" if len(shares) > 1 else ""
    )


def mean_accuracy(scores: Sequence[Mapping[str, float]]) -> float:
    """In per cent."""
    return 100 * statistics.mean(entry["accuracy"] for entry in scores)


def scores_table(
    head: str,
    rows: Mapping[str, Sequence[Mapping[str, float]]],
    paper: Mapping[str, object] | None = None,
) -> str:
    """Accuracy and purity of several runs for each row, with a column of the paper's figures if
    there are any.
    """
    columns = (head, *(("the paper, MNIST",) if paper is not None else ()), "ACC", "purity")
    lines = [
        (
            name,
            *((paper.get(name, "–"),) if paper is not None else ()),
            spread(scores),
            spread(scores, "purity"),
        )
        for name, scores in rows.items()
    ]
    return markdown_table(columns, lines)


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Rows as a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)
