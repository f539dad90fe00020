"""Universal functions of NumPy's as operators.

Takes: a universal function and symbolic arguments. Gives: arrays, or numbers of NumPy's.
Keeps true: NumPy names the dtypes of operands and results; an operator stands for a function where it
has its name (or the one of `_OTHER_NAMES`) and gives, on samples of these dtypes, what NumPy gives.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from facula import core
from facula.capture.breaks import Break
from facula.capture.guards.reading import is_numpy_scalar
from facula.capture.numpy.dtypes import (
    DTYPES,
    array_value,
    as_array,
    cast,
    dtype_of,
    folded,
    number,
    numpy_dtype,
    operator_named,
    strong_dtype,
)
from facula.capture.values.kinds import (
    ArrayValue,
    Known,
    NumberValue,
    SequenceValue,
    TensorValue,
    follows_float,
)

if TYPE_CHECKING:
    from facula.capture.interpreter.symbolic import Symbolic


_OTHER_NAMES = {
    "equal": "eq", "not_equal": "ne", "power": "pow", "invert": "bitwise_not",
    "left_shift": "bitwise_left_shift", "right_shift": "bitwise_right_shift",
    "conjugate": "conj_physical", "rint": "round", "fabs": "abs", "degrees": "rad2deg",
    "radians": "deg2rad",
}  # fmt: skip
#: what a universal function folds to, and what it runs over
_FOLDS: dict[Any, str] = {
    np.add: "sum", np.multiply: "prod", np.maximum: "amax", np.minimum: "amin",
    np.logical_and: "all", np.logical_or: "any",
}  # fmt: skip
_RUNS: dict[Any, str] = {np.add: "cumsum", np.multiply: "cumprod"}
_RUNNING: dict[Any, str] = {np.maximum: "cummax", np.minimum: "cummin"}
#: divisions, which give 0 for integers over 0
_DIVISIONS = (np.floor_divide, np.remainder, np.fmod)
_NATURAL = (np.power, np.left_shift, np.right_shift)
_CLOSE = {"e": 1e-2, "f": 1e-4, "F": 1e-4}


def named(name: str) -> np.ufunc:
    """The universal function of a name."""
    found: np.ufunc = getattr(np, name)
    return found


def unsupported(what: str) -> Break:
    """The break for a call that NumPy itself has to do."""
    return Break("unsupported-call", f"numpy.{what}")


def is_left_out(d: Symbolic, value: object, default: object = None) -> bool:
    """Whether an argument is what it is when it is left out."""
    value = d.force(value)
    if getattr(value, "real", None) is np._NoValue:
        return True
    return isinstance(value, Known) and (value.obj is default or value.obj is None)


def call(d: Symbolic, ufunc: np.ufunc, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """`ufunc(*args, **kwargs)`."""
    known = folded(d, ufunc, args, kwargs)
    if known is not NotImplemented:
        return known
    values = [operand(d, value) for value in args[: ufunc.nin]]
    words = dict(kwargs)
    outs = args[ufunc.nin :] or _outs(d, words.pop("out", None))
    asked = dtype_of(d, words.pop("dtype", None))
    casting = d.constant_of(words.pop("casting", Known("same_kind")))
    words.pop("subok", None)  # there are no subclasses of arrays here
    if not is_left_out(d, words.pop("where", Known(True)), True):
        raise unsupported(f"{ufunc.__name__}: where=")
    if any(not (name == "order" and d.constant_of(v) == "K") for name, v in words.items()):
        raise unsupported(f"{ufunc.__name__}: {', '.join(words)}=")
    if not any(isinstance(value, ArrayValue) for value in (*values, *outs)):
        if any(not d.is_none(value) for value in outs) or asked is not None:
            raise unsupported(ufunc.__name__)
        return d.fold(ufunc, values)
    if ufunc is np.matmul:
        results = [_matmul(d, *values)]
    else:
        results = _elementwise(d, ufunc, values, asked)
    given = [_result(d, r, o, casting) for r, o in _paired(d, results, outs)]
    return given[0] if len(given) == 1 else d.build_tuple(given)


def operand(d: Symbolic, value: Any) -> Any:
    """An argument as an array or a number; sequences become arrays."""
    value = d.force(value)
    if isinstance(value, SequenceValue):
        return as_array(d, value)
    if isinstance(value, TensorValue):
        raise unsupported("function of a tensor")
    known = isinstance(value, Known) and (
        isinstance(value.obj, (bool, int, float, complex)) or is_numpy_scalar(type(value.obj))
    )
    if not known and not isinstance(value, (ArrayValue, NumberValue)):
        raise unsupported(f"function of a {value.cls.__name__}")
    return value


def _outs(d: Symbolic, out: object) -> list[Any]:
    if out is None:
        return []
    out = d.force(out)
    return d.unpack_all(out) if isinstance(out, SequenceValue) else [out]


def _paired(d: Symbolic, results: list[Any], outs: list[Any]) -> list[tuple[Any, Any]]:
    outs = [d.force(out) for out in outs]
    return list(zip(results, outs or [Known(None)] * len(results), strict=True))


def _result(d: Symbolic, tensor: TensorValue, out: object, casting: object = "same_kind") -> Any:
    """The array or number that a function gives, or `out` with its elements."""
    if d.is_none(out):
        return array_value(d, tensor, scalar=tensor.fake.dim() == 0)
    return write_out(d, tensor, out, casting)


def write_out(d: Any, tensor: TensorValue, out: object, casting: Any = "same_kind") -> ArrayValue:
    """`out`, filled with a result."""
    if not isinstance(out, ArrayValue):
        raise unsupported("function with out= of something else")
    if not np.can_cast(numpy_dtype(tensor), numpy_dtype(out.inner), casting):
        raise unsupported("function with out= of another kind of dtype")
    shape, wanted = tuple(tensor.fake.shape), tuple(out.inner.fake.shape)
    if shape != wanted:
        raise unsupported("function with out= of another shape")
    d.array_write(out)
    d.graph_method("copy_", out.inner, [cast(d, tensor, numpy_dtype(out.inner))], {})
    return out


def _resolved(ufunc: np.ufunc, given: list[Any], asked: np.dtype | None) -> tuple[Any, ...]:
    """The dtypes of operands and results."""
    words: Any = {}
    if asked is not None:
        words["signature"] = (None,) * ufunc.nin + (asked,) * ufunc.nout
    try:
        found = ufunc.resolve_dtypes((*given, *[None] * ufunc.nout), **words)
    except TypeError as error:
        raise unsupported(f"{ufunc.__name__}: {error}") from error
    if any(dtype not in DTYPES for dtype in found):
        raise unsupported(f"{ufunc.__name__} of {', '.join(map(str, found))}")
    return found


def _type_of(value: Any) -> Any:
    """What NumPy's promotion asks about an operand."""
    if isinstance(value, ArrayValue):
        return numpy_dtype(value.inner)
    strong = strong_dtype(value)
    if strong is not None:
        return strong
    return type(value.hint) if isinstance(value, NumberValue) else type(value.obj)


