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


def test_numbers_take_part_in_dtypes_as_they_do_alone():
    short, half, double = (
        facula.ones(2, dtype=t) for t in (facula.int16, facula.float16, facula.float64)
    )
    assert facula._foreach_minimum([short, half], 2.5)[0].dtype is facula.float32
    assert facula._foreach_minimum([half], 2.5)[0].dtype is facula.float16
    assert facula._foreach_maximum([double], 0.1)[0].dtype is facula.float64
    assert facula._foreach_maximum([double * 0], 0.1)[0].tolist() == [0.1, 0.1]
    with pytest.raises(RuntimeError, match="result type Float can't be cast"):
        facula._foreach_minimum_([short], 2.5)
    with pytest.raises(NotImplementedError):
        facula._foreach_minimum([double], 2 + 1j)


def test_lists_of_scalars_by_name_and_in_a_tensor():
    ones = [facula.ones(2), facula.ones(3)]
    for scalars in ([2.0, 3.0], (2.0, 3.0), facula.tensor([2.0, 3.0])):
        results = facula._foreach_addcmul(ones, ones, ones, scalars=scalars)
        assert [r.tolist() for r in results] == [[3.0, 3.0], [4.0, 4.0, 4.0]]
    changed = [facula.ones(2), facula.ones(3)]
    facula._foreach_addcdiv_(changed, ones, ones, scalars=[1.0, 2.0])
    assert changed[1].tolist() == [3.0, 3.0, 3.0]


@pytest.mark.parametrize(
    "scalars, text",
    [
        ([2.0], "Tensor list must have same number of elements as scalar list"),
        (facula.ones(2, 2), "to be of dimension 1. Got 2"),
        (facula.ones(4)[::2], "to be contiguous"),
        (facula.tensor(2.0), "to be of dimension 1. Got 0"),
        (facula.ones(3), "match input of length 2 but got 3"),
        (facula.ones(2, device="meta"), "to be on CPU, got meta"),
    ],
)
def test_scalars_that_do_not_fit_are_named(scalars, text):
    ones = [facula.ones(2), facula.ones(3)]
    with pytest.raises(RuntimeError, match=text):
        facula._foreach_addcmul(ones, ones, ones, scalars=scalars)
    with pytest.raises(RuntimeError, match=text):
        facula._foreach_addcmul(ones, ones, ones, scalars)
