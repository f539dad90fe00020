"""Reverse mode below function transforms: tracked inputs, and pulling cotangents back.

Takes tensors as the active levels see them.  Gives `track` (inputs to differentiate with respect
to), `Tape` (what a function computed from them) and `Tape.pull` (gradients for cotangents).
Keeps true: only innermost values have history.  Through a level of `vmap` the gradient of the sum
over the batch is the gradient of each entry, since tracked inputs have one copy an entry; through a
level of `jvp` a gradient's tangent is the gradient of the output's tangent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from facula import core
from facula.autograd.transforms.levels import (
    BatchedTensor,
    Level,
    Suspended,
    copy_tangents,
    inner_tangent,
    is_batched,
    own_tangent,
    set_inner_tangent,
    set_tangent,
    tangent_of,
    wrap,
)
from facula.core.errors import fail
from facula.ops.table.registry import F

Tensor = core.Tensor


def bottom(x: core.Tensor) -> Any:
    """The innermost value behind wrappers: what has history."""
    while isinstance(x, BatchedTensor):
        x = x.value
    return x


def track(x: Tensor, recording: bool) -> Tensor:
    """A copy of `x` to differentiate with respect to; joined to the history of `x` if `recording`.

    Under each active `vmap` it has one copy an entry.
    """
    return _track(x, core.interpreters(), recording)


def _track(x: Tensor, levels: list[Any], recording: bool) -> Tensor:
    made: Any
    for position in range(len(levels) - 1, -1, -1):
        level = levels[position]
        if not hasattr(level, "size"):
            continue
        below = levels[:position]
        if is_batched(x, level.number):
            made = wrap(_track(x.value, below, recording), x.batch_dim, level.number)
        else:
            with Suspended(below):
                spread = x.expand((level.size, *x.shape))
            made = wrap(_track(spread, below, recording), 0, level.number)
        return _copy_above(x, made, levels[position:])
    value = x
    writers: list[Any] = [level for level in levels if hasattr(level, "value_of")]
    for level in reversed(writers):
        value = level.value_of(value)
    with Suspended([]):
        if recording and value.requires_grad:
            made = value.view_as(value)
        else:
            made = value.detach().requires_grad_()
    for level in writers:
        level.shows_too(made, x)
    return _copy_above(x, made, levels)


def _copy_above(source: Tensor, target: Tensor, levels: list[Any]) -> Tensor:
    for level in levels:
        if isinstance(level, Level):
            found = tangent_of(source, level.number)
            if found is not None:
                set_tangent(target, level.number, found)
    return target


def cut(x: Any) -> Any:
    """`x` without history, tangents of active levels kept."""
    if isinstance(x, BatchedTensor):
        plain = copy_tangents(x, wrap(cut(x.value), x.batch_dim, x.level))
        entries = plain._tangents
    else:
        with Suspended([]):
            plain = x.detach()
        entries = x._tangents
    if entries:
        plain._tangents = {number: cut(tangent) for number, tangent in entries.items()}
    return plain


def histories(x: core.Tensor) -> list[Any]:
    """Everything in `x` that may have history: its value and its tangents."""
    found = [bottom(x)]
    while True:
        for tangent in (x._tangents or {}).values():
            found += histories(tangent)
        if not isinstance(x, BatchedTensor):
            return found
        x = x.value


class Tape:
    """What was computed from tracked inputs, and how to pull cotangents back through it."""

    def __init__(self, outputs: Sequence[Any], inputs: Sequence[Any], recording: bool) -> None:
        self.outputs = list(outputs)
        self.inputs = list(inputs)
        self.outer = list(core.interpreters())
        self.recording = recording
        self.leaves = tuple(bottom(x) for x in inputs)
        #: whether somebody outside may differentiate again
        self.shared = recording and self.reaches(self.outputs)

    def reaches(self, tensors: Sequence[Any]) -> bool:
        """Whether the history of `tensors` leads to more than the tracked inputs."""
        found = tuple(h for t in tensors if isinstance(t, Tensor) for h in histories(t))
        return core.reaches_others(found, self.leaves)

    def result(self, x: object) -> Any:
        """An output as the caller gets it: with history only where that leads outside."""
        if not isinstance(x, Tensor) or not any(h.requires_grad for h in histories(x)):
            return x
        return x if self.recording and self.reaches([x]) else cut(x)

    def pull(self, cotangents: Sequence[Any], retain: bool = True, again: bool = False) -> list:
        """The gradient of each input for cotangents of the outputs, None where there is none."""
        stack = core.interpreters()
        inner = stack[len(self.outer) :]
        create = again or self.shared
        if not create and core.is_grad_enabled():
            create = any(_has_history(c) for c in cotangents if c is not None)
        run = _Pull(inner, retain or create, create)
        return run.through(self.outer, self.outputs, list(cotangents), self.inputs)


def _has_history(x: core.Tensor) -> bool:
    return any(h.requires_grad for h in histories(x))


class _Pull:
    """One pass back: outer levels are taken off, the engine runs under the inner ones."""

    def __init__(self, inner: list[Any], retain: bool, create: bool) -> None:
        self.inner = inner
        self.retain = retain
        self.create = create

    def through(self, levels: list[Any], outputs: list, cotangents: list, inputs: list) -> list:
        """The gradients as tensors of `levels`, with the inner levels on top."""
        if not levels:
            return self.engine(outputs, cotangents, inputs)
        level, below = levels[-1], levels[:-1]
        if hasattr(level, "size"):
            return self.through_batch(level, below, outputs, cotangents, inputs)
        value_of = getattr(level, "value_of", None)
        if value_of is not None:  # what was written lies with the level, not in the objects
            return self.through(
                below, [value_of(o) for o in outputs], [value_of(c) for c in cotangents], inputs
            )
        if isinstance(level, Level):
            return self.through_dual(level, below, outputs, cotangents, inputs)
        return self.through(below, outputs, cotangents, inputs)

    def through_batch(
        self, level: Any, below: list[Any], outputs: list, cotangents: list, inputs: list
    ) -> list:
        """Without the wrappers of a level of `vmap`."""
        mapped = [is_batched(x, level.number) for x in inputs]
        if not all(mapped):
            own = [x for x, m in zip(inputs, mapped, strict=True) if m]
            others = [x for x, m in zip(inputs, mapped, strict=True) if not m]
            retain, self.retain = self.retain, True
            first = iter(self.through_batch(level, below, outputs, cotangents, own) if own else ())
            self.retain = retain
            second = iter(self.through_entries(level, below, outputs, cotangents, others))
            return [next(first if m else second) for m in mapped]
        kept = [
            (o, c) for o, c in zip(outputs, cotangents, strict=True) if is_batched(o, level.number)
        ]
        with Suspended([*below, *rebased(self.inner, below)]):
            peeled = [None if c is None else peel(c, level, o.batch_dim) for o, c in kept]
        values = [o.value for o, _ in kept]
        found = self.through(below, values, peeled, [x.value for x in inputs])
        return [
            None if g is None else wrap_under(g, x.batch_dim, level.number)
            for g, x in zip(found, inputs, strict=True)
        ]

    def through_entries(
        self, level: Any, below: list[Any], outputs: list, cotangents: list, inputs: list
    ) -> list:
        """For inputs that are the same for all entries: one run an entry, as a batch of runs."""
        if not any(is_batched(t, level.number) for t in (*outputs, *cotangents)):
            return self.through(below, outputs, cotangents, inputs)
        if self.inner:
            fail(
                RuntimeError,
                "grad",
                "inputs that are mapped over were required inside of nested vmap",
                got="a tensor that is the same for all entries",
                hint="use func.grad or func.vjp",
            )
        probe = level.twin()
        values, seeds = [], []
        with Suspended(below):
            for o, c in zip(outputs, cotangents, strict=True):
                if c is None:
                    continue
                values.append(o.value if is_batched(o, level.number) else o)
                seeds.append(_seed(o, c, level, probe.number))
        run = _Pull([probe], self.retain, self.create)
        found = run.through(below, values, seeds, inputs)
        return [None if g is None else _relabelled(g, probe, level) for g in found]

    def through_dual(
        self, level: Any, below: list[Any], outputs: list, cotangents: list, inputs: list
    ) -> list:
        """A gradient and its tangent: d(J^T c) = (dJ)^T c + J^T dc."""
        moved = [own_tangent(o, level.number) for o in outputs]
        turned = [inner_tangent(c, level.number) for c in cotangents]
        second_outputs, second_cotangents = [], []
        for o, c, t, d in zip(outputs, cotangents, moved, turned, strict=True):
            if d is not None:
                second_outputs.append(o)
                second_cotangents.append(d)
            if t is not None and c is not None:
                second_outputs.append(t)
                second_cotangents.append(c)
        retain, self.retain = self.retain, self.retain or bool(second_outputs)
        found = self.through(below, outputs, cotangents, inputs)
        self.retain = retain
        if second_outputs:
            tangents = self.through(below, second_outputs, second_cotangents, inputs)
            with Suspended([*below, *rebased(self.inner, below)]):
                found = [
                    _with_tangent(g, t, x, level.number)
                    for g, t, x in zip(found, tangents, inputs, strict=True)
                ]
        return found

    def engine(self, outputs: list, cotangents: list, inputs: list) -> list:
        """Run the tape; operators of the formulas run under the inner levels where those matter."""
        pairs = [
            (o, c)
            for o, c in zip(outputs, cotangents, strict=True)
            if c is not None and o.requires_grad
        ]
        if not pairs or not inputs:
            return [None] * len(inputs)
        marked = any(_is_marked(c) for _, c in pairs)
        stack = rebased(self.inner, []) if marked else []
        with Suspended(stack):
            return list(
                core.run_backward(
                    tuple(o for o, _ in pairs),
                    tuple(c for _, c in pairs),
                    self.retain,
                    self.create,
                    tuple(inputs),
                    True,
                    False,
                )
            )


def _seed(output: Tensor, cotangent: Any, level: Any, number: int) -> Any:
    """The cotangent of each entry alone, as a batch over entries."""
    if not is_batched(output, level.number):
        mapped = is_batched(cotangent, level.number)
        return wrap(cotangent.value, cotangent.batch_dim, number) if mapped else cotangent
    dim = output.batch_dim
    value = peel(cotangent, level, dim)
    shape = [1] * (value.dim() + 1)
    shape[0] = shape[dim + 1] = level.size
    choice = F.eye(level.size, dtype=value.dtype, device=value.device).reshape(shape)
    return wrap(value.unsqueeze(0) * choice, 0, number)


def _relabelled(x: core.Tensor, probe: Level, level: Level) -> Any:
    """A gradient with the batch over entries as that of the level."""
    if is_batched(x, probe.number):
        return wrap(x.value, x.batch_dim, level.number)
    return x


def _is_marked(x: Tensor) -> bool:
    """Whether an inner level has something to do with `x`."""
    return isinstance(x, BatchedTensor) or bool(x._tangents)


def _with_tangent(gradient: Tensor, tangent: Tensor, like: object, number: int) -> Any:
    if tangent is None:
        return gradient
    if gradient is None:
        gradient = F.zeros_like(tangent)
    elif gradient._tangents is not None or gradient.is_leaf:
        # somebody else's tensor, such as a cotangent that went through unchanged
        gradient = gradient.view_as(gradient)
    set_inner_tangent(gradient, number, tangent)
    return gradient


def rebased(levels: list[Any], below: list[Any]) -> list[Any]:
    """Levels on top of another stack than they were entered on."""
    made: list[Any] = []
    for level in levels:
        made.append(level.on([*below, *made]) if isinstance(level, Level) else level)
    return made


def peel(x: BatchedTensor, level: Any, dim: int) -> Any:
    """`x` with the batch of an outer level as its dimension `dim`, under the inner wrappers."""
    if isinstance(x, BatchedTensor) and x.level == level.number:
        return x.value if x.batch_dim == dim else x.value.movedim(x.batch_dim, dim)
    if isinstance(x, BatchedTensor) and x.level > level.number:
        # in the inner value the batch stands in front: all other dimensions come one later
        stack = core.interpreters()
        with Suspended(stack[:-1]):
            front = x.value if x.batch_dim == 0 else x.value.movedim(x.batch_dim, 0)
            value = peel(front, level, dim + 1)
        return wrap(value, 0, x.level)
    return x.unsqueeze(dim).expand((*x.shape[:dim], level.size, *x.shape[dim:]))


def wrap_under(x: Any, dim: int, number: int) -> Any:
    """Make dimension `dim` of `x` the batch of an outer level, under the inner wrappers."""
    if isinstance(x, BatchedTensor) and x.level > number:
        place = dim if dim < x.batch_dim else dim + 1
        value = wrap_under(x.value, place, number)
        return wrap(value, x.batch_dim - (place < x.batch_dim), x.level)
    return wrap(x, dim, number)


def gradients(
    outputs: tuple,
    cotangents: tuple,
    inputs: tuple,
    retain: bool,
    create_graph: bool,
    outer: list[Any] | None = None,
) -> tuple:
    """The engine's run for tensors as the levels in `outer` (default: all) see them."""
    stack = core.interpreters()
    outer = list(stack) if outer is None else outer
    run = _Pull(stack[len(outer) :], retain or create_graph, create_graph)
    return tuple(run.through(outer, list(outputs), list(cotangents), list(inputs)))
