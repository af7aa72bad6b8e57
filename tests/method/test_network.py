"""Encoder, augmented softmax and pooling."""

import math

import pytest
import torch

from selfsort.method.encoder import Dropout, build_encoder
from selfsort.method.network import build_network, pool_parents
from selfsort.settings import NetworkConfig

SMALL = NetworkConfig(width=4, latent_width=16, n_duplicates=3)


def test_pooling_equals_summing_the_softmax_node_by_node(generator: torch.Generator) -> None:
    logits = torch.randn(5, 3, 4, generator=generator, dtype=torch.float64)
    for row, log_probs in zip(logits, pool_parents(logits), strict=True):
        total = sum(float(value.exp()) for value in row.flatten())
        expected = [sum(float(value.exp()) for value in parent) / total for parent in row]
        assert log_probs.exp().tolist() == pytest.approx(expected, abs=1e-6)


def test_pooling_never_takes_the_log_of_zero() -> None:
    log_probs = pool_parents(torch.tensor([[[1000.0, 0.0], [-1000.0, -1000.0]]]))
    assert torch.isfinite(log_probs).all()
    assert float(log_probs[0, 1]) == pytest.approx(math.log(2) - 2000)


def test_pooling_gradient(generator: torch.Generator) -> None:
    assert torch.autograd.gradcheck(
        pool_parents,
        torch.randn(4, 3, 2, generator=generator, dtype=torch.float64).requires_grad_(),
    )


@pytest.mark.parametrize("channels", [1, 3, 5])
@pytest.mark.parametrize("size", [8, 11, 16, 28, 33])
def test_any_size_and_channels(size: int, channels: int, generator: torch.Generator) -> None:
    network = build_network(SMALL, shape=(channels, size, size), n_parents=8, generator=generator)
    activations = network(torch.rand(2, channels, size, size))
    assert activations.latent.shape == (2, 16)
    assert activations.logits.shape == (2, 8, 3)
    assert activations.parent_log_probs.exp().sum(dim=1).tolist() == pytest.approx([1, 1])


def test_the_papers_network(generator: torch.Generator) -> None:
    network = build_network(NetworkConfig(), shape=(1, 28, 28), n_parents=8, generator=generator)
    shapes = [tuple(weight.shape) for weight in network.parameters() if weight.ndim > 1]
    assert shapes == [
        (32, 1, 3, 3),
        (32, 32, 3, 3),
        (64, 32, 3, 3),
        (64, 64, 3, 3),
        (2048, 3136),
        (160, 2048),
    ]


def test_weights_depend_on_the_generator_only() -> None:
    def weights(seed: int) -> torch.Tensor:
        network = build_network(
            SMALL, shape=(1, 8, 8), n_parents=2, generator=torch.Generator().manual_seed(seed)
        )
        return torch.cat([weight.flatten() for weight in network.parameters()])

    state = torch.random.get_rng_state()
    assert torch.equal(weights(1), weights(1))
    assert not torch.equal(weights(1), weights(2))
    assert torch.equal(state, torch.random.get_rng_state())


def test_dropout_keeps_the_mean_and_rests_in_evaluation(generator: torch.Generator) -> None:
    dropout = Dropout(0.3, generator)
    dropped = dropout(torch.ones(200, 200))
    assert float((dropped == 0).float().mean()) == pytest.approx(0.3, abs=0.01)
    assert float(dropped.mean()) == pytest.approx(1, abs=0.01)
    assert torch.equal(dropout.eval()(dropped), dropped)


def test_latent_is_not_negative(generator: torch.Generator) -> None:
    encoder = build_encoder(SMALL, shape=(1, 8, 8), generator=generator)
    assert (encoder(torch.randn(4, 1, 8, 8)) >= 0).all()
