"""Reductions and changes of shape of nested tensors, by dimension of the batch.

Takes: nested tensors, and dimensions that count the batch. Gives: entries of `RULES`.
Keeps true: what is reduced along the ragged dimension is dense for layout jagged and nested for strided; the
batch is reduced
only together with the ragged dimension.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import facula
from facula import core
from facula.core.errors import fail
from facula.ops.table.registry import TABLE

from .tensor import RULES, NestedTensor, packed


def dimension(x: NestedTensor, dim: int, name: str) -> int:
    """A dimension counted from the front."""
    count = x.dim()
    if not -count <= dim < count:
        fail(
            IndexError,
            name,
            f"a dimension in [{-count}, {count - 1}] was required (Dimension out of range)",
            dim,
            hint="the batch is dimension 0",
        )
    return dim % count


def _taken(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any, dict[str, Any]]:
    """The dimensions, whether they stay as ones, and the other keywords."""
    words = dict(kwargs)
    given = list(args)
    dim = given.pop(0) if given else words.pop("dim", None)
    keepdim = given.pop(0) if given else words.pop("keepdim", False)
    return dim, keepdim, words


def reduction(name: str) -> Callable[..., Any]:
    """The rule of a reduction."""
    function = getattr(facula, name)

    def rule(input: NestedTensor, *args: object, **kwargs: object) -> Any:
        dim, keepdim, words = _taken(args, kwargs)
        if dim is None or dim == [] or dim == ():
            return function(input._values, **words)
        dims = [dimension(input, d, name) for d in ([dim] if isinstance(dim, int) else dim)]
        if 0 in dims:
            return _with_batch(name, function, input, dims, keepdim, words)
        if len(dims) > 1 and input._ragged_idx in dims and input._form is core.jagged:
            fail(
                RuntimeError,
                name,
                "the ragged dimension alone was required (reducing along a ragged and non-batch dimension is "
                "not supported "
                "for NestedTensor)",
                dim,
                hint="reduce along one after the other",
            )
        inner: Any = [d - 1 for d in dims] if not isinstance(dim, int) else dims[0] - 1
        rows = [function(row, inner, keepdim, **words) for row in input._rows()]
        return _gathered(input, rows, dims, keepdim)

    return rule


def _gathered(input: NestedTensor, rows: Sequence[Any], dims: Sequence[int], keepdim: bool) -> Any:
    if rows and isinstance(rows[0], tuple):
        parts = [_gathered(input, each, dims, keepdim) for each in zip(*rows, strict=True)]
        return type(rows[0])(parts) if hasattr(rows[0], "_fields") else tuple(parts)
    if input._form is core.jagged and input._ragged_idx in dims:
        return facula.stack(list(rows))
    before = 0 if keepdim else sum(d < input._ragged_idx for d in dims)
    return packed(rows, input._form, input._ragged_idx - before)


def _with_batch(
    name: str,
    function: Any,
    input: NestedTensor,
    dims: list[int],
    keepdim: bool,
    words: dict[Any, Any],
) -> Any:
    if input._ragged_idx not in dims or not input._is_packed:
        fail(
            RuntimeError,
            name,
            f"the ragged dimension {input._ragged_idx} with the batch was required ({name}(): not supported when "
            "reducing across the batch dimension for NestedTensor; reducing along the batch dimension but not "
            "the ragged "
            "dimension is not supported)",
            dims,
            hint="reduce along both, or take entries one by one: x.unbind()",
        )
    inner = sorted(d - 1 for d in dims if d)
    found = function(input._values, inner, keepdim, **words)
    return found.unsqueeze(0) if keepdim else found


def along(name: str) -> Callable[..., Any]:
    """The rule of a function along one dimension that keeps shapes."""
    function = getattr(facula, name, None) or getattr(facula.nn.functional, name)

    def rule(input: NestedTensor, dim: Any = -1, *args: object, **kwargs: object) -> Any:
        if isinstance(dim, (tuple, list)):
            (dim,) = dim
        if not input._shapes:
            return input
        at = dimension(input, dim, name)
        if at == 0:
            fail(
                RuntimeError,
                name,
                f"a dimension of the entries was required ({name}(): not supported when reducing across the batch "
                "dimension for NestedTensor; Cannot apply softmax across nested dimension 0)",
                dim,
                hint="dim=1 goes along each entry",
            )
        if "_stacklevel" in kwargs:
            del kwargs["_stacklevel"]
        rows = [function(row, at - 1, *args, **kwargs) for row in input._rows()]
        if rows and isinstance(rows[0], tuple):
            parts = [
                packed(each, input._form, input._ragged_idx) for each in zip(*rows, strict=True)
            ]
            return type(rows[0])(parts) if hasattr(rows[0], "_fields") else tuple(parts)
        return packed(rows, input._form, input._ragged_idx)

    return rule


def by_definition(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """An operator that goes along dimensions, as its definition says; NotImplemented for others."""
    operator = TABLE.get(name)
    if operator is None or not args or not isinstance(args[0], NestedTensor):
        return NotImplemented
    names = {p.name for p in operator.definition.schema.parameters}
    others = [x for x in (*args[1:], *kwargs.values()) if isinstance(x, core.Tensor)]
    if others or "dim" not in names:
        return NotImplemented
    return (reduction if "keepdim" in names else along)(name)(*args, **kwargs)


RULES["by definition"] = by_definition


def lies_behind(x: NestedTensor, *dims: int) -> bool:
    """Whether dimensions stand behind a ragged one that is the first of the entries: rows lie there as they are."""
    in_front = x._form is core.jagged and x._ragged_idx == 1 and bool(x._shapes)
    return in_front and x._is_packed and min(dims, default=2) > 1


def of_rows(x: NestedTensor, values: core.Tensor) -> NestedTensor:
    """The entries on rows that were changed behind the ragged dimension: on the same memory, where these are."""
    return x._with(values, [(s[0], *values.shape[1:]) for s in x._shapes])


def _unsqueeze(x: NestedTensor, dim: int) -> Any:
    at = dim + x.dim() + 1 if dim < 0 else dim
    if at == 0:
        fail(
            RuntimeError,
            "unsqueeze",
            "a dimension behind the batch was required (unsqueeze(): not supported for NestedTensor on dim=0)",
            dim,
            hint="the batch stays in front",
        )
    if lies_behind(x, at):
        return of_rows(x, x._values.unsqueeze(at - 1))
    ragged = x._ragged_idx + (at <= x._ragged_idx)
    return packed([row.unsqueeze(at - 1) for row in x._rows()], x._form, ragged)


def _squeeze(x: NestedTensor, dim: int | None = None) -> Any:
    if dim is None:
        fail(
            RuntimeError,
            "squeeze",
            "a dimension was required (squeeze(): For nested tensors, squeeze without the dim argument is not "
            "supported)",
            "none",
            hint="name the dimension",
        )
    dims = [dimension(x, d, "squeeze") for d in ([dim] if isinstance(dim, int) else dim)]
    if 0 in dims:
        fail(
            RuntimeError,
            "squeeze",
            "a dimension behind the batch was required (squeeze(): not supported for NestedTensor on dim=0)",
            dim,
            hint="the batch stays in front",
        )
    if x._form is core.jagged and x._ragged_idx in dims:
        fail(
            RuntimeError,
            "squeeze",
            "a regular dimension was required (squeeze(): not supported for NestedTensor on ragged dim)",
            dim,
            hint="entries have other sizes there: x.unbind() gives them",
        )
    if lies_behind(x, *dims):
        return of_rows(x, x._values.squeeze(tuple(d - 1 for d in dims)))
    gone = [d for d in dims if all(s[d - 1] == 1 for s in x._shapes)]
    rows = [row.squeeze(tuple(d - 1 for d in gone)) if gone else row for row in x._rows()]
    return packed(rows, x._form, x._ragged_idx - sum(d < x._ragged_idx for d in gone))


def _select(x: NestedTensor, dim: int, index: int) -> Any:
    at = dimension(x, dim, "select")
    if at == 0:
        return x._rows()[index]
    if lies_behind(x, at):
        return of_rows(x, x._values.select(at - 1, index))
    rows = [row.select(at - 1, index) for row in x._rows()]
    if x._form is core.jagged and at == x._ragged_idx:
        return facula.stack(rows)
    return packed(rows, x._form, max(1, x._ragged_idx - (at < x._ragged_idx)))


def _getitem(x: NestedTensor, index: object) -> Any:
    if index is Ellipsis:
        return x
    first, *rest = index if isinstance(index, tuple) else (index,)
    if first is Ellipsis:
        return _last_dimensions(x, rest)
    if type(first) is slice and x._form is core.jagged:
        fail(
            RuntimeError,
            "getitem",
            "the number of an entry, or `...`, was required first (slice(): not supported for NestedTensor on dim=0)",
            index,
            hint="x[0] is the first entry; x[..., 1:] goes through all; x.chunk(n) cuts the batch",
        )
    if type(first) is not int:
        fail(
            NotImplementedError,
            "getitem",
            "the number of an entry was required first",
            index,
            hint="x[0] is the first entry; x[0, 1:, ...] a part of it; x.select(dim, i) goes through all",
        )
    row = x._rows()[first]
    return row[tuple(rest)] if rest else row


def _last_dimensions(x: NestedTensor, index: list[Any]) -> Any:
    """`x[..., i, 1:3, None]`: the last dimensions indexed."""
    taken = sum(part is not None for part in index)
    if x.dim() - taken <= x._ragged_idx or any(part is Ellipsis for part in index):
        fail(
            RuntimeError,
            "getitem",
            "an index of dimensions behind the ragged one was required (slice(): not supported for NestedTensor "
            "on ragged dim)",
            (Ellipsis, *index),
            hint="x[0, 1:] is a part of one entry",
        )
    at = (Ellipsis, *index)
    if lies_behind(x):
        return of_rows(x, x._values[at])
    return packed([row[at] for row in x._rows()], x._form, x._ragged_idx)


def _copy(x: Any, source: Any, non_blocking: bool = False) -> Any:
    if not isinstance(source, NestedTensor) or x._shapes != source._shapes:
        fail(
            RuntimeError,
            "copy_",
            "a nested tensor of the same sizes and offsets was required: expected compatible input and src "
            "shapes, but got others",
            getattr(source, "_shapes", type(source).__name__),
            hint="make both from lists of equal shapes",
        )
    x._values.copy_(source._values, non_blocking)
    return x


def _joined(tensors: list[Any], dim: int, name: str, join: Callable[..., Any]) -> Any:
    """`cat` and `stack` of entries."""
    first = next(t for t in tensors if isinstance(t, NestedTensor))
    extra = name == "stack"
    count = first.dim() + extra
    at = dim % count
    if at == 0:
        fail(
            RuntimeError,
            name,
            f"a dimension behind the batch was required ({name}(): not supported for NestedTensor on dim=0)",
            dim,
            hint="make a nested tensor of the entries of all: x.unbind() + y.unbind()",
        )
    rows = [t._rows() if isinstance(t, NestedTensor) else t.unbind(0) for t in tensors]
    ragged = first._ragged_idx + (extra and at <= first._ragged_idx)
    return packed(
        [join(list(each), at - 1) for each in zip(*rows, strict=True)], first._form, ragged
    )


def _cat(tensors: list[Any], dim: int = 0, **kwargs: object) -> Any:
    first = next(t for t in tensors if isinstance(t, NestedTensor))
    if dim == 0 and first._form is core.strided:
        rows = [t._rows() if isinstance(t, NestedTensor) else t.unbind(0) for t in tensors]
        return packed([row for each in rows for row in each], core.strided)
    return _joined(tensors, dim, "cat", facula.cat)


RULES.update(
    {
        "unsqueeze": _unsqueeze,
        "squeeze": _squeeze,
        "select": _select,
        "getitem": _getitem,
        "__getitem__": _getitem,
        "copy": _copy,
        "copy_": _copy,
        "cat": _cat,
        "concat": _cat,
        "stack": lambda tensors, dim=0: _joined(tensors, dim, "stack", facula.stack),
    }
)
