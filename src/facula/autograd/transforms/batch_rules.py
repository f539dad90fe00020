"""How operators act on a batch: the general rules that definitions name in their `vmap` field.

Takes a `Batch` (the level at work), an operator, and its arguments in schema order.  Gives the
results with the batch in front.
Keeps true: a rule runs below its level, on what the wrappers hold; where it does not serve it gives
`NotImplemented`, and the entries run one by one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from facula import core
from facula.autograd.transforms.levels import is_batched, wrap
from facula.core.errors import fail
from facula.ops.table.batch_forms import Same
from facula.ops.table.registry import F

Tensor = core.Tensor


class Batch:
    """What a rule may ask of the level at work."""

    def __init__(self, level: Any) -> None:
        self.level = level
        self.size = level.size

    def has(self, x: Any) -> bool:
        """Whether `x` differs from entry to entry."""
        return is_batched(x, self.level.number)

    def front(self, x: core.Tensor) -> Any:
        """`x` with the batch as its first dimension; a tensor that is the same for all as it is."""
        if not self.has(x):
            return x
        return x.value if x.batch_dim == 0 else x.value.movedim(x.batch_dim, 0)

    def full(self, x: Any) -> Any:
        """`x` with the batch as its first dimension, repeated where it is the same for all."""
        if self.has(x):
            return self.front(x)
        return x.expand((self.size, *x.shape)) if isinstance(x, Tensor) else x

    def aligned(self, x: core.Tensor, rank: int) -> Any:
        """As `front`, with dimensions of size 1 so that entries have `rank` dimensions."""
        if not self.has(x):
            return x
        value = self.front(x)
        missing = rank - x.dim()
        return value[(slice(None), *(None,) * missing)] if missing > 0 else value

    def wrap(self, value: Any, dim: int = 0) -> Any:
        """A result as the mapped function sees it."""
        return wrap(value, dim, self.level.number)


def _names(op: core.Op) -> list[str]:
    return [p.name for p in op.definition.schema.parameters]


def _tensor_positions(op: core.Op) -> list[int]:
    return [i for i, p in enumerate(op.definition.schema.parameters) if p.is_tensor]


def _each(function: Callable[[Any], Any], value: object) -> Any:
    return tuple(function(v) for v in value) if isinstance(value, tuple) else function(value)


def _first_tensor(op: core.Op, args: tuple[Any, ...]) -> Any:
    for i in _tensor_positions(op):
        found = args[i][0] if isinstance(args[i], tuple) and args[i] else args[i]
        if isinstance(found, Tensor):
            return found
    return None


def _results(result: object, change: Callable[[Any], Any]) -> Any:
    if isinstance(result, tuple):
        changed = [change(r) for r in result]
        return type(result)(*changed) if hasattr(result, "_fields") else tuple(changed)
    return change(result)


# ------------------------------------------------------------------ elementwise


def pointwise_operands(batch: Batch, op: core.Op, args: tuple[Any, ...]) -> list[Any]:
    """The arguments with batches in front and entries of equal rank, typed as the entries are."""
    positions = _tensor_positions(op)
    tensors = [args[i] for i in positions if isinstance(args[i], Tensor)]
    rank = max(t.dim() for t in tensors)
    changed = list(args)
    for i in positions:
        changed[i] = batch.aligned(args[i], rank)
    fixed = op.definition.compute or {}
    names = _names(op)
    typed = [i for i in positions if args[i] is not None and names[i] not in fixed]
    zero = [i for i in typed if batch.has(args[i]) and args[i].dim() == 0]
    if zero and len(typed) > 1:
        # the entries' 0-d tensors do not decide the dtype, but as vectors they would
        wanted = core.result_type(*[args[i] for i in typed])
        if core.result_type(*[changed[i] for i in typed]) != wanted:
            for i in zero:
                changed[i] = changed[i].to(wanted)
    return changed


def pointwise(batch: Batch, op: core.Op, args: tuple[Any, ...]) -> Any:
    """Elementwise operators broadcast over the batch."""
    return call(op, pointwise_operands(batch, op, args))


def call(op: core.Op, args: Any) -> Any:
    """Call an operator with all of its arguments in schema order."""
    positions, names = [], {}
    for p, value in zip(op.definition.schema.parameters, args, strict=True):
        if p.keyword_only:
            if not (p.has_default and value is p.default):
                names[p.name] = value
        else:
            positions.append(value)
    return op(*positions, **names)


def call_inplace(function: core.InplaceOp, args: Any) -> Any:
    """As `call`, for the in-place form of an operator."""
    parameters = function.op.definition.schema.parameters
    named = {
        p.name: value
        for p, value in zip(parameters, args, strict=True)
        if p.keyword_only and not (p.has_default and value is p.default)
    }
    plain = [v for p, v in zip(parameters, args, strict=True) if not p.keyword_only]
    return function(*plain, **named)


# ------------------------------------------------------------------ dimensions


def _is_dimension(parameter: Any) -> bool:
    return parameter.name.startswith(("dim", "axis")) and parameter.type in ("int", "any")


def _shifted(op: core.Op, dim: int, rank: int) -> int:
    """A dimension of an entry as one of the batch, counted from the end."""
    count = max(rank, 1)
    if not -count <= dim < count:
        fail(
            IndexError,
            op.name,
            f"a dimension in [{-count}, {count - 1}] was required",
            got=f"{dim} (Dimension out of range)",
            hint=(
                "dimensions count from 0, or from the end as -1, -2, ...; that of the batch "
                "does not count"
            ),
        )
    return dim - count if dim >= 0 else dim


def dims(batch: Batch, op: core.Op, args: tuple[Any, ...]) -> Any:
    """Operators that work along dimensions which they are told: the batch goes in front of them."""
    first = _first_tensor(op, args)
    rank = first.dim()
    reduces = "keepdim" in _names(op) or op.definition.reduces
    changed, flattened = [], False
    for p, value in zip(op.definition.schema.parameters, args, strict=True):
        if p.is_tensor:
            value = _each(batch.full, value)
            if rank == 0:
                value = _each(_lifted, value)
        elif _is_dimension(p):
            if value is None and not p.is_list:
                flattened = True
                value = -1
            elif value is None or (isinstance(value, tuple) and not value and reduces):
                value = tuple(range(-max(rank, 1), 0))
            else:
                value = _each(lambda d: _shifted(op, d, rank), value)
        changed.append(value)
    if flattened:
        changed[0] = changed[0].reshape(batch.size, -1)
    result = call(op, changed)
    if flattened:
        keep = changed[_names(op).index("keepdim")] if "keepdim" in _names(op) else False
        shape = (batch.size, *([1] * rank if keep else []))
        return _results(result, lambda r: r.reshape(shape))
    return _results(result, _lowered) if rank == 0 else result


def _lifted(x: object) -> Any:
    return x.unsqueeze(-1) if isinstance(x, Tensor) and x.dim() == 1 else x


def _lowered(x: object) -> Any:
    return x.squeeze(-1) if isinstance(x, Tensor) and x.dim() == 2 and x.shape[1] == 1 else x


def along(batch: Batch, op: Any, args: tuple[Any, ...]) -> Any:
    """As `dims`, with an index that runs along the dimension and is the same for all entries."""
    names = _names(op)
    at = names.index("index")
    if batch.has(args[at]) or args[0].dim() == 0:
        return NotImplemented
    changed = [
        batch.full(value)
        if p.is_tensor and p.name not in ("index", "value")
        else _shifted(op, value, args[0].dim())
        if _is_dimension(p)
        else value
        for p, value in zip(op.definition.schema.parameters, args, strict=True)
    ]
    if any(batch.has(value) for value in changed):
        return NotImplemented
    return call(op, changed)


def whole(batch: Batch, op: core.Op, args: tuple[Any, ...]) -> Any:
    """Operators that have leading dimensions of any number: the batch is one more."""
    changed = [
        _each(batch.full, value) if p.is_tensor else value
        for p, value in zip(op.definition.schema.parameters, args, strict=True)
    ]
    return call(op, changed)


def fold(batch: Batch, op: core.Op, args: tuple[Any, ...]) -> Any:
    """Operators that treat the entries of their first dimension alike: the batch joins it."""
    first = _first_tensor(op, args)
    if first.dim() == 0:
        return NotImplemented
    count = first.shape[0]
    changed = [
        _each(lambda x: batch.full(x).flatten(0, 1) if isinstance(x, Tensor) else x, value)
        if p.is_tensor
        else value
        for p, value in zip(op.definition.schema.parameters, args, strict=True)
    ]

    def unfolded(x: core.Tensor) -> Any:
        if not isinstance(x, Tensor) or x.dim() == 0:
            return Same(x)
        if batch.size and x.shape[0] % batch.size == 0:  # each entry may have become several
            return x.unflatten(0, (batch.size, x.shape[0] // batch.size))
        return x.unflatten(0, (batch.size, count))

    return _results(call(op, changed), unfolded)


# ------------------------------------------------------------------ views


def view_dims(batch: Batch, op: core.Op, args: tuple[Any, ...]) -> Any:
    """Views that name dimensions: counted from the end they are the same in the batch."""
    x = args[0]
    rank = x.dim()
    name = op.definition.name.removesuffix("_copy")
    added = 1 if name == "unsqueeze" else 0
    changed = [batch.front(x)]
    for p, value in zip(op.definition.schema.parameters[1:], args[1:], strict=True):
        if _is_dimension(p) and value is not None:
            if p.is_list:
                value = (0, *(_shifted(op, d, rank) % max(rank, 1) + 1 for d in value))
            else:
                value = _each(lambda d: _shifted(op, d, rank + added), value)
        changed.append(value)
    if rank == 0 and name == "transpose":
        return call(op, [changed[0], 0, 0])
    return call(op, changed)


# ------------------------------------------------------------------ new tensors


def like(batch: Batch, op: Any, args: tuple[Any, ...]) -> Any:
    """A new tensor in the shape of a mapped one."""
    return call(op, [batch.front(args[0]), *args[1:]])


def new(batch: Batch, op: core.Op, args: tuple[Any, ...]) -> Any:
    """A new tensor of a given shape beside a mapped one: of its own for every entry."""
    changed = [batch.front(args[0]), (batch.size, *args[1]), *args[2:]]
    if "stride" in _names(op):
        extent = 1 + sum((n - 1) * s for n, s in zip(args[1], args[2], strict=True) if n > 0)
        changed[2] = (extent, *args[2])
    return call(op, changed)


def drawn(batch: Batch, op: core.Op, args: tuple[Any, ...]) -> Any:
    """Random numbers, independent along leading dimensions: once for all entries, or for each."""
    batch.level.check_random()
    batch.level.check_parameters(args)
    if batch.level.randomness == "same":
        return Same(call(op, args))
    return call(op, [batch.full(a) for a in args])


#: the general rules by the name that a definition's `vmap` field gives
RULES: dict[str, Callable[..., Any]] = {
    "along": along,
    "dims": dims,
    "whole": whole,
    "fold": fold,
    "view": view_dims,
    "like": like,
    "new": new,
    "drawn": drawn,
    "entries": lambda batch, op, args: one_by_one(batch, op, args),
}


@functools.cache
def rule_of(op: core.Op) -> Callable[..., Any] | None:
    """The rule of an operator: its own, a general one by name, or that of its kind."""
    definition = op.definition
    own = definition.vmap
    if own is not None:
        if isinstance(own, str):
            return RULES[own]
        return lambda batch, op, args: own(batch, *args)
    if definition.kind == "pointwise":
        return pointwise
    if definition.kind == "view":
        return view_dims
    return None


def one_by_one(batch: Batch, op: core.Op, args: tuple[Any, ...]) -> Any:
    """The operator on every entry of the batch, and the results stacked."""
    rows = []
    for index in range(batch.size):
        row = [_each(functools.partial(_entry, batch, index), value) for value in args]
        rows.append(call(op, row))
    first = rows[0]
    if isinstance(first, tuple):
        columns = [_stacked(op, column) for column in zip(*rows, strict=True)]
        return type(first)(*columns) if hasattr(first, "_fields") else tuple(columns)
    return _stacked(op, rows)


def _entry(batch: Batch, index: int, x: core.Tensor) -> Any:
    return x.value.select(x.batch_dim, index) if batch.has(x) else x


def _stacked(op: core.Op, values: Sequence[core.Tensor]) -> Any:
    if not isinstance(values[0], Tensor):
        if any(value != values[0] for value in values):
            fail(
                RuntimeError,
                op.name,
                "vmap: one number for all entries of the batch was required",
                got=str(list(values)),
                hint="return a tensor: each entry of it has its own number",
            )
        return Same(values[0])
    if any(v.shape != values[0].shape for v in values):
        fail(
            RuntimeError,
            op.name,
            "results of one shape for all entries of the batch were required",
            got=f"{[list(v.shape) for v in values]} (vmap does not support dynamic shapes)",
            hint="make the results alike, for example by padding, or loop over the entries",
        )
    return F.stack(values)
