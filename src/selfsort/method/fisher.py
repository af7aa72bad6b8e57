"""What an image's small parts have in common, and how it differs from all images in that.

Many small squares of an image are measured (the directions of its edges, or its tones). A mixture
of Gaussians, learned from the squares of all images, says which kinds of squares there are. An
image is then described by how its own squares of each kind differ from the mean of that kind, and
how widely they spread: a Fisher vector (Perronnin, Sánchez & Mensink, 2010). Unlike a histogram it
also tells *how* something stands out, so few kinds are enough.
"""

import math
import warnings
from collections.abc import Callable
from typing import NamedTuple

import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture
from torch import Tensor, nn
from torch.nn import functional

from selfsort.method.preparation import resize, to_grey
from selfsort.method.shapes import Images

N_KINDS = 64
N_COMPONENTS = 48
N_LEARNED = 40_000
N_TEACHERS = 500
"""Squares from which the kinds are learned, and the images that they are of, at most."""

N_EACH = 50
"""So many squares for each image of a small set."""

N_ROUNDS = 15
CELLS = 4
"""A square has 4 × 4 cells."""

GRIDS = ((3, 3), (5, 4))
"""Pixels of a cell's side, and from one square to the next: small squares and larger ones."""

SIDES = (48, 64)
FROM_SIDE = 48
"""The side of small images, and that of images from so many pixels on."""

FLAT = 0.05
"""This share of an image's mean strength is added to each square's, so that flat ones stay flat."""

MOST = 0.2
N_DIRECTIONS = 8

Measure = Callable[[Images, int, int], Tensor]
"""From images, a cell's side and a step to what squares measure: (image, value, down, right)."""


class Squares(NamedTuple):
    """What squares measure, (image, square, value), and where they lie in it, (square, 2)."""

    values: Tensor
    places: Tensor


