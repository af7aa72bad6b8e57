"""selfsort sorts unlabelled images into their natural classes."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from selfsort.config import Config
    from selfsort.datasets import load_dataset, load_source
    from selfsort.errors import ConfigError, DataError, ModelFileError, SelfsortError, TrainingError, TrainingStopped
    from selfsort.estimator import SelfSort
    from selfsort.images import ImageSet, load_images
    from selfsort.metrics import score
    from selfsort.recipes import RECIPES
    from selfsort.run import load_run
    from selfsort.transforms import build_transforms

__version__ = "0.1.0"
__all__ = [
    "RECIPES",
    "Config",
    "ConfigError",
    "DataError",
    "ImageSet",
    "ModelFileError",
    "SelfSort",
    "SelfsortError",
    "TrainingError",
    "TrainingStopped",
    "build_transforms",
    "load_dataset",
    "load_images",
    "load_run",
    "load_source",
    "score",
]

_HOMES = {
    "config": ["Config"],
    "datasets": ["load_dataset", "load_source"],
    "errors": ["ConfigError", "DataError", "ModelFileError", "SelfsortError", "TrainingError", "TrainingStopped"],
    "estimator": ["SelfSort"],
    "images": ["ImageSet", "load_images"],
    "metrics": ["score"],
    "recipes": ["RECIPES"],
    "run": ["load_run"],
    "transforms": ["build_transforms"],
}


def __getattr__(name: str) -> Any:
    """Import on first use, so that `selfsort --help` need not wait for torch."""
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"selfsort.{module}"), name)
    raise AttributeError(f"module 'selfsort' has no attribute {name!r}")