def _elementwise(d: Symbolic, ufunc: np.ufunc, values: list[Any], asked: Any) -> list[TensorValue]:
    if ufunc is np.divmod:
        parts = (np.floor_divide, np.remainder)
        return [_elementwise(d, part, values, asked)[0] for part in parts]
    dtypes = _resolved(ufunc, [_type_of(value) for value in values], asked)
    inputs, results = dtypes[: ufunc.nin], dtypes[ufunc.nin :]
    if ufunc in _COMPOSED and inputs[0].kind == "f":
        return [_COMPOSED[ufunc](d, *_operands(d, None, values, inputs))]
    function = operator_for(ufunc, dtypes)
    if function is None:
        raise unsupported(f"{ufunc.__name__} of {', '.join(map(str, inputs))}")
    operands = _operands(d, function, values, inputs)
    if ufunc in _DIVISIONS and inputs[0].kind in "iu":
        found = _integer_division(d, function, operands, inputs[1])
    elif ufunc in _NATURAL and inputs[1].kind == "i" and not _is_natural(operands[1]):
        raise unsupported(f"{ufunc.__name__} of integers that may be negative")
    else:
        found = d.graph_call(function, operands)
    if found.fake._is_view() or any(found is value for value in operands):
        found = d.graph_method("clone", found, [], {})
    return [cast(d, found, results[0])]


def _operands(d: Symbolic, function: Any, values: list[Any], dtypes: tuple[Any, ...]) -> list[Any]:
    """Operands in the dtypes of the computation: tensors, and numbers where the operator takes them."""
    definition: Any = getattr(function, "definition", None)
    pointwise = definition is not None and definition.kind == "pointwise"
    takes_numbers = pointwise and not definition.strict
    kinds = [part.type for part in definition.schema.parameters] if takes_numbers else []
    made: list[Any] = []
    for n, (value, dtype) in enumerate(zip(values, dtypes, strict=True)):
        if isinstance(value, ArrayValue):
            made.append(cast(d, value.inner, dtype))
        elif follows_float(value) and dtype.kind == "f" and not d.enclosing:
            made.append(_open_float(d, value, dtype))
        elif n < len(kinds) and kinds[n] == "Operand":
            made.append(number(d, value, dtype))
        else:
            made.append(_number_tensor(d, value, dtype))
    if not any(isinstance(value, TensorValue) for value in made):
        made[0] = _number_tensor(d, values[0], dtypes[0])
    return made


