"""Functions of trees as functions of leaves, and what a history is made with.

Takes: functions of trees of tensors. Gives: `Flat` (the same of leaves, and the structure of the result),
`gradient_of` (the
function of the gradients).
Keeps true: results that are no tensors pass through; a gradient that is missing is zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from facula import core
from facula.autograd import grad
from facula.core.errors import fail
from facula.fx import _pytree as pytree
from facula.fx.higher_order.errors import refuse
from facula.ops.table.registry import F

__all__ = ["Flat", "detached", "differentiable", "gradient_of", "same_trees"]

Tensor = core.Tensor


class Flat:
    """A function of trees as one of leaves."""

    def __init__(self, function: Callable[..., Any], spec: Any, single: bool = False) -> None:
        self.function, self.spec, self._single = function, spec, single
        self.__name__ = getattr(function, "__name__", type(function).__name__)
        #: the structure of the result, when it was called
        self.made: Any = None

    def __call__(self, *leaves: Any) -> tuple[Any, ...]:
        result = self.function(*pytree.tree_unflatten(list(leaves), self.spec))
        found, self.made = pytree.tree_flatten(result)
        return tuple(found)


def same_trees(op: str, a: Flat, b: Flat) -> None:
    """Raise where two functions gave results of other structures."""
    if a.made is not None and b.made is not None and a.made != b.made:
        refuse(
            op,
            "results of one structure were required of both functions (Unmatched output spec from "
            "torch.cond branches)",
            f"{a.made} and {b.made}",
            "return the same containers",
        )


def differentiable(x: object) -> bool:
    """Whether a value may have a gradient."""
    return isinstance(x, Tensor) and (x.dtype.is_floating_point or x.dtype.is_complex)


def detached(values: Sequence[Any], wanted: Sequence[bool]) -> list[Any]:
    """Values without history, which gradients are wanted of."""
    return [
        x.detach().requires_grad_() if w else x.detach() if isinstance(x, Tensor) else x
        for x, w in zip(values, wanted, strict=True)
    ]


def gradient_of(function: Callable[..., Any], wanted: Sequence[bool]) -> Callable[..., Any]:
    """A function of inputs and the cotangents of differentiable results: the gradients of the wanted inputs."""
    count = len(wanted)

    def gradients(*args: object) -> tuple[Any, ...]:
        recording = core.set_grad_enabled(True)
        try:
            inputs = detached(args[:count], wanted)
            outputs = [o for o in _several(function(*inputs)) if differentiable(o)]
            pairs = [(o, g) for o, g in zip(outputs, args[count:], strict=True) if o.requires_grad]
            sources = [x for x, w in zip(inputs, wanted, strict=True) if w]
            found: Any = [None] * len(sources)
            if pairs and sources:
                found = grad(
                    [o for o, _ in pairs], sources, [g for _, g in pairs], allow_unused=True
                )
        finally:
            core.set_grad_enabled(recording)
        zeros = [F.zeros_like(x) if g is None else g for g, x in zip(found, sources, strict=True)]
        return tuple(_own_memory(zeros, args))

    gradients._may_alias = True  # type: ignore[attr-defined]
    return gradients


def _own_memory(values: Sequence[Tensor], args: Sequence[Any]) -> list[Tensor]:
    seen = {core.storage_key(x) for x in args if isinstance(x, Tensor)}
    made = []
    for value in values:
        if core.storage_key(value) in seen:
            value = value.clone()
        seen.add(core.storage_key(value))
        made.append(value)
    return made


def _several(results: tuple[Any, ...]) -> Sequence[Any]:
    return results if isinstance(results, (tuple, list)) else (results,)


def check_operands(op: str, operands: Any) -> None:
    """Raise where operands are no tree of tensors (and numbers) in a tuple or list."""
    leaves = pytree.tree_leaves(operands) if isinstance(operands, (tuple, list)) else [None]
    if not isinstance(operands, (tuple, list)) or not all(
        isinstance(x, Tensor) or type(x) in (int, bool) or getattr(x, "_is_symbolic", False)
        for x in leaves
    ):
        fail(
            RuntimeError,
            op,
            "a tuple or list of operands was required (Expect operands to be a tuple of possibly "
            "nested dict/list/tuple that only consists of tensor leaves)",
            type(operands).__name__,
            hint="pass (x,) for a single operand",
        )
