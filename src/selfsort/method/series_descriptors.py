"""Time series to vectors: values, spectra, convolutions, words.

Each is a module that takes a batch of standardised series (batch, channel, length). Only `Words`
and `Convolutions` learn something, without labels: typical stretches, and what is a high answer.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from selfsort.method.series import kernels, resample, standardise

SHORT = 128
MEDIUM = 256
LONG = 512
"""Values of a series that the rule looks at, at most."""

SLOPE = 4
"""Values between which a slope is taken."""

N_DILATIONS = 8
QUANTILES = (1 / 3, 2 / 3)
N_EXAMPLES = 64
"""Series from whose answers thresholds are taken, at most."""

N_WORDS = 64
WIDTHS = (8, 16, 32)
N_STRETCHES = 20_000
N_ROUNDS = 12
CHUNK = 64


class Curve(nn.Module):
    """The values of each series, and its slopes."""

    def forward(self, series: Tensor) -> dict[str, Tensor]:
        """(batch, channels · 128) or less, twice."""
        short = standardise(resample(series, min(SHORT, series.shape[2])))
        ends = functional.pad(short, (SLOPE // 2, SLOPE // 2), mode="replicate")
        slopes = ends[:, :, SLOPE:] - ends[:, :, :-SLOPE]
        return {"curve": short.flatten(1), "slope": slopes.flatten(1)}


class Spectra(nn.Module):
    """How strong each frequency is, and how like itself a series is some time later: neither
    depends on where something happens.
    """

    def forward(self, series: Tensor) -> dict[str, Tensor]:
        """(batch, channels · length / 2), twice."""
        length = series.shape[2]
        strength = torch.fft.rfft(series).abs()[:, :, 1:]
        power = torch.fft.rfft(series, n=2 * length).abs().square()
        echo = torch.fft.irfft(power)[:, :, 1 : length // 2 + 1] / length
        return {"spectrum": strength.sqrt().flatten(1), "echo": echo.flatten(1)}


class Convolutions(nn.Module):
    """MiniRocket's idea (Dempster et al., 2021): how often the answers to 84 fixed convolutions, at
    several dilations, are above a threshold. Thresholds are quantiles of the answers of some
    series.
    """

    def __init__(self, channels: int, length: int) -> None:
        super().__init__()
        self.length = min(length, MEDIUM)
        most = max(0.0, torch.tensor((self.length - 1) / 8).log2().item())
        n_dilations = max(1, N_DILATIONS // channels)
        exponents = torch.linspace(0, most, n_dilations)
        self.dilations = sorted(set((2**exponents).int().tolist()))
        shape = (len(self.dilations), len(QUANTILES), channels * 84, 1)
        self.register_buffer("thresholds", torch.zeros(shape))
        self.thresholds: Tensor

    def forward(self, series: Tensor) -> dict[str, Tensor]:
        """(batch, dilations · 2 · channels · 84), under two names."""
        shares = torch.cat([self._shares(part) for part in torch.split(self._fit(series), CHUNK)])
        return {"convolutions": shares, "strong convolutions": shares}

    def learn(self, series: Tensor, generator: torch.Generator) -> None:
        """Find the thresholds."""
        series = self._fit(series)
        rows = torch.randperm(len(series), generator=generator)[:N_EXAMPLES]
        shares = torch.tensor(QUANTILES)
        for number, dilation in enumerate(self.dilations):
            answers = self._answers(series[rows], dilation).permute(1, 0, 2).flatten(1)
            answers = answers[:, torch.randperm(answers.shape[1], generator=generator)[:4096]]
            self.thresholds[number] = torch.quantile(answers, shares, dim=1)[:, :, None]

    def _fit(self, series: Tensor) -> Tensor:
        return resample(series, self.length)

    def _shares(self, series: Tensor) -> Tensor:
        found = []
        for dilation, thresholds in zip(self.dilations, self.thresholds, strict=True):
            answers = self._answers(series, dilation)
            found += [(answers > threshold).float().mean(dim=2) for threshold in thresholds]
        return torch.cat(found, dim=1)

    def _answers(self, series: Tensor, dilation: int) -> Tensor:
        """(batch, channels · 84, length)."""
        flat = series.reshape(-1, 1, series.shape[2])
        answers = functional.conv1d(flat, kernels(), dilation=dilation, padding=4 * dilation)
        return answers.reshape(len(series), -1, series.shape[2])


class Words(nn.Module):
    """How often each of 64 typical stretches of `width` values occurs, as square roots of shares.

    A stretch is centred on its mean and stands for the typical one that is nearest.
    """

    def __init__(self, channels: int, length: int, width: int) -> None:
        super().__init__()
        self.length = min(length, LONG)
        self.width = width
        self.register_buffer("words", torch.zeros(N_WORDS, channels * width))
        self.words: Tensor

    def forward(self, series: Tensor) -> dict[str, Tensor]:
        """(batch, 64)."""
        parts = torch.split(resample(series, self.length), CHUNK)
        return {f"words of {self.width}": torch.cat([self._count(part) for part in parts])}

    def learn(self, series: Tensor, generator: torch.Generator) -> None:
        """Find the typical stretches, by k-means."""
        series = resample(series, self.length)
        n_places = self.length - self.width + 1
        which = torch.randint(len(series), (N_STRETCHES,), generator=generator)
        start = torch.randint(n_places, (N_STRETCHES,), generator=generator)
        points = _centre(series.unfold(2, self.width, 1)[which, :, start])
        centres = points[torch.randperm(len(points), generator=generator)[:N_WORDS]]
        for _ in range(N_ROUNDS):
            nearest = _nearest(points, centres)
            sums = torch.zeros_like(centres).index_add_(0, nearest, points)
            counts = torch.bincount(nearest, minlength=N_WORDS)[:, None]
            centres = torch.where(counts > 0, sums / counts.clamp(min=1), centres)
        self.words.copy_(centres)

    def _count(self, series: Tensor) -> Tensor:
        stretches = series.unfold(2, self.width, 1).permute(0, 2, 1, 3)
        points = _centre(stretches.reshape(-1, *stretches.shape[2:]))
        nearest = _nearest(points, self.words).view(len(series), -1)
        counts = torch.zeros(len(series), N_WORDS)
        counts.scatter_add_(1, nearest, torch.ones(nearest.shape))
        return (counts / nearest.shape[1]).sqrt()


def _centre(stretches: Tensor) -> Tensor:
    """(n, channel, width) to (n, channel · width)."""
    centred: Tensor = stretches - stretches.mean(dim=2, keepdim=True)
    return centred.flatten(1)


def _nearest(points: Tensor, centres: Tensor) -> Tensor:
    distances = centres.square().sum(dim=1) - 2 * points @ centres.T
    return distances.argmin(dim=1)


def series_describers(
    channels: int, length: int, encoder: nn.Module | None = None
) -> dict[str, nn.Module]:
    """The describers that suit series of this shape."""
    return {
        "curve": Curve(),
        "spectra": Spectra(),
        "convolutions": Convolutions(channels, length),
        **{
            f"words{width}": Words(channels, length, width)
            for width in WIDTHS
            if min(length, LONG) >= 2 * width
        },
    }
