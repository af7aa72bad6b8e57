"""A trained network and images to F and Z, batch by batch or whole."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
import scipy.special
from numpy.typing import NDArray

from selfsort.method.inputs import Inputs, infer, infer_all
from selfsort.method.network import AcolNetwork
from selfsort.method.seeds import derive_generator
from selfsort.method.transforms import TransformSet
from selfsort.settings import JitterConfig


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
    inputs: Inputs,
    *,
    on_batch: Callable[[int, int], None] | None = None,
) -> Iterator[Representation]:
    """F and Z of every image as it is (the first transformation), a batch at a time;
    `on_batch(done, total)` tells progress.
    """
    batches = infer(network, lambda batch: network(batch)[:2], inputs, on_batch=on_batch)
    return (Representation(*batch) for batch in batches)


def extract(
    network: AcolNetwork,
    inputs: Inputs,
    *,
    on_batch: Callable[[int, int], None] | None = None,
) -> Representation:
    """F and Z of every image, whole: 2048 numbers for each take 8 GB for a million images;
    `extract_batches` takes none.
    """
    whole = infer_all(network, lambda batch: network(batch)[:2], inputs, on_batch=on_batch)
    return Representation(*whole)


def extract_views(
    network: AcolNetwork,
    inputs: Inputs,
    *,
    transforms: TransformSet,
    jitter_config: JitterConfig,
    seed: int,
    on_batch: Callable[[int, int], None] | None = None,
) -> Iterator[NDArray[np.float32]]:
    """F of every image under each transformation in turn, each time freshly jittered."""
    for view, transform in enumerate(transforms):
        look = partial(
            inputs.view,
            config=replace(jitter_config, context=0.0),  # neighbours are to share no foreign edges
            generator=derive_generator("view", seed, view),
            transform=transform.apply,
        )
        (latent,) = infer_all(
            network,
            lambda batch: (network.encode(batch),),
            inputs,
            look=look,
            on_batch=partial(_of_views, on_batch, view, len(transforms)) if on_batch else None,
        )
        yield latent


def _of_views(
    on_batch: Callable[[int, int], None], view: int, n_views: int, done: int, total: int
) -> None:
    on_batch(view * total + done, n_views * total)
