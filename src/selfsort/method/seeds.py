"""A seed to the generators of its many random streams."""

import zlib
from typing import Any

import numpy as np
import torch
from sklearn.utils import check_random_state


def derive_generator(purpose: str, seed: int, *numbers: int) -> torch.Generator:
    """A generator of its own for one purpose and, say, one epoch and step: it can be had without
    those before it.
    """
    key = zlib.crc32(purpose.encode()), *numbers
    state = np.random.SeedSequence(seed, spawn_key=key).generate_state(1, np.uint64)
    return torch.Generator().manual_seed(int(state[0] >> np.uint64(1)))


def as_seed(random_state: Any) -> int:
    """The seed that scikit-learn's `random_state` (a number, a generator or None) stands for.

    >>> as_seed(3), as_seed(np.random.RandomState(0))
    (3, 209652396)
    """
    if isinstance(random_state, int | np.integer):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31))
