"""Which transformations can be told apart at all: under one that leaves the look of the data as it
is, a network has nothing to learn.
"""

from math import prod

import numpy as np
import torch
from torch import Tensor

from selfsort.method.inputs import Inputs
from selfsort.method.seeds import derive_generator
from selfsort.method.series_descriptors import Convolutions
from selfsort.method.transforms import TransformSet

SAMPLE = 400
"""Series that are looked at, at most."""

LEAST = 0.05
"""What a probe must reach above chance, at the least; with few series it is more."""

RIDGE = 0.1


def distinct(inputs: Inputs, transforms: TransformSet, seed: int) -> list[str]:
    """The names of the transformations that a linear probe tells from all before them; the first
    is always among them.

    The probe sees how often each of many convolutions gives a high answer; the bands of a sound are
    channels. It learns from one half of the series, each under both transformations, and is asked
    about the other half.
    """
    rows = np.random.default_rng(seed).permutation(len(inputs))[:SAMPLE]
    series = inputs.read(np.sort(rows))
    *rest, length = inputs.preparation.shape
    described = Convolutions(prod(rest), length)
    described.learn(series.flatten(1, -2), derive_generator("symmetry", seed))
    looks = [described(one.apply(series).flatten(1, -2))["convolutions"] for one in transforms]
    kept = [0]
    for number in range(1, len(looks)):
        if all(_are_distinct(looks[number], looks[other]) for other in kept):
            kept.append(number)
    return [transforms[number].name for number in kept]


def _are_distinct(first: Tensor, second: Tensor) -> bool:
    half = len(first) // 2
    seen = torch.cat([first[:half], second[:half]]).double()
    asked = torch.cat([first[half:], second[half:]]).double()
    centre = seen.mean(dim=0)
    scale = seen.std(dim=0).clamp(min=1e-6)
    seen = (seen - centre) / scale
    asked = (asked - centre) / scale
    signs = torch.tensor([1.0, -1.0], dtype=torch.float64)
    ridge = RIDGE * seen.shape[1] * torch.eye(len(seen), dtype=torch.float64)
    weights = seen.T @ torch.linalg.solve(seen @ seen.T + ridge, signs.repeat_interleave(half))
    truth = signs.repeat_interleave(len(first) - half)
    reached = float(((asked @ weights).sign() == truth).double().mean())
    return bool(reached > 0.5 + max(LEAST, len(asked) ** -0.5))
