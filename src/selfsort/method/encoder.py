"""X̃ to F: the 6-layer convolutional network of the paper without its last layer."""

import torch
from torch import Tensor, nn

from selfsort.settings import NetworkConfig


class Dropout(nn.Module):
    """Dropout that draws from its own generator, so that a run repeats without touching torch's
    global one.

    On a CPU one 64-bit number decides for four values, which is several times as fast as
    `bernoulli_`; the rate is rounded to 2^-16.
    """

    def __init__(self, rate: float, generator: torch.Generator) -> None:
        super().__init__()
        self.rate = rate
        self.generator = generator

    def forward(self, values: Tensor) -> Tensor:
        """Zero a share of `values` and scale up the rest, in training only."""
        if not self.training or self.rate == 0:
            return values
        if not values.is_cpu:
            return values * torch.empty_like(values).bernoulli_(
                1 - self.rate, generator=self.generator
            ).div_(1 - self.rate)
        n_values = values.numel()
        bits = torch.empty(-(-n_values // 4), dtype=torch.int64).random_(
            -(2**63), None, generator=self.generator
        )
        kept = torch.empty_like(values)
        kept.as_strided((n_values,), (1,)).copy_(
            bits.view(torch.int16)[:n_values] >= round(self.rate * 2**16) - 2**15
        )
        return values * kept.div_(1 - self.rate)


class ConvolutionalEncoder(nn.Sequential):
    """Layers that take (batch, channel, height, width), laid out in memory with channels last."""

    def forward(self, images: Tensor) -> Tensor:
        """The latent layer F of a batch."""
        values = images.contiguous(memory_format=torch.channels_last)
        for layer in self:
            values = layer(values)
        return values


def build_encoder(
    config: NetworkConfig, *, shape: tuple[int, ...], generator: torch.Generator
) -> ConvolutionalEncoder:
    """2×conv - max pool - dropout - 2×conv - max pool - dropout - fully connected, ReLU after each
    layer.

    With `batch_norm` each convolution is followed by batch normalisation, which takes the place of
    its bias. Where pooling follows, the ReLU comes after it: the largest of four values is the same
    before and after, bit for bit, and three quarters of the work are saved.

    >>> from selfsort.settings import NetworkConfig
    >>> encoder = build_encoder(NetworkConfig(), shape=(1, 28, 28), generator=torch.Generator())
    >>> encoder(torch.zeros(2, 1, 28, 28)).shape
    torch.Size([2, 2048])
    """

    def convolution(n_in: int, n_out: int) -> list[nn.Module]:
        norm = [nn.BatchNorm2d(n_out)] if config.batch_norm else []
        return [nn.Conv2d(n_in, n_out, 3, padding=1, bias=not norm), *norm]

    channels, size, _ = shape
    narrow = config.width
    wide = 2 * config.width
    encoder = ConvolutionalEncoder(
        *convolution(channels, narrow),
        nn.ReLU(inplace=True),
        *convolution(narrow, narrow),
        nn.MaxPool2d(2),
        nn.ReLU(inplace=True),
        Dropout(config.dropout_1, generator),
        *convolution(narrow, wide),
        nn.ReLU(inplace=True),
        *convolution(wide, wide),
        nn.MaxPool2d(2),
        nn.ReLU(inplace=True),
        Dropout(config.dropout_2, generator),
        nn.Flatten(),
        nn.Linear(wide * (size // 4) ** 2, config.latent_width),
        nn.ReLU(inplace=True),
    )
    initialise(encoder, generator)
    return encoder.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def place(module: nn.Module, device: torch.device | str) -> None:
    """Move a module to a device; its dropout then draws there, from a generator of the same
    seed.
    """
    device = torch.device(device)
    module.to(device)
    moved: dict[torch.Generator, torch.Generator] = {}
    for layer in module.modules():
        if isinstance(layer, Dropout) and layer.generator.device.type != device.type:
            seed = layer.generator.initial_seed()
            layer.generator = moved.setdefault(
                layer.generator, torch.Generator(device).manual_seed(seed)
            )


def device_of(module: nn.Module) -> torch.device:
    """Where a module is; one that has learned nothing is on the CPU."""
    for tensor in (*module.parameters(), *module.buffers()):
        return tensor.device
    return torch.device("cpu")


def initialise(module: nn.Module, generator: torch.Generator) -> None:
    """Glorot's uniform weights and zero biases, the defaults of the paper's framework."""
    for layer in module.modules():
        if isinstance(layer, nn.Conv1d | nn.Conv2d | nn.Linear):
            nn.init.xavier_uniform_(layer.weight, generator=generator)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
