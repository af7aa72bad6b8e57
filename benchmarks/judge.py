"""How good the judge is: measures what `judge_store.py` has kept, and writes judge.md.

    python benchmarks/judge.py [--store DIR] [--data DIR] [--out DIR] [--page]

Truth is used for scores only. Each set's figures go to results/judge/NAME-SEED.json and are not
computed again. `--page` only writes the page.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import torch
from PIL import Image
from scipy.stats import spearmanr
from sklearn.metrics import roc_auc_score

from judge_page import FOREIGN, Fits, write_page
from judge_store import SETS, STORE, load
from selfsort.clustering.count import SMALLEST, count_by_learning
from selfsort.clustering.fusion import Neighbours, cut_for_count, selections
from selfsort.data.image_set import ImageSet
from selfsort.files import make_folder, save_json
from selfsort.metrics import score
from selfsort.recipes import resolve_config
from selfsort.sorting.familiarity import learn_familiarity
from selfsort.sorting.trained import start_network
from selfsort.training.hooks import Hooks
from zoo import DATA, wrong_images

HERE = Path(__file__).parent
MAX_CLUSTERS = 60


def measure(name: str, seed: int, store: Path) -> dict[str, Any]:
    """Regret, rank correlation, estimate, AUROC and the number of clusters of one stored fit."""
    kept = np.load(store / f"{name}-{seed}.npz")
    facts = json.loads(str(kept["facts"]))
    truth = kept["truth"]
    accuracies = [score(truth, cut.astype(np.int64)).accuracy for cut in kept["cuts"]]
    verdicts = np.array(facts["verdicts"])
    chosen = int(verdicts[:, 0].argmax())
    wrong = wrong_images(truth, kept["labels"])
    kept_verdicts = verdicts[facts["kept"]].mean(axis=0)
    sources = stored_sources(kept, facts)
    told = [source.vectors for source in sources.values() if source.vectors is not None]
    most = min(MAX_CLUSTERS, len(truth) // SMALLEST)
    cut_all = cut_for_count(sources, selections(list(sources)), most, seed=seed)
    curve = count_by_learning(cut_all, told, most=most)
    return {
        "name": name,
        "seed": seed,
        "n_clusters": facts["n_clusters"],
        "best": max(accuracies),
        "first": accuracies[chosen],
        "accuracy": float(1 - wrong.mean()),
        "spearman": float(spearmanr(verdicts[:, 0], accuracies)[0]),
        "estimated": facts["accuracy"],
        "score": float(kept_verdicts[0]),
        "tightness": float(kept_verdicts[1]),
        "auroc": float(roc_auc_score(wrong, -kept["confidence"].astype(float))),
        "counted": curve.best.n_clusters,
        "clarity": float(curve.best.clarity),
        "curve": [[int(k), float(height)] for k, height in curve.points],
    }


def stored_sources(kept: Any, facts: dict[str, Any]) -> dict[str, Neighbours]:
    """The sources as the fit had them."""
    found = {}
    start = 0
    for name, width in facts["widths"].items():
        vectors = kept["vectors"][:, start : start + width].astype(np.float32)
        start += width
        views = list(kept[f"views {name}"].astype(np.int64))
        found[name] = Neighbours(views, facts["weights"][name], vectors)
    return found


def measure_strangers(
    name: str, seed: int, data: Path, pool: dict[str, ImageSet]
) -> dict[str, Any]:
    """The share of foreign images that is marked, and of unseen images of the same set."""
    images = load(name, data, seed)
    order = np.random.default_rng(seed).permutation(len(images))
    n_known = int(0.8 * len(images))
    known, new = images.take(np.sort(order[:n_known])), images.take(np.sort(order[n_known:]))
    config = resolve_config("standard", encoder="none", channels=images.pixels.shape[1])
    trained = start_network(known, config=config, seed=seed, hooks=Hooks())
    familiarity = learn_familiarity(trained, known, Hooks())
    assert familiarity is not None
    marked = {
        other: float(familiarity.unlike(like(foreign, known), Hooks()).mean())
        for other, foreign in pool.items()
        if other != name
    }
    false = float(familiarity.unlike(new, Hooks()).mean())
    return {"false": false, "marked": mean(marked.values()), "by_set": marked}


def like(foreign: ImageSet, model: ImageSet) -> ImageSet:
    """Foreign images in the shape and type of a model's own."""
    channels, height, width = model.pixels.shape[1:]
    found = []
    for pixels in foreign.pixels:
        scaled = (pixels - foreign.low) / (foreign.high - foreign.low)
        levels = np.moveaxis(255 * np.clip(scaled, 0, 1), 0, 2).round().astype(np.uint8)
        picture = Image.fromarray(levels[:, :, 0] if levels.shape[2] == 1 else levels)
        picture = picture.convert("L" if channels == 1 else "RGB").resize((width, height))
        values = np.asarray(picture, dtype=np.float64) / 255
        found.append(values[None] if channels == 1 else np.moveaxis(values, 2, 0))
    pixels = np.stack(found) * (model.high - model.low) + model.low
    names = [str(number) for number in range(len(pixels))]
    pixels = (pixels.round() if model.is_typed else pixels).astype(model.pixels.dtype)
    return replace(model, pixels=pixels, names=names, truth=None, columns={})


def main() -> None:
    """Measure what is not measured yet, then write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--store", type=Path, default=STORE)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--out", type=Path, default=HERE)
    parser.add_argument("--page", action="store_true", help="only write the page")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    results = chosen.out / "results" / "judge"
    make_folder(results)
    stored = [path.stem.rsplit("-", 1) for path in chosen.store.glob("*.npz")]
    stored = sorted(stored, key=lambda pair: (pair[1], SETS.index(pair[0])))
    pool: dict[str, ImageSet] = {}
    for name, seed in [] if chosen.page else stored:
        path = results / f"{name}-{seed}.json"
        if path.exists():
            continue
        found = measure(name, int(seed), chosen.store)
        if int(seed) == 0:
            if not pool:
                for other in SETS:
                    images = load(other, chosen.data)
                    rows = np.random.default_rng(5).permutation(len(images))[:FOREIGN]
                    pool[other] = images.take(np.sort(rows))
            found["strangers"] = measure_strangers(name, 0, chosen.data, pool)
        save_json(path, found)
        print({key: value for key, value in found.items() if key != "curve"}, flush=True)
    fits = [json.loads(path.read_text()) for path in results.glob("*.json")]
    fits.sort(key=lambda fit: (fit["seed"], SETS.index(fit["name"])))
    write_page(Fits(fits), chosen.out)


if __name__ == "__main__":
    main()
