"""What `hessian` says of functions that it cannot differentiate twice."""

import pytest

import facula
from facula.autograd import functional


def test_a_gradient_that_an_input_does_not_move_is_named():
    def apart(x, y):
        return (x**2).sum() + (y**2).sum()

    with pytest.raises(
        RuntimeError, match="jacobian of the user-provided function with respect to input 0"
    ):
        functional.hessian(apart, (facula.ones(2), facula.ones(2)), strict=True)


def test_one_tensor_is_required():
    with pytest.raises(
        RuntimeError, match="The function given to hessian should return a single Tensor"
    ):
        functional.hessian(lambda x: (x.sum(), x.sum()), facula.ones(2))


def test_splits_at_a_matrix_of_positions_say_its_rank():
    with pytest.raises(RuntimeError, match="got a tensor with 2 dims"):
        facula.tensor_split(facula.arange(4), facula.ones(1, 1, dtype=facula.int64))


def test_no_blocks_make_a_matrix_of_one_row():
    assert facula.block_diag().shape == (1, 0)
