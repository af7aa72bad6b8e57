"""The GAR terms against a loop-by-loop reference, by hand, by gradient and by what the method
promises.
"""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from selfsort.method.gar import affinity, balance, gar_terms, node_graph


def reference(logits: Tensor, modified: bool) -> tuple[float, float, float]:
    """α, β and ‖B‖² as the paper writes them, sum by sum in plain Python."""
    z = logits.tolist()
    n_parents, n_duplicates = logits.shape[1:]
    nodes = [(p, d) for p in range(n_parents) for d in range(n_duplicates)]
    groups = (
        [[node for node in nodes if node[0] == p] for p in range(n_parents)]
        if modified
        else [nodes]
    )
    alphas, betas = [], []
    for group in groups:
        n = len(group)
        N = [
            [sum(max(0.0, row[p][d]) * max(0.0, row[q][e]) for row in z) for q, e in group]
            for p, d in group
        ]
        off = sum(N[i][j] for i in range(n) for j in range(n) if i != j)
        on = sum(N[i][i] for i in range(n))
        v_off = sum(N[i][i] * N[j][j] for i in range(n) for j in range(n) if i != j)
        v_on = sum(N[i][i] ** 2 for i in range(n))
        alphas.append(off / ((n - 1) * on))
        betas.append(v_off / ((n - 1) * v_on))
    frobenius = sum(max(0.0, value) ** 2 for row in z for parent in row for value in parent)
    return sum(alphas) / len(alphas), sum(betas) / len(betas), frobenius


@pytest.mark.parametrize("modified", [True, False])
@pytest.mark.parametrize("shape", [(7, 1, 2), (5, 3, 4), (11, 2, 6)])
def test_equals_the_loop_by_loop_reference(
    shape: tuple[int, int, int], modified: bool, generator: torch.Generator
) -> None:
    logits = torch.randn(*shape, generator=generator, dtype=torch.float64)
    assert [float(term) for term in gar_terms(logits, modified=modified)] == pytest.approx(
        reference(logits, modified), rel=1e-6, abs=1e-6
    )


def test_by_hand() -> None:
    B = torch.tensor([[[2.0, 1.0]], [[0.0, 1.0]]])  # N = [[4, 2], [2, 2]], v = (4, 2)
    terms = gar_terms(B)
    assert float(terms.affinity) == pytest.approx(4 / 6)
    assert float(terms.balance) == pytest.approx(16 / 20)
    assert float(terms.frobenius) == 6
    Z = torch.tensor(
        [[[2.0, -1.0]], [[1.0, 3.0]]]
    )  # of B N = [[5, 3], [3, 9]], of Z it would be [[5, 1], [1, 10]]
    terms, bound = gar_terms(Z), gar_terms(Z, bound_all=True)
    assert float(terms.affinity) == float(bound.affinity) == pytest.approx(6 / 14)
    assert float(terms.balance) == float(bound.balance) == pytest.approx(90 / 106)
    assert (float(terms.frobenius), float(bound.frobenius)) == (14, 15)


@pytest.mark.parametrize("modified", [True, False])
@pytest.mark.parametrize("term", [0, 1, 2])
def test_gradients(term: int, modified: bool, generator: torch.Generator) -> None:
    logits = torch.randn(6, 2, 3, generator=generator, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(lambda z: gar_terms(z, modified=modified)[term], logits)


def test_the_ends_of_the_range() -> None:
    one_column = torch.zeros(4, 1, 3)
    one_column[:, :, 1] = 1
    for B, expected in (
        (torch.eye(4)[:, None], (0, 1)),
        (torch.ones(4, 1, 3), (1, 1)),
        (one_column, (0, 0)),
    ):
        terms = gar_terms(B)
        assert (float(terms.affinity), float(terms.balance)) == pytest.approx(expected)


def test_silent_nodes_give_numbers_and_gradients() -> None:
    logits = torch.full((4, 2, 3), -1.0, requires_grad=True)
    terms = gar_terms(logits)
    torch.stack(terms).sum().backward()  # type: ignore[no-untyped-call]
    assert [term.item() for term in terms] == [0, 0, 0]
    assert logits.grad is not None
    assert torch.isfinite(logits.grad).all()


def test_large_activities_do_not_overflow() -> None:
    terms = gar_terms(torch.full((4, 1, 3), 1e9))
    assert (float(terms.affinity), float(terms.balance)) == pytest.approx((1, 1))


activities = st.integers(0, 2**32 - 1).map(
    lambda seed: torch.randn(
        6, 3, 4, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )
)


def ratios(logits: Tensor, modified: bool) -> list[float]:
    terms = gar_terms(logits, modified=modified)
    return [float(terms.affinity), float(terms.balance)]


@given(activities, st.booleans(), st.floats(1e-3, 1e3), st.permutations(range(6)))
@settings(max_examples=60, deadline=None)
def test_what_does_not_change_the_terms(
    logits: Tensor, modified: bool, scale: float, order: list[int]
) -> None:
    expected = ratios(logits, modified)
    assert all(0 <= value <= 1 for value in expected)
    for changed in (
        logits[order],  # the order of the images
        logits[:, :, [i for i in order if i < 4]],  # the order of the duplicates
        logits[:, [i for i in order if i < 3]],  # the order of the parents
        logits * scale,  # the scale of B
        logits.repeat(3, 1, 1),  # the batch repeated
    ):
        assert ratios(changed, modified) == pytest.approx(expected, abs=1e-9)


def test_modified_is_the_mean_of_the_original_over_the_parents(generator: torch.Generator) -> None:
    logits = torch.randn(9, 4, 5, generator=generator, dtype=torch.float64)
    single = [ratios(logits[:, parent : parent + 1], modified=False) for parent in range(4)]
    means = [math.fsum(values) / 4 for values in zip(*single, strict=True)]
    assert ratios(logits, modified=True) == pytest.approx(means)


def test_one_duplicate_has_no_competitor() -> None:
    N = node_graph(torch.ones(3, 2, 1))
    assert (float(affinity(N)), float(balance(N))) == (0, 0)
