"""F to Z to Y: the augmented softmax with its duplicates (ACOL) and their pooling in log space."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from selfsort.config import NetworkConfig
from selfsort.encoder import Dropout, build_encoder, initialise
from selfsort.shapes import Images, Latent, Logits, ParentLogProbs


class Activations(NamedTuple):
    """What the network says of a batch: F, Z and log Y."""

    latent: Latent
    logits: Logits
    parent_log_probs: ParentLogProbs


def pool_parents(logits: Logits) -> ParentLogProbs:
    """log Y = logsumexp(Z over the duplicates) − logsumexp(Z over all nodes): the summed softmax, never log 0.

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
    """The whole network; `generator` is where its dropout draws from."""

    def __init__(self, encoder: nn.Module, dropout: Dropout, head: AcolHead) -> None:
        super().__init__()
        self.encoder = encoder
        self.dropout = dropout
        self.head = head

    @property
    def generator(self) -> torch.Generator:
        """Where the dropout draws from."""
        return self.dropout.generator

    def encode(self, images: Images) -> Latent:
        """F of a batch of prepared images."""
        latent: Tensor = self.encoder(images.contiguous(memory_format=torch.channels_last))
        return latent

    def forward(self, images: Images) -> Activations:
        """F, Z and log Y of a batch of prepared images."""
        latent = self.encode(images)
        logits = self.head(self.dropout(latent))
        return Activations(latent, logits, pool_parents(logits))


def build_network(config: NetworkConfig, *, channels: int, size: int, n_parents: int, generator: torch.Generator) -> AcolNetwork:
    """A network with fresh weights drawn from `generator`."""
    with torch.random.fork_rng(devices=[]):  # torch's layers draw weights of their own first, from its global generator
        encoder = build_encoder(config, channels=channels, size=size, generator=generator)
        head = AcolHead(config.latent_width, n_parents, config.n_duplicates)
    initialise(head, generator)
    return AcolNetwork(encoder, Dropout(config.dropout_latent, generator), head)
