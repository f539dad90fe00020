"""`torch.masked.maskedtensor` and what it holds: lists of operators, comparisons, identities of reductions."""

import numpy as np
import pytest

import facula
from facula.masked import _combine_input_and_mask, _reduction_identity, masked_tensor
from facula.masked.maskedtensor import MaskedTensor, binary, core, creation, reductions, unary


def test_the_class_is_one():
    assert MaskedTensor is facula.masked.MaskedTensor is core.MaskedTensor
    assert creation.masked_tensor is facula.masked.masked_tensor


@pytest.mark.parametrize("name", ["abs", "absolute", "exp", "clamp", "sigmoid"])
def test_operators_of_one_tensor_are_listed(name):
    assert name in unary.UNARY_NAMES
    x, mask = facula.randn(6), facula.tensor([True, False] * 3)
    words = {"min": -0.5} if name == "clamp" else {}
    operator = {f.__name__: f for f in unary.NATIVE_UNARY_FNS}[name]
    found = operator(masked_tensor(x, mask), **words)
    assert facula.equal(found.get_data()[mask], operator(x, **words)[mask])
    assert facula.equal(found.get_mask(), mask)


def test_lists_hold_what_they_say():
    assert {"add", "mul", "maximum", "eq", "fmod"} <= set(binary.BINARY_NAMES)
    assert {"add_", "mul_"} <= set(binary.INPLACE_BINARY_NAMES)
    assert {"sum", "amax", "argmin", "var"} <= set(reductions.REDUCE_NAMES)
    assert not {"sum", "matmul", "add"} & set(unary.UNARY_NAMES)
    assert not {"abs", "where", "lerp"} & set(binary.BINARY_NAMES)
    assert all(callable(f) for f in binary.NATIVE_INPLACE_BINARY_FNS)


@pytest.mark.parametrize("name", ["sum", "prod", "amax", "amin"])
@pytest.mark.parametrize("dtype", [facula.float32, facula.int32])
def test_an_identity_is_not_felt(name, dtype):
    x, mask = facula.tensor([3, -2, 7, 5], dtype=dtype), facula.tensor([True, True, False, True])
    filled = _combine_input_and_mask(getattr(facula, name), x, mask)
    counted = np.array([3, -2, 5])
    expected = {"sum": np.sum, "prod": np.prod, "amax": np.max, "amin": np.min}[name](counted)
    assert getattr(facula, name)(filled).item() == expected
    assert _combine_input_and_mask(facula.sum, x, None) is x


def test_what_has_no_identity_has_none():
    assert _reduction_identity("mean", facula.ones(1)) is None
    assert _reduction_identity("norm", facula.ones(1), -float("inf")).item() == float("inf")
    assert _reduction_identity("norm", facula.ones(1)).item() == 0


def test_comparisons_of_masked_tensors():
    x, mask = facula.tensor([1.0, 2.0]), facula.tensor([True, False])
    one, other = masked_tensor(x, mask), masked_tensor(x, ~mask)
    assert core._masks_match(one, one) and not core._masks_match(one, other)
    assert core._masks_match(one, x)
    assert core._tensors_match(x, x.clone()) and not core._tensors_match(x, x + 1e-6)
    assert core._tensors_match(x, x + 1e-6, exact=False)
    assert not core._tensors_match(x, x.to_sparse())
    assert core._tensors_match(x.to_sparse(), x.to_sparse())
    assert core._get_data(x) is x and core._maybe_get_mask(x) is None
    assert facula.equal(core._maybe_get_mask(one), mask)
