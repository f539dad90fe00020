"""The level of `vmap`: operators on one entry become operators on the whole batch.

Takes calls with `BatchedTensor` arguments.  Gives results of the same kind.
Keeps true: rules come from the definitions; an operator without one runs entry by entry, and says
so once; memory is written only where every entry has its own.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from facula import core
from facula.autograd.function import Function
from facula.autograd.transforms import batch_rules
from facula.autograd.transforms.batch_rules import Batch
from facula.autograd.transforms.levels import (
    BatchedTensor,
    SplitLevel,
    is_batched,
    memory_of,
    wrap,
)
from facula.autograd.transforms.tree import map_leaves
from facula.core.errors import fail
from facula.ops.random.draws import draw, drawn_for
from facula.ops.table.batch_forms import Same
from facula.ops.table.registry import F

Tensor = core.Tensor

_announced: set[str] = set()


class EntryByEntry:
    """Whether operators without a rule for batches may run once for each entry, and say so."""

    enabled = True
    warns = True


def _note_base(result: Any, source: Any) -> None:
    """Let the wrappers of views know what they are views of."""
    if not isinstance(source, BatchedTensor):
        return
    for view in result if isinstance(result, (tuple, list)) else (result,):
        if isinstance(view, BatchedTensor) and memory_of(view) == memory_of(source):
            view.viewed = source if source.viewed is None else source.viewed


class VmapLevel(SplitLevel):
    """One `vmap` at work: `size` entries, and how random numbers are drawn."""

    without_out = "vmap: a call without out= was required"
    lays_out_draws = True

    def __init__(self, size: int, randomness: str) -> None:
        super().__init__()
        self.size = size
        self.randomness = randomness

    def twin(self) -> VmapLevel:
        """Another level of the same size."""
        return VmapLevel(self.size, self.randomness)

    def process(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a call for the whole batch."""
        if type(function) is core.Op and not kwargs and function.definition.kind == "pointwise":
            result = self._elementwise(function, args)
            if result is not None:
                return result
        if function is draw:
            return self._below(self._draw, *args)
        if isinstance(function, core.Op) and function.definition.random:
            return self._random(function, args, kwargs)
        if not self._touches(args) and not self._touches(kwargs.values()):
            return self.call_below(function, args, kwargs)
        return self.split(function, args, kwargs)

    def _elementwise(self, op: core.Op, args: tuple[Any, ...]) -> Any:
        """The short way of one or two operands that lie alike; None where it does not serve."""
        x, number = args[0], self.number
        if len(args) > 2 or not is_batched(x, number):
            return None
        values: tuple[Any, ...] = (x.value,)
        if len(args) == 2:
            y = args[1]
            if is_batched(y, number) and y.batch_dim == x.batch_dim and y.dim() == x.dim():
                values = (x.value, y.value)
            elif type(y) is int or type(y) is float:
                values = (x.value, y)
            else:
                return None
        stack = core.swap_interpreters(self.below)
        try:
            return wrap(op(*values), x.batch_dim, number)
        finally:
            core.swap_interpreters(stack)

    def _touches(self, values: Any) -> bool:
        number = self.number
        for v in values:
            if isinstance(v, Tensor):
                if is_batched(v, number):
                    return True
            elif isinstance(v, (tuple, list)) and self._touches(v):
                return True
        return False

    def _below(self, function: Callable[..., Any], *args: object, **kwargs: object) -> Any:
        return self.call_below(function, args, kwargs)

    # ---------------------------------------------------------------- operators

    def _operator(self, op: core.Op, args: tuple[Any, ...]) -> Any:
        definition = op.definition
        if definition.batching is not None:
            positional, keywords = definition.split(args, whole=False)
            return self._by_rule(definition.batching, positional, keywords)
        if definition.kind == "composite" and definition.vmap is None:
            return core.run_implementation(op, args)
        result = self._wrapped(self._below(self._apply, op, args))
        if definition.kind != "pointwise" and args:
            _note_base(result, args[0])
        return result

    def _apply(self, op: core.Op, args: tuple[Any, ...]) -> Any:
        batch = Batch(self)
        rule = batch_rules.rule_of(op)
        result = NotImplemented if rule is None else rule(batch, op, args)
        if result is not NotImplemented:
            return result
        if self.size == 0:
            fail(
                RuntimeError,
                op.name,
                "vmap: a batch with entries was required of this operator",
                hint="look at the batch size before, or give the operator a vmap rule",
            )
        if not EntryByEntry.enabled:
            fail(
                RuntimeError,
                op.name,
                f"a rule for batches was required: aten::{op.name} hit the vmap fallback which is "
                "currently disabled",
                hint="_C._functorch._set_vmap_fallback_enabled(True) runs its entries one by one",
            )
        if EntryByEntry.warns and op.name not in _announced:
            _announced.add(op.name)
            warnings.warn(
                f"There is a performance drop because we have not yet implemented the batching "
                f"rule for {op.name}: its entries run one by one.",
                stacklevel=2,
            )
        return batch_rules.one_by_one(batch, op, args)

    def _wrapped(self, result: object) -> Any:
        if isinstance(result, Tensor):
            return wrap(result, 0, self.number)
        if isinstance(result, Same):
            return result.value
        if isinstance(result, (tuple, list)):
            made = [self._wrapped(r) for r in result]
            return type(result)(*made) if hasattr(result, "_fields") else type(result)(made)
        return result

    # ---------------------------------------------------------------- writes

    def _check_written(self, name: str, target: object, others: tuple[Any, ...]) -> None:
        if is_batched(target, self.number) or not self._touches(others):
            return
        fail(
            RuntimeError,
            name,
            f"vmap: inplace arithmetic(self, *extra_args) is not possible because there exists a "
            f"Tensor `other` in extra_args that has more elements than `self`. This happened due "
            f"to `other` being vmapped over but `self` not being vmapped over at level "
            f"{self.number}",
            hint="make self by other.new_zeros(...), or use an operation that is not in place",
        )

    def _inplace(self, function: Any, args: tuple[Any, ...]) -> Any:
        op, target = function.op, args[0]
        self._check_written(f"{op.name}_", target, args[1:])
        kind = op.definition.kind
        if kind == "pointwise":
            self._below(self._inplace_pointwise, function, args)
        elif kind == "view":
            self._reshape(target, self._operator(op, args))
        else:
            result = self._operator(op, args)
            result = result[0] if isinstance(result, tuple) else result
            if result.shape != target.shape:
                fail(
                    RuntimeError,
                    f"{op.name}_",
                    f"a result of shape {list(target.shape)}",
                    list(result.shape),
                    hint="use the form that is not in place",
                )
            target.copy_(result)
        return target

    def _inplace_pointwise(self, function: Any, args: tuple[Any, ...]) -> None:
        batch = Batch(self)
        operands = batch_rules.pointwise_operands(batch, function.op, args)
        batch_rules.call_inplace(function, [batch.front(args[0]), *operands[1:]])

    def _reshape(self, target: Any, view: Any) -> None:
        """A wrapper takes the geometry of its own view, and what the view stands for."""
        core.take_geometry(target, view)
        target.value, target.batch_dim = view.value, view.batch_dim

    # ---------------------------------------------------------------- random numbers

    def check_random(self) -> None:
        """Raise where random numbers are not wanted at all."""
        if self.randomness != "error":
            return
        fail(
            RuntimeError,
            "vmap",
            "vmap: called random operation while in randomness error mode. Please either use "
            "the 'same' or 'different' randomness flags on vmap or perform the randomness "
            "operation out of vmap",
            hint="vmap(f, randomness='different') draws for every entry, 'same' once for all",
        )

    def check_parameters(self, values: tuple[Any, ...]) -> None:
        """Raise where one draw serves all entries but its parameters differ."""
        if self.randomness != "same" or not any(self._holds(v) for v in values):
            return
        fail(
            RuntimeError,
            "vmap",
            "vmap: parameters that are the same for all entries were required: Vmap does not "
            "currently support same randomness with a batched tensor input",
            hint="use randomness='different'",
        )

    def _holds(self, value: Any) -> bool:
        """Whether a tensor has this batch, below whatever other levels have wrapped."""
        while core.is_wrapper(value):
            if is_batched(value, self.number):
                return True
            value = value.value
        return False

    def check_overwritten(self, target: Any, parameters: tuple[Any, ...]) -> None:
        """Raise where one tensor would have to hold the numbers of all entries."""
        if self._holds(target):
            return
        self._check_written("copy_", target, parameters)
        if self.randomness == "different":
            fail(
                RuntimeError,
                "vmap",
                "vmap: a mapped tensor to write to was required: Cannot ask for different inplace "
                "randomness on an unbatched tensor. This will appear like same randomness",
                hint="draw a new tensor instead, for example by rand_like(), or randomness='same'",
            )

    def _random(self, op: core.Op, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A random operator: what is drawn follows from `randomness`, whether entries differ or not."""
        bound, out = core.bind_arguments(op, args, kwargs)
        if out is not None:
            fail(
                RuntimeError,
                op.name,
                "vmap: a call without out= was required: calling out variants of random operations "
                "is not supported",
                hint="copy_() the result instead",
            )
        if op.definition.vmap is None and not self._touches(bound):
            if op.definition.kind == "composite":
                return core.run_implementation(op, bound)
            return self.call_below(op, args, kwargs)
        return self._operator(op, bound)

    def _draw(
        self, tensor: core.Tensor, kind: str, a: object, b: object, generator: core.Generator | None
    ) -> Any:
        """New random numbers in the shape and layout of a tensor, which is not written to."""
        self.check_random()
        batch, mapped = Batch(self), is_batched(tensor, self.number)
        if self.randomness == "same":
            self.check_parameters((a,))
            like = batch.front(tensor).select(0, 0) if mapped else tensor
            return drawn_for(core.empty_like(like), kind, a, b, generator)
        if kind == "permutation":
            rows = [draw(core.empty_like(tensor), kind, a, b, generator) for _ in range(self.size)]
            return wrap(F.stack(rows), 0, self.number)
        if mapped:
            fresh = core.empty_like(batch.front(tensor))
        else:
            shape = (self.size, *tensor.shape)
            fresh = core.empty(shape, dtype=tensor.dtype, device=tensor.device)
        a = batch.full(a).contiguous() if isinstance(a, Tensor) else a
        return wrap(drawn_for(fresh, kind, a, b, generator), 0, self.number)

    # ---------------------------------------------------------------- methods and functions

    def _other(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        owner = getattr(function, "__self__", None)
        if owner is not None and hasattr(owner, "setup_context"):
            return self._custom(owner, args, kwargs)
        rule = _METHODS.get(function.__name__)
        if rule is None:
            fail(
                NotImplementedError,
                function.__name__,
                "vmap: a function with a rule for batches was required",
                hint="call it outside of vmap, or write it with operators",
            )
        return rule(self, function, args, kwargs)

    def _custom(self, cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A custom function: by its own rule, or entry by entry."""
        if cls.generate_vmap_rule:
            return self._wrapped(self._below(self._custom_rows, cls, args, kwargs))
        if cls.vmap is Function.vmap:
            fail(
                RuntimeError,
                cls.__name__,
                f"You tried to vmap over {cls.__name__}, but it does not have vmap support. "
                "Please override and implement the vmap staticmethod or set "
                "generate_vmap_rule=True",
                hint="generate_vmap_rule=True makes a rule of forward and backward",
            )
        return self._by_rule(cls.vmap, args, kwargs)

    def _by_rule(
        self, rule: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """What a user's rule gives: it is told where the batch lies and says where it went."""
        values = [map_leaves(self._unwrapped, a) for a in args]
        dims = tuple(map_leaves(self._dim_of, a) for a in args)
        named = {k: map_leaves(self._unwrapped, a) for k, a in kwargs.items()}
        info = _Info(self.size, self.randomness)
        outputs, out_dims = self._below(rule, info, dims, *values, **named)
        if not isinstance(outputs, (tuple, list)):
            return self._with_dim(outputs, out_dims)
        if not isinstance(out_dims, (tuple, list)):
            out_dims = (out_dims,) * len(outputs)
        return type(outputs)([self._with_dim(o, d) for o, d in zip(outputs, out_dims, strict=True)])

    def _unwrapped(self, x: core.Tensor) -> Any:
        return x.value if is_batched(x, self.number) else x

    def _dim_of(self, x: core.Tensor) -> int | None:
        return x.batch_dim if is_batched(x, self.number) else None

    def _with_dim(self, value: Tensor, dim: int) -> Any:
        """A result, or a list of results, whose batch lies in this dimension, or in these."""
        if isinstance(value, (tuple, list)):
            places = dim if isinstance(dim, (tuple, list)) else [dim] * len(value)
            return type(value)([self._with_dim(v, d) for v, d in zip(value, places, strict=True)])
        return value if dim is None else wrap(value, dim % value.dim(), self.number)

    def _custom_rows(self, cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        def entry(x: core.Tensor, index: int) -> Any:
            mapped = is_batched(x, self.number)
            return x.value.select(x.batch_dim, index) if mapped else x

        rows = [cls.apply(*[entry(a, i) for a in args], **kwargs) for i in range(self.size)]
        if isinstance(rows[0], tuple):
            return tuple(
                F.stack(column) if isinstance(column[0], Tensor) else Same(column[0])
                for column in zip(*rows, strict=True)
            )
        return F.stack(rows) if isinstance(rows[0], Tensor) else Same(rows[0])


class _Info:
    """What a custom function's own rule is told."""

    def __init__(self, batch_size: int, randomness: str) -> None:
        self.batch_size = batch_size
        self.randomness = randomness


# ------------------------------------------------------------------ methods of the core


def _same_dim(
    level: VmapLevel, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Methods whose result lies as their tensor does."""
    x = args[0]
    rest = tuple(a.dtype if isinstance(a, Tensor) else a for a in args[1:])
    kwargs = {k: v for k, v in kwargs.items() if k != "memory_format"}
    if not is_batched(x, level.number):
        return level.call_below(function, (x, *rest), kwargs)
    value = level.call_below(function, (x.value, *rest), kwargs)
    return x if value is x.value else wrap(value, x.batch_dim, level.number)


def _contiguous(
    level: VmapLevel, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    x = args[0]
    memory_format = kwargs.get("memory_format")
    if memory_format in (None, core.contiguous_format, core.preserve_format):
        value = level._below(lambda: Batch(level).front(x).contiguous())
        return wrap(value, 0, level.number)
    count = x.shape[0]

    def ordered() -> Any:
        joined = Batch(level).front(x).flatten(0, 1).contiguous(memory_format=memory_format)
        return joined.unflatten(0, (level.size, count))

    return wrap(level._below(ordered), 0, level.number)


def _copy(
    level: VmapLevel, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    target, source = args[0], args[1]
    level._check_written("copy_", target, (source,))
    batch = Batch(level)

    def write() -> None:
        if source.dim() > target.dim():
            fail(
                RuntimeError,
                "copy_",
                f"a source that broadcasts to {list(target.shape)}",
                list(source.shape),
                hint="reduce or index the source first",
            )
        batch.front(target).copy_(batch.aligned(source, target.dim()))

    level._below(write)
    return target


def _fill(
    level: VmapLevel, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    target = args[0]
    if len(args) > 1 and is_batched(args[1], level.number):
        return _copy(level, function, args, kwargs)
    level.call_below(function, (target.value, *args[1:]), kwargs)
    return target


def _value(
    level: VmapLevel, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    name = function.__name__
    fail(
        RuntimeError,
        name,
        f"vmap: It looks like you're calling .{name}() on a Tensor. We don't support vmap over "
        f"calling .{name}() on a Tensor, please try to rewrite what you're doing with other "
        "operations",
        hint="facula.where() chooses by value inside of vmap",
    )


_METHODS: dict[str, Callable[..., Any]] = {
    "detach": _same_dim,
    "clone": _same_dim,
    "to": _same_dim,
    "contiguous": _contiguous,
    "copy_": _copy,
    "fill_": _fill,
    "zero_": _fill,
    "item": _value,
    "tolist": _value,
}
