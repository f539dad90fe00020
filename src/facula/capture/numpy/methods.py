"""Methods and views of NumPy's arrays as operators.

Takes: a symbolic array, the name of a method, and arguments. Gives: what NumPy gives.
Keeps true: each method has the parameters that NumPy gives it; a call that does not fit them, or asks
for what has no translation, is a break.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from facula import core
from facula.capture.breaks import Break
from facula.capture.interpreter.special_methods import SPECIAL
from facula.capture.numpy.dtypes import (
    DTYPES,
    array_value,
    as_array,
    cast,
    dtype_of,
    element,
    folded,
    full,
    numpy_dtype,
    operator_named,
)
from facula.capture.numpy.keys import index
from facula.capture.numpy.ufuncs import (
    accumulate,
    axes_of,
    is_left_out,
    reduce,
    unsupported,
    write_out,
)
from facula.capture.values.kinds import ArrayValue, Known, MethodValue, SequenceValue, TensorValue

if TYPE_CHECKING:
    from facula.capture.interpreter.symbolic import Symbolic
    from facula.capture.values.kinds import Value


METHODS: dict[str, Callable[..., Any]] = {}


def method(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter a function as the methods of these names."""

    def put(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            METHODS[name] = function
        return function

    return put


def bound(d: Symbolic, owner: ArrayValue, name: str) -> Any:
    """A method of an array."""
    if not callable(getattr(np.ndarray, name, None)):
        raise Break("unsupported-attribute", f"ndarray.{name}")
    return d.made(MethodValue(name, owner))


def call(d: Symbolic, owner: ArrayValue, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """`owner.name(*args, **kwargs)`."""
    known = folded(d, getattr(np.ndarray, name), [owner, *args], kwargs)
    if known is not NotImplemented:
        return known
    found = METHODS.get(name)
    if found is None:
        special = SPECIAL.get(name) if name not in ("__repr__", "__str__", "__hash__") else None
        if special is None:
            raise Break("unsupported-call", f"ndarray.{name}")
        return special(d, owner, *args)
    try:
        made = found(d, owner, *args, **kwargs)
        if owner.view_of is None or made is owner or not _is_view(made):
            return made
        given = tuple(d.constant_of(arg) for arg in args)
        words = {key: d.constant_of(value) for key, value in kwargs.items()}
        return d.array_view(made, operator.methodcaller(name, *given, **words), owner, ())
    except TypeError as error:
        if error.__traceback__ is not None and error.__traceback__.tb_next is not None:
            raise  # of the method, not of its call
        raise unsupported(f"ndarray.{name}: {error}") from error


def _is_view(made: Any) -> bool:
    """Whether a result is on the memory of something else."""
    return isinstance(made, ArrayValue) and not made.scalar and made.inner.fake._is_view()


def view(d: Symbolic, owner: ArrayValue, name: str) -> Any:
    """An attribute that is a view."""
    known = folded(d, operator.attrgetter(name), [owner], {})
    if known is not NotImplemented:
        return known
    made = _viewed(d, owner, name)
    if owner.view_of is None or made is owner or not _is_view(made):
        return made
    return d.array_view(made, operator.attrgetter(name), owner, ())


def _viewed(d: Symbolic, owner: ArrayValue, name: str) -> Any:
    tensor = owner.inner
    dims = tensor.fake.dim()
    if name == "T":
        return _permuted(d, owner, list(range(dims))[::-1])
    if name == "mT":
        return _transposed(d, owner, dims - 2, dims - 1)
    if not tensor.fake.dtype.is_complex:
        if name == "imag":
            return _like(d, owner, d.graph_method("mul", tensor, [Known(0)], {}))
        return owner
    return _like(d, owner, d.graph_call(getattr, [tensor, Known(name)]))


def _like(d: Symbolic, owner: ArrayValue, tensor: TensorValue) -> ArrayValue:
    """A result that is a number where the owner is one."""
    return array_value(d, tensor, owner.scalar)


def _permuted(d: Symbolic, owner: ArrayValue, order: list[int]) -> ArrayValue:
    if not order:
        return owner
    return _like(d, owner, d.graph_method("permute", owner.inner, [d.constant(tuple(order))], {}))


def _transposed(d: Symbolic, owner: ArrayValue, first: Any, second: Any) -> ArrayValue:
    order = list(range(owner.inner.fake.dim()))
    try:
        order[first], order[second] = order[second], order[first]
    except IndexError as error:
        raise unsupported("swapaxes with an axis that is not there") from error
    return _permuted(d, owner, order)


# reductions ---------------------------------------------------------------------------------------
def _fold(ufunc: Any) -> Callable[..., Any]:
    def run(
        d: Symbolic, a: Any, axis: Any = None, dtype: core.dtype | None = None, out: Any = None,
        keepdims: Any = None, initial: Any = None, where: Any = None,
    ) -> Any:  # fmt: skip
        given = Known(None) if axis is None else axis
        return reduce(d, ufunc, a, given, dtype, out, keepdims, initial, where)

    return run


def _fold_without_dtype(ufunc: Any) -> Callable[..., Any]:
    def run(
        d: Symbolic, a: Any, axis: Any = None, out: Any = None, keepdims: Any = None,
        initial: Any = None, where: Any = None,
    ) -> Any:  # fmt: skip
        given = Known(None) if axis is None else axis
        return reduce(d, ufunc, a, given, None, out, keepdims, initial, where)

    return run


for _name, _ufunc in {"sum": np.add, "prod": np.multiply}.items():
    METHODS[_name] = _fold(_ufunc)
for _name, _comparing in {
    "max": np.maximum, "min": np.minimum, "all": np.logical_and, "any": np.logical_or,
}.items():  # fmt: skip
    METHODS[_name] = _fold_without_dtype(_comparing)


def _moment(name: str) -> Callable[..., Any]:
    def run(
        d: Symbolic, a: Any, axis: Any = None, dtype: core.dtype | None = None, out: Any = None, ddof: Any = None,
        keepdims: Any = None, *, where: Any = None, mean: Any = None, correction: Any = None,
    ) -> Any:  # fmt: skip
        for value in (where, mean, correction):
            if value is not None and not is_left_out(d, value, True):
                raise unsupported(f"{name} with where=, mean= or correction=")
        tensor, asked = a.inner, dtype_of(d, dtype)
        result = getattr(np.ones(1, numpy_dtype(tensor)), name)(dtype=asked).dtype
        kept = keepdims is not None and not is_left_out(d, keepdims, False)
        words = {"keepdim": Known(bool(kept))}
        if name != "mean":
            words["correction"] = Known(0) if ddof is None else d.force(ddof)
        axes = axes_of(d, tensor, Known(None) if axis is None else axis)
        # NumPy adds up halves in single precision
        wide = np.dtype(np.float32) if result == np.float16 else result
        if wide.kind == "c" and name != "mean":
            raise unsupported(f"{name} of complex numbers")
        dims = [d.constant(tuple(axes))] if axes else []
        found = d.graph_method(name, cast(d, tensor, wide), dims, words if axes else {})
        if out is not None and not d.is_none(out):
            return write_out(d, cast(d, found, result), d.force(out))
        return array_value(d, cast(d, found, result), found.fake.dim() == 0)

    return run


for _name in ("var", "std"):
    METHODS[_name] = _moment(_name)


@method("mean")
def _mean(
    d: Symbolic, a: object, axis: Any = None, dtype: core.dtype | None = None, out: object = None, keepdims: Any = None,
    *, where: object = None,
) -> Any:  # fmt: skip
    return _moment("mean")(d, a, axis, dtype, out, None, keepdims, where=where)


def _position(name: str) -> Callable[..., Any]:
    def run(d: Symbolic, a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = None) -> Any:
        tensor = a.inner
        if tensor.fake.dtype.is_complex or (out is not None and not d.is_none(out)):
            raise unsupported(f"{name} of complex numbers, or with out=")
        if numpy_dtype(tensor).kind == "b":
            tensor = cast(d, tensor, np.dtype(np.uint8))
        kept = keepdims is not None and not is_left_out(d, keepdims, False)
        if axis is None or d.is_none(axis):
            if kept:
                raise unsupported(f"{name} with keepdims= of all axes")
            found = d.graph_method(name, tensor, [], {})
        else:
            (at,) = axes_of(d, tensor, axis)
            found = d.graph_method(name, tensor, [Known(at)], {"keepdim": Known(bool(kept))})
        return array_value(d, found, found.fake.dim() == 0)

    return run


for _name in ("argmax", "argmin"):
    METHODS[_name] = _position(_name)


def _run(ufunc: np.ufunc) -> Callable[..., Any]:
    def run(
        d: Symbolic, a: Any, axis: Any = None, dtype: core.dtype | None = None, out: Any = None
    ) -> Any:
        if axis is None or d.is_none(axis):
            a, axis = _ravel(d, a), Known(0)
        return accumulate(d, ufunc, a, axis, dtype, out)

    return run


METHODS["cumsum"], METHODS["cumprod"] = _run(np.add), _run(np.multiply)


# shapes -------------------------------------------------------------------------------------------
def _order(d: Symbolic, a: Any, order: object) -> None:
    """Only the order of rows, and any other that is it."""
    wanted = "C" if order is None else d.constant_of(order)
    if wanted != "C" and not (wanted in ("K", "A") and a.inner.fake.is_contiguous()):
        raise unsupported(f"an array in the order {wanted!r}")


def sizes(d: Symbolic, given: list[Any]) -> Any:
    """Sizes, as several arguments or as one."""
    if len(given) == 1:
        first = d.force(given[0])
        if isinstance(first, ArrayValue) and first.content is not None:
            first = d.lift(first.content.tolist())
        if isinstance(first, SequenceValue):
            return d.build_tuple([index(d, d.force(size)) for size in first.items])
    return d.build_tuple([index(d, d.force(size)) for size in given])


@method("reshape")
def _reshape(
    d: Symbolic, a: Any, *shape: object, order: object = None, copy: object = None, **more: object
) -> Any:
    if (
        copy is not None
        and not d.is_none(copy)
        or "shape" in more
        and shape
        or set(more) - {"shape"}
    ):
        raise unsupported("reshape with copy=")
    _order(d, a, order)
    wanted = sizes(d, [*shape, *more.values()])
    return array_value(d, d.graph_method("reshape", a.inner, [wanted], {}))


@method("ravel")
def _ravel(d: Symbolic, a: Any, order: object = None) -> Any:
    _order(d, a, order)
    return array_value(d, d.graph_method("reshape", a.inner, [d.constant((-1,))], {}))


@method("flatten")
def _flatten(d: Symbolic, a: object, order: object = None) -> Any:
    return _copy(d, _ravel(d, a, order))


@method("transpose")
def _transpose(d: Symbolic, a: Any, *axes: object) -> Any:
    if not axes or (len(axes) == 1 and d.is_none(axes[0])):
        return view(d, a, "T")
    order = d.constant_of(axes[0] if len(axes) == 1 else d.build_tuple(list(axes)))
    order = [order] if isinstance(order, int) else list(order)
    return _permuted(d, a, axes_of(d, a.inner, d.constant(tuple(order))))


@method("swapaxes")
def _swapaxes(d: Symbolic, a: Any, axis1: Any, axis2: Any) -> Any:
    return _transposed(d, a, d.constant_of(axis1), d.constant_of(axis2))


@method("squeeze")
def _squeeze(d: Symbolic, a: Any, axis: object = None) -> Any:
    shape = a.inner.fake.shape
    if axis is None or d.is_none(axis):
        axes = [n for n, size in enumerate(shape) if size == 1]
    else:
        axes = axes_of(d, a.inner, axis)
    if any(shape[n] != 1 for n in axes):
        raise unsupported("squeeze of an axis that is not of size 1")
    if not axes:
        return a
    return array_value(d, d.graph_method("squeeze", a.inner, [d.constant(tuple(axes))], {}))


@method("diagonal")
def _diagonal(
    d: Symbolic, a: Any, offset: object = None, axis1: object = None, axis2: object = None
) -> Any:
    places = [offset or Known(0), axis1 or Known(0), axis2 or Known(1)]
    return array_value(d, d.graph_method("diagonal", a.inner, places, {}))


@method("trace")
def _trace(
    d: Symbolic, a: object, offset: Any = None, axis1: Any = None, axis2: Any = None, dtype: core.dtype | None = None,
    out: object = None,
) -> Any:  # fmt: skip
    found = _diagonal(d, a, offset, axis1, axis2)
    return reduce(d, np.add, found, Known(-1), dtype, out)


# elements -----------------------------------------------------------------------------------------
@method("astype")
def _astype(
    d: Symbolic, a: Any, dtype: object, order: object = None, casting: object = None, subok: object = None,
    copy: object = None,
) -> Any:  # fmt: skip
    wanted, found = dtype_of(d, dtype) or np.dtype(np.float64), numpy_dtype(a.inner)
    rule: Any = "unsafe" if casting is None else d.constant_of(casting)
    if not np.can_cast(found, wanted, rule):
        raise unsupported(f"astype from {found} to {wanted}")
    if found.kind == "c" and wanted.kind not in "cb":
        raise unsupported("astype of complex numbers to real ones, which warns")
    if found == wanted and copy is not None and not d.truth(copy):
        return a
    words = {"copy": Known(True)}
    return _like(d, a, d.graph_method("to", a.inner, [Known(DTYPES[wanted])], words))


@method("copy", "__copy__", "__deepcopy__")
def _copy(d: Symbolic, a: Any, *order: object, **words: object) -> Any:
    return _like(d, a, d.graph_method("clone", a.inner, [], {}))


@method("conj", "conjugate")
def _conj(d: Symbolic, a: Any) -> Any:
    return d.array_ufunc("conjugate", [a], {}) if a.inner.fake.dtype.is_complex else a


@method("clip")
def _clip(d: Symbolic, a: Any, min: object = None, max: object = None, out: object = None) -> Any:
    words = {} if out is None or d.is_none(out) else {"out": out}
    kind = numpy_dtype(a.inner)
    limits = [None if part is None or d.is_none(part) else d.force(part) for part in (min, max)]
    if kind.kind in "iu":
        # a number of Python's beyond the dtype's range is no limit
        low, high = np.iinfo(kind).min, np.iinfo(kind).max
        for n, part in enumerate(limits):
            if isinstance(part, Known) and type(part.obj) is int:
                if (part.obj <= low) if n == 0 else (part.obj >= high):
                    limits[n] = None
    least, most = limits
    if least is None and most is None:
        return d.array_ufunc("positive", [a], words)
    if most is None:
        return d.array_ufunc("maximum", [a, least], words)
    if least is None:
        return d.array_ufunc("minimum", [a, most], words)
    inner = d.array_ufunc("maximum", [a, least], {})
    return d.array_ufunc("minimum", [inner, most], words)


@method("round")
def _round(d: Symbolic, a: Any, decimals: object = None, out: object = None) -> Any:
    count = 0 if decimals is None else int(d.constant_of(decimals))
    if count < 0 or numpy_dtype(a.inner).kind not in "iuf" or (out and not d.is_none(out)):
        raise unsupported("round to tens, of others than real numbers, or with out=")
    if numpy_dtype(a.inner).kind != "f":
        return _copy(d, a)
    if count == 0:
        return d.array_ufunc("rint", [a], {})
    # NumPy rounds the product with a power of ten
    power = Known(10.0**count)
    shifted = d.array_ufunc("rint", [d.array_ufunc("multiply", [a, power], {})], {})
    return d.array_ufunc("true_divide", [shifted, power], {})


@method("fill")
def _fill(d: Symbolic, a: Any, value: Value) -> Any:
    given = element(d, value, a.inner.fake.dtype)
    d.array_write(a)
    d.graph_method("fill_", a.inner, [given], {})
    return Known(None)


@method("dot")
def _dot(d: Symbolic, a: Any, b: object, out: object = None) -> Any:
    other = as_array(d, b)
    words = {} if out is None or d.is_none(out) else {"out": out}
    dims = (a.inner.fake.dim(), other.inner.fake.dim())
    if 0 in dims:
        return d.array_ufunc("multiply", [a, other], words)
    if dims[1] > 2:
        raise unsupported("dot with an array of more than two dimensions")
    return d.array_ufunc("matmul", [a, other], words)


def _sorted_along(d: Symbolic, axis: object, order: object) -> dict[str, Any]:
    """The arguments of the operators that sort."""
    if order is not None and not d.is_none(order):
        raise unsupported("sorting by fields")
    return {"dim": Known(-1) if axis is None else d.force(axis), "stable": Known(True)}


@method("sort")
def _sort(
    d: Symbolic,
    a: Any,
    axis: object = None,
    kind: object = None,
    order: object = None,
    *,
    stable: object = None,
) -> Any:
    words = _sorted_along(d, axis, order)
    d.array_write(a)
    values = d.graph_method("sort", a.inner, [], words)
    d.graph_method("copy_", a.inner, [d.force(values.items[0])], {})
    return Known(None)


@method("argsort")
def _argsort(
    d: Symbolic,
    a: Any,
    axis: Any = None,
    kind: object = None,
    order: object = None,
    *,
    stable: object = None,
) -> Any:
    if axis is not None and d.is_none(axis):
        a, axis = _ravel(d, a), Known(0)
    words = _sorted_along(d, axis, order)
    return array_value(d, d.graph_method("argsort", a.inner, [], words))


@method("repeat")
def _repeat(d: Symbolic, a: Any, repeats: object, axis: Any = None) -> Any:
    count = d.constant_of(repeats)
    if not isinstance(count, (int, np.integer)):
        raise unsupported("repeat with a count for each element")
    if axis is None or d.is_none(axis):
        a, axis = _ravel(d, a), Known(0)
    words = {"dim": d.force(axis)}
    return array_value(d, d.graph_method("repeat_interleave", a.inner, [Known(int(count))], words))


@method("take")
def _take(
    d: Any, a: Any, indices: object, axis: Any = None, out: object = None, mode: object = None
) -> Any:
    if (out is not None and not d.is_none(out)) or d.constant_of(mode or Known("raise")) != "raise":
        raise unsupported("take with out= or mode=")
    if axis is None or d.is_none(axis):
        a, axis = _ravel(d, a), Known(0)
    (at,) = axes_of(d, a.inner, axis)
    places = d.force(indices)
    places = as_array(d, places) if isinstance(places, SequenceValue) else places
    key = [d.constant(slice(None))] * at + [places]
    found = d.array_getitem(a, d.build_tuple(key))
    return found if found.scalar else _copy(d, found)


@method("searchsorted")
def _searchsorted(
    d: Symbolic, a: Any, v: object, side: object = None, sorter: object = None
) -> Any:
    if sorter is not None and not d.is_none(sorter):
        raise unsupported("searchsorted with sorter=")
    value = as_array(d, v)
    dtype = np.result_type(numpy_dtype(a.inner), numpy_dtype(value.inner))
    given = [cast(d, a.inner, dtype), cast(d, value.inner, dtype)]
    words = {"right": Known(d.constant_of(side or Known("left")) == "right")}
    found = d.graph_call(operator_named("searchsorted"), given, words)
    return array_value(d, found, found.fake.dim() == 0)


@method("nonzero")
def _nonzero(d: Symbolic, a: object) -> Any:
    raise Break("data-dependent-shape", "numpy.nonzero")


@method("tolist")
def _tolist(d: Symbolic, a: Any) -> Any:
    if a.inner.fake.dtype.is_complex:
        raise Break("data-dependent-value", "elements of an array")
    return d.read_all(a.inner)


@method("item", "__int__", "__float__", "__bool__", "__index__", "__complex__")
def _elements(d: Symbolic, a: object, *args: object) -> Any:
    raise Break("data-dependent-value", "an element of an array")


def zeros(d: Symbolic, shape: Any, value: Any, dtype: np.dtype) -> ArrayValue:
    """A new array of one value."""
    return array_value(d, full(d, sizes(d, [shape]), value, dtype))
