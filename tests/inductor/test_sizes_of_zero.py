"""Compiled programs of tensors without elements give what eager gives, forward and backward."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

import facula
import facula.nn.functional as F
from facula import core
from facula.compiler import pipeline
from facula.fx.experimental.proxy_tensor import make_fx
from facula.ops.table.registry import own_operators
from facula.testing.samples import Samples, map_tensors
from tests.inductor.support import flat
from tests.inductor.test_operators import KINDS, samples_of, tensors

BATCH = 40


def emptied(args: Any, kwargs: Any) -> list[Any]:
    """The arguments with no elements: for each size that occurs, every dimension of this size."""
    sizes = sorted({n for t in tensors((args, kwargs)) for n in t.shape if n})

    def without(size: int) -> Any:
        def one(t: Any) -> Any:
            for d in range(t.dim()):
                if t.shape[d] == size:
                    t = t.narrow(d, 0, 0)
            return t.detach().clone()

        return map_tensors(one, (args, kwargs))

    return [without(size) for size in sizes]


def cases(dtype: Any) -> list[Any]:
    """Calls of operators that eager takes with such arguments, each geometry once."""
    found, seen = [], set()
    for name, op in own_operators().items():
        definition = op.definition
        types = [p.type for p in definition.schema.parameters]
        if definition.kind not in KINDS or "generator" in types or name.startswith("_philox"):
            continue
        if getattr(definition, "dynamic", False):
            continue
        for sample in samples_of(definition, Samples(dtype, seed=7)):
            for args, kwargs in emptied(*sample):
                key = (name, str([t.shape for t in tensors((args, kwargs))]), *kwargs)
                if key in seen:
                    continue
                seen.add(key)
                try:
                    op(*args, **kwargs)
                except (RuntimeError, NotImplementedError, TypeError, ValueError, IndexError):
                    continue  # eager does not take it
                except ZeroDivisionError:
                    assert name.startswith("_fft")  # below the public names, which refuse it
                    continue
                found.append((op, args, kwargs))
    return found


def run(batch: list[Any]) -> None:
    inputs = [t for _, args, kwargs in batch for t in tensors((args, kwargs))]

    def calls(*given: Any) -> list[Any]:
        left, results = iter(given), []
        for op, args, kwargs in batch:
            args, kwargs = map_tensors(lambda t: next(left), (args, kwargs))
            results += flat(op(*args, **kwargs))
        sums = [x.sum() for x in results if x.dtype.is_floating_point]
        return [*results, *sums]

    module = make_fx(calls, tracing_mode="fake", _whole_indexing=True)(*inputs)
    compiled = pipeline.compile_graph(module, {"equal_rounding": True, "debug": True})
    for got, want in zip(compiled.call(list(inputs)), calls(*inputs), strict=True):
        assert got.shape == want.shape and got.dtype == want.dtype
        a, b = (facula.view_as_real(t) if t.is_complex() else t for t in (got, want.detach()))
        numpy.testing.assert_allclose(a.double().numpy(), b.double().numpy(), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_operators_of_the_table(dtype: str) -> None:
    found = cases(getattr(core, dtype))
    assert len(found) > 200
    for first in range(0, len(found), BATCH):
        run(found[first : first + BATCH])


PROGRAMS: dict[str, Any] = {
    "layer_norm of no elements a row": (lambda x: F.layer_norm(x, x.shape[1:]), (3, 0)),
    "layer_norm of rows of none": (lambda x: F.layer_norm(x, x.shape[1:]), (2, 0, 4)),
    "layer_norm of no rows": (lambda x: F.layer_norm(x, x.shape[-1:]), (0, 3)),
    "rms_norm": (lambda x: F.rms_norm(x, x.shape[1:]), (3, 0)),
    "group_norm": (lambda x: F.group_norm(x, 2), (2, 4, 0)),
    "prod of nothing": (lambda x: x.prod(1), (3, 0)),
    "prod of no elements": (lambda x: x.prod(), (2, 0, 4)),
    "cumprod": (lambda x: x.cumprod(0), (0, 3)),
    "softmax": (lambda x: x.softmax(0).sum(0), (0, 3)),
    "var": (lambda x: x.var(1), (3, 0)),
    "logsumexp": (lambda x: x.logsumexp(1), (3, 0)),
    "matmul over nothing": (lambda x: x @ x.mT, (3, 0)),
    "matmul of no rows": (lambda x: (x @ facula.ones(3, 4)).tanh(), (0, 3)),
    "convolution of no images": (lambda x: F.conv2d(x, facula.ones(3, 2, 3, 3)), (0, 2, 5, 5)),
    "cat": (lambda x: facula.cat([x, facula.ones(3, 2)], 1).sin(), (3, 0)),
    "stack": (lambda x: facula.stack([x, x + 1], 1).cos(), (3, 0)),
    "index": (lambda x: x[:, facula.tensor([0, 1])], (0, 2)),
    "pad": (lambda x: F.pad(x, (1, 2), value=1.0), (3, 0)),
    "pooling": (lambda x: F.max_pool2d(x, 2), (0, 2, 4, 4)),
    "attention": (lambda x: F.scaled_dot_product_attention(x, x, x), (2, 2, 0, 4)),
    "a chain": (lambda x: ((x.sin() + 1).sum(1) / x.shape[0]).softmax(0), (3, 0)),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str, dynamic: bool) -> None:
    function, shape = PROGRAMS[name]
    compiled = facula.compile(function, dynamic=dynamic)
    results = []
    for f in (function, compiled):
        x = facula.ones(shape, requires_grad=True)
        with facula.no_grad():
            alone = f(x)
        y = f(x)
        y.sum().backward()
        results.append((alone, y.detach(), x.grad))
    for want, got in zip(*results, strict=True):
        assert got.shape == want.shape and got.dtype == want.dtype
        numpy.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-6, atol=1e-6)


class Ones(facula.autograd.Function):
    """Twice the argument, with a gradient of ones whatever comes."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return facula.ones(3)


@pytest.mark.parametrize("order", [0, 1])
def test_a_cotangent_that_no_gradient_reads(order: int) -> None:
    def results(x: Any) -> Any:
        found = (Ones.apply(x), x * 3)
        return found[::-1] if order else found

    compiled = facula.compile(results)

    def gradient(chosen: slice) -> list[float]:
        x = facula.ones(3, requires_grad=True)
        sum(y.sum() for y in compiled(x)[chosen]).backward()
        return x.grad.tolist()

    assert gradient(slice(order, order + 1)) == [1.0] * 3
    assert gradient(slice(0, 2)) == [4.0] * 3


@pytest.mark.parametrize("training", [False, True])
def test_a_sum_of_many_tensors(training: bool) -> None:
    """More than calls of Python may nest."""
    values = facula.arange(3.0 * 600).reshape(3, 600) / 64
    x = values.requires_grad_(training)

    def chain(x: Any) -> Any:
        found = x.select(1, 0)
        for column in x.unbind(1)[1:]:
            found = found.maximum(column) + 0.5
        return found

    # the C compiler takes a quarter of a minute for the gradients of so many maxima; fewer: test_compile_time.py
    for function in (lambda x: sum(x.unbind(1)), *([] if training else [chain])):
        y = facula.compile(function)(x)
        want = function(x)
        numpy.testing.assert_allclose(y.detach().numpy(), want.detach().numpy(), rtol=1e-6)
        if training:
            (got,) = facula.autograd.grad(y.sum(), x)
            (expected,) = facula.autograd.grad(want.sum(), x)
            numpy.testing.assert_allclose(got.numpy(), expected.numpy(), rtol=1e-6)
