"""Collects finished runs into small JSON files and prints a table of mean ± std over seeds.

python benchmarks/collect.py RUN_FOLDER ...        adds their figures to benchmarks/results/
python benchmarks/collect.py                       prints the table of what is there
"""

import json
import statistics
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
PAPER_MNIST_FLOPS = 3.6e15
"""400 epochs of the paper's network on MNIST; the unit in which training costs are compared."""


def add(folder: Path) -> None:
    """Keep what a table needs of `run.json`."""
    run = json.loads((folder / "run.json").read_text())
    keys = (
        "source",
        "recipe",
        "seed",
        "n_clusters",
        "scores",
        "label_free",
        "cluster_count",
        "training_flops",
        "seconds",
    )
    kept: dict[str, Any] = {key: run[key] for key in (*keys, "warnings", "config", "versions")}
    kept["epochs"] = sum(record["stage"] == "training" for record in run["history"])
    kept["eigenvalues"] = run["eigenvalues"][:15]
    if (opinions := run["config"]["recluster"].get("opinions", 1)) > 1:
        kept["recipe"] += f", {opinions} opinions"
    recipe = kept["recipe"].replace(", ", "-").replace(" ", "-")
    source = run["source"].replace(":", "-")
    name = f"{source}_{recipe}_{kept['epochs']}-epochs_seed-{run['seed']}.json"
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / name).write_text(json.dumps(kept, indent=1) + "\n")


def table() -> str:
    """One row per data set, recipe, length and protocol."""
    groups: dict[tuple[str, str, str, int], list[dict[str, Any]]] = defaultdict(list)
    for file in sorted(RESULTS.glob("*.json")):
        run = json.loads(file.read_text())
        for protocol, scores in run["scores"].items():
            counted = run["cluster_count"].get("n_clusters")
            extra = {"seed": run["seed"], "flops": run["training_flops"], "counted": counted}
            groups[run["source"], protocol, run["recipe"], run["epochs"]].append(scores | extra)
    rows = [
        "| recipe | epochs | images and protocol | seeds | ACC | purity | NMI | ARI | counted | "
        "TFLOP | of the paper's |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for (_, protocol, recipe, epochs), runs in groups.items():
        figures = " | ".join(
            _spread([100 * run[name] for run in runs])
            for name in ("accuracy", "purity", "nmi", "ari")
        )
        seeds = ", ".join(str(run["seed"]) for run in runs)
        counted = ", ".join(str(run["counted"]) for run in runs if run["counted"])
        flops = statistics.mean(run["flops"] for run in runs)
        ratio = f"1/{PAPER_MNIST_FLOPS / flops:,.0f}"
        rows.append(
            f"| {recipe} | {epochs} | {protocol} | {seeds} | {figures} | {counted or '–'} | "
            f"{flops / 1e12:.1f} | {ratio} |"
        )
    return "\n".join(rows)


def _spread(values: list[float]) -> str:
    return f"{statistics.mean(values):.2f}" + (
        f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
    )


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        add(Path(argument))
    print(table())
