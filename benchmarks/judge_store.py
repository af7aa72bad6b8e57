"""Keeps all that a fit by sources knows, so that an idea on judge, number or confidence is seconds
to test.

    python benchmarks/judge_store.py [--sets yaleb …] [--seeds 0 1 2] [--store DIR] [--data DIR]

For each set and seed, DIR/NAME-SEED.npz: truth, every source's neighbours in every view, the
vectors of all sources side by side, the first cut of all selections, and what the fit answered; and
DIR/NAME-SEED.safetensors, the model. Sets are those of the zoo, digits, 3000 images of USPS and
5000 of MNIST train.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

import selfsort
from selfsort.data.image_set import ImageSet
from selfsort.recipes import resolve_config
from selfsort.sorting import by_sources, fit_model, save_model
from selfsort.sorting.described import LinearVote
from zoo import DATA
from zoo_page import KINDS

STORE = Path("/tmp/judge-cache")
SAMPLES = {"usps": 3000, "mnist": 5000}
SETS = (*KINDS, "digits", *SAMPLES)


def load(name: str, data: Path, seed: int = 0) -> ImageSet:
    """A set of the zoo, or a sample of a named one."""
    path = data / f"{name}.npz"
    images = selfsort.load_source(str(path) if path.exists() else name)
    rows = np.random.default_rng(seed).permutation(len(images))[: SAMPLES.get(name)]
    return images.take(np.sort(rows)) if name in SAMPLES else images


def watched(function: Callable[..., Any], seen: dict[str, Any]) -> Callable[..., Any]:
    """The same function; what it was given and what it answered is kept under its name."""

    def call(*args: Any, **options: Any) -> Any:
        answer = function(*args, **options)
        seen[function.__name__] = args, answer
        return answer

    return call


def keep(name: str, seed: int, store: Path, data: Path) -> None:
    """Fit and write what was seen on the way."""
    images = load(name, data, seed)
    assert images.truth is not None
    truth = np.unique(images.truth, return_inverse=True)[1]
    n_clusters = int(truth.max()) + 1
    channels = images.pixels.shape[1]
    seen: dict[str, Any] = {}
    config = resolve_config("standard", encoder="none", channels=channels)
    fuse, learn = watched(by_sources.__dict__["fuse"], seen), watched(LinearVote.fit, seen)
    with patch.object(by_sources, "fuse", fuse), patch.object(LinearVote, "fit", learn):
        model = fit_model(images, n_clusters=n_clusters, config=config, seed=seed)
    (sources, *_), fusion = seen["fuse"]
    (vectors, *_), _ = seen["fit"]
    assignment = model.assign_fitted(images)
    facts = {
        "n_clusters": n_clusters,
        "selections": [one.sources for one in fusion.selections],
        "verdicts": [one.verdict for one in fusion.selections],
        "kept": [bool(one.is_kept) for one in fusion.selections],
        "accuracy": fusion.accuracy,
        "learned": model.trained.learned,
        "weights": {source: one.weight for source, one in sources.items()},
        "widths": {source: one.vectors.shape[1] for source, one in sources.items()},
    }
    views: dict[str, Any] = {
        f"views {source}": np.array(one.views, dtype=np.int16) for source, one in sources.items()
    }
    np.savez(
        store / f"{name}-{seed}.npz",
        truth=truth,
        facts=json.dumps(facts),
        vectors=vectors.numpy().astype(np.float16),
        cuts=np.array([one.labels for one in fusion.selections], dtype=np.int16),
        labels=assignment.labels,
        confidence=assignment.confidence,
        consensus=fusion.labels,
        votes=fusion.votes,
        **views,
    )
    save_model(store / f"{name}-{seed}.safetensors", model)


def main() -> None:
    """Keep what is not there yet."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--store", type=Path, default=STORE)
    parser.add_argument("--data", type=Path, default=DATA)
    chosen = parser.parse_args()
    chosen.store.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    for seed in chosen.seeds:
        for name in chosen.sets:
            if not (chosen.store / f"{name}-{seed}.npz").exists():
                keep(name, seed, chosen.store, chosen.data)
                print(name, seed, flush=True)


if __name__ == "__main__":
    main()
