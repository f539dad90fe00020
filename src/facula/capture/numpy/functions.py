"""Functions of NumPy's: what is written in Python is followed, the rest has rules.

Takes: calls of functions of the module `numpy`. Gives: arrays, numbers of NumPy's, dtypes.
Keeps true: rules have the parameters of their functions; `linalg` and `fft` take the operator of the
same name where it gives, on a sample, what NumPy gives.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from facula import core
from facula.capture.breaks import Break
from facula.capture.guards.reading import is_numpy_scalar
from facula.capture.numpy.arrays import array_of_tensor
from facula.capture.numpy.dtypes import (
    DTYPES,
    array_value,
    as_array,
    cast,
    dtype_of,
    element,
    embedded,
    folded,
    full,
    numpy_dtype,
    operator_named,
    strong_dtype,
)
from facula.capture.numpy.methods import METHODS, sizes, zeros
from facula.capture.numpy.ufuncs import METHODS as UFUNC_METHODS
from facula.capture.numpy.ufuncs import axes_of, call, operand, unsupported, write_out
from facula.capture.values.kinds import ArrayValue, Known, NumberValue, SequenceValue, TensorValue
from facula.ops.table.registry import PLACES

if TYPE_CHECKING:
    from facula.capture.interpreter.symbolic import Symbolic
    from facula.capture.values.kinds import Value


_RULES: dict[Any, Callable[..., Any]] = {}
#: functions that make arrays of known arguments; NumPy computes them, up to this many elements
_MAKERS = (np.arange, np.linspace, np.logspace, np.geomspace, np.eye, np.identity, np.tri)
_LARGEST = 1 << 20
#: elements up to which a sample has the sizes of what it stands for
_SMALL = 1 << 12
#: functions whose Python does what has no operator, or more than the operator of their name
_BY_OPERATOR = (np.roll, np.rot90, np.flip, np.flipud, np.fliplr, np.kron)
#: functions of `linalg` whose results are real or complex as the elements are
_BY_DATA = (np.linalg.eig, np.linalg.eigvals)
_BY_FLOATING_OPERATOR = (np.nanmean,)


def rules() -> dict[Any, Any]:
    """The rules by the function of NumPy's that each is for."""
    found: dict[Any, Any] = {}
    for ufunc in {v for v in vars(np).values() if isinstance(v, np.ufunc)}:
        found[ufunc] = _ufunc_rule(ufunc)
        for name, function in UFUNC_METHODS.items():
            bound = functools.partial(_with_ufunc, function, ufunc)
            found[getattr(ufunc, name)] = _rule(bound, getattr(ufunc, name))
    for module, place in ((np.linalg, "linalg"), (np.fft, "fft")):
        for name in PLACES[place]:
            own = getattr(module, name, None)
            if own is not None and own not in _BY_DATA:
                found[own] = _same_name(own, core.operator_of(PLACES[place][name]), _floating)
    by_name: Any = ((_BY_OPERATOR, _unchanged), (_BY_FLOATING_OPERATOR, _floating))
    for names, dtype_in in by_name:
        for own in names:
            found[own] = _same_name(own, operator_named(own.__name__), dtype_in)
    pure: list[Any] = [normalize_axis_index, np.can_cast, np.promote_types, np.dtype, np.isscalar]
    for question in pure:
        found[question] = _folded(question)
    for limits in (np.finfo, np.iinfo):
        found[limits] = _limits(limits)
    for kind in {dtype.type for dtype in DTYPES}:
        found[kind] = _scalar(kind)
    for function in _MAKERS:
        found[function] = _maker(function)
    found[np.cross] = _same_name(np.cross, PLACES["linalg"]["cross"], _unchanged)
    return found | _RULES


def _with_ufunc(
    function: Any, ufunc: np.ufunc, d: Symbolic, *args: object, **kwargs: object
) -> Any:
    return function(d, ufunc, *args, **kwargs)