def _open_float(d: Symbolic, value: object, dtype: np.dtype) -> Any:
    """A float that may change as a tensor, so that other ones need no other graph."""
    tensor = d.float_as_tensor(value)
    if isinstance(tensor, TensorValue):
        return cast(d, tensor, dtype)
    return _number_tensor(d, tensor, dtype)


def _number_tensor(d: Symbolic, value: object, dtype: np.dtype) -> TensorValue:
    words = {"dtype": Known(DTYPES[dtype]), "device": Known("cpu")}
    sizes = d.constant(())
    found: TensorValue = d.graph_call(
        operator_named("full"), [sizes, number(d, value, dtype)], words
    )
    return found


def _is_natural(value: object) -> bool:
    return isinstance(value, Known) and value.obj >= 0


def _integer_division(
    d: Symbolic, function: Callable[..., Any], operands: list[Any], dtype: np.dtype
) -> TensorValue:
    left, right = operands
    if isinstance(right, Known) and right.obj != 0:
        return d.graph_call(function, operands)
    if not isinstance(right, TensorValue):
        right = _number_tensor(d, right, dtype)
    where, zero = operator_named("where"), Known(0)
    none = d.graph_call(operator_named("eq"), [right, zero])
    divided = d.graph_call(function, [left, d.graph_call(where, [none, Known(1), right])])
    return d.graph_call(where, [none, zero, divided])


def _matmul(d: Symbolic, left: object, right: object) -> TensorValue:
    values = [as_array(d, value).inner for value in (left, right)]
    if any(value.fake.dim() == 0 for value in values):
        raise unsupported("matmul of numbers")
    dtype = np.result_type(*[numpy_dtype(value) for value in values])
    if dtype.kind == "b":
        found = d.graph_call("@", [cast(d, value, np.dtype(np.int64)) for value in values])
    else:
        found = d.graph_call("@", [cast(d, value, dtype) for value in values])
    return cast(d, found, dtype)


def _sign(d: Symbolic, x: TensorValue) -> Any:
    signs = d.graph_call(operator_named("sign"), [x])
    nan = d.graph_call(operator_named("isnan"), [x])
    return d.graph_call(operator_named("where"), [nan, x, signs])


def _cube_root(d: Symbolic, x: TensorValue) -> Any:
    root = d.graph_call(operator_named("pow"), [d.graph_call(abs, [x]), Known(1 / 3)])
    return d.graph_call(operator_named("copysign"), [root, x])


def _heaviside(d: Symbolic, x: TensorValue, half: TensorValue) -> Any:
    step = d.graph_call(operator_named("heaviside"), [x, half])
    nan = d.graph_call(operator_named("isnan"), [x])
    return d.graph_call(operator_named("where"), [nan, x, step])


#: functions of floats that are several operators
_COMPOSED: dict[Any, Callable[..., Any]] = {
    np.sign: _sign,
    np.cbrt: _cube_root,
    np.heaviside: _heaviside,
}


# the operator of a function ---------------------------------------------------------------------
@functools.cache
def operator_for(ufunc: np.ufunc, dtypes: tuple[np.dtype, ...]) -> Callable[..., Any] | None:
    """The operator that gives what a function gives; None where there is none."""
    if ufunc.nout != 1 or ufunc.signature is not None:
        return None
    name = _OTHER_NAMES.get(ufunc.__name__, ufunc.__name__)
    found: Callable[..., Any] | None = operator_named(name)
    if found is None or not _agrees(ufunc, found, dtypes):
        return None
    return found


def _agrees(ufunc: np.ufunc, function: Callable[..., Any], dtypes: tuple[np.dtype, ...]) -> bool:
    """Whether an operator gives what NumPy gives, on samples."""
    inputs, result = dtypes[: ufunc.nin], dtypes[ufunc.nin]
    samples = [_sample(ufunc, n, dtype) for n, dtype in enumerate(inputs)]
    spread = [np.ascontiguousarray(part).ravel() for part in np.meshgrid(*samples)]
    with np.errstate(all="ignore"):
        expected = ufunc(*spread)
    try:
        tensors = [core.from_numpy(part) for part in spread]
        got = function(*tensors).to(DTYPES[result]).numpy()
    except (RuntimeError, TypeError, ValueError, AttributeError, NotImplementedError):
        return False  # no operator on tensors, or not of these dtypes
    if got.shape != expected.shape:
        return False
    if result.kind in "fc":
        close = _CLOSE.get(result.char, 1e-9)
        return bool(np.allclose(got, expected, rtol=close, atol=close, equal_nan=True))
    return bool((got == expected).all())


