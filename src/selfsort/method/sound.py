"""Sounds as the method meets them, as spectrograms: preparation, jitter, transformations,
describers.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from selfsort.data.image_set import ImageSet
from selfsort.data.sound import SoundSet
from selfsort.errors import DataError
from selfsort.method.descriptors import Gradients
from selfsort.method.preparation import MAX_SIZE, normalise
from selfsort.method.series import bend, choose_transforms, standardise
from selfsort.method.series_descriptors import Convolutions, Words
from selfsort.schema import check, limits
from selfsort.settings import JitterConfig

NETWORK_SIDE = 32
"""Bands and moments of a spectrogram that the network sees."""

STEADY = 0.5
"""This share of what a clip has in each band all the time is hidden from the network: it tells the
voice and the room, and of steady sounds the class.
"""

N_CEPSTRA = 20
N_SERIES = 13
"""Cosines that a spectrum is told by, and how many of them, the broadest, are followed in time."""

N_MOMENTS = 32
WIDTHS = (4, 8)
BATCH = 512
FEWEST_BANDS = 24


@dataclass(frozen=True)
class SoundPreparation:
    """Turns any batch of a `SoundSet` into spectrograms of one size, of which only the lowest
    `bands` are seen; what a clip has not even of these becomes its mean.
    """

    size: int = field(metadata=limits(low=1, high=MAX_SIZE))
    bands: int = field(metadata=limits(low=1, high=MAX_SIZE))
    normalise: bool = True

    def __post_init__(self) -> None:
        """Refuse what no sounds can have led to, as a model file may hold it."""
        check(self, prefix="preparation.", error=DataError)

    @property
    def channels(self) -> int:
        """A spectrogram has one."""
        return 1

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one prepared spectrogram."""
        return 1, self.size, self.size

    def for_images(self, images: ImageSet) -> "SoundPreparation":
        """The same for other sounds."""
        if not isinstance(images, SoundSet):
            raise DataError(
                f"{images.source}: {images.modality} should be sounds, as those the model was "
                "trained on."
            )
        return self

    def batches(self, images: ImageSet) -> Iterator[slice]:
        """Rows of sounds to prepare together."""
        return (
            slice(start, min(start + BATCH, len(images))) for start in range(0, len(images), BATCH)
        )

    def __call__(self, values: NDArray[Any], device: torch.device | str = "cpu") -> Tensor:
        """(batch, 1, bands, moments) bytes to (batch, 1, `size`, `size`) floats on a device."""
        grey = torch.from_numpy(np.ascontiguousarray(values[:, :, -self.bands :])).to(device)
        is_known = grey > 0
        seen = (grey.float() - 1) / 254
        mean = (seen * is_known).sum(dim=(2, 3), keepdim=True) / is_known.sum(
            dim=(2, 3), keepdim=True
        ).clamp(min=1)
        seen = functional.interpolate(
            torch.where(is_known, seen, mean),
            (self.size, self.size),
            mode="bilinear",
            antialias=True,
            align_corners=False,
        )
        if not self.normalise:
            return seen
        return normalise(seen - STEADY * seen.mean(dim=3, keepdim=True))


def common_bands(sounds: ImageSet) -> int:
    """How many of the lowest bands all clips hold; at least some, so that one clip of a very low
    sampling rate does not take away most of the others.
    """
    heard = (sounds.pixels[:, 0] > 0).any(axis=2).sum(axis=1)
    return max(int(heard.min()), FEWEST_BANDS)


def sound_for_sources(network: SoundPreparation, channels: int, size: int) -> SoundPreparation:
    """Spectrograms as describers see them: with all of their detail, in [0, 1]."""
    return replace(network, size=size, normalise=False)


def jitter_sound(sounds: Tensor, config: JitterConfig, generator: torch.Generator) -> Tensor:
    """Each spectrogram in another pitch, tempo and loudness, under noise and with a stretch of
    bands or moments blanked: `shift`, `scale` and `elastic`, `contrast`, `tone` and `cutout` say
    how much.
    """
    n_samples, _, n_bands, n_moments = sounds.shape
    right, wide, up, gain, level = torch.rand(5, n_samples, 1, generator=generator) * 2 - 1
    across = bend(right, wide, n_moments, config, generator)[:, None, :]
    down = (torch.linspace(-1, 1, n_bands) + 2 * config.shift * up)[:, :, None]
    whole = (n_samples, n_bands, n_moments)
    grid = torch.stack([across.expand(whole), down.expand(whole)], dim=3).to(sounds.device)
    sounds = functional.grid_sample(sounds, grid, padding_mode="border", align_corners=True)
    if config.contrast:
        sounds = sounds * (gain * config.contrast).exp()[:, None, None].to(sounds.device)
    if config.tone:  # the louder of sound and noise is heard
        floor = sounds.mean(dim=(2, 3), keepdim=True) - 2 + level[:, None, None].to(sounds.device)
        noise = torch.randn(sounds.shape, generator=generator) * config.tone
        sounds = torch.maximum(sounds, floor + noise.to(sounds.device))
    if config.cutout:
        chance, upright, centre, extent = torch.rand(4, n_samples, 1, 1, 1, generator=generator)
        along = torch.where(
            upright < 0.5,
            (torch.arange(n_bands) / n_bands)[:, None],
            torch.arange(n_moments) / n_moments,
        )
        is_blank = ((along - centre).abs() < 0.05 + 0.05 * extent) & (chance < config.cutout)
        sounds = sounds * ~is_blank.to(sounds.device)
    return sounds


