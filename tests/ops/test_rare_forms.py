"""Operators that are read when one is asked for, against NumPy, other operators and finite differences."""

import numpy as np
import pytest

import facula
from facula.autograd import gradcheck

aten = facula.ops.aten
OFFSETS = [0, 1, 3, 3, 8]


def padded(values, longest, fill):
    out = np.full((len(OFFSETS) - 1, longest, *values.shape[1:]), fill)
    for k, (a, b) in enumerate(zip(OFFSETS, OFFSETS[1:], strict=False)):
        rows = values[a:b][:longest]
        out[k, : len(rows)] = rows
    return out


@pytest.mark.parametrize("longest", [5, 7, 3])
def test_ragged_rows_and_dense_batches(longest):
    values = np.random.default_rng(0).standard_normal((8, 2))
    ends = facula.tensor(OFFSETS)
    found = aten._jagged_to_padded_dense_forward(facula.from_numpy(values), [ends], [longest], 1.5)
    assert np.array_equal(found.numpy(), padded(values, longest, 1.5))
    for total in (8, None) if longest >= 5 else ():
        back = aten._padded_dense_to_jagged_forward(found, [ends], total)
        assert np.array_equal(back.numpy(), values)


def test_gradients_of_ragged_rows():
    ends = facula.tensor(OFFSETS)
    values = facula.rand(8, 2, dtype=facula.float64, requires_grad=True)
    assert gradcheck(lambda v: aten._jagged_to_padded_dense_forward(v, [ends], [4], 0.5), (values,))
    dense = facula.rand(4, 5, 2, dtype=facula.float64, requires_grad=True)
    assert gradcheck(lambda d: aten._padded_dense_to_jagged_forward(d, [ends], 8), (dense,))


def test_offsets_that_do_not_fit():
    values, ends = facula.ones(8, 2), facula.tensor(OFFSETS)
    dense = facula.ones(4, 5, 2)
    for call, message in (
        (
            lambda: aten._jagged_to_padded_dense_forward(values, [ends, ends], [5, 5]),
            "single jagged dim",
        ),
        (
            lambda: aten._jagged_to_padded_dense_forward(values, [ends[:, None]], [5]),
            "expected 1D offsets",
        ),
        (lambda: aten._padded_dense_to_jagged_forward(dense, [ends], 9), "match total_L"),
        (lambda: aten._padded_dense_to_jagged_forward(dense[:, :4], [ends], 8), "item of length 5"),
        (lambda: aten._padded_dense_to_jagged_forward(values[0], [ends], 8), "dim >= 2"),
        (lambda: aten._jagged_to_padded_dense_forward(values[:7], [ends], [5]), "match total_L"),
    ):
        with pytest.raises(RuntimeError, match=message):
            call()


@pytest.mark.parametrize("transposed", [False, True])
def test_gradients_of_the_gradients_of_convolutions(transposed):
    """The same as differentiating `convolution_backward`."""
    x = facula.rand(2, 4, 5, 6, dtype=facula.float64, requires_grad=True)
    w = facula.rand(4, 2, 3, 3, dtype=facula.float64, requires_grad=True)
    geometry = ([2, 1], [1, 0], [1, 2], transposed, [1, 0] if transposed else [0, 0], 2)
    out = facula.convolution(x, w, None, *geometry)
    g = facula.rand_like(out).requires_grad_()
    inner = facula.autograd.grad(out, (x, w), g, create_graph=True)
    towards = [facula.rand_like(t) for t in inner]
    wanted = facula.autograd.grad(inner, (g, x, w), towards)
    found = aten._convolution_double_backward(*towards, None, g, w, x, *geometry, [True] * 3)
    for a, b in zip(found, wanted, strict=True):
        assert np.allclose(a.detach().numpy(), b.numpy())
    some = aten._convolution_double_backward(
        towards[0], None, None, g, w, x, *geometry, [False, False, True]
    )
    assert some[0] is None and some[1] is None and some[2].shape == w.shape


def test_other_names():
    x, w = facula.rand(2, 3, 5, 5), facula.rand(4, 3, 3, 3)
    assert facula.equal(facula._C._nn.thnn_conv2d(x, w, 3, stride=2), facula.conv2d(x, w, stride=2))
    wide = facula._C._nn.slow_conv_dilated2d(x, w, 3, dilation=2)
    assert facula.equal(wide, facula.conv2d(x, w, dilation=2))
    deep = facula._C._nn.slow_conv3d(x[:, :, None], w[:, :, None], (1, 3, 3))
    assert np.allclose(deep[:, :, 0].numpy(), facula.conv2d(x, w).numpy(), atol=1e-6)
    assert facula.equal(facula._add_relu(x, -2), facula.relu(x - 2))
    assert facula.equal(facula._VF._add_relu(x, x, alpha=-3), facula.relu(-2 * x))
    grid = facula.rand(2, 4, 4, 2) * 2 - 1
    same = facula._grid_sampler_2d_cpu_fallback(x, grid, 0, 1, True)
    assert facula.equal(same, facula.grid_sampler_2d(x, grid, 0, 1, True))
    y = aten._unsafe_view(x, [2, 75])
    assert y.tolist() == x.reshape(2, 75).tolist()
    assert not y._is_view()
    assert facula.functional.F is facula.nn.functional
