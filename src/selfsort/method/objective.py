"""Weighs classification and GAR into the one number that is minimised, and keeps the parts."""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from selfsort.method.gar import gar_terms
from selfsort.method.network import Activations
from selfsort.method.shapes import Parents, Scalar
from selfsort.settings import ObjectiveConfig


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
    """L(Y, t̃) + c_α α(B) + c_β (1 − β(B)) + c_F ‖B‖² (or ‖Z‖²); also how often the right
    transformation is named.
    """
    classification = functional.nll_loss(activations.parent_log_probs, parents)
    gar = gar_terms(
        activations.logits, modified=config.gar == "modified", bound_all=config.frobenius == "all"
    )
    total = (
        classification
        + config.affinity_weight * gar.affinity
        + config.balance_weight * (1 - gar.balance)
        + config.frobenius_weight * gar.frobenius
    )
    is_right = (activations.parent_log_probs.detach().argmax(dim=1) == parents).float()
    return LossTerms(
        total,
        classification,
        *gar,
        is_right.mean(),
        _worst_parent(is_right, parents, activations.logits.shape[1]),
    )


def _worst_parent(is_right: Tensor, parents: Parents, n_parents: int) -> Scalar:
    """The share of right answers for the parent that has the fewest; 0 over a whole epoch: it is
    dead.
    """
    zeros = is_right.new_zeros(n_parents)
    counts, hits = (
        zeros.index_add(0, parents, torch.ones_like(is_right)),
        zeros.index_add(0, parents, is_right),
    )
    return torch.where(counts > 0, hits / counts, torch.inf).min()
