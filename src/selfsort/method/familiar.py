"""What a set of images looks like, so that an image that is unlike all of them can be told.

Grain, textures and colours describe an image. In each description x, with centre
c, the leading directions u_j of half of the images and their variances v_j,

    far_x = log mean_j ((u_jᵀ (x − c))² / v_j)      how unusual it is in what varies in the set
    odd_x = log |(x − c) − Σ_j u_j u_jᵀ (x − c)|²   how much of it does not occur in the set

The other half of the images, which have not been seen, shows how these numbers are distributed: a
normal distribution, whose Mahalanobis distance compares an image with all. One image of twenty of
the set itself is farther away than the limit. Then the halves change places, so that no image of
the set is judged by its own directions alone: a stranger is what both call one.
"""

from collections.abc import Mapping

import numpy as np
import torch
from sklearn.utils.extmath import randomized_svd
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
FALSE_MARKS = 0.08
"""Share of images like those of the set that each half takes for strangers; both do for 0.05."""

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
        _, strengths, axes = randomized_svd(centred.numpy(), n_directions, n_iter=4, random_state=0)
        variances = torch.from_numpy(strengths.copy()).square() / len(values)
        least = 1e-6 * centred.square().sum(dim=1).mean() + 1e-12
        self.axes[:, :n_directions] = torch.from_numpy(axes.T.copy())
        self.scales[:n_directions] = 1 / (variances + least) / n_directions

    def forward(self, values: Tensor) -> Tensor:
        """(batch, 2): far and odd."""
        centred = values - self.centre
        squares = (centred @ self.axes).square()
        rest = centred.square().sum(dim=1) - squares.sum(dim=1)
        far = squares @ self.scales
        return torch.stack([far.clamp(min=1e-6), rest.clamp(min=1e-6)], dim=1).log()


class Half(nn.Module):
    """Knows one half of the images, and by the other how numbers of unknown ones are spread."""

    def __init__(self, widths: Mapping[str, int]) -> None:
        super().__init__()
        self.looks = nn.ModuleDict({name: Look(width) for name, width in widths.items()})
        n_numbers = 2 * len(widths)
        self.register_buffer("mean", torch.zeros(n_numbers))
        self.register_buffer("precision", torch.eye(n_numbers))
        self.register_buffer("limit", torch.ones(()))
        self.mean: Tensor
        self.precision: Tensor
        self.limit: Tensor

    def forward(self, said: Mapping[str, Tensor]) -> Tensor:
        """How strange each image of a batch is, (batch,), 1 at the limit."""
        return self._distance(self._numbers(said)) / self.limit

    def learn(self, known: Mapping[str, Tensor], asked: Mapping[str, Tensor]) -> None:
        """Fit to descriptions of both halves."""
        for name, values in known.items():
            look = self.looks[name]
            assert isinstance(look, Look)
            look.learn(values)
        numbers = self._numbers(asked)
        parts = numbers.tensor_split(2)
        distances = []
        for own, other in (parts, parts[::-1]):
            self._fit(own)
            distances.append(self._distance(other))
        self.limit.copy_(torch.cat(distances).quantile(1 - FALSE_MARKS))
        self._fit(numbers)

    def _numbers(self, said: Mapping[str, Tensor]) -> Tensor:
        return torch.cat([look(said[name]) for name, look in self.looks.items()], dim=1)

    def _fit(self, numbers: Tensor) -> None:
        self.mean.copy_(numbers.mean(dim=0))
        covariance = numbers.double().T.cov()
        covariance += SLACK * torch.diag(covariance.diagonal()) + 1e-9 * torch.eye(len(covariance))
        self.precision.copy_(torch.linalg.inv(covariance))

    def _distance(self, numbers: Tensor) -> Tensor:
        from_mean = numbers - self.mean
        return (from_mean @ self.precision * from_mean).sum(dim=1)


class Familiar(nn.Module):
    """Tells images like those of a set from others."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        kinds: list[nn.Module] = [Grain(), Textures()]
        self.describers = nn.ModuleList(kinds + [Colours()] * (channels == 3))
        example = self.describe(torch.zeros(1, channels, 8, 8))
        widths = {name: values.shape[1] for name, values in example.items()}
        self.names = list(widths)
        self.halves = nn.ModuleList(Half(widths) for _ in range(2))

    def describe(self, images: Images) -> dict[str, Tensor]:
        """What all describers say of a batch."""
        said: dict[str, Tensor] = {}
        for describer in self.describers:
            pieces = [describer(piece) for piece in torch.split(images, PIECE)]
            said |= {name: torch.cat([piece[name] for piece in pieces]) for name in pieces[0]}
        return said

    def forward(self, images: Images) -> Tensor:
        """How strange each image of a batch is, (batch,): above 1 it is unlike the set, as one half
        of it and the other say.
        """
        said = self.describe(images)
        return torch.stack([half(said) for half in self.halves]).amin(dim=0)

    def learn(self, inputs: Inputs, seed: int) -> None:
        """Look at some of the images of a set."""
        whole = infer_all(self, lambda batch: tuple(self.describe(batch).values()), inputs)
        order = np.random.default_rng(seed).permutation(len(inputs))
        parts: list[dict[str, Tensor]] = [{}, {}]
        for name, values in zip(self.names, whole, strict=True):
            for part, rows in zip(parts, np.array_split(order, 2), strict=True):
                part[name] = torch.from_numpy(values[rows])
        for half, (known, asked) in zip(self.halves, (parts, parts[::-1]), strict=True):
            assert isinstance(half, Half)
            half.learn(known, asked)
