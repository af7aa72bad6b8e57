"""Images to clusters: the whole way, and the estimator that users call."""

from selfsort.sorting.assigners import ASSIGNERS, Assigner
from selfsort.sorting.diagnosis import diagnose, judge
from selfsort.sorting.methods import METHODS, fit_model
from selfsort.sorting.model import Model
from selfsort.sorting.model_file import load_model, save_model

__all__ = [
    "ASSIGNERS",
    "METHODS",
    "Assigner",
    "Model",
    "diagnose",
    "fit_model",
    "judge",
    "load_model",
    "save_model",
]
