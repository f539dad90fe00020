"""Operators with `dtype=`, with `out=` and with operands of several dtypes, over all pairs of dtypes.

Which operators there are is read from their schemas. Oracles: NumPy's or SciPy's function of the
same name on arrays converted before (`dtype=`), NumPy's cast (`out=`), the definition's reference in
NumPy on arrays of the common dtype (mixed operands). What is written stands at the front of a longer
storage, whose rest must stay as it was; no call may end in the core's check of kernels' operands.
"""

import itertools
import warnings

import numpy as np
import pytest
import scipy.special
from operator_cases import DEFINITIONS, EVERY, KINDS, TABLE, Samples, admits, calls, map_tensors

import facula

NAMES = ("bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64")
NAMES += ("float16", "float32", "float64", "complex64", "complex128")
#: what NumPy has no dtype for, and one whose numbers it is compared as
WITHOUT = {"bfloat16": "float32", "float8_e4m3fn": "float32", "float8_e5m2": "float32"}
WITHOUT |= {"complex32": "complex64"}
EVERY_DTYPE = {name: getattr(facula, name) for name in (*NAMES, *WITHOUT)}
#: half a step of what is coarse
TOLERANCE = {"float8_e4m3fn": 2**-4, "float8_e5m2": 2**-3, "bfloat16": 2**-8, "float16": 2**-11}
TOLERANCE |= {"complex32": 2**-11}
#: what an operator may refuse a call with; a check of a kernel's operands is none of these
REFUSALS = (RuntimeError, NotImplementedError, TypeError, ValueError, IndexError)


def array(tensor):
    """The elements in NumPy, in a dtype that holds them."""
    name = str(tensor.dtype).rpartition(".")[2]
    return (tensor.to(EVERY_DTYPE[WITHOUT[name]]) if name in WITHOUT else tensor).numpy()


def small(name, shape):
    """Numbers that every dtype holds, with sums and products that stay exact."""
    rng = np.random.default_rng(7)
    return rng.integers(0 if name[0] in "bu" else -1, 3, size=shape).astype(name)


def cast(x, name):
    """NumPy's conversion; of complex numbers to real ones the real part."""
    target = np.dtype(WITHOUT.get(name, name))
    return (x.real if x.dtype.kind == "c" and target.kind != "c" else x).astype(target)


def refused(call, *args, **kwargs):
    """The result, or None where the operator refuses the call in words of its own."""
    try:
        return call(*args, **kwargs)
    except REFUSALS as error:
        assert str(error).startswith("[") and not str(error).startswith("[kernel "), error
        return None


# --- dtype=


def with_dtype(*heads):
    """Operators whose parameters begin so and that take a dtype, by their public name."""
    found = {}
    for name, definition in DEFINITIONS.items():
        parameters = definition.schema.parameters
        kinds = tuple(p.name for p in parameters[: len(heads)])
        takes = any(p.type == "dtype" for p in parameters)
        if kinds == heads and takes and "masked" not in (definition.names or ("masked",))[0]:
            found[definition.public_name] = TABLE[name]
    return found


REDUCTIONS = {n: op for n, op in with_dtype("self", "dim").items() if hasattr(np, n)}
ROWS = {n: op for n, op in with_dtype("self", "dim").items() if hasattr(scipy.special, n)}


def expected_reduction(name, x, to, dim):
    """What NumPy gives for numbers converted to `to`; None where PyTorch defines no result."""
    kind = np.dtype(WITHOUT.get(to, to)).kind
    function = getattr(np, name)
    if "mean" in name and (kind not in "fc" or (name == "nanmean" and x.dtype.kind not in "fc")):
        return None  # of integers
    if name.startswith("nan") and x.dtype.kind == "c":
        return None
    x = cast(x, to)
    if kind == "b" and not name.startswith("cum"):
        return (np.all if "prod" in name else np.any)(x, axis=dim)
    if kind == "b":
        wide = function(x.astype(np.int64), axis=dim)
        return wide.astype(bool)
    return function(x, axis=dim, dtype=x.dtype)


def test_reductions_are_found():
    assert {"sum", "prod", "mean", "nansum", "cumsum", "cumprod"} <= REDUCTIONS.keys()
    assert {"softmax", "log_softmax"} <= ROWS.keys()


