"""What batch norm requires of its parameters and statistics; sizes of `interpolate`; `nll_loss` without classes."""

import pytest

import facula
import facula.nn.functional as F


def test_parameters_have_the_dtype_of_the_input_or_are_all_float32():
    x, one, zero = facula.rand(2, 3, 4), facula.ones(3), facula.zeros(3)
    for narrow in (facula.float16, facula.bfloat16):
        assert F.batch_norm(x.to(narrow), zero, one, one, zero, True).dtype is narrow
        own = [t.to(narrow) for t in (zero, one, one, zero)]
        assert F.batch_norm(x.to(narrow), *own, True).dtype is narrow
        with pytest.raises(RuntimeError, match="mixed dtype"):
            F.batch_norm(x, zero.to(narrow), one.to(narrow))
        with pytest.raises(RuntimeError, match="expect parameter to have scalar type of Float"):
            F.batch_norm(x, zero, one, one.to(narrow), zero.to(narrow), True)
    with pytest.raises(RuntimeError, match="scalar type of Double"):
        F.batch_norm(x.double(), zero, one)


def test_statistics_take_no_gradients():
    x, zero = facula.rand(2, 3, 4), facula.zeros(3)
    asks = facula.ones(3).requires_grad_()
    with pytest.raises(RuntimeError, match="with respect to argument 'running_var'"):
        F.batch_norm(x, zero, asks)
    with facula.no_grad():
        assert F.batch_norm(x, zero, asks).shape == x.shape


@pytest.mark.parametrize("size", [2.5, (2.0, 3), "ab", [None, 2]])
def test_sizes_are_whole_numbers(size):
    with pytest.raises(TypeError, match="expected size to be one of int"):
        F.interpolate(facula.rand(1, 1, 4, 4), size=size)


def test_a_loss_needs_a_dimension_of_classes():
    with pytest.raises(ValueError, match="Expected 1 or more dimensions"):
        F.nll_loss(facula.tensor(1.0), facula.tensor(0), reduction="none")
