"""Weighs classification and GAR into the one number that is minimised, and keeps the parts."""

from typing import NamedTuple

import torch
from torch import Tensor
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
    worst_parent: Scalar


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
    is_right = (activations.parent_log_probs.detach().argmax(dim=1) == parents).float()
    return LossTerms(total, classification, *gar, is_right.mean(), _worst_parent(is_right, parents))


def _worst_parent(is_right: Tensor, parents: Parents) -> Scalar:
    """The share of right answers for the parent that has the fewest; 0 over a whole epoch: it is dead."""
    counts, hits = torch.bincount(parents), torch.bincount(parents, weights=is_right)
    return (hits / counts)[counts > 0].min().float()
