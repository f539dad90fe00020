"""Dtypes, elements and indices of NumPy's in terms of tensors.

Takes: symbolic values as NumPy's functions get them. Gives: tensors, with the dtype that NumPy finds
for them.
Keeps true: numbers of Python are weak and numbers of NumPy are not, as NumPy has it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from facula import core
from facula.capture.breaks import Break
from facula.capture.guards.reading import is_numpy_scalar
from facula.capture.values.kinds import (
    ArrayValue,
    Known,
    NumberValue,
    SequenceValue,
    TensorValue,
)
from facula.ops.table.registry import PLACES

if TYPE_CHECKING:
    from facula.capture.interpreter.symbolic import Symbolic
    from facula.capture.values.kinds import Value


#: dtypes of tensors that operators take, and what NumPy calls them
NUMPY: dict[Any, np.dtype] = {
    dtype: np.dtype(dtype.numpy_name)
    for dtype in vars(core).values()
    if isinstance(dtype, core.dtype)
    and dtype.numpy_name is not None
    and dtype not in (core.uint16, core.uint32, core.uint64)
}
DTYPES = {np.dtype(found): dtype for dtype, found in NUMPY.items()}
_NUMBERS = (bool, int, float, complex)


def dtype_of(d: Symbolic, value: object) -> np.dtype | None:
    """A `dtype` argument; None where it is left out."""
    given = d.constant_of(value) if value is not None else None
    if given is None or given is np._NoValue:
        return None
    if isinstance(given, core.dtype):
        raise Break("unsupported-value", "a dtype of tensors for an array")
    found = np.dtype(given)
    if found not in DTYPES:
        raise Break("unsupported-value", f"arrays of {found}")
    return found


def numpy_dtype(tensor: TensorValue) -> np.dtype:
    """The dtype of a tensor as NumPy calls it."""
    return NUMPY[tensor.fake.dtype]


def array_value(d: Symbolic, tensor: TensorValue, scalar: bool = False) -> ArrayValue:
    """An array, or a number, that was made in the segment."""
    if tensor.fake.dtype not in NUMPY:
        raise Break("unsupported-value", f"an array of {tensor.fake.dtype}")
    kind = numpy_dtype(tensor).type if scalar else np.ndarray
    d.uses_arrays = True
    made: ArrayValue = d.made(ArrayValue(tensor, kind, scalar))
    return made


def cast(d: Symbolic, tensor: TensorValue, dtype: Any) -> TensorValue:
    """A tensor in a dtype, itself where it has it."""
    wanted = DTYPES[dtype] if isinstance(dtype, np.dtype) else dtype
    if tensor.fake.dtype == wanted:
        return tensor
    found: TensorValue = d.graph_method("to", tensor, [Known(wanted)], {})
    return found


def strong_dtype(value: object) -> np.dtype | None:
    """The dtype of a known number that is not weak: of NumPy's, or a bool; None for others."""
    if isinstance(value, Known) and (is_numpy_scalar(type(value.obj)) or type(value.obj) is bool):
        return np.asarray(value.obj).dtype
    return None


def embedded(d: Symbolic, array: np.ndarray) -> ArrayValue:
    """A known array, new in each call."""
    if array.dtype not in DTYPES:
        raise Break("unsupported-value", f"an array of {array.dtype}")
    content = np.array(array, order="C")

    def tensor() -> TensorValue:
        held = d.trusted(core.from_numpy(content.copy()))
        found: TensorValue = d.graph_method("clone", held, [], {})
        return found

    made: ArrayValue = d.made(ArrayValue(tensor, np.ndarray, False))
    made.content = content
    content.setflags(write=False)
    d.known_arrays.append(made)
    return made


class _Open(Exception):  # noqa: N818 - it is no error
    """An argument that is not known while the program is captured."""