class FisherVectors(nn.Module):
    """Fisher vectors of what `measure` says of each square, reduced to `n_components` values and
    the two of its place.
    """

    def __init__(self, name: str, measure: Measure, n_values: int, n_components: int) -> None:
        super().__init__()
        self.name = name
        self.measure = measure
        n_all = n_components + 2
        self.register_buffer("centre", torch.zeros(n_values))
        self.register_buffer("axes", torch.zeros(n_values, n_components))
        self.register_buffer("means", torch.zeros(N_KINDS, n_all))
        self.register_buffer("spreads", torch.ones(N_KINDS, n_all))
        self.register_buffer("shares", torch.ones(N_KINDS) / N_KINDS)
        self.centre: Tensor
        self.axes: Tensor
        self.means: Tensor
        self.spreads: Tensor
        self.shares: Tensor

    def forward(self, images: Images) -> dict[str, Tensor]:
        """(batch, 2 · kinds · values), of length 1."""
        squares = torch.cat([self._reduce(found) for found in self._look(images)], dim=1)
        whole = self._deviations(squares)
        return {self.name: functional.normalize(whole.sign() * whole.abs().sqrt(), dim=1)}

    def learn(self, images: Images, generator: torch.Generator) -> None:
        """Find the leading components and the kinds of these images' squares."""
        rows = torch.randperm(len(images), generator=generator)[:N_TEACHERS]
        looked = self._look(images[rows])
        n_learned = min(N_LEARNED, max(N_EACH * len(images), 10 * N_KINDS))
        drawn = [_draw(found, n_learned // len(GRIDS), generator) for found in looked]
        values = torch.cat([found.values.flatten(0, 1) for found in drawn])
        self.centre.copy_(values.mean(dim=0))
        centred = values - self.centre
        variances, axes = torch.linalg.eigh(centred.T @ centred / len(centred))
        n_components = self.axes.shape[1]
        strength = variances[-n_components:].clamp(min=0).sqrt().mean().clamp(min=1e-6)
        self.axes.copy_(axes[:, -n_components:] / strength)
        squares = torch.cat([self._reduce(found).flatten(0, 1) for found in drawn])
        mixture = GaussianMixture(
            N_KINDS,
            covariance_type="diag",
            init_params="random_from_data",
            max_iter=N_ROUNDS,
            tol=0.0,
            reg_covar=1e-3,
            random_state=int(torch.randint(2**31, (), generator=generator)),
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # so many rounds are enough
            mixture.fit(squares.double().numpy())
        self.means.copy_(torch.from_numpy(mixture.means_))
        self.spreads.copy_(torch.from_numpy(mixture.covariances_).sqrt())
        self.shares.copy_(torch.from_numpy(mixture.weights_))

    def _look(self, images: Images) -> list[Squares]:
        """The squares of each grid."""
        side = SIDES[min(images.shape[2:]) >= FROM_SIDE]
        images = resize(images, side)
        return [_squares(self.measure(images, cell, step)) for cell, step in GRIDS]

    def _reduce(self, squares: Squares) -> Tensor:
        """Components and places, all of much the same strength."""
        components = (squares.values - self.centre) @ self.axes
        places = squares.places.expand(len(components), -1, -1)
        return torch.cat([components, places], dim=2)

    def _deviations(self, squares: Tensor) -> Tensor:
        """The derivatives of the mixture's log-likelihood by its means and spreads, each scaled
        by its own standard deviation: (image, 2 · kinds · values).
        """
        likely = self._kinds(squares)
        counts = likely.sum(dim=1)[:, :, None]
        sums = likely.transpose(1, 2) @ squares
        square_sums = likely.transpose(1, 2) @ squares.square()
        by_mean = (sums - counts * self.means) / self.spreads
        second = square_sums - 2 * sums * self.means + counts * self.means.square()
        by_spread = (second / self.spreads.square() - counts) / math.sqrt(2)
        both = torch.cat([by_mean, by_spread], dim=2) / self.shares.sqrt()[:, None]
        return both.flatten(1) / squares.shape[1]

    def _kinds(self, squares: Tensor) -> Tensor:
        """How likely each square is of each kind, (image, square, kind)."""
        precision = self.spreads.square().reciprocal()
        far = (
            squares.square() @ precision.T
            - 2 * squares @ (self.means * precision).T
            + (self.means.square() * precision).sum(dim=1)
        )
        return (self.shares.log() - self.spreads.log().sum(dim=1) - far / 2).softmax(dim=2)


def strokes() -> FisherVectors:
    """Of the directions of edges: lines, corners, textures, whatever their colour."""
    return FisherVectors("strokes", _edges, CELLS**2 * N_DIRECTIONS, N_COMPONENTS)


def tones(channels: int) -> FisherVectors:
    """Of brightness and colour, and how they vary."""
    n_values = CELLS**2 * 2 * channels
    return FisherVectors("tones", _tones, n_values, min(N_COMPONENTS, n_values))


def _edges(images: Images, cell: int, step: int) -> Tensor:
    """How strong the edges of each direction are in the cells of each square (SIFT's histograms,
    Lowe 2004).
    """
    padded = functional.pad(to_grey(images), [1] * 4, mode="replicate")
    right = padded[:, :, 1:-1, 2:] - padded[:, :, 1:-1, :-2]
    down = padded[:, :, 2:, 1:-1] - padded[:, :, :-2, 1:-1]
    strength = torch.hypot(right, down)
    turn = torch.atan2(down, right).remainder(2 * math.pi) / (2 * math.pi) * N_DIRECTIONS
    whole = turn.floor()
    first = whole.long() % N_DIRECTIONS
    votes = strength.new_zeros(len(images), N_DIRECTIONS, *strength.shape[2:])
    votes.scatter_add_(1, first, strength * (1 - turn + whole))
    votes.scatter_add_(1, (first + 1) % N_DIRECTIONS, strength * (turn - whole))
    # an edge counts for the nearest cells, the more the nearer it is
    ramp = 1 - (torch.arange(2 * cell) - cell + 0.5).abs() / cell
    weights = ramp.expand(N_DIRECTIONS, 1, 1, -1)
    votes = functional.conv2d(votes, weights, padding=(0, cell // 2), groups=N_DIRECTIONS)
    votes = functional.conv2d(
        votes, weights.transpose(2, 3), padding=(cell // 2, 0), groups=N_DIRECTIONS
    )
    squares = _cells(votes, cell, step)
    strength = squares.norm(dim=1, keepdim=True)
    least = FLAT * strength.mean(dim=(2, 3), keepdim=True) + 1e-6
    squares = (squares / (strength + least)).clamp(max=MOST)
    return functional.normalize(squares, dim=1, eps=1e-6).sqrt()


def _tones(images: Images, cell: int, step: int) -> Tensor:
    """The mean and the spread in the cells of each square, of brightness and of two opposite
    colours.
    """
    if images.shape[1] == 3:
        red, green, blue = images.unbind(dim=1)
        images = torch.stack([images.mean(dim=1), red - green, (red + green) / 2 - blue], dim=1)
    mean = functional.avg_pool2d(images, cell, 1)
    square = functional.avg_pool2d(images.square(), cell, 1)
    spread = (square - mean.square()).clamp(min=0).sqrt()
    return _cells(torch.cat([mean, spread], dim=1), cell, step)


def _cells(values: Tensor, cell: int, step: int) -> Tensor:
    """The values of the 4 × 4 cells of each square side by side; `values` has those of the cell
    that begins at each pixel.
    """
    n_places = range(0, values.shape[2] - (CELLS - 1) * cell, step)
    ends = [first + n_places[-1] + 1 for first in range(0, CELLS * cell, cell)]
    parts = [
        values[:, :, down:lower:step, right:outer:step]
        for down, lower in zip(range(0, CELLS * cell, cell), ends, strict=True)
        for right, outer in zip(range(0, CELLS * cell, cell), ends, strict=True)
    ]
    return torch.cat(parts, dim=1)


def _squares(measured: Tensor) -> Squares:
    """Squares one after the other; places between −√3 and √3 have a standard deviation of 1."""
    n_down, n_right = measured.shape[2:]
    down, right = ((torch.arange(n) + 0.5) / n * 2 - 1 for n in (n_down, n_right))
    places = math.sqrt(3) * torch.cartesian_prod(down, right)
    return Squares(measured.flatten(2).transpose(1, 2), places)


def _draw(squares: Squares, count: int, generator: torch.Generator) -> Squares:
    """Some of them, as if each were of an image of its own."""
    n_images, n_places, _ = squares.values.shape
    chosen = torch.randperm(n_images * n_places, generator=generator)[:count]
    values = squares.values.flatten(0, 1)[chosen]
    return Squares(values[:, None], squares.places[chosen % n_places][:, None])
