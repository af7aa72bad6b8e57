"""Cheap ways to sort images, to compare selfsort with: descriptors of 1990 to 2005 and a pretrained
network, each cut by k-means, Ward and spectral clustering.

    python benchmarks/baselines.py SOURCE -k 10 [--threads 1]

Prints, as JSON, the accuracy and the seconds of each. `lite0`, a network trained with the labels of
ImageNet, is asked where `selfsort[photos]` is installed.
"""

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.cluster import AgglomerativeClustering, KMeans, SpectralClustering
from sklearn.decomposition import PCA

from selfsort import ImageSet, load_source, score
from selfsort.method.descriptors import SIDE, Colours, Gradients
from selfsort.method.devices import prepare_process
from selfsort.method.encoders import ENCODER, LITE0, load_encoder
from selfsort.method.lite0 import weights_file
from selfsort.method.preparation import Preparation

Points = NDArray[np.float32]
Labels = NDArray[np.int64]

MAX_IMAGES = 10_000
"""Of larger sets a sample: Ward and spectral clustering of all would need hours."""

N_DIRECTIONS = 64


def k_means(points: Points, n_clusters: int) -> Labels:
    """The best of five starts."""
    found: Labels = KMeans(n_clusters, n_init=5, random_state=0).fit_predict(points)
    return found


def ward(points: Points, n_clusters: int) -> Labels:
    """Join the two clusters that grow least in variance, again and again."""
    found: Labels = AgglomerativeClustering(n_clusters).fit_predict(points)
    return found


def spectral(points: Points, n_clusters: int) -> Labels:
    """Cut the graph of ten neighbours."""
    method = SpectralClustering(
        n_clusters,
        affinity="nearest_neighbors",
        n_neighbors=min(10, len(points)),
        assign_labels="cluster_qr",
        random_state=0,
    )
    found: Labels = method.fit_predict(points)
    return found


CUTS: dict[str, Callable[[Points, int], Labels]] = {
    "k-means": k_means,
    "Ward": ward,
    "spectral": spectral,
}


def descriptions(images: ImageSet) -> Iterator[tuple[str, Callable[[], torch.Tensor]]]:
    """The names of the descriptions that suit these images, and what computes each."""
    yield "pixels", lambda: _at(images, SIDE).flatten(1)
    yield "HOG", lambda: Gradients()(_at(images, SIDE))["gradients"]
    if images.pixels.shape[1] == 3:
        yield "colours", lambda: Colours()(_at(images, SIDE))["colours"]
    if weights_file() is not None:
        yield "lite0", lambda: _lite0(_at(images, min(images.pixels.shape[2:])))


def _at(images: ImageSet, side: int) -> torch.Tensor:
    channels = images.pixels.shape[1]
    return Preparation(channels, side, images.low, images.high, "unit")(images.pixels)


@torch.inference_mode()
def _lite0(images: torch.Tensor) -> torch.Tensor:
    """The mean over the network's last feature map."""
    network = load_encoder(LITE0).eval()
    return torch.cat([network(batch)[ENCODER] for batch in torch.split(images, 64)])


def run_baselines(images: ImageSet, n_clusters: int) -> dict[str, dict[str, float]]:
    """Accuracy and seconds of every description with every cut."""
    if len(images) > MAX_IMAGES:
        rows = np.random.default_rng(0).permutation(len(images))[:MAX_IMAGES]
        images = images.take(np.sort(rows))
    truth = images.truth
    assert truth is not None, "accuracy needs truth"
    found: dict[str, dict[str, float]] = {}
    for name, describe in descriptions(images):
        begin = time.perf_counter()
        whole = describe().numpy()
        n_directions = min(N_DIRECTIONS, *whole.shape)
        points = PCA(n_directions, random_state=0).fit_transform(whole)
        described = time.perf_counter() - begin
        for cut, method in CUTS.items():
            begin = time.perf_counter()
            labels = method(points, n_clusters)
            seconds = described + time.perf_counter() - begin
            accuracy = score(truth, labels).accuracy
            found[f"{name} + {cut}"] = {"accuracy": accuracy, "seconds": round(seconds, 2)}
    return found


def main() -> None:
    """Run all baselines on one set."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source")
    parser.add_argument("-k", type=int, required=True)
    parser.add_argument("--threads", type=int)
    arguments = parser.parse_args()
    prepare_process(arguments.threads)
    warnings.simplefilter("ignore", UserWarning)  # graphs in several pieces: the scores show it
    found: dict[str, Any] = run_baselines(load_source(arguments.source), arguments.k)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
