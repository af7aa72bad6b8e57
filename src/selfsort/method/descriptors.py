"""Images to vectors by fixed rules: pixels, gradients, colours, textures.

Each is a module without weights. It takes a batch of images in [0, 1] of any size and resizes it to
the side that suits it. None of them learns anything; what they say is cheap and often enough.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from selfsort.method.preparation import normalise, resize, to_grey
from selfsort.method.shapes import Images

SIDE = 32
LARGE = 48
"""Images of at least so many pixels have texture to look at."""


class Pixels(nn.Module):
    """The pixels of each image, centred and scaled by its own mean and standard deviation."""

    def forward(self, images: Images) -> dict[str, Tensor]:
        """(batch, channels · 32 · 32)."""
        return {"pixels": normalise(resize(images, SIDE)).flatten(1)}


class Gradients(nn.Module):
    """Histograms of oriented gradients (Dalal & Triggs, 2005).

    9 directions in cells of 4 × 4 pixels at 32 × 32; each block of 2 × 2 cells is scaled to length
    1, values above 0.2 are cut, and it is scaled again.
    """

    n_directions = 9
    cell = 4
    most = 0.2

    def forward(self, images: Images) -> dict[str, Tensor]:
        """(batch, 7 · 7 · 2 · 2 · 9)."""
        grey = to_grey(resize(images, SIDE))
        down = torch.zeros_like(grey)
        right = torch.zeros_like(grey)
        down[:, :, 1:-1] = grey[:, :, 2:] - grey[:, :, :-2]
        right[:, :, :, 1:-1] = grey[:, :, :, 2:] - grey[:, :, :, :-2]
        turn = torch.atan2(down, right).remainder(math.pi) / math.pi
        direction = (turn * self.n_directions).long().clamp(max=self.n_directions - 1)
        strength = torch.hypot(down, right)
        votes = torch.zeros(len(grey), self.n_directions, SIDE, SIDE)
        votes.scatter_(1, direction, strength)
        cells = functional.avg_pool2d(votes, self.cell)
        blocks = cells.unfold(2, 2, 1).unfold(3, 2, 1).permute(0, 2, 3, 4, 5, 1).flatten(3)
        blocks = functional.normalize(blocks, dim=3, eps=1e-5).clamp(max=self.most)
        return {"gradients": functional.normalize(blocks, dim=3, eps=1e-5).flatten(1)}


class Colours(nn.Module):
    """The share of each of 4 × 4 × 4 colours, as its square root (Hellinger's distance)."""

    levels = 4

    def forward(self, images: Images) -> dict[str, Tensor]:
        """(batch, 64)."""
        level = (resize(images, SIDE) * self.levels).long().clamp(0, self.levels - 1).flatten(2)
        code = (level[:, 0] * self.levels + level[:, 1]) * self.levels + level[:, 2]
        counts = torch.zeros(len(images), self.levels**3)
        counts.scatter_add_(1, code, torch.ones(code.shape))
        return {"colours": (counts / code.shape[1]).sqrt()}


class Textures(nn.Module):
    """Local binary patterns (Ojala et al., 2002): how often each pattern of lighter and darker
    points stands around a pixel, on circles of radius 1, 2 and 3.

    Patterns are told apart by their number of lighter points if these are one arc; all others
    share a bin. So a turned texture has the same vector.
    """

    circles = ((8, 1), (16, 2), (24, 3))
    margin = 3
    slack = 1e-4
    """Darker by less than this is not darker: equal pixels must not depend on rounding."""

    def forward(self, images: Images) -> dict[str, Tensor]:
        """(batch, 10 + 18 + 26), square roots of shares."""
        side = 2 * SIDE if min(images.shape[2:]) >= LARGE else SIDE
        grey = to_grey(resize(images, side))
        padded = functional.pad(grey, [self.margin + 1] * 4, mode="replicate")
        return {"textures": torch.cat([self._shares(grey, padded, *c) for c in self.circles], 1)}

    def _shares(self, grey: Tensor, padded: Tensor, n_points: int, radius: int) -> Tensor:
        previous = None
        first = None
        n_changes = torch.zeros(grey.shape, dtype=torch.int64)
        n_lighter = torch.zeros(grey.shape, dtype=torch.int64)
        for point in range(n_points):
            angle = 2 * math.pi * point / n_points
            is_lighter = self._at(padded, -radius * math.sin(angle), radius * math.cos(angle))
            lighter = is_lighter >= grey - self.slack
            n_lighter += lighter
            if previous is not None:
                n_changes += lighter != previous
            first = lighter if first is None else first
            previous = lighter
        assert first is not None
        assert previous is not None
        n_changes += first != previous
        pattern = torch.where(n_changes <= 2, n_lighter, n_points + 1).flatten(1)
        counts = torch.zeros(len(grey), n_points + 2)
        counts.scatter_add_(1, pattern, torch.ones(pattern.shape))
        return (counts / pattern.shape[1]).sqrt()

    def _at(self, padded: Tensor, down: float, right: float) -> Tensor:
        """The image moved by a fraction of pixels, interpolated between the four nearest."""
        low_down = math.floor(down)
        low_right = math.floor(right)
        part_down = down - low_down
        part_right = right - low_right
        height = padded.shape[2] - 2 * (self.margin + 1)
        width = padded.shape[3] - 2 * (self.margin + 1)
        total = torch.zeros(1)
        for step_down, weight_down in ((0, 1 - part_down), (1, part_down)):
            for step_right, weight_right in ((0, 1 - part_right), (1, part_right)):
                weight = weight_down * weight_right
                if weight > 1e-9:
                    top = self.margin + 1 + low_down + step_down
                    left = self.margin + 1 + low_right + step_right
                    total = total + weight * padded[:, :, top : top + height, left : left + width]
        return total