@pytest.mark.parametrize("layout", ["contiguous", "permuted"])
@pytest.mark.parametrize("operator", REDUCTIONS)
def test_reductions_to_every_dtype(operator, layout):
    scan = operator.startswith("cum")
    for name, to in itertools.product(NAMES, EVERY_DTYPE):
        x = small(name, (2, 3, 5))
        tensor = facula.tensor(x)
        if layout == "permuted":
            tensor = facula.tensor(np.ascontiguousarray(x.transpose(2, 0, 1))).permute(1, 2, 0)
        for dim in (0, 1, 2) if scan else (0, 1, 2, None):
            expected = expected_reduction(operator, x, to, dim)
            call = REDUCTIONS[operator]
            actual = refused(call, tensor, dim, dtype=EVERY_DTYPE[to])
            if expected is None:
                assert actual is None, (name, to)
                continue
            if actual is None:
                assert to.startswith("float8") or to == "complex32", (name, to)
                continue
            assert actual.dtype is EVERY_DTYPE[to]
            np.testing.assert_allclose(
                array(actual).astype(expected.dtype), expected, TOLERANCE.get(to, 1e-6),
                err_msg=f"{name} to {to} along {dim}",
            )  # fmt: skip


@pytest.mark.parametrize("operator", REDUCTIONS)
def test_reductions_of_nothing(operator):
    for name, to in itertools.product(NAMES, NAMES):
        x = np.zeros((2, 0, 3), name)
        for dim in (0, 1):
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                expected = expected_reduction(operator, x, to, dim)
            if expected is not None:
                actual = REDUCTIONS[operator](facula.tensor(x), dim, dtype=EVERY_DTYPE[to])
                np.testing.assert_array_equal(actual.numpy(), expected, f"{name} to {to}")


@pytest.mark.parametrize("operator", ROWS)
def test_row_programs_to_every_dtype(operator):
    for name, to in itertools.product(NAMES, EVERY_DTYPE):
        x = small(name, (4, 5))
        for dim in (0, 1):
            actual = refused(ROWS[operator], facula.tensor(x), dim, dtype=EVERY_DTYPE[to])
            if to not in ("float16", "float32", "float64", "bfloat16"):
                assert actual is None or "loat" in to, (name, to)
                continue
            expected = getattr(scipy.special, operator)(cast(x, to).astype(float), axis=dim)
            assert actual.dtype is EVERY_DTYPE[to]
            np.testing.assert_allclose(array(actual), expected, 1e-2, 1e-2, err_msg=f"{name} {to}")


#: arguments by the names of parameters
GIVEN = {"size": [3, 2], "fill_value": 2, "n": 3, "start": 0, "end": 2, "steps": 3}


def creators():
    """Operators that make tensors out of numbers, and that NumPy has under the same name."""
    for name, definition in DEFINITIONS.items():
        parameters = definition.schema.parameters
        required = [p for p in parameters if p.name in GIVEN and p.type != "Tensor"]
        known = all(p.name in GIVEN or p.has_default for p in parameters)
        if required and known and definition.names and hasattr(np, definition.public_name):
            if any(p.type == "dtype" for p in parameters) and not definition.random:
                yield definition.public_name, TABLE[name], [GIVEN[p.name] for p in required]


CREATORS = {name: (call, args) for name, call, args in creators() if "empty" not in name}


@pytest.mark.parametrize("name", CREATORS)
def test_creators_of_every_dtype(name):
    call, args = CREATORS[name]
    wanted = getattr(np, name)(*args)
    for to, dtype in EVERY_DTYPE.items():
        made = refused(call, *args, dtype=dtype)
        if made is None:
            assert to in WITHOUT or to in ("bool", "complex64", "complex128"), to
            continue
        assert made.dtype is dtype
        np.testing.assert_allclose(array(made), cast(wanted, to), 5e-2 if "8_" in to else 1e-2)


# --- out=

OUT = [name for name in EVERY if DEFINITIONS[name].out and DEFINITIONS[name].kind != "view"]


def behind(longer, rest, numel):
    """Assert that what lies behind a result is as it was."""
    np.testing.assert_array_equal(array(longer)[numel:], array(rest)[numel:])