def folded(d: Symbolic, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """What NumPy gives for known arrays; NotImplemented where not everything is known."""
    arrays: list[ArrayValue] = []
    try:
        plain = [_known(d, arg, arrays) for arg in args]
        words = {name: _known(d, value, arrays) for name, value in kwargs.items()}
        if not arrays:
            return NotImplemented
        result = function(*plain, **words)
    except Exception:  # noqa: BLE001 - it is raised, or is a break, where the call is translated
        return NotImplemented
    return _unfolded(d, result, arrays, lambda array: function(array, *plain[1:], **words))


def _known(d: Symbolic, value: object, arrays: list[ArrayValue]) -> Any:
    value = d.force(value)
    if isinstance(value, ArrayValue) and value.content is not None:
        arrays.append(value)
        return value.content
    if isinstance(value, SequenceValue) and value.kind in (list, tuple):
        return value.kind([_known(d, item, arrays) for item in value.items])
    if isinstance(value, (ArrayValue, TensorValue, NumberValue)):
        raise _Open
    found = d.constant_or_none(value)
    if found is None:
        if getattr(value, "real", None) is np._NoValue:
            return np._NoValue
        raise _Open
    return found[0]


def _unfolded(d: Symbolic, result: object, arrays: list[ArrayValue], again: Any) -> Any:
    if isinstance(result, (list, tuple)):
        return d.made(SequenceValue(type(result), [_unfolded(d, r, arrays, again) for r in result]))
    if not isinstance(result, np.ndarray):
        return d.lift(result)
    if result.dtype not in DTYPES:
        return NotImplemented
    found = next((a for a in arrays if result is a.content), None)
    if found is not None:
        return found
    made = embedded(d, result)
    if any(np.may_share_memory(result, array.content) for array in arrays):
        return d.array_view(made, again, arrays[0], ())
    return made


def as_array(d: Symbolic, value: Any, dtype: np.dtype | None = None) -> ArrayValue:
    """`numpy.asarray(value, dtype)`."""
    value = d.force(value)
    if isinstance(value, TensorValue):
        value = d.array_of(value)
    if isinstance(value, ArrayValue):
        tensor = cast(d, value.inner, dtype) if dtype is not None else value.inner
        if tensor is value.inner and not value.scalar:
            return value
        return array_value(d, tensor)
    if isinstance(value, NumberValue):
        found = dtype or np.dtype(type(value.hint))
        return array_value(d, full(d, [], value, found))
    if isinstance(value, SequenceValue) and value.kind in (list, tuple):
        return _sequence_array(d, value, dtype)
    known = d.constant_or_none(value)
    if known is not None and isinstance(known[0], (*_NUMBERS, np.generic, range)):
        return embedded(d, np.asarray(known[0], dtype))
    raise Break("unsupported-call", f"an array of a {value.cls.__name__}")


def _sequence_array(d: Symbolic, value: SequenceValue, dtype: np.dtype | None) -> ArrayValue:
    if not _has_parts(d, value):
        try:
            made = np.asarray(d.constant_of(value), dtype)
        except (TypeError, ValueError, OverflowError) as error:
            d.raise_host(error)
        return embedded(d, made)
    items = [as_array(d, item).inner for item in value.items]
    found = dtype or np.result_type(*[numpy_dtype(item) for item in items])
    same = [cast(d, item, found) for item in items]
    return array_value(d, d.graph_call(operator_named("stack"), [d.build_tuple(same)]))


def _has_parts(d: Symbolic, value: object) -> bool:
    """Whether a sequence has arrays, tensors or open numbers somewhere inside."""
    value = d.force(value)
    if isinstance(value, SequenceValue):
        return any(_has_parts(d, item) for item in value.items)
    return isinstance(value, (ArrayValue, TensorValue, NumberValue))


def full(d: Symbolic, shape: Any, value: Value, dtype: np.dtype) -> TensorValue:
    """A tensor of one value."""
    sizes = shape if not isinstance(shape, list) else d.build_tuple(shape)
    words = {"dtype": Known(DTYPES[dtype]), "device": Known("cpu")}
    found: TensorValue = d.graph_call(operator_named("full"), [sizes, value], words)
    return found


def operator_named(name: str, place: str = "") -> Any:
    """A public operator by its name; None where there is none."""
    return core.operator_of(PLACES[place].get(name))


def number(d: Symbolic, value: Any, dtype: np.dtype) -> Any:
    """A number in a dtype, as Python has it."""
    if isinstance(value, NumberValue):
        if dtype.kind in "biu" and type(value.hint) is not int:
            return number(d, d.specialise(value), dtype)
        return value
    try:
        made = np.array(value.obj, dtype if isinstance(value.obj, int) else None)
        return Known(made.astype(dtype).item())
    except (OverflowError, TypeError, ValueError) as error:
        raise Break("unsupported-value", str(error)) from error  # NumPy raises it, or has an answer


def element(d: Symbolic, value: object, dtype: Any) -> Any:
    """What is written into an array: a tensor or a number of its dtype."""
    value = d.force(value)
    found = NUMPY[dtype]
    if isinstance(value, Known) and isinstance(value.obj, (*_NUMBERS, np.generic)):
        if isinstance(value.obj, (complex, np.complexfloating)) and found.kind != "c":
            raise Break("unsupported-mutation", "complex numbers into an array of real ones")
        return number(d, value, found)
    if isinstance(value, NumberValue):
        return number(d, value, found)
    tensor = as_array(d, value).inner
    if tensor.fake.dtype.is_complex and found.kind != "c":
        raise Break("unsupported-mutation", "complex numbers into an array of real ones")
    return cast(d, tensor, found)
