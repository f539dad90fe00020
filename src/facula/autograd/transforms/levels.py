"""Levels: what every function transform has in common.

Takes operator calls, by way of the core's interpreter stack.  Gives `Level`, the base of the
transforms that are active; `BatchedTensor`, a tensor as a mapped function sees it; and the tangents
of dual tensors.
Keeps true: a level sees only what belongs to it and runs everything else with the stack below it;
history (the tape) belongs to the innermost values alone, never to a wrapper; a tangent is kept on
the tensor itself, by the number of its level, so a tensor of a level that ended is a plain one.
"""

from __future__ import annotations

import itertools
import math
import textwrap
from collections.abc import Callable
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.table.registry import F

Tensor = core.Tensor

_numbers = itertools.count(1)
core.set_type_attribute(Tensor, "_tangents", None)


class Level:
    """An active function transform; a context manager."""

    #: composites are run through: the transform sees the operators that they consist of
    decomposes = True
    #: whether a draw for a tensor that is not contiguous comes here as it is, and gives a new tensor in its layout
    lays_out_draws = False

    def __init__(self) -> None:
        self.number = next(_numbers)
        self.below: list[Any] = []

    def __enter__(self) -> Any:
        self.below = list(core.interpreters())
        core.swap_interpreters([*self.below, self])
        return self

    def __exit__(self, *exception: object) -> None:
        core.swap_interpreters([i for i in core.interpreters() if i is not self])

    def check_parameters(self, values: tuple[Any, ...]) -> None:
        """Raise where these cannot be parameters of random numbers."""

    def check_overwritten(self, target: Any, parameters: tuple[Any, ...]) -> None:
        """Raise where random numbers, drawn with these parameters, cannot be written to a tensor."""

    def on(self, below: list[Any]) -> Level:
        """The same level on top of another stack."""
        twin = type(self).__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.below = below
        return twin

    def process(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Run a call under this transform."""
        raise NotImplementedError

    def call_below(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Run a call as if this level were not there."""
        stack = core.swap_interpreters(self.below)
        try:
            return function(*args, **kwargs)
        finally:
            core.swap_interpreters(stack)


class SplitLevel(Level):
    """A level with rules of its own for operators, for what writes in place, and for everything else."""

    #: what is required of calls with `out=`, which have no rule
    without_out = ""

    def split(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a call by the rule of its kind."""
        if isinstance(function, core.Op):
            bound, out = core.bind_arguments(function, args, kwargs)
            if out is not None:
                fail(
                    RuntimeError,
                    function.name,
                    self.without_out,
                    hint="copy_() the result instead",
                )
            return self._operator(function, bound)
        if isinstance(function, core.InplaceOp):
            bound, _ = core.bind_arguments(function.op, args, kwargs)
            return self._inplace(function, bound)
        return self._other(function, args, kwargs)

    def _operator(self, op: Any, args: tuple[Any, ...]) -> Any:
        raise NotImplementedError

    def _inplace(self, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        raise NotImplementedError

    def _other(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        raise NotImplementedError


class Suspended:
    """A context in which another stack of transforms is active."""

    def __init__(self, stack: list[Any]) -> None:
        self.stack = stack

    def __enter__(self) -> None:
        self.saved = core.swap_interpreters(self.stack)

    def __exit__(self, *exception: object) -> None:
        core.swap_interpreters(self.saved)


def _behind(name: str) -> property:
    return property(lambda self: getattr(self.value, name), doc=f"`{name}` of the mapped tensor.")


class BatchedTensor(Tensor):
    """One entry of a batch, standing for all of them: `value` has the batch in `batch_dim`."""

    _is_transform_wrapper = True
    __torch_function__ = core._core._disabled_torch_function_impl

    value: Any
    batch_dim: int
    level: int
    #: the wrapper that this one is a view of
    viewed: Any = None

    device = _behind("device")
    is_meta = _behind("is_meta")
    is_cpu = _behind("is_cpu")
    is_cuda = _behind("is_cuda")
    is_mps = _behind("is_mps")

    @property
    def data(self) -> Any:
        """Raises: a change of it would pass every transform by."""
        return fail(
            RuntimeError,
            "data",
            "accessing `data` under vmap transform is not allowed",
            hint="use detach()",
        )

    @data.setter
    def data(self, value: object) -> None:
        fail(
            RuntimeError,
            "data",
            "mutating directly with `.data` under vmap transform is not allowed",
            hint="use copy_(), or give the changed tensor back",
        )

    def __repr__(self) -> str:
        value = textwrap.indent(repr(self.value), "    ")
        return f"BatchedTensor(lvl={self.level}, bdim={self.batch_dim}, value=\n{value}\n)"

    def __bool__(self) -> bool:
        return fail(
            RuntimeError,
            "vmap",
            "vmap: It looks like you're attempting to use a Tensor in some data-dependent control "
            "flow. We don't support that yet",
            hint="choose between values with where()",
        )

    def numpy(self, *, force: bool = False) -> Any:
        """Raises: the entries of a batch have no one array."""
        return fail(
            RuntimeError,
            "numpy",
            "vmap: a tensor that is not mapped over was required",
            hint="call numpy() on the result, outside of vmap",
        )

    def resize_(self, *shape: Any, memory_format: core.memory_format | None = None) -> Any:
        """Give every entry another shape: its elements in order, and unset ones behind them."""
        super().resize_(*shape)
        rows = self.value.movedim(self.batch_dim, 0)
        rows = rows.reshape((rows.shape[0], math.prod(rows.shape[1:])))
        old, new = rows.shape[1], self.numel()
        if new > old:
            wide = rows.new_empty((rows.shape[0], new))
            wide.narrow(1, 0, old).copy_(rows)
            rows = wide
        self.value = rows.narrow(1, 0, new).reshape((rows.shape[0], *self.shape))
        self.batch_dim = 0
        return self

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        """Raises: gradients inside of a transformed function are the business of `grad`."""
        return fail(
            RuntimeError,
            "requires_grad_",
            "You are attempting to call Tensor.requires_grad_() inside of a function being "
            "transformed by a functorch transform",
            hint="use func.grad, func.vjp or func.jacrev",
        )


def wrap(value: Tensor, dim: int, level: int) -> BatchedTensor:
    """`value` without its dimension `dim`, as an entry of the batch of a level."""
    made = core.make_wrapper(BatchedTensor, value, dim)
    made.value, made.batch_dim, made.level = value, dim, level
    return made


def is_batched(x: object, level: int) -> bool:
    """Whether `x` is mapped over at a level."""
    return isinstance(x, BatchedTensor) and x.level == level


def _empty_like(
    wrapper: BatchedTensor, dtype: core.dtype, device: core.device | str | int | None
) -> BatchedTensor:
    inner = wrapper.value
    # where a trace is at work below, it must hear of the new tensor
    make = F.empty_like if core.is_dispatching(inner) else core.empty_like
    value = make(inner, dtype=dtype, device=device)
    return wrap(value, wrapper.batch_dim, wrapper.level)


core.WRAPPER_EMPTY[0] = _empty_like


def is_differentiable(x: Any) -> bool:
    """Whether `x` is a tensor of a dtype that has derivatives."""
    return isinstance(x, Tensor) and (x.dtype.is_floating_point or x.dtype.is_complex)


# ------------------------------------------------------------------ tangents


def own_tangent(x: Tensor, number: int) -> Any:
    """The tangent that `x` itself has at a level, or None."""
    entries = x._tangents
    return None if entries is None else entries.get(number)


def set_tangent(x: Tensor, number: int, tangent: core.Tensor) -> None:
    """Give `x` a tangent at a level."""
    entries = x._tangents
    if entries is None:
        x._tangents = {number: tangent}
    else:
        entries[number] = tangent


def base_of(x: Tensor) -> Any:
    """The tensor that `x` is a view of, or None."""
    if isinstance(x, BatchedTensor):
        return x.viewed
    return x._base if x._is_view() else None


def _place(x: Any) -> int:
    """Where `x` begins in memory; wrappers lie where what they show does."""
    while isinstance(x, BatchedTensor):
        x = x.value
    return int(x.storage_offset())


def tangent_of(x: Tensor, number: int) -> Any:
    """The tangent at a level; a view whose base has one gets the same view of it."""
    found = own_tangent(x, number)
    base = base_of(x)
    whole = None if base is None else own_tangent(base, number)
    if whole is None or x.dtype is not base.dtype or whole.stride() != base.stride():
        return found
    if found is None or memory_of(found) != memory_of(whole):  # the base's may be another since
        offset = _place(x) - _place(base) + whole.storage_offset()
        found = whole.as_strided(x.shape, x.stride(), offset)
        set_tangent(x, number, found)
    return found


def memory_of(x: Any) -> int:
    """What tensors on the same memory have in common, whatever shows them."""
    while isinstance(x, BatchedTensor):
        x = x.value
    return core.storage_key(x)


def inner_tangent(x: Any, number: int) -> Any:
    """The tangent at an outer level, under the wrappers of levels inside of it."""
    if x is None:
        return None
    found = own_tangent(x, number)
    if found is None and isinstance(x, BatchedTensor) and x.level > number:
        below = inner_tangent(x.value, number)
        return None if below is None else wrap(below, x.batch_dim, x.level)
    return found


def set_inner_tangent(x: Any, number: int, tangent: Tensor) -> None:
    """Give `x` a tangent at an outer level, under the wrappers of levels inside of it."""
    if isinstance(x, BatchedTensor) and x.level > number:
        set_inner_tangent(x.value, number, align(tangent, x))
    else:
        set_tangent(x, number, tangent)


def align(tangent: Tensor, like: BatchedTensor) -> Any:
    """What a wrapper of the level of `like` holds, its batch where that of `like` is."""
    if is_batched(tangent, like.level):
        value = tangent.value
        same = tangent.batch_dim == like.batch_dim
        return value if same else value.movedim(tangent.batch_dim, like.batch_dim)
    return tangent.unsqueeze(like.batch_dim).expand(like.value.shape)


def copy_tangents(source: Tensor, target: Tensor) -> Tensor:
    """Give `target` the tangents of `source` at all levels that are active."""
    for level in core.interpreters():
        if isinstance(level, Level):
            found = tangent_of(source, level.number)
            if found is not None:
                set_tangent(target, level.number, found)
    return target