@pytest.mark.parametrize("name", OUT)
def test_out_of_every_dtype(name):
    definition = DEFINITIONS[name]
    casts = (definition.kind == "pointwise" and not definition.out_exact) or definition.out_cast
    typed = definition.out_cast and any(p.name == "dtype" for p in definition.schema.parameters)
    for kind, dtype in KINDS.items():
        if not admits(name, kind):
            continue
        args, kwargs = calls(name, Samples(dtype))[0]
        result = refused(TABLE[name], *args, **kwargs)
        if not isinstance(result, facula.Tensor):
            continue
        for to, target in EVERY_DTYPE.items():
            longer = facula.ones(result.numel() + 7, dtype=target)
            kept = longer.clone()
            out = longer[: result.numel()].view(result.shape)
            if typed:  # it is computed in the dtype of `out`
                computed = refused(TABLE[name], *args, **kwargs, dtype=target)
                fits = computed is not None
                if definition.out_kind:  # what `dtype=` converts on request, an `out=` must hold
                    fits = fits and facula.can_cast(args[0].dtype, target)
            else:
                computed = result
                fits = facula.can_cast(result.dtype, target) if casts else result.dtype is target
                if isinstance(definition.out_cast, str):  # the dtypes that an `out=` may have
                    fits = to in definition.out_cast.split()
            if not fits:
                with pytest.raises(RuntimeError, match=r"^\[(?!kernel )"):
                    TABLE[name](*args, **kwargs, out=out)
                behind(longer, kept, 0)
                continue
            TABLE[name](*args, **kwargs, out=out)
            behind(longer, kept, result.numel())
            if to in WITHOUT or typed:
                expected = array(computed.to(target))
            else:
                with np.errstate(all="ignore"):
                    expected = cast(array(result), to)
            np.testing.assert_array_equal(array(out), expected, f"{kind} to {to}")


# --- operands of several dtypes


def mixed_operands(name):
    """The numbers of the tensor arguments that take part in promotion, in a call with all of them."""
    definition = DEFINITIONS[name]
    fixed = getattr(definition, "compute", None) or {}
    tensors = [p for p in definition.schema.tensor_parameters if not p.optional]
    return [k for k, p in enumerate(tensors) if p.name not in fixed]


MIXED = [
    name
    for name in EVERY
    if DEFINITIONS[name].kind == "pointwise" and len(mixed_operands(name)) > 1
]


def converted(values, dtypes, places):
    """The samples with the dtypes given in turn at the places, others as they are."""
    changed = list(values)
    for turn, place in enumerate(places):
        changed[place] = changed[place].to(dtypes[turn % len(dtypes)])
    return changed


@pytest.mark.parametrize("name", MIXED)
def test_operands_of_two_dtypes(name):
    """Like operands of the common dtype, whose values other tests compare with NumPy."""
    places = mixed_operands(name)
    args, kwargs = calls(name, Samples(facula.float64))[0]
    numbers = [x.abs() + 1 if isinstance(x, facula.Tensor) else x for x in args]
    numbers = [x.round() if isinstance(x, facula.Tensor) else x for x in numbers]
    for first, second in itertools.product(EVERY_DTYPE.values(), repeat=2):
        given = converted(numbers, (first, second), places)
        try:
            common = facula.promote_types(first, second)
        except REFUSALS:
            assert refused(TABLE[name], *given, **kwargs) is None, (first, second)
            continue
        # each to its own dtype first: what that loses is lost
        same = converted(given, (common,), places)
        expected, actual = (
            refused(TABLE[name], *same, **kwargs),
            refused(TABLE[name], *given, **kwargs),
        )
        if getattr(DEFINITIONS[name], "refuses_bools", False) and facula.bool in (first, second):
            assert actual is None
            continue
        if expected is None or actual is None:
            assert expected is actual, (first, second)
            continue
        for a, e in zip(tensors(actual), tensors(expected), strict=True):
            assert a.dtype is e.dtype, (first, second)
            np.testing.assert_array_equal(array(a), array(e), f"{first} with {second}")


def tensors(value):
    """The tensors in a result."""
    found = []
    map_tensors(found.append, value)
    return found


#: public ones: internal operators leave it to their callers, and to the check of launches
SEVERAL = [n for n in EVERY if DEFINITIONS[n].kind != "pointwise" and DEFINITIONS[n].names]


@pytest.mark.parametrize("name", SEVERAL)
def test_any_argument_in_any_dtype(name):
    """A call with one argument in another dtype is refused in words, or computed: no kernel gets
    operands that it was not written for, which the core would say."""
    args, kwargs = calls(name, Samples(facula.float32))[0]
    for place, value in enumerate(args):
        if not isinstance(value, facula.Tensor):
            continue
        for dtype in EVERY_DTYPE.values():
            given = list(args)
            given[place] = value.to(dtype)
            if DEFINITIONS[name].inplace and place == 0:
                given[place] = given[place].clone()
            refused(TABLE[name], *given, **kwargs)
