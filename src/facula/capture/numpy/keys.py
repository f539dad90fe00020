"""Keys of NumPy's arrays as tensors take them.

Takes: a symbolic array and a key. Gives: a key of its tensor, and what is left to do to the item.
Keeps true: a key that tensors read in another way is a break.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from facula.capture.breaks import Break
from facula.capture.numpy.dtypes import DTYPES, as_array, cast, numpy_dtype, operator_named
from facula.capture.values.kinds import (
    ArrayValue,
    Known,
    NumberValue,
    SequenceValue,
    SliceValue,
    TensorValue,
)

if TYPE_CHECKING:
    from facula.capture.interpreter.symbolic import Symbolic


class Key(NamedTuple):
    """The parts for a tensor; dimensions of the item to reverse, and one to take away, which a number
    in the graph left; whether the item is an array whatever its rank; whether NumPy's is a view."""

    parts: list[Any]
    reversed: list[int]
    single: int | None
    whole: bool
    is_view: bool


def key_of(d: Symbolic, owner: ArrayValue, key: Any) -> Key:
    """`key` as the tensor of `owner` takes it."""
    key = d.force(key)
    given = [d.force(part) for part in d.unpack_all(key)] if key.cls is tuple else [key]
    parts: list[Any] = []
    back: list[int] = []
    open_numbers: list[int] = []
    at = 0
    for part in given:
        step = _negative_step(d, part)
        if step is not None:
            _refuse_beside(given)
            back.append(sum(not _is_number(p) for p in parts))
            parts.append(Known(_forwards(d, owner, at, step)))
        elif _is_open_number(part):
            open_numbers.append(len(parts))
            parts.append(d.graph_method("reshape", index(d, part), [d.constant((1,))], {}))
        else:
            parts.append(index(d, part))
        at += 0 if isinstance(part, Known) and part.obj is None else 1
    whole = any(isinstance(part, Known) and part.obj is ... for part in given)
    advanced = sum(isinstance(part, TensorValue) for part in parts)
    is_view = advanced == len(open_numbers)
    if not is_view:
        # beside arrays of indices NumPy takes numbers for such arrays
        parts = [_index_of_number(d, part) if _is_number(part) else part for part in parts]
        return Key(parts, back, None, whole, False)
    single = _single(parts, open_numbers) if open_numbers else None
    return Key(parts, back, single, whole, True)


def _index_of_number(d: Symbolic, part: object) -> TensorValue:
    words = {"dtype": Known(DTYPES[np.dtype(np.int64)]), "device": Known("cpu")}
    sizes = d.constant((1,))
    found: TensorValue = d.graph_call(operator_named("full"), [sizes, part], words)
    return found


def _single(parts: list[Any], open_numbers: list[int]) -> int:
    """The dimension that numbers of the graph leave, which are arrays of one index."""
    numbers = [n for n, part in enumerate(parts) if n in open_numbers or _is_number(part)]
    plain = all(
        n in numbers or (isinstance(p, SliceValue) or type(getattr(p, "obj", None)) is slice)
        for n, p in enumerate(parts)
    )
    if not plain or numbers != list(range(numbers[0], numbers[0] + len(numbers))):
        raise Break("unsupported-call", "an index out of an array beside such others")
    return numbers[0]


def _is_open_number(part: object) -> bool:
    """Whether a part is a number that the graph computes."""
    if not isinstance(part, ArrayValue) or part.inner.fake.dim():
        return False
    return numpy_dtype(part.inner).kind in "iu"


def _is_number(part: object) -> bool:
    """Whether a part of a key takes a dimension away."""
    return isinstance(part, NumberValue) or (isinstance(part, Known) and type(part.obj) is int)


def _negative_step(d: Symbolic, part: Any) -> slice | None:
    """A slice that goes backwards; None for everything else."""
    if not isinstance(part, (SliceValue, Known)):
        return None
    if isinstance(part, SliceValue) and d.is_none(part.parts[2]):
        return None
    known = d.constant_or_none(part)
    if known is None or type(known[0]) is not slice or (known[0].step or 1) > 0:
        return None
    found: slice = known[0]
    return found


def _refuse_beside(parts: list[Any]) -> None:
    if any(isinstance(p, (ArrayValue, SequenceValue)) for p in parts):
        raise Break("unsupported-call", "a reversed slice beside an array of indices")
    if any(p.obj is ... for p in parts if isinstance(p, Known)):
        raise Break("unsupported-call", "a reversed slice beside `...`")


def _forwards(d: Symbolic, owner: ArrayValue, at: int, backwards: slice) -> slice:
    """The slice with the same items from the first to the last."""
    if backwards == slice(None, None, -1):
        return slice(None)
    size = d.constant_of(d.size_of(owner.inner, at))
    start, stop, step = backwards.indices(size)
    count = len(range(start, stop, step))
    if not count:
        return slice(0, 0)
    return slice(start + (count - 1) * step, start + 1, -step)


def index(d: Symbolic, part: Any) -> Any:
    """A part of a key, as tensors take it."""
    if isinstance(part, (NumberValue, SliceValue)):
        return part
    if isinstance(part, ArrayValue):
        return _index_tensor(d, part)
    if isinstance(part, Known):
        if isinstance(part.obj, (np.integer, int)) and not isinstance(part.obj, bool):
            return Known(int(part.obj))
        if part.obj is None or part.obj is ... or isinstance(part.obj, slice):
            return part
    if isinstance(part, SequenceValue) and part.kind is list:
        return _index_tensor(d, as_array(d, part))
    raise Break("unsupported-call", f"an index that is a {part.cls.__name__}")


def _index_tensor(d: Symbolic, array: ArrayValue) -> TensorValue:
    kind = numpy_dtype(array.inner).kind
    if kind not in "biu" or array.inner.fake.dim() == 0 and kind == "b":
        raise Break("unsupported-call", f"an array of {numpy_dtype(array.inner)} as an index")
    return array.inner if kind == "b" else cast(d, array.inner, np.dtype(np.int64))
