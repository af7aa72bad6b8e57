"""A trained network and images to F and Z of the untransformed images."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import scipy.special
import torch
from numpy.typing import NDArray

from selfsort.config import JitterConfig
from selfsort.images import ImageSet
from selfsort.jitter import jitter
from selfsort.network import AcolNetwork
from selfsort.preparation import Preparation
from selfsort.pseudo import derive_generator
from selfsort.transforms import TransformSet

BATCH = 512


class Representation(NamedTuple):
    """F (images × latent) and Z (images × parent × duplicate)."""

    latent: NDArray[np.float32]
    logits: NDArray[np.float32]

    def space(self, name: str) -> NDArray[np.float32]:
        """The space k-means works in: `latent` (F), `logits` (Z) or `softmax` (of Z)."""
        if name == "latent":
            return self.latent
        flat = self.logits.reshape(len(self.logits), -1)
        if name == "logits":
            return flat
        softmax: NDArray[np.float32] = scipy.special.softmax(flat, axis=1)
        return softmax


def extract(
    network: AcolNetwork,
    images: ImageSet,
    *,
    preparation: Preparation,
    on_batch: Callable[[int, int], None] | None = None,
) -> Representation:
    """F and Z of every image as it is (the first transformation); `on_batch(done, total)` tells progress."""
    network.eval()
    latent = np.empty((len(images), network.head.linear.in_features), dtype=np.float32)
    logits = np.empty((len(images), *network.head.nodes), dtype=np.float32)
    with torch.inference_mode():
        for start in range(0, len(images), BATCH):
            rows = slice(start, start + BATCH)
            activations = network(preparation(images.pixels[rows]))
            latent[rows], logits[rows] = activations.latent.numpy(), activations.logits.numpy()
            if on_batch:
                on_batch(min(start + BATCH, len(images)), len(images))
    return Representation(latent, logits)


def extract_views(
    network: AcolNetwork,
    images: ImageSet,
    *,
    preparation: Preparation,
    transforms: TransformSet,
    jitter_config: JitterConfig,
    seed: int,
    on_batch: Callable[[int, int], None] | None = None,
) -> Iterator[NDArray[np.float32]]:
    """F of every image under each transformation in turn, each time freshly jittered."""
    network.eval()
    for view, transform in enumerate(transforms):
        latent = np.empty((len(images), network.head.linear.in_features), dtype=np.float32)
        generator = derive_generator("view", seed, view)
        with torch.inference_mode():
            for start in range(0, len(images), BATCH):
                rows = slice(start, start + BATCH)
                jittered = jitter(preparation(images.pixels[rows]), jitter_config, generator)
                latent[rows] = network.encode(transform.apply(jittered)).numpy()
                if on_batch:
                    on_batch(view * len(images) + min(start + BATCH, len(images)), len(transforms) * len(images))
        yield latent
