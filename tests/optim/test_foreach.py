"""Operators over lists of tensors do to each what the operator does."""

from __future__ import annotations

from typing import Any

import pytest

import facula


def tensors(seed: int) -> list[Any]:
    facula.manual_seed(seed)
    return [facula.rand(3) + 0.5, facula.rand(2, 4) + 0.5, facula.rand(()) + 0.5]


def same(got: Any, want: Any) -> None:
    assert isinstance(got, tuple) and len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        assert a.dtype == b.dtype and facula.equal(a, b)


def test_numbers_lists_and_tensors() -> None:
    a, b = tensors(0), tensors(1)
    same(facula._foreach_add(a, 2.0), [x + 2 for x in a])
    scaled = [facula.add(x, y, alpha=3) for x, y in zip(a, b, strict=True)]
    same(facula._foreach_add(a, b, alpha=3), scaled)
    same(facula._foreach_mul(a, [1.0, 2.0, 3.0]), [x * n for n, x in enumerate(a, 1)])
    same(facula._foreach_div(a, facula.tensor(2.0)), [x / 2 for x in a])
    same(facula._foreach_pow(2.0, a), [2.0**x for x in a])
    same(facula._foreach_maximum(a, 0.7), [x.clamp(min=0.7) for x in a])
    same(facula._foreach_sqrt(a), [x.sqrt() for x in a])
    same(facula._foreach_max(a), [x.max() for x in a])


def test_scalars_by_position() -> None:
    a, b = tensors(0), tensors(1)
    want = [x + n * x * y for n, (x, y) in enumerate(zip(a, b, strict=True), 1)]
    for scalars in ([1.0, 2.0, 3.0], facula.tensor([1.0, 2.0, 3.0])):
        for got, expected in zip(facula._foreach_addcmul(a, a, b, scalars), want, strict=True):
            assert facula.allclose(got, expected)


def test_in_place_gives_the_list() -> None:
    a = tensors(0)
    want = [(x - 1).clamp(max=0.2) for x in a]
    first = a[0]
    assert facula._foreach_sub_(a, 1) is a
    facula._foreach_minimum_(a, 0.2)
    assert a[0] is first
    same(tuple(a), want)
    facula._foreach_copy_(a, tensors(1))
    same(tuple(a), tensors(1))
    facula._foreach_zero_(a)
    assert not any(x.any() for x in a)


def test_norms() -> None:
    a = tensors(0)
    same(facula._foreach_norm(a), [facula.linalg.vector_norm(x) for x in a])
    wide = facula._foreach_norm(a, float("inf"), facula.float64)
    same(wide, [x.double().abs().max() for x in a])


def test_gradients_flow() -> None:
    a = [x.requires_grad_() for x in tensors(0)]
    sum(x.sum() for x in facula._foreach_mul(a, a)).backward()
    for x in a:
        assert facula.allclose(x.grad, 2 * x.detach())


def test_errors() -> None:
    a = tensors(0)
    with pytest.raises(RuntimeError, match="at least one tensor"):
        facula._foreach_add([], 1)
    with pytest.raises(RuntimeError, match="same number of tensors"):
        facula._foreach_add(a, a[:2])
    with pytest.raises(RuntimeError, match="0 dim"):
        facula._foreach_mul(a, facula.ones(3))
    assert not hasattr(facula, "_foreach_no_such_operator")


def test_operators_that_only_graphs_name_have_no_list_form():
    # PyTorch's own tests of lists ask for these two, and want the one in place only
    assert not hasattr(facula, "_foreach_copy") and not hasattr(facula, "_foreach_zero")
    assert callable(facula._foreach_copy_) and callable(facula._foreach_zero_)
