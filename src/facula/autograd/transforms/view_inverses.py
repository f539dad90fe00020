"""Writing through a view: from the elements of a view to the tensor that it was taken of.

Takes: a view as the operator that made it, the tensor that it is of, and new elements for the view.
Gives: the tensor with these elements in the place of the view, by operators that write nothing.
Keeps true: nothing is listed that the table knows: a view of all elements is undone by its gradient
formula, one of some elements by its `_scatter` form; what has neither goes by positions in memory.
"""

from __future__ import annotations

import math
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.table.registry import TABLE, F
from facula.ops.view.create import strides_of

Tensor = core.Tensor


class ViewStep:
    """One view: the operator, its arguments after the tensor, and which of several results."""

    __slots__ = ("args", "meta", "op", "pick")

    def __init__(self, op: Any, args: tuple[Any, ...], pick: int | None, meta: Any) -> None:
        self.op = op
        self.args = args
        self.pick = pick
        #: shape, strides and dtype of the tensor that the view is of
        self.meta = meta

    @property
    def detaches(self) -> bool:
        """Whether the view has no history."""
        return self.op is DETACH

    @property
    def repeats(self) -> bool:
        """Whether the view may show an element twice."""
        return self.op in _BY_PLACE

    def places(self, x: Tensor) -> Tensor:
        """Where in the memory of `x` the elements of the view are."""
        if self.op is F.as_strided:
            return _strided_places(x, self)
        own = _places(extent(self.meta.shape, self.meta.strides, 0), self.meta, x.device)
        return self.apply(own)

    def apply(self, x: Tensor) -> Tensor:
        """The view of a tensor that stands for the one it was taken of."""
        if self.op is DETACH:
            return x.detach()
        if self.op is F.as_strided:
            return _read_memory(x, self)
        positional, keywords = self.op.definition.trim((x, *self.args))
        result = self.op(*positional, **keywords)
        return result if self.pick is None else result[self.pick]

    def put_back(self, x: Tensor, part: Tensor) -> Tensor:
        """`x` with `part` in the place of the view."""
        if self.op is DETACH:
            return part
        if part.dtype != x.dtype:
            return _other_dtype(x, part, self)
        if self.repeats:
            return _write_places(x, part, self, self.places(x))
        if self.op.name in _PIECES:
            return _PIECES[self.op.name](x, part, self)
        scatter: Any = TABLE.get(f"{self.op.name}_scatter")
        if scatter is not None:
            return scatter(x, part, *self.args)
        return _undo(x, part, self)


#: what stands for the operator in the step of `detach`
DETACH = Tensor.detach
#: the views that may show an element twice, or whose arguments speak of memory
_BY_PLACE = (F.as_strided, F.unfold, F.expand)


def put_back(steps: list[ViewStep], parents: list[Tensor], value: Tensor) -> Tensor:
    """The whole tensor after its view of a view .. got the elements `value`; innermost step first.

    Where a view shows elements twice, only those are written that the views of it show.
    """
    repeating = [n for n, step in enumerate(steps) if step.repeats]
    start = 0
    if repeating:
        start = repeating[-1]
        step, x = steps[start], parents[start]
        places = step.places(x)
        for inner in reversed(steps[:start]):
            places = inner.apply(places)
        value = _write_places(x, value, step, places)
        start += 1
    for step, x in zip(steps[start:], parents[start:], strict=True):
        value = step.put_back(x, value)
    return value


def _undo(x: Tensor, part: Tensor, step: ViewStep) -> Tensor:
    """The argument of a view of all elements: the adjoint of a permutation is its inverse."""
    if part.numel() != math.prod(x.shape):
        fail(
            RuntimeError,
            step.op.name,
            "memory with one element a place was required: unsupported operation: more than one "
            "element of the written-to tensor refers to a single memory location",
            hint="clone() the expanded tensor before writing to it",
        )
    body = step.op.definition.backward
    names = body.__code__.co_varnames[: body.__code__.co_argcount]
    parameters = [p.name for p in step.op.definition.schema.parameters]
    given = dict(zip(parameters[1:], step.args, strict=True))
    given |= {"grad": part, "self_shape": x.shape, "self_meta": x}
    return body(**{name: given[name] for name in names}).reshape(x.shape)


def _unbound(x: Tensor, part: Tensor, step: ViewStep) -> Tensor:
    return F.select_scatter(x, part, step.args[0], step.pick)


def _split(x: Tensor, part: Tensor, step: ViewStep) -> Tensor:
    sizes, dim = step.args
    start = sum(sizes[: step.pick])
    return F.slice_scatter(x, part, dim, start, start + sizes[step.pick])


_PIECES = {"unbind": _unbound, "split_with_sizes": _split}


