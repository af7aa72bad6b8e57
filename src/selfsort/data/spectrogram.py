"""Spectrograms as pictures: dark where it is quiet, light where it is loud."""

import numpy as np
from numpy.typing import NDArray
from PIL import Image

ANCHORS = ((8, 8, 32), (70, 20, 110), (180, 50, 90), (245, 140, 40), (255, 245, 190))
UNKNOWN = (205, 205, 205)
COLOURS = np.stack(
    [np.interp(np.linspace(0, 4, 256), range(5), part) for part in zip(*ANCHORS, strict=True)],
    axis=1,
).round()
COLOURS[0] = UNKNOWN


def draw_spectrogram(bands: NDArray[np.uint8], side: int) -> Image.Image:
    """A square picture of (band, moment) bytes; grey where a clip's sampling rate ends."""
    picture = Image.fromarray(COLOURS.astype(np.uint8)[bands])
    return picture.resize((side, side), Image.Resampling.BICUBIC)
