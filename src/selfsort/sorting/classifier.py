"""A network with one output per cluster: built, asked and calibrated."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from selfsort.config import Config
from selfsort.method.devices import mixed_precision
from selfsort.method.encoder import Dropout, initialise
from selfsort.method.inputs import Inputs, infer_all
from selfsort.method.modality import IMAGES, Modality
from selfsort.method.seeds import derive_generator
from selfsort.settings import NetworkConfig, RefinementConfig

CALIBRATION_SAMPLE = 5000


class Classifier(nn.Module):
    """An encoder with one output per cluster; layers compute with `precision` bits."""

    def __init__(
        self, encoder: nn.Module, dropout: Dropout, head: nn.Linear, precision: int | str = 32
    ) -> None:
        super().__init__()
        self.precision = precision
        self.encoder = encoder
        self.dropout = dropout
        self.head = head

    def encode(self, images: Tensor) -> Tensor:
        """The latent layer of a batch."""
        with mixed_precision(images.device, self.precision):
            latent: Tensor = self.encoder(images)
        return latent

    def forward(self, images: Tensor) -> Tensor:
        """Logits, (batch, cluster)."""
        with mixed_precision(images.device, self.precision):
            logits: Tensor = self.head(self.dropout(self.encode(images)))
        return logits.float()  # mixed precision ends here

    def reorder(self, order: NDArray[np.integer[Any]]) -> None:
        """Number the clusters anew: what was `order[i]` becomes i."""
        with torch.no_grad():
            self.head.weight.copy_(self.head.weight[order])
            self.head.bias.copy_(self.head.bias[order])


def build_classifier(
    config: RefinementConfig | NetworkConfig,
    *,
    shape: tuple[int, ...],
    n_clusters: int,
    generator: torch.Generator,
    modality: Modality = IMAGES,
    precision: int | str = 32,
) -> Classifier:
    """A classifier with fresh weights drawn from `generator`; with the settings of a network, one
    that fits its encoder.
    """
    network = config if isinstance(config, NetworkConfig) else _network(config)
    # torch's layers draw weights of their own first, from its global generator
    with torch.random.fork_rng(devices=[]):
        encoder = modality.build_encoder(network, shape=shape, generator=generator)
        head = nn.Linear(config.latent_width, n_clusters)
    initialise(head, generator)
    return Classifier(encoder, Dropout(config.dropout_latent, generator), head, precision)


def _network(config: RefinementConfig) -> NetworkConfig:
    return NetworkConfig(
        width=config.width,
        latent_width=config.latent_width,
        batch_norm=True,
        dropout_1=0,
        dropout_2=0,
    )


def probabilities(
    classifier: Classifier,
    inputs: Inputs,
    *,
    both_signs: bool = False,
    on_batch: Callable[[int, int], None] | None = None,
) -> NDArray[np.float32]:
    """How probable each cluster is for each image, (images, cluster); with `both_signs` also by its
    negative.
    """

    def compute(batch: Tensor) -> tuple[Tensor]:
        return (_logits(classifier, batch, both_signs=both_signs).softmax(dim=1),)

    (probable,) = infer_all(classifier, compute, inputs, on_batch=on_batch)
    return probable


def calibrate(classifier: Classifier, inputs: Inputs, *, config: Config, seed: int) -> None:
    """Scale the logits so that the mean confidence is how often a jittered image keeps its cluster;
    changes no label.

    That share stands in for the accuracy, which nobody knows without truth.
    """
    rows = np.random.default_rng(seed).permutation(len(inputs))[:CALIBRATION_SAMPLE]
    sample = inputs.take(rows)
    look = partial(
        sample.view,
        # an image with foreign edges may rightly change its cluster
        config=replace(config.refinement_jitter, context=0.0),
        generator=derive_generator("calibration", seed),
    )
    both_signs = config.refinement_jitter.invert
    (plain,) = infer_all(
        classifier, lambda batch: (_logits(classifier, batch, both_signs=both_signs),), sample
    )
    (moved,) = infer_all(classifier, lambda batch: (classifier(batch),), sample, look=look)
    logits = torch.from_numpy(plain)
    kept = logits.argmax(dim=1) == torch.from_numpy(moved).argmax(dim=1)
    target = float(kept.float().mean())
    low = 0.05
    high = 20.0
    for _ in range(40):  # the mean confidence falls as the temperature rises
        middle = (low * high) ** 0.5
        too_sure = float((logits / middle).softmax(dim=1).amax(dim=1).mean()) > target
        low, high = (middle, high) if too_sure else (low, middle)
    with torch.no_grad():
        classifier.head.weight.div_(low)
        classifier.head.bias.div_(low)


def _logits(classifier: Classifier, batch: Tensor, *, both_signs: bool) -> Tensor:
    logits: Tensor = classifier(batch)
    return (logits + classifier(-batch)) / 2 if both_signs else logits
