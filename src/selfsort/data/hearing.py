"""One sound file to a picture: its mel spectrogram in decibels, time to the right, low below.

The processes of `data.pool` run it, within limits of memory and time.
"""

import os
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selfsort.data.decode import Decoded
from selfsort.files import open_regular

SUFFIXES = (".wav", ".flac", ".ogg", ".oga", ".opus", ".mp3")
MARKS = (b"RIFF", b"RF64", b"fLaC", b"OggS", b"ID3", b"\xff\xfb", b"\xff\xf3", b"\xff\xf2")
"""How the files that are opened end and begin. libsndfile knows thirty more kinds, some of them
decades old.
"""

SIDE = 64
"""Bands of frequency, and moments, of a spectrogram."""

MAX_SECONDS = 60
"""Only the beginning of a longer clip is heard."""

LOWEST, HIGHEST = 50.0, 8000.0
"""Hertz of the bands; speech and most other sounds are told apart by what lies between."""

MIN_RATE, MAX_RATE = 2000, 400_000
WINDOW, STEP = 0.032, 0.01
"""Seconds of sound that are analysed at a time, and between two such times."""

LOUD = 1e-4
"""Ends of a clip with less than this share of its loudest moment's power are cut off: 40 dB."""

RANGE = 80.0
"""Decibels between black and white."""

BLOCK = 2**16
FRAMES = 256
"""Samples that are read, and moments that are analysed, at a time."""

Samples = NDArray[np.float32]


def hear(path: Path) -> Decoded:
    """A file as a picture of `SIDE` each way: 0 where nothing is known, as above half the sampling
    rate, else 1 for silence to 255 for its loudest point. `width` is the sampling rate, `height`
    the length in milliseconds, and `n_pages` the number of channels.
    """
    import soundfile

    with open(path, "rb", opener=open_regular) as file:
        if not file.read(4).startswith(MARKS):
            raise OSError("not a WAV, FLAC, OGG or MP3 file")
        os.lseek(file.fileno(), 0, os.SEEK_SET)
        with soundfile.SoundFile(file.fileno(), closefd=False) as sound:
            rate = sound.samplerate
            if not MIN_RATE <= rate <= MAX_RATE:
                raise OSError(f"declares {rate:,} samples per second")
            milliseconds = min(round(1000 * sound.frames / rate), 2**32 - 1)
            picture = spectrogram(_samples(sound, rate * MAX_SECONDS), rate)
            n_channels = sound.channels
    pixels = np.repeat(picture[:, :, None], 3, axis=2)
    return Decoded(pixels, True, rate, milliseconds, n_channels)


def _samples(sound: Any, n_wanted: int) -> Samples:
    """The mean of the channels, of the beginning of a file."""
    blocks: list[Samples] = []
    n_frames = max(1, BLOCK // sound.channels)
    while n_wanted > 0:
        block = sound.read(min(n_frames, n_wanted), dtype="float32", always_2d=True)
        if not len(block):
            break
        blocks.append(block.mean(axis=1))
        n_wanted -= len(block)
    if not blocks:
        raise OSError("it holds no sound")
    samples = np.concatenate(blocks)
    if not np.isfinite(samples).all():
        raise OSError("NaN or infinity among its samples")
    return samples


def spectrogram(samples: Samples, rate: int) -> NDArray[np.uint8]:
    """(`SIDE`, `SIDE`) bytes, the highest band first.

    >>> tone = np.sin(2 * np.pi * 440 / 8000 * np.arange(8000, dtype=np.float32))
    >>> spectrogram(tone, 8000).shape
    (64, 64)
    """
    length = 2 ** int(np.ceil(np.log2(WINDOW * rate)))
    samples = samples - samples.mean()
    samples = samples / max(float(np.abs(samples).max()), 1e-6)
    padded = np.pad(samples, (length // 2, length // 2 + length))
    step = max(1, min(round(STEP * rate), len(samples) // SIDE))
    windows = np.lib.stride_tricks.sliding_window_view(padded, length)[: len(samples) : step]
    bands = mel_bands(rate, length)
    shape = np.hanning(length).astype(np.float32)
    power = np.concatenate(
        [
            np.abs(np.fft.rfft(windows[start : start + FRAMES] * shape)) ** 2 @ bands
            for start in range(0, len(windows), FRAMES)
        ]
    )
    even = _stretched(_without_silent_ends(power), SIDE)
    decibels = 10 * np.log10(np.maximum(even / max(even.max(), 1e-12), 10 ** (-RANGE / 10)))
    grey = (1 + 254 * (decibels + RANGE) / RANGE).round()
    grey[:, bands.sum(axis=0) == 0] = 0
    return np.ascontiguousarray(grey.T[::-1].astype(np.uint8))


def _without_silent_ends(power: NDArray[np.float64]) -> NDArray[np.float64]:
    loudness = power.sum(axis=1)
    (loud,) = np.nonzero(loudness > LOUD * loudness.max())
    return power[loud[0] : loud[-1] + 1] if len(loud) else power


def _stretched(power: NDArray[np.float64], n_moments: int) -> NDArray[np.float64]:
    """So many moments, each the mean of what it stands for."""
    total = np.concatenate([np.zeros((1, power.shape[1])), np.cumsum(power, axis=0)])
    places = np.linspace(0, len(power), n_moments + 1)
    before = np.minimum(places.astype(int), len(power) - 1)
    share = (places - before)[:, None]
    found = total[before] * (1 - share) + total[before + 1] * share
    means: NDArray[np.float64] = np.diff(found, axis=0) * (n_moments / len(power))
    return np.maximum(means, 0, out=means)


@cache
def mel_bands(rate: int, length: int) -> NDArray[np.float64]:
    """Weights (frequencies, bands): triangles of one width in mel that overlap by half; zeros where
    a band is above half the sampling rate.
    """
    low, high = (2595 * np.log10(1 + hertz / 700) for hertz in (LOWEST, HIGHEST))
    edges = 700 * (10 ** (np.linspace(low, high, SIDE + 2) / 2595) - 1)
    hertz = np.fft.rfftfreq(length, 1 / rate)[:, None]
    left, middle, right = edges[:-2], edges[1:-1], edges[2:]
    rising = (hertz - left) / (middle - left)
    falling = (right - hertz) / (right - middle)
    weights = np.maximum(0, np.minimum(rising, falling))
    (narrow,) = np.nonzero((weights.sum(axis=0) == 0) & (middle < rate / 2))
    weights[np.abs(hertz - middle).argmin(axis=0)[narrow], narrow] = 1.0
    weights[:, right > 0.501 * rate] = 0  # the edges are rounded
    found: NDArray[np.float64] = weights / np.maximum(weights.sum(axis=0), 1e-12)
    return found
