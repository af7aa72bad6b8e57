"""F to Z to Y: the augmented softmax with its duplicates (ACOL) and their pooling in log space."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from selfsort.method.devices import mixed_precision
from selfsort.method.encoder import Dropout, initialise
from selfsort.method.modality import IMAGES, Modality
from selfsort.method.shapes import Batch, Latent, Logits, ParentLogProbs
from selfsort.settings import NetworkConfig


class Activations(NamedTuple):
    """What the network says of a batch: F, Z and log Y."""

    latent: Latent
    logits: Logits
    parent_log_probs: ParentLogProbs


def pool_parents(logits: Logits) -> ParentLogProbs:
    """log Y = logsumexp(Z over the duplicates) − logsumexp(Z over all nodes): the summed softmax,
    never log 0.

    >>> pool_parents(torch.zeros(1, 2, 5)).exp()
    tensor([[0.5000, 0.5000]])
    """
    return torch.log_softmax(logits.logsumexp(dim=2), dim=1)


class AcolHead(nn.Module):
    """Z = F W + b as (batch, parent, duplicate)."""

    def __init__(self, latent_width: int, n_parents: int, n_duplicates: int) -> None:
        super().__init__()
        self.linear = nn.Linear(latent_width, n_parents * n_duplicates)
        self.nodes = (n_parents, n_duplicates)

    def forward(self, latent: Tensor) -> Tensor:
        """Activities of all nodes."""
        logits: Tensor = self.linear(latent)
        return logits.view(-1, *self.nodes).float()  # mixed precision ends here


class AcolNetwork(nn.Module):
    """The whole network; its layers compute with `precision` bits, in training and in use."""

    def __init__(
        self, encoder: nn.Module, dropout: Dropout, head: AcolHead, precision: int | str = 32
    ) -> None:
        super().__init__()
        self.precision = precision
        self.encoder = encoder
        self.dropout = dropout
        self.head = head

    @property
    def generator(self) -> torch.Generator:
        """Where the dropout draws from."""
        return self.dropout.generator

    def encode(self, images: Batch) -> Latent:
        """F of a batch of prepared images."""
        with mixed_precision(images.device, self.precision):
            latent: Tensor = self.encoder(images)
        return latent

    def forward(self, images: Batch) -> Activations:
        """F, Z and log Y of a batch of prepared images."""
        with mixed_precision(images.device, self.precision):
            latent = self.encode(images)
            logits = self.head(self.dropout(latent))
        return Activations(latent, logits, pool_parents(logits))


def build_network(
    config: NetworkConfig,
    *,
    shape: tuple[int, ...],
    n_parents: int,
    generator: torch.Generator,
    modality: Modality = IMAGES,
    precision: int | str = 32,
) -> AcolNetwork:
    """A network with fresh weights drawn from `generator`."""
    # torch's layers draw weights of their own first, from its global generator
    with torch.random.fork_rng(devices=[]):
        encoder = modality.build_encoder(config, shape=shape, generator=generator)
        head = AcolHead(config.latent_width, n_parents, config.n_duplicates)
    initialise(head, generator)
    return AcolNetwork(encoder, Dropout(config.dropout_latent, generator), head, precision)