def _sample(ufunc: np.ufunc, place: int, dtype: np.dtype) -> np.ndarray:
    if dtype.kind == "b":
        return np.array([False, True])
    second = place == 1
    if dtype.kind in "iu":
        if second and ufunc in _NATURAL:
            return np.array([0, 1, 2, 3], dtype)
        whole = [1, 2, 3, 7] if dtype.kind == "u" else [-7, -2, -1, 1, 2, 3]
        return np.array(whole if second and ufunc in _DIVISIONS else [0, *whole], dtype)
    values = [-np.inf, -2.5, -1.0, -0.5, 0.0, 0.25, 0.5, 1.0, 1.5, 3.0, np.inf, np.nan]
    if dtype.kind == "c":
        return np.array([0.5 + 1j, -2.0 + 0.5j, 1.0 + 0j, 0.25 - 1j], dtype)
    return np.array(values, dtype)


# folds and runs -----------------------------------------------------------------------------------
def reduce(
    d: Symbolic, ufunc: np.ufunc, array: Any, axis: Any = None, dtype: core.dtype | None = None, out: object = None,
    keepdims: Any = None, initial: Any = None, where: object = None,
) -> Any:  # fmt: skip
    """`ufunc.reduce`."""
    name = _FOLDS.get(ufunc)
    if name is None:
        raise unsupported(f"{ufunc.__name__}.reduce")
    for value in (initial, where):
        if value is not None and not is_left_out(d, value, True):
            raise unsupported(f"{ufunc.__name__}.reduce with initial= or where=")
    tensor = as_array(d, array).inner
    asked = dtype_of(d, dtype)
    kept = keepdims is not None and not is_left_out(d, keepdims, False)
    axes = axes_of(d, tensor, axis, default=0)
    one = np.ones((1,) * tensor.fake.dim(), numpy_dtype(tensor))
    try:
        result = ufunc.reduce(one, axis=None, dtype=asked).dtype
    except TypeError as error:
        raise unsupported(f"{ufunc.__name__}.reduce: {error}") from error
    if name not in ("all", "any") and result in DTYPES:
        tensor = cast(d, tensor, result)
    found = _folded(d, name, tensor, axes, bool(kept))
    return _result(d, cast(d, found, result), Known(None) if out is None else _one(d, out))


def _one(d: Symbolic, out: object) -> Any:
    out = d.force(out)
    return d.force(out.items[0]) if isinstance(out, SequenceValue) else out


def _folded(d: Symbolic, name: str, tensor: Any, axes: list[int], keepdims: bool) -> TensorValue:
    if not axes:
        return d.graph_method("clone", tensor, [], {})
    words = {"keepdim": Known(keepdims)}
    if name != "prod":
        found = d.graph_method(name, tensor, [d.constant(tuple(axes))], words)
    else:
        found = tensor
        for axis in sorted(axes, reverse=True):
            found = d.graph_method(name, found, [Known(axis)], words)
    return found


def axes_of(d: Symbolic, tensor: TensorValue, axis: Any, default: Any = None) -> list[int]:
    """An `axis` argument as dimensions; all of them for None."""
    given = default if axis is None else d.constant_of(axis)
    dims = tensor.fake.dim()
    if given is None:
        return list(range(dims))
    if dims == 0 and axis is None:
        return []
    axes = [int(n) for n in given] if isinstance(given, (tuple, list)) else [int(given)]
    if any(not -dims <= n < dims for n in axes) or len({n % dims for n in axes}) != len(axes):
        raise unsupported("function with an axis that is not there")  # which raises NumPy's error
    return [n % dims for n in axes]


def accumulate(
    d: Any,
    ufunc: np.ufunc,
    array: Any,
    axis: Any = None,
    dtype: core.dtype | None = None,
    out: object = None,
) -> Any:
    """`ufunc.accumulate`."""
    name = _RUNS.get(ufunc) or _RUNNING.get(ufunc)
    if name is None:
        raise unsupported(f"{ufunc.__name__}.accumulate")
    tensor = as_array(d, array).inner
    (at,) = axes_of(d, tensor, axis, default=0)
    one = np.ones((1,) * tensor.fake.dim(), numpy_dtype(tensor))
    result = ufunc.accumulate(one, axis=at, dtype=dtype_of(d, dtype)).dtype
    found = d.graph_method(name, cast(d, tensor, result), [Known(at)], {})
    if ufunc in _RUNNING:
        found = d.force(found.items[0])
    return _result(d, cast(d, found, result), Known(None) if out is None else _one(d, out))


def outer(d: Symbolic, ufunc: np.ufunc, left: object, right: object, **kwargs: object) -> Any:
    """`ufunc.outer`."""
    one, other = as_array(d, left), as_array(d, right)
    key = [Known(...), *[Known(None)] * other.inner.fake.dim()]
    return call(d, ufunc, [d.array_getitem(one, d.build_tuple(key)), other], kwargs)


#: methods of universal functions
METHODS = {"reduce": reduce, "accumulate": accumulate, "outer": outer}
