"""What the tests of the operator table share: names by fact, the arguments to try, comparisons.

Takes: the table (`facula.ops.TABLE`).
Gives: lists of operator names, `calls(name, S)`, and comparisons with tolerances from the dtype.
Keeps true: whatever is known about an operator is read from its definition.
"""

import numpy as np

import facula
from facula.ops import TABLE
from facula.ops.table.registry import own_operators
from facula.testing.samples import Samples, map_tensors, pointwise_samples

DEFINITIONS = {name: operator.definition for name, operator in own_operators().items()}
POINTWISE = [name for name, d in DEFINITIONS.items() if d.kind == "pointwise"]
SAMPLED = [name for name, d in DEFINITIONS.items() if d.samples is not None]
EVERY = POINTWISE + SAMPLED
#: dtype that stands for each kind that a pointwise definition may admit
KINDS = {
    "bool": facula.bool,
    "int": facula.int64,
    "float": facula.float32,
    "complex": facula.complex64,
}


def calls(name, S, **settings):
    """Arguments to try an operator on, as `(args, kwargs)`."""
    definition = DEFINITIONS[name]
    if definition.kind == "pointwise":
        return list(pointwise_samples(definition, S, **settings))
    return list(definition.samples(S))


def admits(name, kind):
    """Whether a definition takes tensors of a kind."""
    return kind in getattr(DEFINITIONS[name], "dtypes", "float").split()


def reads_memory(name):
    """Whether a view is described by strides of the memory, whatever the argument's elements are."""
    parameters = DEFINITIONS[name].schema.parameters
    return DEFINITIONS[name].kind == "view" and any(p.name == "stride" for p in parameters)


def tensors_in(value):
    """The tensors of a nesting, in order."""
    found = []
    map_tensors(found.append, value)
    return found


def numpy_of(tensor):
    """A tensor as a NumPy array; what NumPy has no dtype for, as float32."""
    if tensor.dtype in (facula.bfloat16, facula.float16):
        tensor = tensor.float()
    if tensor.dtype == facula.complex32:
        tensor = tensor.to(facula.complex64)
    return tensor.detach().numpy()


def assert_same(actual, expected):
    """The same tensors: shape, dtype and every element, NaN equal to itself."""
    actual, expected = tensors_in(actual), tensors_in(expected)
    assert len(actual) == len(expected)
    for a, e in zip(actual, expected, strict=True):
        assert a.shape == e.shape and a.dtype == e.dtype
        np.testing.assert_array_equal(numpy_of(a), numpy_of(e))


def assert_near(actual, expected, dtype, factor=16):
    """Within `factor` roundings of `dtype` of each element and of the largest element."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape
    eps = facula.finfo(dtype).eps if dtype.is_floating_point or dtype.is_complex else 0.0
    finite = expected[np.isfinite(expected)]
    scale = float(np.abs(finite).max()) if finite.size else 0.0
    np.testing.assert_allclose(
        actual, expected, rtol=factor * eps, atol=factor * eps * max(scale, 0.1), equal_nan=True
    )


def results_near(actual, expected, dtype, factor=16):
    """`assert_near` for every tensor of two nestings; integers and bools must be equal."""
    actual, expected = tensors_in(actual), tensors_in(expected)
    assert len(actual) == len(expected)
    for a, e in zip(actual, expected, strict=True):
        inexact = a.dtype.is_floating_point or a.dtype.is_complex
        assert_near(numpy_of(a), numpy_of(e), dtype if inexact else facula.int64, factor)


__all__ = [
    "DEFINITIONS",
    "EVERY",
    "KINDS",
    "POINTWISE",
    "SAMPLED",
    "TABLE",
    "Samples",
    "admits",
    "assert_near",
    "assert_same",
    "calls",
    "map_tensors",
    "numpy_of",
    "reads_memory",
    "results_near",
    "tensors_in",
]
