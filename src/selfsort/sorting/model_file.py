"""A `Model` to a `.safetensors` file and back."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from selfsort.config import Config
from selfsort.container import damaged
from selfsort.errors import ModelFileError
from selfsort.method.devices import choose_device, has_bfloat16
from selfsort.method.encoder import place
from selfsort.method.modality import MODALITIES, Preparations
from selfsort.method.network import build_network
from selfsort.method.transforms import OWN
from selfsort.runs.folder import RunFolder
from selfsort.runs.versions import finish_switch
from selfsort.schema import fits
from selfsort.sorting.assigners import ASSIGNERS, Centres, Reclustered, Refined
from selfsort.sorting.familiarity import load_familiarity
from selfsort.sorting.model import Model
from selfsort.sorting.trained import TrainedNetwork
from selfsort.training.checkpoint import load_module, load_tensors, save_tensors

NOTES = {
    "recipe": str,
    "image_shape": list[int] | None,
    "n_features_in": int | None,
    "shape_in": list[int] | None,
}
"""What the estimator keeps in a model file besides the model."""


def save_model(path: Path | str, model: Model, *, notes: Mapping[str, Any] | None = None) -> Path:
    """Write a model (a folder gets a `model.safetensors`); returns the file."""
    file = model_file(Path(path))
    trained = model.trained
    weights = trained.network.state_dict()
    tensors = {f"network.{name}": tensor for name, tensor in weights.items()}
    values = {
        **(notes or {}),
        "config": trained.config.to_dict(),
        "seed": trained.seed,
        "n_clusters": model.n_clusters,
        "n_parents": trained.network.head.nodes[0],
        "modality": trained.modality.name,
        "preparation": asdict(trained.preparations.network),
        "refinement_preparation": asdict(trained.preparations.refinement),
        "assigner": model.assigner.kind,
        "names": list(model.names),
    }
    tensors |= model.assigner.tensors()
    if model.familiarity:
        tensors |= model.familiarity.tensors()
    save_tensors(file, tensors, values, kind="model")
    return file


def load_model(path: Path | str, *, device: str = "auto") -> Model:
    """Read what `save_model` wrote, onto a device."""
    model, _ = load_model_and_notes(path, device=device)
    return model


def load_model_and_notes(path: Path | str, *, device: str) -> tuple[Model, dict[str, Any]]:
    """A model and what the estimator has kept with it; what cannot be used is refused."""
    file = model_file(Path(path))
    tensors, values = load_tensors(file, kind="model")
    try:
        values = _of_this_format(values, tensors)
        n_clusters = values["n_clusters"]
        notes = {name: values[name] for name in NOTES if name in values}
        numbers = [n_clusters, values["seed"], values["n_parents"]]
        numbers += [notes.get("n_features_in") or 0, *(notes.get("image_shape") or [])]
        numbers += notes.get("shape_in") or []
        if not all(fits(number, int) and number >= 0 for number in numbers) or n_clusters < 1:
            raise ValueError("a number in it is not one")
        for name, value in notes.items():
            if not fits(value, NOTES[name]):
                raise ValueError(f"its {name} is not one")
        trained = _load_network(file, tensors, values, choose_device(device))
        assigner = ASSIGNERS[values["assigner"]].load(file, tensors, trained, n_clusters)
        names = values.get("names", [])
        if not fits(names, list[str]) or len(names) not in (0, n_clusters):
            raise ValueError("its names of clusters are not those of its clusters")
        familiarity = load_familiarity(file, tensors, trained)
    except ModelFileError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError, OverflowError) as error:
        raise damaged(file, error) from error
    return Model(trained, assigner, n_clusters, names=tuple(names), familiarity=familiarity), notes


def model_file(path: Path) -> Path:
    """The file itself, or the one in a folder."""
    if path.suffix == ".safetensors":
        return path
    finish_switch(path)
    return RunFolder(path).model


def _load_network(
    file: Path,
    tensors: Mapping[str, torch.Tensor],
    values: Mapping[str, Any],
    device: torch.device,
) -> TrainedNetwork:
    # files from before this setting are of 32 bits; 16 that would be emulated are not worth it
    config = Config.from_dict({"precision": 32, **values["config"]})
    if not has_bfloat16(device):
        config = replace(config, precision=32)
    modality = MODALITIES[values["modality"]]
    is_own = config.transforms.startswith(OWN)
    preparations = Preparations(
        modality.preparation(**values["preparation"]),
        modality.preparation(**values["refinement_preparation"]),
    )
    network = load_module(
        file,
        lambda: build_network(
            config.network,
            shape=preparations.network.shape,
            n_parents=values["n_parents"],
            generator=torch.Generator().manual_seed(values["seed"]),
            modality=modality,
            precision=config.precision,
        ),
        tensors,
        "network",
    )
    place(network, device)
    transforms = None if is_own else modality.get_transforms(config.transforms)
    return TrainedNetwork(network, preparations, transforms, config, values["seed"], modality)


def _of_this_format(values: dict[str, Any], tensors: Mapping[str, torch.Tensor]) -> dict[str, Any]:
    """The values of a file of format 2, which knew images only, as this format has them."""
    if values["format"] > 2:
        return values
    classifier = Reclustered.kind if values["is_reclustered"] else Refined.kind
    return {
        **values,
        "modality": "images",
        "refinement_preparation": {**values["preparation"], "size": values["refinement_size"]},
        "assigner": Centres.kind if "clusters.centres" in tensors else classifier,
    }