def _rule(function: Callable[..., Any], own: object = None) -> Callable[..., Any]:
    """A function with NumPy's parameters as a rule; of known arrays NumPy's `own` is computed."""

    def run(d: Symbolic, args: list[Any], kwargs: dict[str, Any]) -> Any:
        known = NotImplemented if own is None else folded(d, own, args, kwargs)
        if known is not NotImplemented:
            return known
        try:
            return function(d, *args, **kwargs)
        except TypeError as error:
            if error.__traceback__ is not None and error.__traceback__.tb_next is not None:
                raise  # of the function, not of its call
            raise unsupported(f"function: {error}") from error

    return run


def rule(*functions: object) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The rule for these functions of NumPy's."""

    def enter(made: Callable[..., Any]) -> Callable[..., Any]:
        for function in functions:
            _RULES[function] = _rule(made, function)
        return made

    return enter


def _ufunc_rule(ufunc: np.ufunc) -> Callable[..., Any]:
    return lambda d, args, kwargs: call(d, ufunc, args, kwargs)


def _folded(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(d: Symbolic, args: list[Any], kwargs: dict[str, Any]) -> Any:
        plain = [_dtype_for(d, arg) for arg in args]
        words = {name: d.constant_of(value) for name, value in kwargs.items()}
        try:
            return d.trusted(function(*plain, **words))
        except Exception as error:  # noqa: BLE001 - it is the program's exception
            d.raise_host(error)

    return run


def _dtype_for(d: Symbolic, value: Any) -> Any:
    value = d.force(value)
    return numpy_dtype(value.inner) if isinstance(value, ArrayValue) else d.constant_of(value)


def _scalar(kind: type) -> Callable[..., Any]:
    def run(d: Symbolic, args: list[Any], kwargs: dict[str, Any]) -> Any:
        value = d.force(args[0]) if args else None
        if not isinstance(value, ArrayValue) or len(args) > 1 or kwargs:
            return d.fold(kind, args, kwargs)
        made = METHODS["astype"](d, value, Known(kind))
        return array_value(d, made.inner, made.inner.fake.dim() == 0)

    return run


def _limits(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda d, args, kwargs: Known(function(_dtype_for(d, args[0])))


def _maker(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(d: Symbolic, args: list[Any], kwargs: dict[str, Any]) -> Any:
        given = [d.force(arg) for arg in args]
        if function is np.arange and any(isinstance(arg, NumberValue) for arg in given):
            return _open_range(d, given, **kwargs)
        plain = [d.constant_of(arg) for arg in given]
        words = {name: d.constant_of(value) for name, value in kwargs.items()}
        try:
            made = function(*plain, **words)
        except Exception as error:  # noqa: BLE001 - it is the program's exception
            d.raise_host(error)
        if not isinstance(made, np.ndarray) or made.size > _LARGEST:
            raise unsupported(f"{function.__name__} of this size")
        return embedded(d, made)

    return run


def _open_range(d: Symbolic, given: list[Any], dtype: core.dtype | None = None) -> ArrayValue:
    """`arange` up to a size that may change."""
    hints = [
        value.hint if isinstance(value, NumberValue) else d.constant_of(value) for value in given
    ]
    found = dtype_of(d, dtype) or np.arange(*hints).dtype
    words = {"dtype": Known(DTYPES[found]), "device": Known("cpu")}
    return array_value(d, d.graph_call(operator_named("arange"), given, words))


# making arrays ------------------------------------------------------------------------------------
@rule(np.array)
def _array(
    d: Symbolic, object: Any, dtype: core.dtype | None = None, *, copy: Any = None, order: Any = None,
    subok: object = None, ndmin: Any = None, like: object = None,
) -> Any:  # fmt: skip
    _plain_order(d, order, like)
    made = as_array(d, object, dtype_of(d, dtype))
    if isinstance(d.force(object), (ArrayValue, TensorValue)):
        if copy is None or d.constant_of(copy):
            made = array_value(d, d.graph_method("clone", made.inner, [], {}))
    least = 0 if ndmin is None else d.constant_of(ndmin)
    more = least - made.inner.fake.dim()
    if more > 0:
        key = d.build_tuple([*[Known(None)] * more, Known(...)])
        return d.array_getitem(made, key)
    return made


@rule(np.asarray, np.asanyarray)
def _asarray(
    d: Symbolic, a: object, dtype: core.dtype | None = None, order: object = None, *,
    device: core.device | str | int | None = None, copy: object = None,
    like: object = None,
) -> Any:  # fmt: skip
    if copy is not None and not d.is_none(copy):
        return _array(d, a, dtype, copy=copy, order=order, like=like)
    _plain_order(d, order, like)
    return as_array(d, a, dtype_of(d, dtype))


@rule(np.ascontiguousarray)
def _ascontiguousarray(
    d: Symbolic, a: object, dtype: core.dtype | None = None, *, like: object = None
) -> Any:
    made = as_array(d, a, dtype_of(d, dtype))
    if made.inner.fake.dim() == 0:
        return METHODS["reshape"](d, made, Known(1))
    return array_value(d, d.graph_method("contiguous", made.inner, [], {}))


def _plain_order(d: Symbolic, order: object, like: object = None) -> None:
    if order is not None and d.constant_of(order) not in ("C", "K", "A", None):
        raise unsupported("an array in another order")
    if like is not None and not d.is_none(like):
        raise unsupported("an array with like=")


def _filled(value: int) -> Callable[..., Any]:
    def run(
        d: Symbolic, shape: Any, dtype: core.dtype | None = None, order: Any = None, *,
        device: core.device | str | int | None = None,
        like: Any = None,
    ) -> Any:  # fmt: skip
        _plain_order(d, order, like)
        return zeros(d, shape, Known(value), dtype_of(d, dtype) or np.dtype(np.float64))

    return run


def _filled_like(value: int | None) -> Callable[..., Any]:
    def run(d: Symbolic, a: Any, *rest: Any, **words: Any) -> Any:
        given = dict(zip(("dtype", "order", "subok", "shape"), rest, strict=False), **words)
        if value is None:
            filler, *rest_ = rest or (words.pop("fill_value"),)
            given = dict(zip(("dtype", "order", "subok", "shape"), rest_, strict=False), **words)
        _plain_order(d, given.get("order"))
        array = as_array(d, a)
        dtype = dtype_of(d, given.get("dtype")) or numpy_dtype(array.inner)
        shape = given.get("shape")
        if shape is None or d.is_none(shape):
            shape = d.array_attribute(array, "shape")
        content = Known(value) if value is not None else element(d, filler, DTYPES[dtype])
        if isinstance(content, TensorValue):
            made = zeros(d, shape, Known(0), dtype)
            return write_out(d, d.graph_method("expand_as", content, [made.inner], {}), made)
        return zeros(d, shape, content, dtype)

    return run


for _value, _functions in {
    0: ((np.zeros, np.empty), (np.zeros_like, np.empty_like)), 1: ((np.ones,), (np.ones_like,)),
}.items():  # fmt: skip
    rule(*_functions[0])(_filled(_value))
    rule(*_functions[1])(_filled_like(_value))
rule(np.full_like)(_filled_like(None))


@rule(np.full)
def _full(
    d: Symbolic, shape: object, fill_value: object, dtype: core.dtype | None = None, order: object = None, *,
    device: core.device | str | int | None = None, like: object = None,
) -> Any:  # fmt: skip
    _plain_order(d, order, like)
    value = d.force(fill_value)
    found = dtype_of(d, dtype)
    if isinstance(value, (Known, NumberValue)):
        hint = value.hint if isinstance(value, NumberValue) else value.obj
        found = found or np.asarray(hint).dtype
        return array_value(d, full(d, sizes(d, [shape]), element(d, value, DTYPES[found]), found))
    array = as_array(d, value, found)
    made = zeros(d, shape, Known(0), numpy_dtype(array.inner))
    d.graph_method("copy_", made.inner, [array.inner], {})
    return made


# joining and choosing -----------------------------------------------------------------------------
def _joined(name: str) -> Callable[..., Any]:
    def run(
        d: Symbolic, arrays: Any, /, axis: Any = None, out: Any = None, *, dtype: core.dtype | None = None,
        casting: object = None,
    ) -> Any:  # fmt: skip
        parts = [as_array(d, part) for part in d.unpack_all(arrays)]
        if axis is not None and d.is_none(axis):
            parts, axis = [METHODS["ravel"](d, part) for part in parts], Known(0)
        found = dtype_of(d, dtype) or np.result_type(*[numpy_dtype(p.inner) for p in parts])
        rule_: Any = "same_kind" if casting is None else d.constant_of(casting)
        if not all(np.can_cast(numpy_dtype(part.inner), found, rule_) for part in parts):
            raise unsupported(f"{name} to another kind of dtype")
        dims = [part.inner.fake.dim() for part in parts]
        if len(set(dims)) != 1 or (name == "cat" and dims[0] == 0):
            raise unsupported(f"{name} of arrays of other ranks")  # which raises NumPy's error
        same = d.build_tuple([cast(d, part.inner, found) for part in parts])
        made = d.graph_call(operator_named(name), [same, Known(0) if axis is None else axis])
        if out is not None and not d.is_none(out):
            return write_out(d, made, d.force(out), rule_)
        return array_value(d, made)

    return run


rule(np.concatenate)(_joined("cat"))
rule(np.stack)(_joined("stack"))


@rule(np.where)
def _where(d: Symbolic, condition: object, x: object = None, y: object = None) -> Any:
    if x is None or y is None:
        raise Break("data-dependent-shape", "numpy.where(condition)")
    asked = cast(d, as_array(d, condition).inner, np.dtype(np.bool_))
    parts = [operand(d, part) for part in (x, y)]
    found = np.result_type(*[_promoted(part) for part in parts])
    given = [element(d, part, DTYPES[found]) for part in parts]
    if not any(isinstance(part, TensorValue) for part in given):
        given[0] = full(d, [], given[0], found)
    return array_value(d, d.graph_call(operator_named("where"), [asked, *given]))


def _promoted(value: Any) -> Any:
    """What `numpy.result_type` gets for an operand: numbers of Python are weak."""
    if isinstance(value, ArrayValue):
        return numpy_dtype(value.inner)
    if isinstance(value, NumberValue):
        return value.hint
    return strong_dtype(value) or value.obj


@rule(np.result_type)
def _result_type(d: Symbolic, *values: object) -> Any:
    given = []
    for value in values:
        value = d.force(value)
        known = isinstance(value, Known) and is_numpy_scalar(type(value.obj))
        given.append(
            _promoted(value) if known or isinstance(value, ArrayValue) else d.constant_of(value)
        )
    return d.trusted(np.result_type(*given))


@rule(np.copyto)
def _copyto(
    d: Symbolic, dst: object, src: object, casting: object = None, where: object = None
) -> Any:
    target = d.force(dst)
    if not isinstance(target, ArrayValue):
        raise unsupported("copyto of something else")
    source = operand(d, src)
    found, wanted = _promoted(source), numpy_dtype(target.inner)
    dtype = found if isinstance(found, np.dtype) else np.result_type(wanted, found)
    if not np.can_cast(dtype, wanted, "same_kind" if casting is None else d.constant_of(casting)):
        raise unsupported("copyto to another kind of dtype")
    given = element(d, source, DTYPES[wanted])
    if where is not None and not (isinstance(w := d.force(where), Known) and w.obj is True):
        mask = as_array(d, w).inner
        given = d.graph_call(operator_named("where"), [mask, given, target.inner])
    d.array_write(target)
    if isinstance(given, TensorValue):
        d.graph_method("copy_", target.inner, [given], {})
    else:
        d.graph_method("fill_", target.inner, [given], {})
    return Known(None)


@rule(np.broadcast_to)
def _broadcast_to(d: Symbolic, array: object, shape: object, subok: object = None) -> Any:
    tensor = as_array(d, array).inner
    return array_value(d, d.graph_method("broadcast_to", tensor, [sizes(d, [shape])], {}))


@rule(np.broadcast_arrays)
def _broadcast_arrays(d: Symbolic, *args: object, subok: object = None) -> Any:
    parts = [as_array(d, part).inner for part in args]
    made = d.graph_call(operator_named("broadcast_tensors"), parts)
    return d.build_tuple([array_value(d, d.force(part)) for part in made.items])


@rule(np.array_split)
def _array_split(d: Symbolic, ary: object, indices_or_sections: object, axis: object = None) -> Any:
    array, at = as_array(d, ary), 0 if axis is None else d.constant_of(axis)
    (at,) = axes_of(d, array.inner, Known(at))
    count = d.constant_of(d.size_of(array.inner, at))
    parts = np.array_split(np.arange(count), d.constant_of(indices_or_sections))
    made, start = [], 0
    for part in parts:
        key = [*[slice(None)] * at, slice(start, start + len(part))]
        made.append(d.array_getitem(array, d.build_tuple([Known(k) for k in key])))
        start += len(part)
    return d.build_list(made)


@rule(np.meshgrid)
def _meshgrid(
    d: Any, *xi: Any, copy: object = None, sparse: object = None, indexing: object = None
) -> Any:
    if sparse is not None and d.truth(sparse) or copy is not None and not d.truth(copy):
        raise unsupported("meshgrid with sparse= or without copy=")
    parts = [METHODS["ravel"](d, as_array(d, part)).inner for part in xi]
    given = [cast(d, part, np.dtype(np.float64)) for part in parts]
    words = {"indexing": Known("xy") if indexing is None else d.force(indexing)}
    made = d.graph_call(operator_named("meshgrid"), given, words)
    fresh = [d.graph_method("clone", d.force(part), [], {}) for part in made.items]
    return d.build_tuple(
        [array_value(d, cast(d, f, numpy_dtype(p))) for f, p in zip(fresh, parts, strict=True)]
    )


# products and orders ------------------------------------------------------------------------------
@rule(np.dot)
def _dot(d: Symbolic, a: object, b: object, out: object = None) -> Any:
    return METHODS["dot"](d, as_array(d, a), b, out)


@rule(np.vdot)
def _vdot(d: Symbolic, a: object, b: object, /) -> Any:
    left, right = (METHODS["ravel"](d, as_array(d, part)) for part in (a, b))
    return METHODS["dot"](d, METHODS["conj"](d, left), right)


def _sum_of_products(d: Symbolic, name: str, before: list[Any], parts: list[Any]) -> Any:
    """A sum of products in the dtype of the parts; of truth values whether one is true."""
    dtype = np.result_type(*[numpy_dtype(part) for part in parts])
    wide = np.dtype(np.int64) if dtype.kind == "b" else dtype
    made = d.graph_call(operator_named(name), [*before, *[cast(d, part, wide) for part in parts]])
    return array_value(d, cast(d, made, dtype), made.fake.dim() == 0)


@rule(np.inner)
def _inner(d: Symbolic, a: object, b: object, /) -> Any:
    return _sum_of_products(d, "inner", [], [as_array(d, a).inner, as_array(d, b).inner])


@rule(np.einsum)
def _einsum(
    d: Symbolic, *operands: object, out: object = None, optimize: object = None, **more: object
) -> Any:
    text = d.constant_or_none(operands[0])
    if text is None or not isinstance(text[0], str) or more or (out and not d.is_none(out)):
        raise unsupported("einsum with lists of indices, or with out=")
    parts = [as_array(d, part).inner for part in operands[1:]]
    return _sum_of_products(d, "einsum", [operands[0]], parts)


# statistics ---------------------------------------------------------------------------------------
def _method(name: str) -> Callable[..., Any]:
    def run(d: Symbolic, a: Any, *args: Any, **kwargs: Any) -> Any:
        return METHODS[name](d, as_array(d, a), *args, **kwargs)

    return run


for _name in ("mean", "std", "var"):
    rule(getattr(np, _name))(_method(_name))


def _at(
    d: Any,
    function: Any,
    q: object,
    a: object,
    axis: Any,
    out: object,
    keepdims: object,
    how: object,
) -> Any:
    """The values of `function` (a median, a quantile or a percentile) along an axis."""
    array = as_array(d, a)
    kind = "linear" if how is None else d.constant_of(how)
    if (out is not None and not d.is_none(out)) or numpy_dtype(array.inner).kind not in "iuf":
        raise unsupported(f"{function.__name__} with out=, or of others than real numbers")
    if kind not in ("linear", "lower", "higher", "midpoint", "nearest"):
        raise unsupported(f"{function.__name__} with method={kind!r}")
    if axis is None or d.is_none(axis):
        if keepdims is not None and d.truth(keepdims):
            raise unsupported(f"{function.__name__} with keepdims= of all axes")
        array, axis = METHODS["ravel"](d, array), Known(0)
    (at,) = axes_of(d, array.inner, axis)
    one = np.ones(1, numpy_dtype(array.inner))
    scale = 100 if function is np.percentile else 1
    places = 0.5 if function is np.median else np.asarray(d.constant_of(q)) / scale
    result = (
        np.median(one) if function is np.median else function(one, d.constant_of(q), method=kind)
    )
    words = {"keepdim": Known(False) if keepdims is None else d.force(keepdims)}
    words["interpolation"] = Known(kind)
    where: Any = (
        Known(float(places)) if np.ndim(places) == 0 else embedded(d, np.asarray(places)).inner
    )
    wide = cast(d, array.inner, np.dtype(np.float64))
    made = d.graph_call(operator_named("quantile"), [wide, where, Known(at)], words)
    return array_value(d, cast(d, made, result.dtype), made.fake.dim() == 0)


@rule(np.median)
def _median(
    d: Symbolic, a: object, axis: object = None, out: object = None, overwrite_input: object = None,
    keepdims: object = None,
) -> Any:  # fmt: skip
    return _at(d, np.median, None, a, axis, out, keepdims, None)


def _quantile(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(
        d: Symbolic, a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: Any = None,
        method: Any = None, keepdims: Any = None,
    ) -> Any:  # fmt: skip
        return _at(d, function, q, a, axis, out, keepdims, method)

    return run


for _function in (np.quantile, np.percentile):
    rule(_function)(_quantile(_function))


@rule(np.errstate)
def _errstate(d: Symbolic, **words: object) -> Any:
    if any(d.constant_of(value) not in ("ignore", "warn", None) for value in words.values()):
        raise unsupported("errstate that raises, prints or calls")
    return d.call(d.trusted(contextlib.nullcontext), [], {})


@rule(np.diag)
def _diag(d: Symbolic, v: object, k: object = None) -> Any:
    array = as_array(d, v)
    if array.inner.fake.dim() == 2:
        return METHODS["diagonal"](d, array, k or Known(0))
    return array_value(d, d.graph_call(operator_named("diag"), [array.inner, k or Known(0)]))


@rule(np.interp)
def _interp(
    d: Symbolic, x: object, xp: Any, fp: Any, left: object = None, right: object = None, period: Any = None
) -> Any:  # fmt: skip
    """By the slope of the part that a place is in."""
    if period is not None and not d.is_none(period):
        raise unsupported("interp with period=")
    wide = np.dtype(np.float64)
    at, places, heights = (as_array(d, part, wide) for part in (x, xp, fp))
    if places.inner.fake.numel() < 2:
        raise unsupported("interp of one place")
    last = d.binary("-", d.array_attribute(places, "size"), Known(1))
    part = METHODS["searchsorted"](d, places, at, Known("right"))
    part = METHODS["clip"](
        d, d.array_binary("-", part, Known(1)), Known(0), d.binary("-", last, Known(1))
    )
    start, low = d.array_getitem(places, part), d.array_getitem(heights, part)
    after = d.array_binary("+", part, Known(1))
    wide_step = d.array_binary("-", d.array_getitem(places, after), start)
    rise = d.array_binary("-", d.array_getitem(heights, after), low)
    slope = d.array_binary("/", rise, wide_step)
    made = d.array_binary("+", d.array_binary("*", slope, d.array_binary("-", at, start)), low)
    for place, given, symbol in ((Known(0), left, "<"), (last, right, ">=")):
        edge = d.array_getitem(heights, place)
        outside = edge if given is None or d.is_none(given) else given
        if symbol == ">=":
            made = _where(d, d.array_binary("==", at, d.array_getitem(places, place)), edge, made)
            symbol = ">"
        made = _where(d, d.array_binary(symbol, at, d.array_getitem(places, place)), outside, made)
    return array_value(d, made.inner, made.inner.fake.dim() == 0)


@rule(np.convolve)
def _convolve(d: Symbolic, a: object, v: object, mode: Any = None) -> Any:
    one, other = as_array(d, a), as_array(d, v)
    sizes_ = [part.inner.fake.numel() for part in (one, other)]
    dtype = np.result_type(numpy_dtype(one.inner), numpy_dtype(other.inner))
    how = "full" if mode is None else d.constant_of(mode)
    if dtype.kind != "f" or 0 in sizes_ or d.any_dynamic or how not in ("full", "same", "valid"):
        raise unsupported("convolve of others than floats of known sizes")
    if sizes_[0] < sizes_[1]:
        one, other, sizes_ = other, one, sizes_[::-1]
    signal = d.graph_method("reshape", cast(d, one.inner, dtype), [d.constant((1, 1, -1))], {})
    taps = d.graph_method("reshape", cast(d, other.inner, dtype), [d.constant((1, 1, -1))], {})
    words = {"padding": Known(sizes_[1] - 1 if how != "valid" else 0)}
    taps = d.graph_method("flip", taps, [Known(-1)], {})
    made = d.graph_call(operator_named("conv1d"), [signal, taps], words)
    flat = array_value(d, d.graph_method("reshape", made, [d.constant((-1,))], {}))
    if how != "same":
        return flat
    first = (sizes_[1] - 1) // 2
    return d.array_getitem(flat, Known(slice(first, first + sizes_[0])))


@rule(np.linalg.svd)
def _svd(
    d: Symbolic,
    a: object,
    full_matrices: object = None,
    compute_uv: object = None,
    hermitian: object = None,
) -> Any:
    if hermitian is not None and d.truth(hermitian):
        raise unsupported("linalg.svd of hermitian matrices")
    if compute_uv is not None and not d.truth(compute_uv):
        return _same_name(np.linalg.svdvals, PLACES["linalg"]["svdvals"], _floating)(d, [a], {})
    words = {} if full_matrices is None else {"full_matrices": full_matrices}
    return _same_name(np.linalg.svd, PLACES["linalg"]["svd"], _floating)(d, [a], words)


# functions that have the name of an operator ------------------------------------------------------
def _same_name(function: object, op: core.Op, dtype_in: Callable[..., Any]) -> Callable[..., Any]:
    def run(d: Symbolic, args: list[Any], kwargs: dict[str, Any]) -> Any:
        known_result = folded(d, function, args, kwargs)
        if known_result is not NotImplemented:
            return known_result
        values = [d.force(arg) for arg in args]
        arrays = [n for n, value in enumerate(values) if isinstance(value, ArrayValue)]
        words = {name: d.constant_or_none(value) for name, value in kwargs.items()}
        known = [None if n in arrays else d.constant_or_none(v) for n, v in enumerate(values)]
        missing = any(part is None for n, part in enumerate(known) if n not in arrays)
        if missing or None in words.values() or not arrays:
            return _in_python(d, function, args, kwargs)
        plain = [None if part is None else part[0] for part in known]
        settings = {name: part[0] for name, part in words.items() if part is not None}
        dtype = dtype_in(np.result_type(*[numpy_dtype(values[n].inner) for n in arrays]))
        samples = [_sample(n, values[n].inner) if n in arrays else v for n, v in enumerate(plain)]
        expected = _sampled(function, op, dtype, samples, settings)
        if expected is None:
            return _in_python(d, function, args, kwargs)
        given = [cast(d, v.inner, dtype) if n in arrays else v for n, v in enumerate(values)]
        more = {name: d.constant(v) for name, v in _tensor_words(op, settings).items()}
        made = _like_sample(d, d.graph_call(op, given, more), expected)
        one = arrays == [0] and isinstance(expected, np.ndarray)
        if one and np.may_share_memory(samples[0], expected):
            return d.array_view(made, _applied(function, plain[1:], settings), values[0], ())
        return made

    return run


def _applied(function: Any, rest: list[Any], words: dict[str, Any]) -> Callable[..., Any]:
    def apply(array: object) -> Any:
        return function(array, *rest, **words)

    return apply


def _in_python(d: Symbolic, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    return d.call(d.trusted(function._implementation), args, kwargs)


def _tensor_words(op: core.Op, words: dict[str, Any]) -> dict[str, Any]:
    """Arguments by the names that the operator has for them."""
    names = {part.name for part in op.definition.schema.parameters}
    axis = "dims" if "dims" in names else "dim"
    other = {"axis": axis, "axes": axis, "keepdims": "keepdim"}
    return {other.get(name, name): value for name, value in words.items()}


def _floating(dtype: np.dtype) -> np.dtype:
    return np.dtype(np.float64) if dtype.kind in "biu" else dtype


def _unchanged(dtype: np.dtype) -> np.dtype:
    return dtype


def _sampled(function: Any, op: core.Op, dtype: np.dtype, samples: list, words: dict) -> Any:
    """What NumPy gives for samples of the arguments; None where the operator gives anything else."""
    given = [
        core.from_numpy(part.astype(dtype)) if isinstance(part, np.ndarray) else part
        for part in samples
    ]
    try:
        expected = function(*samples, **words)
        got = op(*given, **_tensor_words(op, words))
    except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError):
        return None
    return expected if _alike(got, expected) else None


def _sample(place: int, tensor: TensorValue) -> np.ndarray:
    """An array of a tensor's sizes where it is small; its matrices are well-conditioned."""
    shape = tuple(tensor.fake.shape)
    if tensor.fake.numel() > _SMALL:
        shape = (2,) * (len(shape) - 2) + (4,) * min(len(shape), 2)
    made = np.random.default_rng(place).integers(-3, 4, shape)
    if len(shape) > 1 and shape[-1] == shape[-2]:
        made = made + 9 * shape[-1] * np.eye(shape[-1], dtype=int)
    return made.astype(numpy_dtype(tensor))


def _alike(got: Any, expected: Any) -> bool:
    if isinstance(expected, tuple):
        same = isinstance(got, tuple) and len(got) == len(expected)
        return same and all(map(_alike, got, expected))
    if not isinstance(got, core.Tensor) or tuple(got.shape) != np.shape(expected):
        return False
    return bool(np.allclose(got.numpy(), expected, rtol=1e-4, atol=1e-4, equal_nan=True))


def _like_sample(d: Symbolic, value: Any, expected: Any) -> Any:
    value = d.force(value)
    if isinstance(value, SequenceValue):
        items = [_like_sample(d, v, e) for v, e in zip(value.items, expected, strict=True)]
        return d.made(SequenceValue(type(expected), items))
    found = np.asarray(expected).dtype
    return array_value(d, cast(d, value, found), not isinstance(expected, np.ndarray))


# tensors of arrays --------------------------------------------------------------------------------
def _tensor_of(function: Callable[..., Any], copies: bool) -> Callable[..., Any]:
    def run(d: Symbolic, args: list[Any], kwargs: dict[str, Any]) -> Any:
        value = d.force(args[0]) if args else None
        if not isinstance(value, ArrayValue):
            return d.graph_call(function, args, kwargs)
        if value.scalar and function is core.from_numpy:
            raise unsupported("a number given to from_numpy")
        if function is core.from_numpy:
            return _shared(value)
        words = {name: part for name, part in kwargs.items() if name in ("dtype", "device")}
        if len(words) != len(kwargs) or len(args) > 1:
            raise unsupported("an array given to a function with more arguments")
        words = {name: part for name, part in words.items() if not d.is_none(part)}
        if copies:
            words["copy"] = Known(True)
        elif not words and not value.scalar:
            return _shared(value)
        words.setdefault("dtype", Known(value.inner.fake.dtype))
        return d.graph_method("to", value.inner, [], words)

    return run


@rule(array_of_tensor)
def _array_of_tensor(d: Symbolic, value: Value) -> Any:
    found = d.force(value)
    if not isinstance(found, TensorValue):
        return found
    if type(found) is not TensorValue or found.fake.device.type != "cpu":
        raise unsupported("array of such a tensor")
    return array_value(d, found)


def _shared(array: ArrayValue) -> TensorValue:
    """The tensor of an array, through which it may be written."""
    tensor = array.inner
    array.content = None
    return tensor


for _maker_of_tensors in (core.from_numpy, core.as_tensor):
    _RULES[_maker_of_tensors] = _tensor_of(_maker_of_tensors, False)
#: called by the rule of `tensor`, which takes tensors as well
tensor_of_array = _tensor_of(core.tensor, True)
