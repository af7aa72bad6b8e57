"""Time series as the method meets them: preparation, jitter, transformations, encoder."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from selfsort.data.image_set import ImageSet
from selfsort.errors import ConfigError, DataError
from selfsort.method.encoder import Dropout, initialise
from selfsort.method.preparation import MAX_BATCH, MAX_SIZE
from selfsort.method.transforms import Transform, TransformSet
from selfsort.schema import check, limits
from selfsort.settings import JitterConfig, NetworkConfig

NETWORK_LENGTH = 128
"""Values of a series that the network sees, at most."""

DETAIL = 2048
"""Values that describers see, at most."""

BATCH_VALUES = 2**21
QUIET = 1e-6
N_SEGMENTS = 4
WARP_POINTS = 5


@dataclass(frozen=True)
class SeriesPreparation:
    """Turns any batch of a `SeriesSet` into series of one length; each channel of each is centred
    and scaled by its own mean and standard deviation.
    """

    channels: int = field(metadata=limits(low=1, high=MAX_SIZE))
    size: int = field(metadata=limits(low=1, high=MAX_SIZE))

    def __post_init__(self) -> None:
        """Refuse what no series can have led to, as a model file may hold it."""
        check(self, prefix="preparation.", error=DataError)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one prepared series."""
        return self.channels, self.size

    def for_images(self, images: ImageSet) -> "SeriesPreparation":
        """The same for other series, if they have as many channels."""
        if images.modality != "series" or images.pixels.shape[1] != self.channels:
            raise DataError(
                f"{images.source}: {images.modality} with {images.pixels.shape[1]} channels should "
                f"be series with {self.channels}, as those the model was trained on."
            )
        return self

    def batches(self, images: ImageSet) -> Iterator[slice]:
        """Rows of series to prepare together."""
        length = min(MAX_BATCH, max(1, BATCH_VALUES // images.pixels[0].size))
        return (
            slice(start, min(start + length, len(images)))
            for start in range(0, len(images), length)
        )

    def __call__(self, values: NDArray[Any], device: torch.device | str = "cpu") -> Tensor:
        """(batch, channel, length) numbers to (batch, channel, `size`) floats on a device."""
        series = torch.from_numpy(np.require(values, np.float32, requirements=["C", "W"]))
        return standardise(resample(standardise(series.to(device)), self.size))


def standardise(series: Tensor) -> Tensor:
    """Each channel of each series centred and scaled by itself."""
    centred = series - series.mean(dim=2, keepdim=True)
    scale = centred.square().mean(dim=2, keepdim=True).sqrt()
    return centred / scale.clamp(min=QUIET * max(1.0, float(series.abs().max())))


def resample(series: Tensor, length: int) -> Tensor:
    """Series of another length; shorter ones are means of what they stand for."""
    if series.shape[2] == length:
        return series
    if series.shape[2] < length:
        return functional.interpolate(series, length, mode="linear", align_corners=False)
    flat = functional.interpolate(
        series[:, :, None], (1, length), mode="bilinear", antialias=True, align_corners=False
    )
    return flat[:, :, 0]


def network_length(length: int, wanted: int | None) -> int:
    """How many values the network sees: a multiple of 4, for its two poolings.

    >>> network_length(500, None), network_length(46, None), network_length(5, None)
    (128, 44, 8)
    """
    return max(8, min(length, wanted or NETWORK_LENGTH)) // 4 * 4


def series_for_sources(network: SeriesPreparation, channels: int, length: int) -> SeriesPreparation:
    """Series as describers see them: with all of their detail."""
    return SeriesPreparation(channels, min(length, DETAIL))


def jitter_series(series: Tensor, config: JitterConfig, generator: torch.Generator) -> Tensor:
    """Each series shifted, stretched, bent in time, scaled, under noise and with a stretch blanked:
    `shift`, `scale`, `elastic`, `contrast`, `tone` (noise) and `cutout` say how much.
    """
    n_samples, _, length = series.shape
    right, wide, gain = torch.rand(3, n_samples, 1, generator=generator) * 2 - 1
    grid = bend(right, wide, length, config, generator)
    if config.shift or config.scale or config.elastic:
        flat = torch.stack([grid, torch.zeros_like(grid)], dim=2)[:, None].to(series.device)
        series = functional.grid_sample(
            series[:, :, None], flat, padding_mode="border", align_corners=True
        )[:, :, 0]
    if config.contrast:
        series = series * (gain * config.contrast).exp()[:, :, None].to(series.device)
    if config.tone:
        noise = torch.randn(series.shape, generator=generator) * config.tone
        series = series + noise.to(series.device)
    if config.cutout:
        centre, extent, chance = torch.rand(3, n_samples, 1, generator=generator)
        near = (torch.arange(length) / length - centre).abs() < 0.05 + 0.1 * extent
        series = series * ~(near & (chance < config.cutout))[:, None].to(series.device)
    return series


def bend(
    right: Tensor, wide: Tensor, length: int, config: JitterConfig, generator: torch.Generator
) -> Tensor:
    """Where each moment of something shifted (`right`, in [-1, 1], says how far), stretched
    (`wide`) and bent in time is taken from, (n_samples, length) in [-1, 1].
    """
    places = torch.linspace(-1, 1, length)
    grid = places * (wide * config.scale).exp() + right * 2 * config.shift
    if config.elastic:
        bends = torch.randn(len(right), 1, WARP_POINTS, generator=generator) * config.elastic
        grid = grid + functional.interpolate(bends, length, mode="linear", align_corners=True)[:, 0]
    return grid


def keep_context(series: Tensor, share: float, generator: torch.Generator) -> Tensor:
    """Series have no edges to swap."""
    return series


def permute_segments(series: Tensor, *, order: tuple[int, ...]) -> Tensor:
    """Cut into parts of one length (the last may be longer) and put them in another order."""
    length = series.shape[2] // len(order)
    starts = [length * part for part in range(len(order))]
    ends = [*starts[1:], series.shape[2]]
    return torch.cat([series[:, :, starts[part] : ends[part]] for part in order], dim=2)


def roll_channels(series: Tensor, *, steps: int) -> Tensor:
    """Each channel takes the place of one so many further on."""
    return series.roll(steps, dims=1)


def _identity(series: Tensor) -> Tensor:
    return series


def _reverse(series: Tensor) -> Tensor:
    return series.flip(2)


def _negate(series: Tensor) -> Tensor:
    return -series


def _reverse_and_negate(series: Tensor) -> Tensor:
    return -series.flip(2)


FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "identity": _identity,
    "reversal": _reverse,
    "inversion": _negate,
    "both": _reverse_and_negate,
    "halves": partial(permute_segments, order=(1, 0)),
    "segments": partial(permute_segments, order=(2, 0, 3, 1)),
    "channels": partial(roll_channels, steps=1),
}
"""Transformations of series by name; all but `channels` suit any number of them."""

MIRRORS = "identity,reversal,inversion,both"


def choose_transforms(
    functions: Mapping[str, Callable[[Tensor], Tensor]], name: str
) -> TransformSet:
    """Those of the functions that `name` lists, with commas between them.

    >>> [transform.name for transform in choose_transforms(FUNCTIONS, "identity,reversal")]
    ['identity', 'reversal']
    """
    wanted = [piece.strip() for piece in name.split(",")]
    is_known = set(wanted) <= set(functions) and len(set(wanted)) == len(wanted) >= 2
    if not is_known or wanted[0] != "identity":
        raise ConfigError(
            f"transforms={name!r} should be two or more of {', '.join(functions)} that start with "
            "identity, such as identity,reversal."
        )
    return TransformSet(tuple(Transform(piece, functions[piece]) for piece in wanted))


get_series_transforms = partial(choose_transforms, FUNCTIONS)


def build_series_encoder(
    config: NetworkConfig, *, shape: tuple[int, ...], generator: torch.Generator
) -> nn.Sequential:
    """2×conv - max pool - dropout - 2×conv - max pool - dropout - fully connected, as for images,
    in one dimension and with kernels of 9 values.

    >>> encoder = build_series_encoder(NetworkConfig(), shape=(1, 64), generator=torch.Generator())
    >>> encoder(torch.zeros(2, 1, 64)).shape
    torch.Size([2, 2048])
    """

    def convolution(n_in: int, n_out: int) -> list[nn.Module]:
        norm = [nn.BatchNorm1d(n_out)] if config.batch_norm else []
        return [nn.Conv1d(n_in, n_out, 9, padding=4, bias=not norm), *norm]

    channels, length = shape
    narrow = config.width
    wide = 2 * config.width
    encoder = nn.Sequential(
        *convolution(channels, narrow),
        nn.ReLU(inplace=True),
        *convolution(narrow, narrow),
        nn.MaxPool1d(2),
        nn.ReLU(inplace=True),
        Dropout(config.dropout_1, generator),
        *convolution(narrow, wide),
        nn.ReLU(inplace=True),
        *convolution(wide, wide),
        nn.MaxPool1d(2),
        nn.ReLU(inplace=True),
        Dropout(config.dropout_2, generator),
        nn.Flatten(),
        nn.Linear(wide * (length // 4), config.latent_width),
        nn.ReLU(inplace=True),
    )
    initialise(encoder, generator)
    return encoder


def kernels() -> Tensor:
    """MiniRocket's 84 convolutions of nine values: −1 six times and 2 three times."""
    found = torch.full((84, 1, 9), -1.0)
    for row, places in enumerate(combinations(range(9), 3)):
        found[row, 0, list(places)] = 2.0
    return found