def _other_dtype(x: Tensor, part: Tensor, step: ViewStep) -> Tensor:
    """Views of complex numbers as real ones and the reverse, and of bytes as another dtype."""
    name = step.op.name
    if name in ("real", "imag"):
        pairs = F.view_as_real(x)
        return F.view_as_complex(F.select_scatter(pairs, part, -1, int(name == "imag")))
    if name == "view_as_real":
        return F.view_as_complex(part.contiguous())
    if name == "view_as_complex":
        return F.view_as_real(part)
    return F.view_as_dtype(part.contiguous(), x.dtype).reshape(x.shape)


# ------------------------------------------------------------------ by positions in memory


def extent(shape: Any, stride: tuple[Any, ...], offset: int) -> int:
    """How many elements of a memory lie in front of the end of a view of it."""
    if 0 in tuple(shape):
        return 0
    return offset + 1 + sum((n - 1) * s for n, s in zip(shape, stride, strict=True))


def _in_order(meta: Any) -> bool:
    """Whether a tensor lies in memory in the order of its elements."""
    return list(meta.strides) == strides_of(meta.shape, range(len(meta.shape)))


def _places(length: int, meta: Any, device: core.device | str | int | None) -> Tensor:
    """The place of each element of a tensor in its memory of `length` elements."""
    numbers = F.arange(length, device=device)
    if _in_order(meta):
        return numbers.reshape(meta.shape)
    return numbers.as_strided(meta.shape, meta.strides, 0)


def _memory_of(x: Tensor, meta: Any, length: int) -> Tensor:
    """The elements in the order of the memory that `x` stands for, gaps as zeros."""
    flat = x.reshape(-1)
    if _in_order(meta):
        return flat
    whole = F.zeros((length,), dtype=x.dtype, device=x.device)
    return F.index_copy(whole, 0, _places(length, meta, x.device).reshape(-1), flat)


def _inside(step: ViewStep) -> tuple[Any, Any, int, int]:
    """Size, stride, offset from the first element, and the extent of the tensor viewed."""
    size, stride, offset = step.args
    offset = 0 if offset is None else offset - step.meta.storage_offset
    own = extent(step.meta.shape, step.meta.strides, 0)
    if offset < 0 or extent(size, stride, offset) > own:
        fail(
            NotImplementedError,
            "as_strided",
            "a view inside of the tensor that it is taken of was required here",
            f"sizes {tuple(size)}, strides {tuple(stride)}, {offset} elements behind its first",
            hint="take the view of the tensor that owns the memory",
        )
    return size, stride, offset, own


def reaches_beyond(
    meta: core.TensorMeta, size: tuple[Any, ...], stride: tuple[Any, ...], offset: int
) -> bool:
    """Whether a view of a tensor's memory shows elements between or beyond those of the tensor.

    meta: shape, strides and offset of the tensor; the rest: those of the view.
    """
    if 0 in tuple(size):
        return False
    own = [(n, s) for n, s in zip(meta.shape, meta.strides, strict=True) if s != 0]
    reach = extent([n for n, _ in own], tuple(s for _, s in own), 0)
    first = offset - meta.storage_offset
    if first < 0 or extent(size, stride, first) > reach:
        return True
    if math.prod(n for n, _ in own) == reach:
        return False
    shown = _positions(list(zip(size, stride, strict=True)), first)
    return not shown <= _positions(own, 0)


def _positions(dimensions: list[tuple[Any, Any]], first: int) -> set[int]:
    """The places in memory of all elements."""
    found = {int(first)}
    for n, step in dimensions:
        found = {place + i * int(step) for place in found for i in range(int(n))}
    return found


def _strided_places(x: Tensor, step: ViewStep) -> Tensor:
    size, stride, offset, own = _inside(step)
    return F.arange(own, device=x.device).as_strided(size, stride, offset)


def _read_memory(x: Tensor, step: ViewStep) -> Tensor:
    if tuple(x.stride()) == tuple(step.meta.strides):
        size, stride, offset = step.args
        inner = 0 if offset is None else offset - step.meta.storage_offset
        return x.as_strided(size, stride, x.storage_offset() + inner)
    size, stride, offset, own = _inside(step)
    places = _strided_places(x, step).reshape(-1)
    return F.index_select(_memory_of(x, step.meta, own), 0, places).reshape(size)


def _write_places(x: Tensor, part: Tensor, step: ViewStep, places: Tensor) -> Tensor:
    own = extent(step.meta.shape, step.meta.strides, 0)
    memory = _memory_of(x, step.meta, own)
    memory = F.index_copy(memory, 0, places.reshape(-1), part.reshape(-1))
    if _in_order(step.meta):
        return memory.reshape(x.shape)
    back = _places(own, step.meta, x.device).reshape(-1)
    return F.index_select(memory, 0, back).reshape(x.shape)
