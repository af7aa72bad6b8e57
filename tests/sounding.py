"""Clips of sound for tests: kinds that an ear tells apart at once."""

from pathlib import Path

import numpy as np
import soundfile

RATE = 16_000
ENDINGS = (".wav", ".flac", ".ogg")


def clip(kind: int, seed: int, rate: int = RATE) -> np.ndarray:
    """A tone that rises, one that falls, or bursts of noise; pitch, length and loudness vary."""
    draw = np.random.default_rng([kind, seed])
    time = np.arange(int(rate * draw.uniform(0.3, 0.6))) / rate
    length = time[-1]
    pitch = draw.uniform(400, 700)
    if kind == 2:
        found = draw.normal(size=len(time)) * (np.sin(40 * time) > 0)
    else:
        hertz = pitch * (1 + 2 * (time / length if kind == 0 else 1 - time / length))
        found = np.sin(2 * np.pi * np.cumsum(hertz) / rate)
    noise = 0.002 * draw.normal(size=len(time))
    return np.asarray(draw.uniform(0.1, 0.5) * found + noise, dtype=np.float32)


def write_clips(folder: Path, n_each: int, first: int = 0) -> np.ndarray:
    """`n_each` files of each kind in the three formats, in a folder for each; their kinds in the
    order of their names.
    """
    for kind in range(3):
        (folder / str(kind)).mkdir(parents=True, exist_ok=True)
        for seed in range(first, first + n_each):
            file = folder / str(kind) / f"{seed:03}{ENDINGS[seed % 3]}"
            soundfile.write(file, clip(kind, seed), RATE)
    return np.repeat(np.arange(3), n_each)
