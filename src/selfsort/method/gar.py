"""Graph-based activity regularisation: the equations, nothing else.

B = max(0, Z) are the positive activities of the nodes, one row per image; N = BᵀB is the graph
between the nodes and V = vᵀv with v = diag N. A node's graph may span all nodes (*original*) or the
duplicates of one parent (*modified*); either way the nodes that compete are the last axis, and the
terms are averaged over the axis before it.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from selfsort.method.shapes import Logits, NodeGraph, Scalar


class GarTerms(NamedTuple):
    """α, β and ‖B‖² (or ‖Z‖²) of a batch."""

    affinity: Scalar
    balance: Scalar
    frobenius: Scalar


def node_graph(B: Logits) -> NodeGraph:
    """N = BᵀB for each parent."""
    return torch.einsum("bpi,bpj->pij", B, B)


def off_diagonal_ratio(graph: NodeGraph) -> Scalar:
    """Σ_{i≠j} G_ij / ((n − 1) Σ_i G_ii), averaged over the parents; a parent with no activity
    counts as 0.
    """
    diagonal = graph.diagonal(dim1=1, dim2=2).sum(dim=1)
    off_diagonal = graph.sum(dim=(1, 2)) - diagonal
    n_competitors = max(graph.shape[1] - 1, 1)
    tiny = torch.finfo(graph.dtype).tiny
    return (off_diagonal / (n_competitors * diagonal).clamp_min(tiny)).mean()


def affinity(N: NodeGraph) -> Scalar:
    """α: 0 when no two competing nodes fire for the same image, 1 when all fire alike."""
    return off_diagonal_ratio(N)


def balance(N: NodeGraph) -> Scalar:
    """β: 1 when all competing nodes are equally active, 0 when only one is."""
    v = N.diagonal(dim1=1, dim2=2)
    v = v / v.amax(dim=1, keepdim=True).clamp_min(
        torch.finfo(v.dtype).tiny
    )  # β does not depend on the scale; squares overflow
    return off_diagonal_ratio(v[:, :, None] * v[:, None, :])


def gar_terms(logits: Tensor, *, modified: bool = True, bound_all: bool = False) -> GarTerms:
    """α, β and ‖B‖² of (batch, parent, duplicate) activities Z, inside each parent or over all
    nodes.

    With `bound_all` the last is ‖Z‖²: negative activities count, too.

    >>> terms = gar_terms(torch.eye(4)[:, None, :])     # each image has a node of its own
    >>> float(terms.affinity), float(terms.balance)
    (0.0, 1.0)
    """
    B = logits.relu()
    N = node_graph(B if modified else B.flatten(1)[:, None, :])
    return GarTerms(affinity(N), balance(N), (logits if bound_all else B).square().sum())