def _identity(sounds: Tensor) -> Tensor:
    return sounds


def _reverse(sounds: Tensor) -> Tensor:
    return sounds.flip(3)


def _upturn(sounds: Tensor) -> Tensor:
    return sounds.flip(2)


def _both(sounds: Tensor) -> Tensor:
    return sounds.flip((2, 3))


FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "identity": _identity,
    "reversal": _reverse,
    "upturn": _upturn,
    "both": _both,
}
"""Transformations of sounds by name: time backwards, high for low, and both."""


get_sound_transforms = partial(choose_transforms, FUNCTIONS)


def cepstra(sounds: Tensor) -> Tensor:
    """(batch, `N_CEPSTRA`, moments): each moment's spectrum as a sum of cosines, less their means
    over the clip. Broad cosines tell the vowel, fine ones the pitch; the mean tells the voice and
    the room.
    """
    spectra = sounds[:, 0].flip(1)
    n_bands = spectra.shape[1]
    place = math.pi * (torch.arange(n_bands) + 0.5) / n_bands
    cosines = (torch.arange(N_CEPSTRA)[:, None] * place).cos() * (2 / n_bands) ** 0.5
    found = cosines @ spectra
    centred: Tensor = found - found.mean(dim=2, keepdim=True)
    return centred


def leading(sounds: Tensor) -> Tensor:
    """The broadest cosines as a series of several channels, made about equally strong."""
    strength = torch.arange(1, N_SERIES + 1)[:, None] ** 0.8
    return cepstra(sounds)[:, :N_SERIES] * strength


class Cepstra(nn.Module):
    """Which cosines sound when: with the mean of the clip, without it, and each on its own scale;
    and how wavy the spectrum is at each moment, whatever its pitch.
    """

    def forward(self, sounds: Tensor) -> dict[str, Tensor]:
        """(batch, values), four times."""
        spectra = sounds[:, 0] - sounds[:, 0].mean(dim=1, keepdim=True)
        ripples = torch.fft.rfft(spectra, n=2 * spectra.shape[1], dim=1).abs().sqrt()
        return {
            "cepstra": _moments(cepstra(sounds)),
            "contours": _moments(leading(sounds)),
            "movements": _moments(standardise(leading(sounds))),
            "ripples": _moments(ripples[:, :32]),
        }


def _moments(series: Tensor) -> Tensor:
    return functional.adaptive_avg_pool1d(series, N_MOMENTS).flatten(1)


class SoundConvolutions(Convolutions):
    """Those of series, on the leading cosines."""

    def forward(self, sounds: Tensor) -> dict[str, Tensor]:
        """One of the two descriptions is enough."""
        return {"convolutions": super().forward(standardise(leading(sounds)))["convolutions"]}

    def learn(self, sounds: Tensor, generator: torch.Generator) -> None:
        """Find the thresholds."""
        super().learn(standardise(leading(sounds)), generator)


class SoundWords(Words):
    """Those of series, on the leading cosines: typical stretches of sound, such as a vowel or the
    way from one to another.
    """

    def forward(self, sounds: Tensor) -> dict[str, Tensor]:
        """(batch, 64)."""
        return super().forward(leading(sounds))

    def learn(self, sounds: Tensor, generator: torch.Generator) -> None:
        """Find the typical stretches."""
        super().learn(leading(sounds), generator)


def sound_describers(
    channels: int, size: int, encoder: nn.Module | None = None
) -> dict[str, nn.Module]:
    """The describers of spectrograms."""
    return {
        "gradients": Gradients(),
        "cepstra": Cepstra(),
        "convolutions": SoundConvolutions(N_SERIES, size),
        **{f"words{width}": SoundWords(N_SERIES, size, width) for width in WIDTHS},
    }
