"""The operators of PyTorch's core ATen set under their names: against NumPy, differences and identities."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import facula
from facula.testing import assert_close

aten = facula.ops.aten

#: names of the core set that stand for forms of other operators here
NAMES = """
    _adaptive_avg_pool2d _adaptive_avg_pool2d_backward _adaptive_avg_pool3d _cdist_forward _log_softmax
    _native_batch_norm_legit_no_training _pdist_forward _softmax avg_pool2d_backward convolution_backward copy
    grid_sampler_2d native_group_norm_backward native_layer_norm_backward reflection_pad1d reflection_pad2d
    reflection_pad3d replication_pad2d replication_pad3d sym_is_contiguous upsample_bilinear2d upsample_nearest2d
""".split()


@pytest.mark.parametrize("name", NAMES)
def test_the_core_set_is_whole(name: str):
    assert callable(getattr(aten, name).default)


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


def slope(function: Any, x: np.ndarray, toward: np.ndarray, h: float = 1e-6) -> float:
    """The derivative of a sum along a direction, by differences."""
    return float((function(x + h * toward) - function(x - h * toward)) / (2 * h))


def test_softmax_by_position():
    x = normal(3, 4)
    e = np.exp(x - x.max(1, keepdims=True))
    wanted = e / e.sum(1, keepdims=True)
    assert_close(facula._softmax(facula.tensor(x), 1, False), facula.tensor(wanted))
    assert_close(
        aten._log_softmax.default(facula.tensor(x), 1, False), facula.tensor(np.log(wanted))
    )
    half = aten._softmax(facula.tensor(x, dtype=facula.bfloat16), 1, True)
    assert half.dtype is facula.float32


@pytest.mark.parametrize("transposed", [False, True])
def test_gradients_of_convolutions_are_transposes(transposed: bool):
    """<g, conv(dx, w)> = <to_input, dx>, and the same for weights: convolution is linear in each."""
    x = facula.tensor(normal(2, 4, 6, 5))
    weight = facula.tensor(normal(4, 3, 3, 2, seed=1) if transposed else normal(6, 2, 3, 2, seed=1))
    call = ([2, 1], [1, 0], [1, 2], transposed, [1, 0] if transposed else [0, 0], 2)
    result = aten.convolution(x, weight, None, *call)
    grad = facula.tensor(normal(*result.shape, seed=2))
    to_input, to_weight, to_bias = aten.convolution_backward(
        grad, x, weight, [result.shape[1]], *call, [True, True, True]
    )
    assert_close((to_input * x).sum(), (grad * result).sum())
    assert_close((to_weight * weight).sum(), (grad * result).sum())
    assert_close(to_bias, facula.tensor(grad.numpy().sum((0, 2, 3))))
    only = aten.convolution_backward(grad, x, weight, None, *call, [False, True, False])
    assert only[0] is None and only[2] is None and facula.equal(only[1], to_weight)


@pytest.mark.parametrize("which", ["layer", "group"])
def test_gradients_of_norms_are_differences(which: str):
    x, weight, grad = (
        normal(2, 4, 6),
        normal(6 if which == "layer" else 4, seed=1),
        normal(2, 4, 6, seed=2),
    )

    def value(x: np.ndarray, weight: np.ndarray) -> float:
        if which == "layer":
            spread = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
            return float((grad * spread * weight).sum())
        rows = x.reshape(4, 12)
        spread = (rows - rows.mean(1, keepdims=True)) / np.sqrt(rows.var(1, keepdims=True) + 1e-5)
        return float((grad * spread.reshape(x.shape) * weight[:, None]).sum())

    tensor, scale, given = facula.tensor(x), facula.tensor(weight), facula.tensor(grad)
    if which == "layer":
        _, mean, rstd = facula.native_layer_norm(tensor, (6,), None, None, 1e-5)
        found = aten.native_layer_norm_backward(
            given, tensor, [6], mean, rstd, scale, None, [True] * 3
        )
    else:
        _, mean, rstd = facula.native_group_norm(tensor, None, None, 2, 4, 6, 2, 1e-5)
        found = aten.native_group_norm_backward(
            given, tensor, mean, rstd, scale, 2, 4, 6, 2, [True] * 3
        )
    toward = normal(2, 4, 6, seed=3)
    by_differences = slope(lambda v: value(v, weight), x, toward)
    assert float((found[0].numpy() * toward).sum()) == pytest.approx(by_differences, rel=1e-6)
    along = normal(*weight.shape, seed=4)
    by_differences = slope(lambda v: value(x, v), weight, along)
    assert float((found[1].numpy() * along).sum()) == pytest.approx(by_differences, rel=1e-6)
    assert_close(found[2], facula.tensor(grad.sum((0, 1) if which == "layer" else (0, 2))))


@pytest.mark.parametrize("dtype", [facula.float16, facula.bfloat16])
@pytest.mark.parametrize("which", ["layer", "group"])
def test_gradients_of_norms_in_16_bits(which: str, dtype: facula.dtype):
    """Those of float64 of the same numbers; each in the dtype of what it belongs to."""
    x, grad, weight = (facula.tensor(normal(*s)).to(dtype) for s in ((2, 4, 6), (2, 4, 6), (6,)))
    weight = weight if which == "layer" else weight[:4]

    def gradients(x, grad, weight):
        if which == "layer":
            _, mean, rstd = facula.native_layer_norm(x, (6,), None, None, 1e-5)
            return aten.native_layer_norm_backward(
                grad, x, [6], mean, rstd, weight, None, [True] * 3
            )
        _, mean, rstd = facula.native_group_norm(x, None, None, 2, 4, 6, 2, 1e-5)
        return aten.native_group_norm_backward(grad, x, mean, rstd, weight, 2, 4, 6, 2, [True] * 3)

    wanted = gradients(x.double(), grad.double(), weight.double())
    for got, exact in zip(gradients(x, grad, weight), wanted, strict=True):
        assert got.dtype is dtype
        assert_close(got.double(), exact, rtol=0.03, atol=8 * facula.finfo(dtype).eps)


def test_statistics_of_layer_norm_have_the_dtype_of_the_parameters():
    x = facula.tensor(normal(2, 6)).to(facula.bfloat16)
    weight = facula.ones(6)
    out, mean, rstd = facula.native_layer_norm(x, (6,), weight, weight, 1e-5)
    assert (out.dtype, mean.dtype, rstd.dtype) == (x.dtype, facula.float32, facula.float32)
    assert_close(mean, x.float().mean(1, keepdim=True))
    assert facula.native_layer_norm(x, (6,), None, None, 1e-5)[1].dtype is facula.bfloat16


def test_pools_and_their_gradients():
    x = normal(2, 3, 4, 6)
    means = x.reshape(2, 3, 2, 2, 3, 2).mean((3, 5))
    assert_close(aten._adaptive_avg_pool2d(facula.tensor(x), [2, 3]), facula.tensor(means))
    grad = normal(2, 3, 2, 3, seed=1)
    spread = np.repeat(np.repeat(grad, 2, 2), 2, 3) / 4
    found = aten._adaptive_avg_pool2d_backward(facula.tensor(grad), facula.tensor(x))
    assert_close(found, facula.tensor(spread))
    call = ([2, 2], [], [0, 0], False, True, None)
    assert_close(aten.avg_pool2d_backward(facula.tensor(grad), facula.tensor(x), *call), found)
    call = ([2, 2], [2, 2], [0, 0], False, True, 8)
    assert_close(aten.avg_pool2d_backward(facula.tensor(grad), facula.tensor(x), *call), found / 2)


@pytest.mark.parametrize("name, mode", [("reflection", "reflect"), ("replication", "edge")])
@pytest.mark.parametrize("space", [1, 2, 3])
def test_pads(name: str, mode: Any, space: int):
    x, widths = normal(2, 3, 4, 3, 5)[(0,) * (3 - space)], [1, 2, 2, 0, 1, 1][: 2 * space]
    pairs = [(0, 0)] * 2 + [(widths[2 * k], widths[2 * k + 1]) for k in reversed(range(space))]
    found = getattr(aten, f"{name}_pad{space}d")(facula.tensor(x), widths)
    assert_close(found, facula.tensor(np.pad(x, pairs, mode=mode)))


def test_resampling_by_sizes_and_by_factors():
    x = normal(1, 2, 3, 4)
    twice = facula.tensor(np.repeat(np.repeat(x, 2, 2), 3, 3))
    assert_close(aten.upsample_nearest2d(facula.tensor(x), [6, 12]), twice)
    assert_close(aten.upsample_nearest2d.vec(facula.tensor(x), None, [2.0, 3.0]), twice)
    out = facula.empty(1, 2, 6, 12, dtype=facula.float64)
    assert facula._C._nn.upsample_nearest2d(facula.tensor(x), [6, 12], out=out) is out
    assert_close(out, twice)
    plane = facula.tensor(np.add.outer(np.arange(3.0), 10 * np.arange(4.0))[None, None])
    wanted = np.add.outer(np.linspace(0, 2, 5), np.linspace(0, 30, 7))[None, None]
    assert_close(aten.upsample_bilinear2d(plane, [5, 7], True), facula.tensor(wanted))
    line = aten.upsample_linear1d(plane[:, :, :, 0], [5], True)
    assert_close(line, facula.tensor(np.linspace(0, 2, 5)[None, None]))
    with pytest.raises(RuntimeError, match=r"\[N, C, W\]"):
        aten.upsample_linear1d(facula.zeros(1, 3), [5], True)
    # with a factor, places follow from it and not from the sizes
    found = aten.upsample_nearest1d(facula.arange(4.0)[None, None], [5], 1.5)
    assert found.tolist() == [[[0.0, 0.0, 1.0, 2.0, 2.0]]]


def test_copies_take_shape_and_dtype_of_the_first():
    found = aten.copy(facula.zeros(2, 3), facula.tensor([1, 2, 3]))
    assert found.dtype is facula.float32 and found.tolist() == [[1.0, 2.0, 3.0]] * 2
    assert aten.sym_is_contiguous(found) is True and aten.sym_is_contiguous(found.T) is False


def test_batch_norm_without_training():
    x, mean, variance = normal(2, 3, 4), normal(3, seed=1), np.abs(normal(3, seed=2))
    args = (facula.tensor(x), None, None, facula.tensor(mean), facula.tensor(variance), 0.1, 1e-3)
    found = aten._native_batch_norm_legit_no_training(*args)
    wanted = (x - mean[:, None]) / np.sqrt(variance + 1e-3)[:, None]
    assert_close(found[0], facula.tensor(wanted))
    assert found[1].numel() == found[2].numel() == 0


GRADIENTS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "silu": (lambda x: x / (1 + np.exp(-x)), ()),
    "mish": (lambda x: x * np.tanh(np.log1p(np.exp(x))), ()),
    "hardswish": (lambda x: x * np.clip(x + 3, 0, 6) / 6, ()),
    "hardsigmoid": (lambda x: np.clip(x + 3, 0, 6) / 6, ()),
    "hardtanh": (lambda x: np.clip(x, -1, 0.5), (-1.0, 0.5)),
    "threshold": (lambda x: np.where(x > 0.2, x, 0.0), (0.2,)),
    "softplus": (lambda x: np.where(2 * x > 1.5, x, np.log1p(np.exp(2 * x)) / 2), (2.0, 1.5)),
    "leaky_relu": (lambda x: np.where(x > 0, x, 0.1 * x), (0.1, False)),
    "gelu": (lambda x: 0.5 * x * (1 + np.tanh(0.7978845608028654 * (x + 0.044715 * x**3))), ()),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_of_elementwise_operators_are_differences(name: str):
    function, more = GRADIENTS[name]
    x, grad = np.linspace(-3.7, 3.3, 40), normal(40)
    settings = {"approximate": "tanh"} if name == "gelu" else {}
    found = getattr(aten, f"{name}_backward")(
        facula.tensor(grad), facula.tensor(x), *more, **settings
    )
    wanted = grad * (function(x + 1e-6) - function(x - 1e-6)) / 2e-6
    assert_close(found, facula.tensor(wanted), rtol=1e-6, atol=1e-8)
    low = getattr(aten, f"{name}_backward")(
        facula.tensor(grad, dtype=facula.bfloat16),
        facula.tensor(x, dtype=facula.bfloat16),
        *more,
        **settings,
    )
    assert low.dtype is facula.bfloat16


@pytest.mark.parametrize("name", ["sigmoid", "tanh"])
def test_gradients_from_results(name: str):
    x, grad = np.linspace(-3, 3, 20), normal(20)
    result = np.tanh(x) if name == "tanh" else 1 / (1 + np.exp(-x))
    wanted = grad * (1 - result**2 if name == "tanh" else result * (1 - result))
    found = getattr(aten, f"{name}_backward")(facula.tensor(grad), facula.tensor(result))
    assert_close(found, facula.tensor(wanted))


def test_they_are_differentiated_and_compiled():
    """Compiled and eager: the same numbers, and gradients of gradients by differences."""
    x = facula.tensor(normal(12), requires_grad=True)
    grad = facula.tensor(normal(12, seed=1), requires_grad=True)
    assert facula.autograd.gradcheck(aten.silu_backward, (grad, x))

    def step(grad: facula.Tensor, x: facula.Tensor) -> facula.Tensor:
        return facula.ops.aten.gelu_backward(grad, facula.ops.aten._softmax(x, 0, False))

    assert_close(facula.compile(step, fullgraph=True)(grad, x), step(grad, x))


def test_names_of_the_results_are_pytorchs():
    """Statistics and pools give plain tuples, as their schemas in PyTorch have no names."""
    x = facula.arange(8.0).reshape(1, 2, 4)
    for found in (
        facula.var_mean(x, 1), facula.std_mean(x), facula.max_pool1d_with_indices(x, 2),
        facula.nn.functional.max_pool1d(x, 2, return_indices=True),
        facula.nn.functional.adaptive_max_pool1d(x, 2, return_indices=True),
    ):  # fmt: skip
        assert type(found) is tuple and len(found) == 2
    assert type(x.max(1)).__name__ == "max" and x.max(1).values.shape == (1, 4)
