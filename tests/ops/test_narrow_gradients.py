"""Gradients in narrow dtypes are those in wide ones, which are held against finite differences.

Takes: every differentiable operator, its samples.
Keeps true: each dtype has kernels of its own, so the check of float64 says nothing about the others;
the arguments of both runs have the same values, exactly.
"""

import pytest
from operator_cases import DEFINITIONS, POINTWISE, Samples, admits, calls, map_tensors, results_near
from test_gradients import DERIVATIVES, as_function, float64_calls

import facula

#: dtype -> the dtype to compare with, and how many roundings a gradient may be off by
COMPARED = {
    "float32": (facula.float32, facula.float64, 64),
    "float16": (facula.float16, facula.float64, 16),
    "bfloat16": (facula.bfloat16, facula.float64, 16),
}
STRUCTURED = [n for n in DERIVATIVES if n not in POINTWISE and DEFINITIONS[n].kind != "view"]


def gradients(name, args, kwargs):
    """The gradients of all leaves, of results weighted by their places."""
    function, leaves = as_function(name, args, kwargs)
    if not leaves:
        return []
    results = function(*leaves)
    results = [
        r for r in (results if isinstance(results, tuple) else (results,)) if r.requires_grad
    ]
    weights = [facula.linspace(1, 2, max(r.numel(), 1), dtype=facula.float64) for r in results]
    weights = [
        w[: r.numel()].reshape(r.shape).to(r.dtype) for w, r in zip(weights, results, strict=True)
    ]
    found = facula.autograd.grad(results, leaves, weights, allow_unused=True)
    return [facula.zeros_like(x) if g is None else g for g, x in zip(found, leaves, strict=True)]


def cast(value, dtype):
    """All floating point and complex tensors in another dtype."""

    def one(x):
        return x.detach().to(dtype) if x.is_floating_point() or x.is_complex() else x

    return map_tensors(one, value)


def compare(name, arguments, narrow, wide, factor):
    args, kwargs = cast(arguments, narrow)
    actual = gradients(name, args, kwargs)
    args, kwargs = cast((args, kwargs), wide)
    results_near(actual, gradients(name, args, kwargs), narrow, factor)


def taken(name, narrow):
    return narrow == "float32" or DEFINITIONS[name].takes_16_bits in (True, narrow)


@pytest.mark.parametrize("narrow", COMPARED)
@pytest.mark.parametrize("name", [n for n in DERIVATIVES if n in POINTWISE])
def test_pointwise(name, narrow):
    for arguments in float64_calls(name):
        compare(name, arguments, *COMPARED[narrow])


@pytest.mark.parametrize(
    "name, narrow", [(n, d) for n in STRUCTURED for d in COMPARED if taken(n, d)]
)
def test_structured(name, narrow):
    for arguments in calls(name, Samples(facula.float64)):
        compare(name, arguments, *COMPARED[narrow])


@pytest.mark.parametrize(
    "name", [n for n in DERIVATIVES if n in POINTWISE and admits(n, "complex")]
)
def test_complex(name):
    for arguments in calls(name, Samples(facula.complex128), bounds=(0.2, 0.9)):
        refuses = getattr(DEFINITIONS[name], "unsupported", None)
        if refuses is None or not refuses("c128", arguments[1]):
            compare(name, arguments, facula.complex64, facula.complex128, 64)
