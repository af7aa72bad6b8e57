"""Keeps all that a fit by sources knows, so that an idea on judge, number or confidence is seconds
to test.

    python benchmarks/judge_store.py [--sets yaleb usps …] [--seeds 0 1 2] [--store DIR] [--data DIR]

For each set and seed, DIR/NAME-SEED.npz: truth, every source's neighbours in every view, the
vectors of all sources side by side, the cuts of all selections, and what the fit answered; and
DIR/NAME-SEED.safetensors, the model. Sets are those of the zoo, digits, 3000 images of USPS and
5000 of MNIST train.
"""

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

import selfsort
from selfsort.clustering.fusion import Fusion, Neighbours
from selfsort.data.image_set import ImageSet
from selfsort.recipes import resolve_config
from selfsort.sorting import by_sources, described, fit_model, save_model
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


def keep(name: str, seed: int, store: Path, data: Path) -> None:
    """Fit and write what was seen on the way."""
    images = load(name, data, seed)
    assert images.truth is not None
    truth = np.unique(images.truth, return_inverse=True)[1]
    n_clusters = int(truth.max()) + 1
    channels = images.pixels.shape[1]
    seen: dict[str, Any] = {}
    fuse, learn = by_sources.fuse, described.LinearVote.fit

    def watched_fuse(sources: Mapping[str, Neighbours], *args: Any, **options: Any) -> Fusion:
        seen["sources"] = sources
        seen["fusion"] = fuse(sources, *args, **options)
        return seen["fusion"]

    def watched_fit(vectors: torch.Tensor, *args: Any) -> described.LinearVote:
        seen["vectors"] = vectors
        return learn(vectors, *args)

    by_sources.fuse = watched_fuse
    described.LinearVote.fit = watched_fit
    try:
        config = resolve_config("standard", encoder="none", channels=channels)
        model = fit_model(images, n_clusters=n_clusters, config=config, seed=seed)
    finally:
        by_sources.fuse, described.LinearVote.fit = fuse, learn
    fusion: Fusion = seen["fusion"]
    assignment = model.assign_fitted(images)
    facts = {
        "n_clusters": n_clusters,
        "selections": [one.sources for one in fusion.selections],
        "verdicts": [one.verdict for one in fusion.selections],
        "kept": [bool(one.is_kept) for one in fusion.selections],
        "accuracy": fusion.accuracy,
        "learned": model.trained.learned,
        "weights": {source: one.weight for source, one in seen["sources"].items()},
        "eigenvalues": fusion.eigenvalues,
        "count": fusion.cluster_count.n_clusters,
    }
    np.savez(
        store / f"{name}-{seed}.npz",
        truth=truth,
        facts=json.dumps(facts),
        vectors=seen["vectors"].numpy().astype(np.float16),
        cuts=np.array([one.labels for one in fusion.selections], dtype=np.int16),
        labels=assignment.labels,
        confidence=assignment.confidence,
        consensus=fusion.labels,
        votes=fusion.votes,
        **{
            f"views {source}": np.array(one.views, dtype=np.int16)
            for source, one in seen["sources"].items()
        },
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
