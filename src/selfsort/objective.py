"""Weighs classification and GAR into the one number that is minimised, and keeps the parts."""

from typing import NamedTuple

from torch.nn import functional

from selfsort.config import ObjectiveConfig
from selfsort.gar import gar_terms
from selfsort.network import Activations
from selfsort.shapes import Parents, Scalar


class LossTerms(NamedTuple):
    """The objective of a batch and what it is made of."""

    loss: Scalar
    classification: Scalar
    affinity: Scalar
    balance: Scalar
    frobenius: Scalar
    pseudo_accuracy: Scalar


def objective(activations: Activations, parents: Parents, *, config: ObjectiveConfig) -> LossTerms:
    """L(Y, t̃) + c_α α(B) + c_β (1 − β(B)) + c_F ‖B‖²; also how often the right transformation is named."""
    classification = functional.nll_loss(activations.parent_log_probs, parents)
    gar = gar_terms(activations.logits, modified=config.gar == "modified")
    total = (
        classification
        + config.affinity_weight * gar.affinity
        + config.balance_weight * (1 - gar.balance)
        + config.frobenius_weight * gar.frobenius
    )
    pseudo_accuracy = (activations.parent_log_probs.detach().argmax(dim=1) == parents).float().mean()
    return LossTerms(total, classification, *gar, pseudo_accuracy)
