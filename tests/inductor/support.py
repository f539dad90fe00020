"""What the compiler's tests share: functions to compiled graphs, without capture or gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy

import facula
from facula.compiler import graph, metrics, pipeline
from facula.fx.experimental.proxy_tensor import make_fx

DEBUG = {"debug": True}


def compiled(
    function: Callable[..., Any], *inputs: Any, options: dict[str, Any] | None = None
) -> graph.CompiledGraph:
    """The flat graph of a function, compiled and verified; counters start anew."""
    metrics.reset()
    module = make_fx(function, tracing_mode="fake", _whole_indexing=True)(*inputs)
    return pipeline.compile_graph(module, {**DEBUG, **(options or {})})


def flat(results: Any) -> list[Any]:
    """The tensors of a nest of results."""
    if isinstance(results, facula.Tensor):
        return [results]
    return [t for item in results for t in flat(item)]


def same(got: Any, want: Any, tolerance: float = 0.0) -> None:
    """Assert that two tensors have one shape, dtype and strides, and values within a tolerance."""
    assert got.shape == want.shape and got.dtype == want.dtype
    assert got.stride() == want.stride()
    a, b = (facula.view_as_real(t) if t.is_complex() else t for t in (got, want))
    x, y = a.detach().double().numpy(), b.detach().double().numpy()
    numpy.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)


def check(
    function: Callable[..., Any],
    *inputs: Any,
    tolerance: float = 0.0,
    kernels: int | None = None,
    calls: int | None = None,
    options: dict[str, Any] | None = None,
) -> graph.CompiledGraph:
    """Compile, run and compare with eager; the number of kernels and of operators' calls too."""
    program = compiled(function, *inputs, options=options)
    found: Sequence[Any] = flat(program.call(list(inputs)))
    for got, want in zip(found, flat(function(*inputs)), strict=True):
        same(got, want, tolerance)
    if kernels is not None:
        assert metrics.generated_kernel_count == kernels
    if calls is not None:
        assert metrics.extern_call_count == calls
    return program
