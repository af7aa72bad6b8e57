"""Tensors and plain values in one safetensors file: models and everything that training needs to go on exactly."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from selfsort.errors import ModelFileError
from selfsort.files import save_bytes

FORMAT = 1
"""Raised when a file can no longer be read by older code."""


class Contents(NamedTuple):
    """What such a file holds."""

    tensors: dict[str, Tensor]
    values: dict[str, Any]


def save_tensors(path: Path, tensors: Mapping[str, Tensor], values: Mapping[str, Any], *, kind: str) -> None:
    """Write tensors and JSON values into one file of the given kind (`model`, `checkpoint`)."""
    header = json.dumps({"format": FORMAT, "kind": kind, **values}, allow_nan=False)
    save_bytes(path, save({name: tensor.contiguous() for name, tensor in tensors.items()}, {"selfsort": header}))


def load_tensors(path: Path, *, kind: str) -> Contents:
    """The inverse of `save_tensors`; what cannot be used is refused with a reason."""
    try:
        content = path.read_bytes()
        n_header = int.from_bytes(content[:8], "little")
        header = json.loads(json.loads(content[8 : 8 + n_header])["__metadata__"]["selfsort"])
        if header["kind"] != kind:
            raise ModelFileError(f"{path}: a selfsort {header['kind']}, not a selfsort {kind}.")
        if header["format"] != FORMAT:
            raise ModelFileError(f"{path}: format {header['format']}, but this selfsort reads format {FORMAT}.")
        return Contents(load(content), header)
    except FileNotFoundError as error:
        raise ModelFileError(f"{path}: no such file; is this the folder that `selfsort fit` wrote?") from error
    except (OSError, SafetensorError, ValueError, RecursionError, KeyError, TypeError) as error:
        if isinstance(error, ModelFileError):
            raise
        raise ModelFileError(f"{path}: damaged ({str(error).splitlines()[0]}); restore it or train again.") from error


def save_checkpoint(
    path: Path, module: nn.Module, optimizer: torch.optim.Optimizer, generator: torch.Generator, progress: Mapping[str, Any]
) -> None:
    """Write weights, optimiser, generator and where training stands."""
    tensors = {f"module.{name}": tensor for name, tensor in module.state_dict().items()}
    for index, entry in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{index}.{name}": torch.as_tensor(value) for name, value in entry.items()}
    tensors["generator"] = generator.get_state()
    save_tensors(path, tensors, {"progress": dict(progress)}, kind="checkpoint")


def load_checkpoint(
    path: Path, module: nn.Module, optimizer: torch.optim.Optimizer, generator: torch.Generator, job: Mapping[str, Any]
) -> dict[str, Any]:
    """Put everything back to where a checkpoint of this `job` was written; returns where training stood."""
    tensors, values = load_tensors(path, kind="checkpoint")
    for name, value in job.items():
        if values["progress"]["job"].get(name) != value:
            raise ModelFileError(f"{path}: belongs to a run with another {name}; resume with the same one, or remove the file.")
    load_weights(path, module, tensors, "module")
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for name, tensor in tensors.items():
        if name.startswith("optimizer."):
            _, index, entry = name.split(".")
            like = parameters[int(index)]
            # a moment must lie in memory as its weight does (channels last): the fused optimiser walks both alike
            optimizer.state[like][entry] = torch.empty_like(like).copy_(tensor) if tensor.ndim else tensor
    generator.set_state(tensors["generator"])
    progress: dict[str, Any] = values["progress"]
    return progress


def load_weights(path: Path, module: nn.Module, tensors: Mapping[str, Tensor], prefix: str) -> None:
    """Fill `module` with the tensors whose names begin with `prefix.`."""
    start = f"{prefix}."
    weights = {name.removeprefix(start): tensor for name, tensor in tensors.items() if name.startswith(start)}
    try:
        module.load_state_dict(weights)
    except RuntimeError as error:
        raise ModelFileError(f"{path}: its weights do not fit its configuration; restore it or train again.") from error
