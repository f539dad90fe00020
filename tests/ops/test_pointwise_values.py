"""Elementwise operators against NumPy and SciPy, for every kind of dtype that they admit."""

import importlib
import warnings

import numpy as np
import pytest
from operator_cases import DEFINITIONS, KINDS, POINTWISE, TABLE, Samples, assert_near, calls

import facula
from facula.ops.expr import scalar
from facula.ops.expr.numpy_values import NumPy

CODES = {"bool": "b8", "int": "i64", "float": "f64", "complex": "c128"}


def expression_value(definition, args, kwargs, code):
    """The definition's own expression, run by NumPy in a wide dtype."""
    parameters = definition.schema.parameters
    given = dict(zip((p.name for p in parameters), args, strict=False)) | kwargs
    attributes = {
        p.name: given.get(p.name, None if not p.has_default else p.default)
        for p in definition.schema.attributes
    }
    fixed = definition.compute or {}
    dtypes, inputs = [], []
    for p in definition.schema.tensor_parameters:
        if given.get(p.name) is None:
            dtypes.append(None)
            continue
        dtypes.append(fixed.get(p.name, code))
        inputs.append(_wide(given[p.name].numpy(), dtypes[-1]))
    traced = scalar.trace(definition.body, dtypes, attributes)
    with np.errstate(all="ignore"):
        return scalar.evaluate(traced, inputs, (), NumPy())[0]


def _wide(array, code):
    names = {"b8": np.bool_, "i64": np.int64, "f64": np.float64, "c128": np.complex128}
    return array.astype(names[code])


def kinds_of(name):
    return [kind for kind in KINDS if kind in DEFINITIONS[name].dtypes.split()]


def kind_of(dtype):
    """The kind of a dtype, as definitions name it."""
    if dtype == facula.bool:
        return "bool"
    return "complex" if dtype.is_complex else "float" if dtype.is_floating_point else "int"


CASES = [(name, kind) for name in POINTWISE for kind in kinds_of(name)]


@pytest.mark.parametrize("name, kind", CASES)
def test_value_of_the_expression(name, kind):
    definition, dtype = DEFINITIONS[name], KINDS[kind]
    bounds = {} if kind in ("float", "bool", "int") else {"bounds": (-0.9, 0.9)}
    for args, kwargs in calls(name, Samples(dtype), **bounds):
        try:
            actual = TABLE[name](*args, **kwargs)
        except NotImplementedError as refusal:
            # the definition itself refuses a variant of a dtype
            assert str(refusal).startswith(f"[{name}]") and definition.unsupported(
                CODES[kind], kwargs
            )
            continue
        # what a call computes in follows from its result, unless that is a truth value or a modulus
        computed = kind if definition.result.startswith(("bool", "real")) else kind_of(actual.dtype)
        expected = expression_value(definition, args, kwargs, CODES[computed])
        expected = np.broadcast_to(expected, actual.shape)
        inexact = actual.dtype.is_floating_point or actual.dtype.is_complex
        assert_near(actual.numpy(), expected, facula.float32 if inexact else facula.int64, 64)


def reference_of(name):
    """The function that a definition names."""
    module, _, function = DEFINITIONS[name].reference.rpartition(".")
    found = getattr(importlib.import_module(module), function)
    # Airy functions come four at a time
    return (lambda *args: found(*args)[0]) if function == "airy" else found


def referenced(name, kind):
    """Whether the reference exists and takes a dtype."""
    if not isinstance(DEFINITIONS[name].reference, str):
        return False
    S = Samples(KINDS[kind])
    try:
        with np.errstate(all="ignore"):
            reference_of(name)(
                *[a.numpy() for a in calls(name, S)[0][0] if not isinstance(a, (int, float))]
            )
    except TypeError:
        return False  # it has no form for this dtype, or does not take bools
    return True


REFERENCED = [(name, kind) for name, kind in CASES if referenced(name, kind)]


@pytest.mark.parametrize("name, kind", REFERENCED)
def test_value_of_the_reference(name, kind):
    args, kwargs = calls(name, Samples(KINDS[kind], seed=1))[0]
    assert not kwargs
    actual = TABLE[name](*args)
    inputs = [a.numpy() if isinstance(a, facula.Tensor) else a for a in args]
    if kind in ("float", "complex"):
        wide = np.float64 if kind == "float" else np.complex128
        inputs = [
            np.asarray(a).astype(wide) if np.asarray(a).dtype.kind in "fc" else a for a in inputs
        ]
    elif actual.dtype.is_floating_point:
        inputs = [np.asarray(a).astype(np.float64) for a in inputs]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        expected = np.asarray(reference_of(name)(*inputs))
    inexact = actual.dtype.is_floating_point or actual.dtype.is_complex
    assert_near(actual.numpy(), expected, facula.float32 if inexact else facula.int64, 64)


@pytest.mark.parametrize("name", [n for n in POINTWISE if "float" in kinds_of(n)])
def test_float64_and_float32_agree(name):
    for narrow, wide in zip(
        calls(name, Samples(facula.float32)), calls(name, Samples(facula.float64)), strict=True
    ):
        low, high = TABLE[name](*narrow[0], **narrow[1]), TABLE[name](*wide[0], **wide[1])
        if low.dtype.is_floating_point:
            # the arguments were rounded as well, which steep functions magnify
            assert_near(low.numpy(), high.numpy(), facula.float32, 512)
        else:
            assert low.dtype == high.dtype
