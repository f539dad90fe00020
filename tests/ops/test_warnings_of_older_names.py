"""Operators that PyTorch keeps for older programs, and calls with too few elements, say so each time."""

from __future__ import annotations

import pytest

import facula

A = facula.tensor([[4.0, 1.0], [1.0, 3.0]])
CALLS = {
    "cholesky is deprecated in favor of": lambda: facula.cholesky(A),
    "qr is deprecated in favor of": lambda: facula.qr(A),
    "lu is deprecated in favor of": lambda: facula.lu(A),
    "lu_solve is deprecated in favor of": lambda: facula.lu_solve(A, *facula.linalg.lu_factor(A)),
    "triangular_solve is deprecated in favor of": lambda: facula.triangular_solve(A, A.triu()),
    "chain_matmul is deprecated": lambda: facula.chain_matmul(A, A),
    "range is deprecated": lambda: facula.range(0, 3),
    "required to pass the indexing argument": lambda: facula.meshgrid(A[0], A[1]),
    "without specifying the dim arg": lambda: facula.cross(facula.ones(3, 2), facula.ones(3, 2)),
    r"var\(\): degrees of freedom is <= 0": lambda: facula.var(facula.ones(1)),
    r"std\(\): degrees of freedom is <= 0": lambda: A.std(1, correction=2),
    r"std_mean\(\): degrees of freedom is <= 0": lambda: facula.std_mean(facula.ones(2, 1), 1),
    r"cov\(\): degrees of freedom is <= 0": lambda: facula.cov(facula.ones(3, 1)),
}


@pytest.mark.parametrize("text", CALLS)
def test_each_call_warns(text):
    for _ in range(3):  # also the calls that the launch cache would keep
        with pytest.warns(UserWarning, match=text):
            CALLS[text]()


@pytest.mark.filterwarnings("error")
def test_ordinary_calls_are_silent():
    for _ in range(2):
        facula.meshgrid(A[0], A[1], indexing="ij")
        facula.cross(facula.ones(2, 3), facula.ones(2, 3), dim=1)
        assert facula.var(A, correction=1).item() == pytest.approx(9.0 / 4)
        facula.var(facula.ones(0, 3), 1)
        facula.nn.functional.layer_norm(facula.ones(0, 3), (3,))
        facula.nn.functional.batch_norm(facula.ones(2, 3), None, None, training=True)


def test_numbers_that_are_not_taken_are_told_in_pytorchs_words():
    true = facula.tensor([True])
    with pytest.raises(
        RuntimeError, match="Negation, the `-` operator, on a bool tensor is not supported"
    ):
        _ = -true
    with pytest.raises(RuntimeError, match="Subtraction, the `-` operator, with two bool tensors"):
        _ = true - true
    z = facula.tensor([1j])
    for name in ("max", "min", "amax", "argmin"):
        with pytest.raises(NotImplementedError, match="does not support complex|not implemented"):
            getattr(facula, name)(z)
    with pytest.raises(RuntimeError, match="Expected both inputs to be Half, Float or Double"):
        facula.polar(facula.ones(2, dtype=facula.int32), facula.ones(2))
    with pytest.raises(RuntimeError, match="Expected object of scalar type"):
        facula.polar(facula.ones(2), facula.ones(2).double())


def test_the_older_tolerance_of_an_inverse_stands_second():
    x = facula.diag(facula.tensor([4.0, 1.0]))
    for found in (
        facula.linalg.pinv(x, 0.5),
        facula.linalg.pinv(x, rcond=0.5),
        facula.linalg.pinv(x, rtol=0.5),
    ):
        assert found.tolist() == [[0.25, 0.0], [0.0, 0.0]]
