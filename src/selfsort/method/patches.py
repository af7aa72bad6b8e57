"""A dictionary of small patches, learned without labels, and which of them an image is made of.

After Coates & Ng (2011): patches are drawn at random, each is centred and scaled, all are whitened,
and spherical k-means finds the atoms. An image is described by how strongly each atom, and its
negative, answers in it: over the whole image ("patches", which suits textures and scenes) and over
its four quarters ("places", which suits objects).
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from selfsort.method.preparation import resize
from selfsort.method.shapes import Images

N_ATOMS = 256
N_PATCHES = 40_000
N_EACH = 50
"""Patches that the atoms are learned from, and so many for each image of a small set."""

N_ROUNDS = 10
QUIET = 0.01
"""Added to a patch's variance, so that noise in flat parts is not blown up."""

WHITENING = 0.1
"""The same for the variance of a direction in the space of patches."""

THRESHOLD = 0.5
"""Answers below this are none."""

STEP = 2
"""Pixels between two places at which the atoms are asked."""

SIDES = {False: (32, 6), True: (48, 8)}
"""Side of the image and of a patch, for small and for large images."""

FROM_SIDE = 40
"""Images of at least so many pixels are large."""


class Patches(nn.Module):
    """Answers of the atoms; `filters` (atom, channel, side, side) and `offsets` hold all of it."""

    def __init__(self, channels: int, is_large: bool) -> None:
        super().__init__()
        self.image_side, self.side = SIDES[is_large]
        self.register_buffer("filters", torch.zeros(N_ATOMS, channels, self.side, self.side))
        self.register_buffer("offsets", torch.zeros(N_ATOMS))
        self.filters: Tensor
        self.offsets: Tensor

    def forward(self, images: Images) -> dict[str, Tensor]:
        """Mean answers, as square roots: (batch, 512) and (batch, 4 · 512)."""
        images = resize(images, self.image_side)
        n_values = self.filters[0].numel()
        mean = functional.avg_pool2d(images, self.side, STEP).mean(dim=1, keepdim=True)
        square = functional.avg_pool2d(images.square(), self.side, STEP).mean(dim=1, keepdim=True)
        variance = (square - mean.square()).clamp(min=0) * n_values / (n_values - 1)
        # each filter sums to 0, so it removes the mean of its patch by itself
        found = functional.conv2d(images, self.filters, stride=STEP) / (variance + QUIET).sqrt()
        found = found - self.offsets[:, None, None]
        answers = torch.cat([found - THRESHOLD, -found - THRESHOLD], dim=1).clamp_(min=0)
        return {
            "patches": answers.mean(dim=(2, 3)).sqrt(),
            "places": functional.adaptive_avg_pool2d(answers, 2).flatten(1).sqrt(),
        }

    def learn(self, images: Images, generator: torch.Generator) -> None:
        """Find the atoms of these images."""
        patches = self._draw(resize(images, self.image_side), generator)
        centre = patches.mean(dim=0)
        whitener = _whitener(patches - centre)
        atoms = _spherical_k_means((patches - centre) @ whitener, generator) @ whitener
        filters = atoms - atoms.mean(dim=1, keepdim=True)
        self.filters.copy_(filters.view_as(self.filters))
        self.offsets.copy_(atoms @ centre)

    def _draw(self, images: Images, generator: torch.Generator) -> Tensor:
        """Random patches, each centred and scaled."""
        windows = images.unfold(2, self.side, 1).unfold(3, self.side, 1)
        n_places = windows.shape[2]
        n_patches = min(N_PATCHES, max(N_EACH * len(images), 10 * N_ATOMS))
        which = torch.randint(len(images), (n_patches,), generator=generator)
        top, left = torch.randint(n_places, (2, n_patches), generator=generator)
        patches: Tensor = windows[which, :, top, left].flatten(1)
        patches = patches - patches.mean(dim=1, keepdim=True)
        scaled: Tensor = patches / (patches.var(dim=1, keepdim=True) + QUIET).sqrt()
        return scaled


def _whitener(centred: Tensor) -> Tensor:
    """The symmetric matrix that makes all directions equally strong."""
    values, vectors = torch.linalg.eigh(centred.T @ centred / len(centred))
    scale = (values.clamp(min=0) + WHITENING).rsqrt()
    whitener: Tensor = (vectors * scale) @ vectors.T
    return whitener


def _spherical_k_means(points: Tensor, generator: torch.Generator) -> Tensor:
    """Unit vectors, each the mean direction of the points that it answers to most, in sign too."""
    start = torch.randperm(len(points), generator=generator)[:N_ATOMS]
    atoms = functional.normalize(points[start], dim=1)
    rows = torch.arange(len(points))
    for _ in range(N_ROUNDS):
        answers = points @ atoms.T
        best = answers.abs().argmax(dim=1)
        strength = answers[rows, best]
        # the old atom is added, so that one that nothing answers to stays what it is
        atoms = atoms.index_add(0, best, strength[:, None] * points)
        atoms = functional.normalize(atoms, dim=1)
    return atoms
