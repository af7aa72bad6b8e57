"""Models and everything that training needs to go on exactly: torch's tensors in a `container`."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from selfsort.container import damaged, load_container, save_container
from selfsort.errors import ModelFileError

Module = TypeVar("Module", bound=nn.Module)

RATE = "learning_rate"
"""May be changed when a run goes on, so that one whose loss became NaN can be saved."""


class SavedTensors(NamedTuple):
    """What a file of tensors holds."""

    tensors: dict[str, Tensor]
    values: dict[str, Any]


def save_tensors(
    path: Path,
    tensors: Mapping[str, Tensor],
    values: Mapping[str, Any],
    *,
    kind: str,
    new_folder: bool = True,
) -> str:
    """Write tensors and JSON values into one file of the given kind (`model`, `checkpoint`);
    returns its hash.
    """
    arrays = {name: tensor.detach().cpu().numpy() for name, tensor in tensors.items()}
    return save_container(path, arrays, values, kind=kind, new_folder=new_folder)


def load_tensors(path: Path, *, kind: str) -> SavedTensors:
    """The inverse of `save_tensors`; what cannot be used is refused with a reason."""
    arrays, values, _ = load_container(path, kind=kind)
    try:
        return SavedTensors({name: torch.tensor(array) for name, array in arrays.items()}, values)
    except TypeError as error:  # a type of numbers that selfsort never writes
        raise damaged(path, error) from error


def save_checkpoint(
    path: Path,
    module: nn.Module,
    optimizer: torch.optim.Optimizer,
    generator: torch.Generator,
    progress: Mapping[str, Any],
) -> None:
    """Write weights, optimiser, generator and where training stands, into a folder that must be
    there still.
    """
    tensors = {f"module.{name}": tensor for name, tensor in module.state_dict().items()}
    for index, entry in optimizer.state_dict()["state"].items():
        tensors |= {
            f"optimizer.{index}.{name}": torch.as_tensor(value) for name, value in entry.items()
        }
    tensors["generator"] = generator.get_state()
    save_tensors(path, tensors, {"progress": dict(progress)}, kind="checkpoint", new_folder=False)


def load_checkpoint(
    path: Path,
    module: nn.Module,
    optimizer: torch.optim.Optimizer,
    generator: torch.Generator,
    job: Mapping[str, Any],
) -> dict[str, Any]:
    """Put everything back to where a checkpoint of this `job` was written; returns where training
    stood.
    """
    tensors, values = load_tensors(path, kind="checkpoint")
    try:
        progress: dict[str, Any] = values["progress"]
        kept = {"precision": 32, **progress["job"]}  # earlier versions knew no other on a CPU
        for name, value in job.items():
            if _without_rates(kept.get(name)) != _without_rates(value):
                raise ModelFileError(
                    f"{path}: belongs to a run with another {name}; resume with the same one, or "
                    "remove the file."
                )
        load_weights(path, module, tensors, "module")
        parameters = [
            parameter for group in optimizer.param_groups for parameter in group["params"]
        ]
        for name, tensor in tensors.items():
            if name.startswith("optimizer."):
                _, index, entry = name.split(".")
                like = parameters[int(index)]
                # a moment must lie in memory as its weight does (channels last): the fused
                # optimiser walks both alike
                optimizer.state[like][entry] = (
                    torch.empty_like(like).copy_(tensor) if tensor.ndim else tensor.to(like.device)
                )
        generator.set_state(tensors["generator"])
    except ModelFileError:
        raise
    except (KeyError, IndexError, ValueError, TypeError, AttributeError, RuntimeError) as error:
        raise damaged(path, error) from error
    return progress


def load_weights(path: Path, module: nn.Module, tensors: Mapping[str, Tensor], prefix: str) -> None:
    """Fill `module` with the tensors whose names begin with `prefix.`, which must be its own in
    name, type and shape.
    """
    start = f"{prefix}."
    weights = {
        name.removeprefix(start): tensor
        for name, tensor in tensors.items()
        if name.startswith(start)
    }
    if _outline(weights) != _outline(module.state_dict()):
        raise ModelFileError(
            f"{path}: its weights do not fit its configuration; restore it or train again."
        )
    if all(not tensor.is_meta for tensor in module.state_dict().values()):
        module.load_state_dict(weights)


def load_module(
    path: Path, build: Callable[[], Module], tensors: Mapping[str, Tensor], prefix: str
) -> Module:
    """Build a module and fill it; a configuration that asks for more than the file holds is refused
    before it takes memory.
    """
    with torch.device("meta"):
        load_weights(path, build(), tensors, prefix)
    module = build()
    load_weights(path, module, tensors, prefix)
    return module


def _outline(tensors: Mapping[str, Tensor]) -> dict[str, tuple[torch.dtype, torch.Size]]:
    return {name: (tensor.dtype, tensor.shape) for name, tensor in tensors.items()}


def _without_rates(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _without_rates(entry) for name, entry in value.items() if name != RATE}
    return value
