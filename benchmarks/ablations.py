"""Runs variants of a recipe on one data set and appends a JSON line for each; truth is only used to print scores.

    python benchmarks/ablations.py usps --group refinement --seeds 0 1 2 --data-dir DIR --work DIR

Stage 1 is trained once per seed and shared by all variants that do not change it (its checkpoint stays in --work).
"""

import argparse
import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from selfsort import SelfSort, load_dataset, score

WEAK = {"shift": 1 / 16, "rotation": 0.15, "scale": 0.1, "shear": 0.0, "aspect": 0.0, "elastic": 0.0}
MIDDLE = {"shift": 0.08, "rotation": 0.2, "scale": 0.1, "shear": 0.15, "aspect": 0.05, "elastic": 0.04}
STRONG = {"shift": 0.1, "rotation": 0.3, "scale": 0.15, "shear": 0.25, "aspect": 0.1, "elastic": 0.06}


def _jitter(strength: dict[str, float]) -> dict[str, Any]:
    return {f"refinement_jitter.{name}": value for name, value in strength.items()}


GROUPS: dict[str, dict[str, dict[str, Any]]] = {
    "refinement": {
        "as it is": {},
        "weak jitter": _jitter(WEAK),
        "middle jitter": _jitter(MIDDLE),
        "strong jitter": _jitter(STRONG),
        "batch 200": {"refinement.batch_size": 200},
        "1 round": {"refinement.rounds": 1},
        "4 rounds": {"refinement.rounds": 4},
        "250 steps": {"refinement.steps": 250},
        "1000 steps": {"refinement.steps": 1000},
        "no dropout": {"refinement.dropout_latent": 0.0},
        "no smoothing": {"refinement.label_smoothing": 0.0},
    },
    "graph": {
        "as it is": {},
        "5 neighbours": {"clustering.n_neighbours": 5},
        "20 neighbours": {"clustering.n_neighbours": 20},
        "64 components": {"clustering.n_components": 64},
        "all edges": {"clustering.min_support": 0.0},
        "edges of 2.5": {"clustering.min_support": 2.5},
        "k-means on F": {"clustering.method": "k-means"},
    },
    "training": {
        "as it is": {},
        "20 duplicates": {"network.n_duplicates": 20},
        "affinity 0.1": {"objective.affinity_weight": 0.1},
        "no batch norm": {"network.batch_norm": False},
        "no jitter": {"jitter.shift": 0.0, "jitter.rotation": 0.0, "jitter.scale": 0.0},
        "constant rate 1e-3": {"training.schedule": "constant", "training.learning_rate": 1e-3},
        "half the steps": {"training.min_steps": 450, "training.epochs": 4},
        "unit pixels": {"images.normalise": "unit"},
        "original GAR": {"objective.gar": "original"},
    },
}


def main() -> None:
    """Run the variants of a group, one seed after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset")
    parser.add_argument("--group", choices=GROUPS, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    images = load_dataset(arguments.dataset, data_dir=arguments.data_dir)
    assert images.truth is not None
    output = Path(__file__).parent / "ablations" / f"{arguments.dataset}-{arguments.group}.jsonl"
    output.parent.mkdir(exist_ok=True)
    for seed in arguments.seeds:
        for name, settings in GROUPS[arguments.group].items():
            shares_stage_1 = arguments.group != "training"
            place = arguments.work / f"{arguments.dataset}-{seed}" / ("shared" if shares_stage_1 else name.replace(" ", "-"))
            (place / "refinement.safetensors").unlink(missing_ok=True)
            begin = time.monotonic()
            sorter = SelfSort(10, recipe="standard", settings=settings, random_state=seed, checkpoint=place).fit(images)
            row: dict[str, Any] = {"dataset": arguments.dataset, "group": arguments.group, "variant": name, "seed": seed}
            row |= {"refined": asdict(score(images.truth, sorter.labels_))}
            if sorter.agreement_:
                chosen = np.flatnonzero(sorter.agreement_.labels >= 0)
                row["graph_accuracy"] = score(images.truth[chosen], sorter.agreement_.labels[chosen]).accuracy
                row["counted"] = sorter.agreement_.cluster_count.n_clusters
            row |= {"tflop": round(sorter.training_flops_ / 1e12, 3), "seconds": round(time.monotonic() - begin)}
            print(json.dumps(row), flush=True)
            with output.open("a") as file:
                file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
