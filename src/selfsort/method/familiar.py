"""What a set of images looks like, so that an image that is unlike all of them can be told.

Grain, textures and colours describe an image. In each description x, with centre
c, the leading directions u_j of half of the images and their variances v_j,

    far_x = log mean_j ((u_jᵀ (x − c))² / v_j)      how unusual it is in what varies in the set
    odd_x = log |(x − c) − Σ_j u_j u_jᵀ (x − c)|²   how much of it does not occur in the set

The other half of the images, which have not been seen, shows how these numbers are distributed: a
normal distribution, whose Mahalanobis distance compares an image with all. One image of twenty of
the set itself is farther away than the limit.
"""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn

from selfsort.method.descriptors import Colours, Grain, Textures
from selfsort.method.inputs import Inputs, infer_all
from selfsort.method.shapes import Images

FEWEST = 100
"""From fewer images nothing is learned."""

LESSON = 2000
"""Images that it is learned from, at most."""

MAX_SIDE = 64
N_DIRECTIONS = 32
FALSE_MARKS = 0.05
"""Share of images like those of the set that are taken for strangers."""

SLACK = 0.01
"""Share of each variance that is added to it."""

PIECE = 8
"""Images that are described at a time: what is computed of them stays in the processor's cache."""


class Look(nn.Module):
    """One description of the images of a set: its centre and leading directions."""

    def __init__(self, n_values: int) -> None:
        super().__init__()
        self.register_buffer("centre", torch.zeros(n_values))
        self.register_buffer("axes", torch.zeros(n_values, N_DIRECTIONS))
        self.register_buffer("scales", torch.zeros(N_DIRECTIONS))
        self.centre: Tensor
        self.axes: Tensor
        self.scales: Tensor

    def learn(self, values: Tensor) -> None:
        """The directions in which these (images × values) vary most."""
        self.centre.copy_(values.mean(dim=0))
        centred = values - self.centre
        n_directions = min(N_DIRECTIONS, values.shape[1], len(values) // 3)
        _, strengths, axes = torch.svd_lowrank(centred, q=n_directions, niter=4)
        variances = strengths.square() / len(values)
        least = 1e-6 * centred.square().sum(dim=1).mean() + 1e-12
        self.axes[:, :n_directions] = axes
        self.scales[:n_directions] = 1 / (variances + least) / n_directions

    def forward(self, values: Tensor) -> Tensor:
        """(batch, 2): far and odd."""
        centred = values - self.centre
        squares = (centred @ self.axes).square()
        rest = centred.square().sum(dim=1) - squares.sum(dim=1)
        far = squares @ self.scales
        return torch.stack([far.clamp(min=1e-6), rest.clamp(min=1e-6)], dim=1).log()


class Familiar(nn.Module):
    """Tells images like those of a set from others."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        kinds: list[nn.Module] = [Grain(), Textures()]
        self.describers = nn.ModuleList(kinds + [Colours()] * (channels == 3))
        example = self.describe(torch.zeros(1, channels, 8, 8))
        self.looks = nn.ModuleDict({name: Look(x.shape[1]) for name, x in example.items()})
        n_numbers = 2 * len(self.looks)
        self.register_buffer("mean", torch.zeros(n_numbers))
        self.register_buffer("precision", torch.eye(n_numbers))
        self.register_buffer("limit", torch.ones(()))
        self.mean: Tensor
        self.precision: Tensor
        self.limit: Tensor

    def describe(self, images: Images) -> dict[str, Tensor]:
        """What all describers say of a batch."""
        said: dict[str, Tensor] = {}
        for describer in self.describers:
            pieces = [describer(piece) for piece in torch.split(images, PIECE)]
            said |= {name: torch.cat([piece[name] for piece in pieces]) for name in pieces[0]}
        return said

    def forward(self, images: Images) -> Tensor:
        """How strange each image of a batch is, (batch,): above 1 it is unlike the set."""
        return self._distance(self._numbers(self.describe(images))) / self.limit

    def learn(self, inputs: Inputs, seed: int) -> None:
        """Look at some of the images of a set."""
        names = list(self.looks)
        whole = infer_all(self, lambda batch: tuple(self.describe(batch).values()), inputs)
        order = np.random.default_rng(seed).permutation(len(inputs))
        own, new = ({} for _ in range(2))
        for name, values in zip(names, whole, strict=True):
            shuffled = torch.from_numpy(values[order])
            own[name], new[name] = shuffled.tensor_split(2)
            look = self.looks[name]
            assert isinstance(look, Look)
            look.learn(own[name])
        numbers = self._numbers(new)
        halves = numbers.tensor_split(2)
        distances = []
        for known, asked in (halves, halves[::-1]):
            self._fit(known)
            distances.append(self._distance(asked))
        self.limit.copy_(torch.cat(distances).quantile(1 - FALSE_MARKS))
        self._fit(numbers)

    def _numbers(self, said: Mapping[str, Tensor]) -> Tensor:
        return torch.cat([self.looks[name](values) for name, values in said.items()], dim=1)

    def _fit(self, numbers: Tensor) -> None:
        self.mean.copy_(numbers.mean(dim=0))
        covariance = numbers.double().T.cov()
        covariance += SLACK * torch.diag(covariance.diagonal()) + 1e-9 * torch.eye(len(covariance))
        self.precision.copy_(torch.linalg.inv(covariance))

    def _distance(self, numbers: Tensor) -> Tensor:
        from_mean = numbers - self.mean
        return (from_mean @ self.precision * from_mean).sum(dim=1)
