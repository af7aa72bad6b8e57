"""Runs variants of a recipe on one data set and appends a JSON line for each; truth is only used to
print scores.

    python benchmarks/ablations.py usps --group refinement --seeds 0 1 2 --data-dir DIR --work DIR

Stage 1 is trained once per seed and shared by all variants that do not change it (its checkpoint
stays in --work).
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

WEAK = {
    "shift": 1 / 16,
    "rotation": 0.15,
    "scale": 0.1,
    "shear": 0.0,
    "aspect": 0.0,
    "elastic": 0.0,
}
STRONG = {
    "shift": 0.1,
    "rotation": 0.3,
    "scale": 0.15,
    "shear": 0.25,
    "aspect": 0.1,
    "elastic": 0.06,
}
OFF = {"shift": 0.0, "rotation": 0.0, "scale": 0.0, "shear": 0.0, "aspect": 0.0, "elastic": 0.0}


def _jitter(part: str, strength: dict[str, float]) -> dict[str, Any]:
    return {f"{part}.{name}": value for name, value in strength.items()}


GROUPS: dict[str, dict[str, dict[str, Any]]] = {
    "graph": {
        "as it is": {},
        "5 neighbours": {"clustering.n_neighbours": 5},
        "20 neighbours": {"clustering.n_neighbours": 20},
        "64 components": {"clustering.n_components": 64},
        "all edges in full": {"clustering.min_support": 0.0},
        "edges of 2.5 or more": {"clustering.min_support": 2.5},
        "k-means on F instead": {"clustering.method": "k-means"},
    },
    "refinement": {
        "no jitter": _jitter("refinement_jitter", OFF),
        "weak jitter": _jitter("refinement_jitter", WEAK),
        "strong jitter": _jitter("refinement_jitter", STRONG),
        "1 round": {"refinement.rounds": 1},
        "4 rounds": {"refinement.rounds": 4},
        "500 steps": {"refinement.steps": 500},
        "2000 steps": {"refinement.steps": 2000},
        "no dropout": {"refinement.dropout_latent": 0.0},
        "no smoothing": {"refinement.label_smoothing": 0.0},
    },
    "training": {
        "no jitter": _jitter("jitter", OFF),
        "no batch normalisation": {"network.batch_norm": False},
        "dropout between the convolutions": {"network.dropout_1": 0.2, "network.dropout_2": 0.3},
        "pixels as they are": {"images.normalise": "unit"},
        "constant rate of 1e-3": {"training.schedule": "constant", "training.learning_rate": 1e-3},
        "half the steps": {"training.min_steps": 500},
        "twice the steps": {"training.min_steps": 2000},
        "20 duplicates": {"network.n_duplicates": 20},
        "affinity 0.1": {"objective.affinity_weight": 0.1},
        "no affinity, no balance": {
            "objective.affinity_weight": 0.0,
            "objective.balance_weight": 0.0,
        },
        "affinity and balance over all nodes": {"objective.gar": "original"},
        "rotations only": {"transforms": "T1,T2,T3,T4"},
    },
}


def main() -> None:
    """Run the variants of a group, one seed after the other."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
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
            place = (
                arguments.work
                / f"{arguments.dataset}-{seed}"
                / ("shared" if shares_stage_1 else name.replace(" ", "-"))
            )
            (place / "refinement.safetensors").unlink(missing_ok=True)
            begin = time.monotonic()
            sorter = SelfSort(
                10, recipe="standard", settings=settings, random_state=seed, checkpoint=place
            ).fit(images)
            row: dict[str, Any] = {
                "dataset": arguments.dataset,
                "group": arguments.group,
                "variant": name,
                "seed": seed,
            }
            row |= {"refined": asdict(score(images.truth, sorter.labels_))}
            if sorter.agreement_:
                chosen = np.flatnonzero(sorter.agreement_.labels >= 0)
                row["graph_accuracy"] = score(
                    images.truth[chosen], sorter.agreement_.labels[chosen]
                ).accuracy
                row["counted"] = sorter.agreement_.cluster_count.n_clusters
            row |= {
                "tflop": round(sorter.training_flops_ / 1e12, 3),
                "seconds": round(time.monotonic() - begin),
            }
            print(json.dumps(row), flush=True)
            with output.open("a") as file:
                file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
