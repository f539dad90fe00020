"""The level of `jvp`: operators on values become operators on values and their tangents.

Takes calls with dual tensors (tensors that have a tangent at the level).  Gives dual tensors.
Keeps true: elementwise tangents come from the same expression as the gradient (its transpose, which
for real numbers is itself); a view's tangent is the same view; other operators use their `jvp`, or
the transpose of their gradient formula; composites run through.  What is written in place has its
tangent written in place, so views of it follow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula import core
from facula.autograd.transforms import batch_rules
from facula.autograd.transforms.levels import (
    BatchedTensor,
    SplitLevel,
    base_of,
    is_differentiable,
    memory_of,
    own_tangent,
    set_tangent,
    tangent_of,
)
from facula.autograd.transforms.reverse import Tape, histories, track
from facula.ops.index.launch import broadcast_shapes
from facula.ops.random.draws import draw
from facula.ops.table import pointwise_rules
from facula.ops.table.registry import F

Tensor = core.Tensor


class JvpLevel(SplitLevel):
    """One forward-mode differentiation at work."""

    without_out = (
        "a call without out= was required: functions with out=... arguments don't "
        "support automatic differentiation"
    )

    def __init__(self) -> None:
        super().__init__()
        self.borrowed: set[int] = set()
        #: the tensors that tangents were lent to: views of what callers gave
        self.lent: list[Tensor] = []

    def tangent(self, x: core.Tensor) -> Any:
        """The tangent of `x` at this level, or None."""
        return tangent_of(x, self.number) if isinstance(x, Tensor) else None

    def lend(self, x: Tensor, tangent: Tensor) -> None:
        """Give `x` a tangent that belongs to the caller: it is copied before it is written to."""
        self.borrowed.add(memory_of(tangent))
        self.lent.append(x)
        set_tangent(x, self.number, tangent)

    def process(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a call and the call's tangent."""
        if function is draw or not (self._touches(args) or self._touches(kwargs.values())):
            return self.call_below(function, args, kwargs)
        return self.split(function, args, kwargs)

    def _touches(self, values: Any) -> bool:
        number = self.number
        for v in values:
            if isinstance(v, Tensor):
                if tangent_of(v, number) is not None:
                    return True
            elif isinstance(v, (tuple, list)) and self._touches(v):
                return True
        return False

    # ---------------------------------------------------------------- operators

    def _operator(self, op: core.Op, args: tuple[Any, ...]) -> Any:
        kind = op.definition.kind
        if kind == "composite":
            if op.definition.vmap == "new":  # batches below ask the tensor which of them it is in
                return self.call_below(batch_rules.call, (op, args), {})
            return core.run_implementation(op, args)
        result, tangents = self.call_below(self._run, (op, args), {})
        self._attach(result, tangents)
        return result

    def _run(self, op: core.Op, args: tuple[Any, ...]) -> tuple[Any, Any]:
        """The result and its tangent or tangents; runs below this level."""
        kind, rule = op.definition.kind, op.definition.jvp
        if kind == "pointwise":
            return pointwise(self, op, args)
        if kind == "view":
            return self._view(op, args)
        if rule == "linear":
            return linear(self, op, args)
        if rule == "multilinear":
            return multilinear(self, op, args)
        if rule is not None:
            result = batch_rules.call(op, args)
            return result, rule(tuple(self._tangents_of(a) for a in args), result, *args)
        return transposed(self, op, args)

    def _tangents_of(self, value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(self.tangent(v) for v in value)
        return self.tangent(value)

    def _view(self, op: Any, args: tuple[Any, ...]) -> tuple[Any, Any]:
        x = args[0]
        result = batch_rules.call(op, args)
        tangent = self.tangent(x)
        if not is_differentiable(result):
            return result, None
        if tangent.stride() != x.stride() or op.definition.name == "as_strided":
            tangent = self._laid_out(x, tangent)
        if op.definition.name == "as_strided":
            offset = x.storage_offset() if args[3] is None else args[3]
            offset += tangent.storage_offset() - x.storage_offset()
            return result, tangent.as_strided(args[1], args[2], offset)
        return result, batch_rules.call(op, (tangent, *args[1:]))

    def _attach(self, result: core.Tensor, tangents: Tensor) -> None:
        if isinstance(result, Tensor):
            if tangents is not None and is_differentiable(result):
                set_tangent(result, self.number, _fitted(tangents, result))
        elif isinstance(result, (tuple, list)) and tangents is not None:
            for r, t in zip(result, tangents, strict=True):
                self._attach(r, t)

    # ---------------------------------------------------------------- writes

    def _inplace(self, function: Any, args: tuple[Any, ...]) -> Any:
        op, target = function.op, args[0]
        kind = op.definition.kind
        if kind == "composite":
            return target.copy_(core.run_implementation(op, args))
        if kind == "view":
            result, tangent = self.call_below(self._view, (op, args), {})
            self.call_below(batch_rules.call_inplace, (function, args), {})
            set_tangent(target, self.number, tangent)
            return target

        def write() -> None:
            _, tangents = self._run(op, self._before(args))
            tangent = tangents[0] if isinstance(tangents, tuple) else tangents
            # the result is computed again, in place; its tangent came from the old values
            tangent = None if tangent is None else tangent.clone()
            batch_rules.call_inplace(function, args)
            self.overwrite(target, tangent)

        self.call_below(write, (), {})
        return target

    def _before(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments of a call that writes to the first, which what is recorded of the tangent needs
        as it was."""
        target = args[0]
        if not core.interpreters() and not _records((*args, self.tangent(target))):
            return args
        old = target.clone()
        if self.tangent(target) is not None:
            set_tangent(old, self.number, self.tangent(target).clone())
        return tuple(old if a is target else a for a in args)

    def overwrite(self, x: Tensor, tangent: Any) -> None:
        """Set the tangent of a tensor that was written to; views of it follow. Runs below."""
        if not is_differentiable(x):
            return
        own = self.tangent(x)
        if own is None and tangent is None:
            return
        if own is None or not self._takes(x, own, tangent):
            own = self._started(x, own if tangent is None else tangent)
        if tangent is None:
            own.zero_()
        else:
            own.copy_(tangent)

    def _owner(self, x: Tensor) -> Any:
        """Whose tangent that of `x` is a part of: the base of a view, or `x`."""
        base = base_of(x)
        return x if base is None or base.dtype is not x.dtype else base

    def _takes(self, x: Tensor, own: Tensor, tangent: Any) -> bool:
        """Whether the tangent of `x` can be written to: it is the level's, lies as `x` does, is part of the
        base's, and has a place for what every entry of `tangent` says."""
        owner = self._owner(x)
        whole = own_tangent(owner, self.number)
        return (
            whole is not None
            and whole.stride() == owner.stride()
            and memory_of(whole) not in self.borrowed
            and (tangent is None or _levels(tangent) <= _levels(own))
        )

    def _started(self, x: Tensor, like: Tensor) -> Any:
        """A tangent in memory of its own that can take `like`, shared with the base of a view."""
        owner = self._owner(x)
        own, old = self.tangent(x), own_tangent(owner, self.number)
        made = _in_order(owner, _together(like, own if old is None else old))
        set_tangent(owner, self.number, made.zero_() if old is None else made.copy_(old))
        if owner is not x:
            x._tangents = {n: t for n, t in (x._tangents or {}).items() if n != self.number}
        part = self.tangent(x)
        if old is None:
            for dual in (d for d in self.lent if base_of(d) is owner):
                before = own_tangent(dual, self.number)
                self.tangent(dual).copy_(before)
            if own is not None:
                part.copy_(own)
        return part

    def _laid_out(self, x: Tensor, tangent: Tensor) -> Any:
        """The tangent in memory of its own, in the order of `x`."""
        if tangent.stride() == x.stride() and memory_of(tangent) not in self.borrowed:
            return tangent
        made = _in_order(x, tangent).copy_(tangent)
        set_tangent(x, self.number, made)
        return made

    # ---------------------------------------------------------------- methods and functions

    def _other(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        owner = getattr(function, "__self__", None)
        if owner is not None and hasattr(owner, "setup_context"):
            return self._custom(owner, args, kwargs)
        rule = _METHODS.get(function.__name__)
        if rule is None:
            return self.call_below(function, args, kwargs)
        return rule(self, function, args, kwargs)

    def _custom(self, cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A custom function: by its own `jvp`."""
        tangents = [self.tangent(a) for a in args]
        result, found = self.call_below(cls.apply_with_tangents, (args, kwargs, tangents), {})
        self._attach(result, found)
        return result


def _levels(x: object) -> set[int]:
    """The levels of `vmap` over which `x` is mapped."""
    found = set()
    while isinstance(x, BatchedTensor):
        found.add(x.level)
        x = x.value
    return found


def _together(x: Tensor, y: Any) -> Any:
    """A tensor that is mapped over wherever `x` or `y` is."""
    if y is None or _levels(y) <= _levels(x):
        return x
    return y if _levels(x) <= _levels(y) else x.new_zeros(()) + y.new_zeros(())


def _in_order(x: Tensor, like: Tensor) -> Any:
    """An unset tensor beside `like`, in the memory order of `x` where each element has a place."""
    strides = x.stride()
    if all(s or n < 2 for n, s in zip(x.shape, strides, strict=True)):
        return like.new_empty_strided(x.shape, strides)
    return like.new_empty(x.shape)


def _zeros(x: Tensor) -> Any:
    return core.empty_like(x).zero_()


def _fitted(tangent: core.Tensor, result: core.Tensor) -> Any:
    """A tangent in the shape and dtype of the result."""
    if tangent.dtype is not result.dtype:
        if tangent.dtype.is_complex and not result.dtype.is_complex:
            tangent = F.real(tangent)
        tangent = tangent.to(result.dtype)
    return tangent if tangent.shape == result.shape else tangent.expand(result.shape)


def _records(values: Any) -> bool:
    """Whether what is computed from `values` is recorded."""
    return core.is_grad_enabled() and any(v.requires_grad for v in values if isinstance(v, Tensor))


# ------------------------------------------------------------------ rules by kind


def pointwise(level: JvpLevel, op: core.Op, args: tuple[Any, ...]) -> tuple[Any, Any]:
    """An elementwise operator and the sum of its arguments' tangents, each scaled."""
    parameters = op.definition.schema.parameters
    tensors = [i for i, p in enumerate(parameters) if p.is_tensor]
    duals = {i: level.tangent(args[i]) for i in tensors if level.tangent(args[i]) is not None}
    values = [args[i] for i in tensors] + list(duals.values())
    result = None
    if not core.interpreters() and not _records(values):
        result = _by_kernels(op, args, duals)
        if result is not None:
            return result
    result = batch_rules.call(op, args)
    if not is_differentiable(result):
        return result, None
    total = None
    for i, tangent in duals.items():
        term = pointwise_rules.push(op, args, tensors.index(i), tangent, result)
        if term is not None:
            total = term if total is None else total + term
    return result, _zeros(result) if total is None else total


def _by_kernels(op: core.Op, args: tuple[Any, ...], duals: dict[int, Any]) -> Any:
    """Through the fused gradient kernels: an elementwise Jacobian is its own transpose."""
    if any(args[i].dtype.is_complex for i in duals):
        return None
    if any(isinstance(a, Tensor) and a.dtype.is_complex for a in args):
        return None
    shape = broadcast_shapes(op.name, *[a.shape for a in args if isinstance(a, Tensor)])
    common = core.result_type(*[args[i] for i in duals])
    leaves = list(args)
    for i in duals:
        if args[i].dtype is not common:
            return None
        leaves[i] = args[i].detach().expand(shape).requires_grad_()
    recording = core.set_grad_enabled(True)
    try:
        result = batch_rules.call(op, leaves)
    finally:
        core.set_grad_enabled(recording)
    if not result.requires_grad:
        return result, (_zeros(result) if is_differentiable(result) else None)
    if result.dtype is not common:
        return None
    total = None
    for i, tangent in duals.items():
        cotangent = tangent if tangent.shape == result.shape else tangent.expand(result.shape)
        (term,) = core.run_backward((result,), (cotangent,), True, False, (leaves[i],), True, False)
        if term is not None:
            total = term if total is None else total + term
    return result.detach(), _zeros(result) if total is None else total


def linear(level: JvpLevel, op: core.Op, args: tuple[Any, ...]) -> tuple[Any, Any]:
    """An operator that is linear in all of its tensors together."""

    def moved(x: core.Tensor) -> Any:
        if not is_differentiable(x):
            return x
        tangent = level.tangent(x)
        return F.zeros_like(x) if tangent is None else tangent

    changed = [
        (tuple(moved(v) for v in value) if isinstance(value, tuple) else moved(value))
        if p.is_tensor
        else value
        for p, value in zip(op.definition.schema.parameters, args, strict=True)
    ]
    return batch_rules.call(op, args), batch_rules.call(op, changed)


def multilinear(level: JvpLevel, op: Any, args: tuple[Any, ...]) -> tuple[Any, Any]:
    """An operator that is linear in each of its tensors."""
    total = None
    for i, p in enumerate(op.definition.schema.parameters):
        tangent = level.tangent(args[i]) if p.is_tensor else None
        if tangent is not None:
            term = batch_rules.call(op, (*args[:i], tangent, *args[i + 1 :]))
            total = term if total is None else total + term
    return batch_rules.call(op, args), total


def transposed(level: JvpLevel, op: core.Op, args: tuple[Any, ...]) -> tuple[Any, Any]:
    """By the gradient formula: J t is the gradient of (J^T v) . t with respect to v."""
    result = batch_rules.call(op, args)
    outputs = result if isinstance(result, (tuple, list)) else (result,)
    fixed = op.definition.nondifferentiable
    moving = [is_differentiable(o) and i not in fixed for i, o in enumerate(outputs)]
    formula = op.definition.backward
    if formula is None or not any(moving):
        return result, (None if isinstance(result, Tensor) else [None] * len(outputs))
    recording = core.is_grad_enabled()
    core.set_grad_enabled(True)
    try:
        probes = [track(_zeros(o), False) for o, m in zip(outputs, moving, strict=True) if m]
        rows = iter(probes)
        grads = tuple(next(rows) if m else None for m in moving)
        pairs = _formula_pairs(level, op, args, result, grads)
        tape = Tape([g for g, _ in pairs], probes, recording)
        found = iter(tape.pull([t for _, t in pairs], retain=False))
    finally:
        core.set_grad_enabled(recording)
    tangents = []
    for o, m in zip(outputs, moving, strict=True):
        tangent = next(found) if m else None
        tangents.append(_zeros(o) if m and tangent is None else tangent)
    return result, (tangents[0] if isinstance(result, Tensor) else tangents)


def _formula_pairs(
    level: JvpLevel, op: core.Op, args: tuple[Any, ...], result: Tensor, grads: tuple[Any, ...]
) -> list[tuple[Any, Any]]:
    """(gradient by the formula, tangent) of each tensor argument that has a tangent."""
    parameters = op.definition.schema.parameters
    at = [i for i, p in enumerate(parameters) if p.is_tensor]
    flat = [v for i in at for v in (args[i] if isinstance(args[i], tuple) else (args[i],))]
    tangents = [level.tangent(v) if is_differentiable(v) else None for v in flat]
    known = {"grad": grads[0], "grads": grads, "result": result, "results": result}
    known["needs"] = tuple(t is not None for t in tangents)
    # an argument of such a name comes first
    known |= {p.name: a for p, a in zip(parameters, args, strict=True)}
    formula = op.definition.backward
    names = formula.__code__.co_varnames[: formula.__code__.co_argcount]
    found = formula(*[_wanted(name, known, result) for name in names])
    if len(at) == 1 and isinstance(args[at[0]], tuple):
        # a lone list: the formula gives the list itself, or a tuple with it
        nested = isinstance(found, (tuple, list)) and len(found) == 1 and found[0] is not None
        found = found if nested and not isinstance(found[0], Tensor) else (found,)
    elif not isinstance(found, (tuple, list)):
        found = (found,)
    gradients: list[Any] = []
    for i, gradient in zip(at, found, strict=True):
        if not isinstance(args[i], tuple):
            gradients.append(gradient)
        else:
            gradients += [None] * len(args[i]) if gradient is None else list(gradient)
    return [
        (g, t)
        for g, t in zip(gradients, tangents, strict=True)
        if g is not None and t is not None and any(h.requires_grad for h in histories(g))
    ]


def _wanted(name: str, known: dict[str, Any], result: core.Tensor) -> Any:
    """What a gradient formula's parameter of this name stands for."""
    if name in known:
        return known[name]
    stem, _, what = name.rpartition("_")
    value = result if stem == "result" and what == "meta" else known.get(stem, result)
    if what == "meta":
        return _mapped(core.TensorMeta, value)
    if what == "shape":
        return _mapped(lambda t: t.shape, value)
    return result[int(what)]


def _mapped(function: Callable[[Any], Any], value: object) -> Any:
    if isinstance(value, (tuple, list)):
        return tuple(None if v is None else function(v) for v in value)
    return None if value is None else function(value)


# ------------------------------------------------------------------ methods of the core


def _same_way(
    level: JvpLevel, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Methods that are linear in their tensor: the tangent goes the same way."""
    x = args[0]
    result = level.call_below(function, args, kwargs)
    tangent = level.tangent(x)
    if tangent is None or result is x or not is_differentiable(result):
        return result
    moved = level.call_below(function, (tangent, *args[1:]), kwargs)
    if moved.dtype is not result.dtype:
        moved = level.call_below(F.real(moved).to, (result.dtype,), {})
    set_tangent(result, level.number, moved)
    return result


def _copy(
    level: JvpLevel, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    target, source = args[0], args[1]

    def write() -> None:
        tangent = level.tangent(source)
        function(*args, **kwargs)
        level.overwrite(target, tangent)

    level.call_below(write, (), {})
    return target


def _zero(
    level: JvpLevel, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    level.call_below(function, args, kwargs)
    level.call_below(level.overwrite, (args[0], None), {})
    return args[0]


_METHODS: dict[str, Callable[..., Any]] = {
    "clone": _same_way,
    "contiguous": _same_way,
    "to": _same_way,
    "copy_": _copy,
    "fill_": lambda level, function, args, kwargs: (
        _copy if isinstance(args[1], Tensor) else _zero
    )(level, function, args, kwargs),
    "zero_": _zero,
}
