"""The method of Kilinc & Uysal: every equation, from pixels to the objective."""

from selfsort.method.inputs import Inputs, infer, infer_all
from selfsort.method.modality import IMAGES, MODALITIES, Modality
from selfsort.method.network import AcolNetwork, build_network
from selfsort.method.objective import objective
from selfsort.method.preparation import Preparation
from selfsort.method.representation import Representation, extract, extract_batches
from selfsort.method.transforms import TRANSFORM_SETS, build_transforms, get_transforms

__all__ = [
    "IMAGES",
    "MODALITIES",
    "TRANSFORM_SETS",
    "AcolNetwork",
    "Inputs",
    "Modality",
    "Preparation",
    "Representation",
    "build_network",
    "build_transforms",
    "extract",
    "extract_batches",
    "get_transforms",
    "infer",
    "infer_all",
    "objective",
]
