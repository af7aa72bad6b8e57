"""Images to vectors by fixed rules: relief, gradients, grain, colours, textures.

Each is a module without weights. It takes a batch of images in [0, 1] of any size and resizes it to
the side that suits it. None of them learns anything; what they say is cheap and often enough.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from selfsort.method.preparation import resize, to_grey
from selfsort.method.shapes import Images

SIDE = 32
LARGE = 48
"""Images of at least so many pixels have texture to look at."""

SLACK = 1e-4
"""Darker by less than this is not darker: equal pixels must not depend on rounding."""


class Relief(nn.Module):
    """The pixels without the light that falls on them: the logarithm of each, less the mean around
    it, by the spread around it. What a lamp adds changes slowly from pixel to pixel, what the thing
    itself shows does not.
    """

    reach = 6
    blur = 3.0
    darkest = 0.02
    """Added to pixels before the logarithm."""

    quiet = 0.1
    """This share of the image's mean spread is added to each, so that flat parts stay flat."""

    def __init__(self) -> None:
        super().__init__()
        steps = torch.arange(-self.reach, self.reach + 1)
        weights = torch.exp(-steps.square() / (2 * self.blur**2))
        self.register_buffer("weights", weights / weights.sum(), persistent=False)
        self.weights: Tensor

    def forward(self, images: Images) -> dict[str, Tensor]:
        """(batch, 32 · 32)."""
        light = (to_grey(resize(images, SIDE)).clamp(min=0) + self.darkest).log()
        detail = light - self._around(light)
        spread = self._around(detail.square()).sqrt()
        least = self.quiet * spread.mean(dim=(2, 3), keepdim=True) + 1e-3
        return {"relief": (detail / (spread + least)).flatten(1)}

    def _around(self, values: Tensor) -> Tensor:
        """The mean around each pixel, near ones weighing more."""
        padded = functional.pad(values, [self.reach] * 4, mode="reflect")
        rows = functional.conv2d(padded, self.weights[None, None, None])
        return functional.conv2d(rows, self.weights[None, None, :, None])


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


def _grain_numbers() -> list[int]:
    """A number for each of the 256 patterns of eight neighbours: one for each with at most two
    changes on the way round, and one for all others.
    """
    rounds = [[pattern >> place & 1 for place in range(8)] for pattern in range(256)]
    is_arc = [sum(a != b for a, b in zip(r, r[1:] + r[:1], strict=True)) <= 2 for r in rounds]
    numbers = iter(range(256))
    return [next(numbers) if arc else sum(is_arc) for arc in is_arc]


class Grain(nn.Module):
    """Local binary patterns, place by place: how often each pattern of lighter and darker
    neighbours stands in each of 8 × 8 cells (Ahonen et al., 2006, for faces).
    """

    cells = 8
    around = ((0, 0), (0, 1), (0, 2), (1, 2), (2, 2), (2, 1), (2, 0), (1, 0))

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("numbers", torch.tensor(_grain_numbers()), persistent=False)
        self.numbers: Tensor

    def forward(self, images: Images) -> dict[str, Tensor]:
        """(batch, 59 · 8 · 8), square roots of shares."""
        grey = to_grey(resize(images, SIDE))[:, 0]
        padded = functional.pad(grey[:, None], [1] * 4, mode="replicate")[:, 0]
        pattern = torch.zeros(grey.shape, dtype=torch.int64)
        for place, (down, right) in enumerate(self.around):
            lighter = padded[:, down : down + SIDE, right : right + SIDE] >= grey - SLACK
            pattern += lighter.long() << place
        number = functional.one_hot(self.numbers[pattern], 59).movedim(3, 1).float()
        return {"grain": functional.avg_pool2d(number, SIDE // self.cells).flatten(1).sqrt()}


class Textures(nn.Module):
    """Local binary patterns (Ojala et al., 2002): how often each pattern of lighter and darker
    points stands around a pixel, on circles of radius 1, 2 and 3.

    Patterns are told apart by their number of lighter points if these are one arc; all others
    share a bin. So a turned texture has the same vector.
    """

    circles = ((8, 1), (16, 2), (24, 3))
    margin = 3

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
            lighter = is_lighter >= grey - SLACK
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
