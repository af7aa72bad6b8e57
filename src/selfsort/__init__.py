"""selfsort sorts unlabelled images into their natural classes."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from selfsort.config import Config
    from selfsort.data.datasets import load_dataset
    from selfsort.data.folder import load_images
    from selfsort.data.image_set import ImageSet
    from selfsort.data.kinds import load_source
    from selfsort.errors import (
        ConfigError,
        DataError,
        ModelFileError,
        SelfsortError,
        SelfsortWarning,
        TrainingError,
        TrainingStopped,
    )
    from selfsort.method.transforms import build_transforms
    from selfsort.metrics import score
    from selfsort.recipes import RECIPES
    from selfsort.runs.results import load_run
    from selfsort.sorting.estimator import SelfSort
    from selfsort.workflow.fit import resume_folder, sort_folder
    from selfsort.workflow.report import write_report

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
    "SelfsortWarning",
    "TrainingError",
    "TrainingStopped",
    "build_transforms",
    "load_dataset",
    "load_images",
    "load_run",
    "load_source",
    "resume_folder",
    "score",
    "sort_folder",
    "write_report",
]

_HOMES = {
    "config": ["Config"],
    "data.datasets": ["load_dataset"],
    "errors": [
        "ConfigError",
        "DataError",
        "ModelFileError",
        "SelfsortError",
        "SelfsortWarning",
        "TrainingError",
        "TrainingStopped",
    ],
    "sorting.estimator": ["SelfSort"],
    "data.image_set": ["ImageSet"],
    "data.folder": ["load_images"],
    "data.kinds": ["load_source"],
    "metrics": ["score"],
    "recipes": ["RECIPES"],
    "runs.results": ["load_run"],
    "method.transforms": ["build_transforms"],
    "workflow.fit": ["resume_folder", "sort_folder"],
    "workflow.report": ["write_report"],
}


def __getattr__(name: str) -> Any:
    """Import on first use, so that `selfsort --help` need not wait for torch."""
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"selfsort.{module}"), name)
    raise AttributeError(f"module 'selfsort' has no attribute {name!r}")
