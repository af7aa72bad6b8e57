"""A trained network and images to F and Z, batch by batch or whole."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import scipy.special
import torch
from numpy.typing import NDArray

from selfsort.config import JitterConfig
from selfsort.encoder import device_of
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


def extract_batches(
    network: AcolNetwork,
    images: ImageSet,
    *,
    preparation: Preparation,
    on_batch: Callable[[int, int], None] | None = None,
) -> Iterator[Representation]:
    """F and Z of every image as it is (the first transformation), a batch at a time; `on_batch(done, total)` tells progress."""
    network.eval()
    for rows in _batches(images):
        with torch.inference_mode():  # not around the loop: it would hold for whoever asks for the batches, too
            activations = network(preparation(images.read(rows), device_of(network)))
        if on_batch:
            on_batch(rows.stop, len(images))
        yield Representation(activations.latent.cpu().numpy(), activations.logits.cpu().numpy())


def extract(
    network: AcolNetwork,
    images: ImageSet,
    *,
    preparation: Preparation,
    on_batch: Callable[[int, int], None] | None = None,
) -> Representation:
    """F and Z of every image, whole: 2048 numbers for each take 8 GB for a million images; `extract_batches` takes none."""
    latent = np.empty((len(images), network.head.linear.in_features), dtype=np.float32)
    logits = np.empty((len(images), *network.head.nodes), dtype=np.float32)
    batches = extract_batches(network, images, preparation=preparation, on_batch=on_batch)
    for rows, batch in zip(_batches(images), batches, strict=True):
        latent[rows], logits[rows] = batch
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
            for rows in _batches(images):
                jittered = jitter(preparation(images.read(rows), device_of(network)), jitter_config, generator)
                latent[rows] = network.encode(transform.apply(jittered)).cpu().numpy()
                if on_batch:
                    on_batch(view * len(images) + rows.stop, len(transforms) * len(images))
        yield latent


def _batches(images: ImageSet) -> Iterator[slice]:
    return (slice(start, min(start + BATCH, len(images))) for start in range(0, len(images), BATCH))
