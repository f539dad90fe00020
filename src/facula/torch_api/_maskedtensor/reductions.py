"""Reductions and normalizations of masked tensors: the masked operators of the same names.

Takes: an operator and its arguments in schema order. Gives: `reduced`, and rules for reductions whose
arguments have other names, or that have no masked form.
Keeps true: the mask of a reduction says where any element counted; a normalization keeps the mask.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.reduce.masked_forms import _canonical_dim
from facula.ops.table.registry import PLACES, TABLE

from .arguments import RULES, call, refuse, rule
from .core import is_masked_tensor, wrapped
from .methods import to_dense


def reduced(op: core.Op, bound: tuple[Any, ...]) -> Any:
    """A reduction, or a normalization, by the masked operator of its name."""
    masked, parameters = bound[0], op.definition.schema.parameters
    given = {
        p.name: value
        for p, value in zip(parameters[1:], bound[1:], strict=True)
        if not p.has_default or not (value is p.default or value == p.default)
    }
    given.pop("_stacklevel", None)
    reduction = PLACES["masked"][op.definition.public_name]
    spare = set(given) - {p.name for p in reduction.definition.schema.parameters}
    if not is_masked_tensor(masked) or spare:
        refuse(op.name, f"arguments of masked.{op.definition.public_name} were required", spare)
    return by(op, masked, **given)


def by(op: core.Op, masked: Any, **given: Any) -> Any:
    """The masked operator of an operator's name, with arguments by name."""
    reduction = PLACES["masked"][op.definition.public_name]
    parameters = {p.name: p for p in reduction.definition.schema.parameters}
    if masked.is_sparse:
        if given.get("dim") is not None or not parameters["dim"].has_default:
            fail(
                TypeError,
                op.name,
                "a reduction of all elements was required of a sparse masked tensor",
                "dimensions",
                hint="mt.to_dense() can be reduced along dimensions",
            )
        if op.definition.nondifferentiable or op.definition.backward is None:
            masked = to_dense(masked)  # places count among all elements
        else:
            mask = masked.get_mask().values()
            return wrapped(reduction(masked.get_data().values(), **given, mask=mask), mask.any())
    mask = masked.get_mask()
    result = reduction(masked.get_data(), **given, mask=mask)
    if "keepdim" not in parameters:
        return wrapped(result, mask)
    return wrapped(result, left(mask, given.get("dim"), given.get("keepdim", False)))


def left(mask: core.Tensor, dim: object, keepdim: bool) -> Any:
    """Where any element counted."""
    for d in reversed(_canonical_dim(dim, mask.dim())):
        mask = mask.any(d, keepdim=keepdim)
    return mask


@rule("norm")
def _norm(self: Any, p: object, dim: object, keepdim: bool, dtype: core.dtype) -> Any:
    order = 2.0 if p in ("fro", None) else p
    return by(TABLE["norm"], self, ord=order, dim=dim, keepdim=keepdim, dtype=dtype)


def _spread(name: str) -> Callable[..., Any]:
    def run(self: Any, dim: object, unbiased: object, keepdim: bool, correction: object) -> Any:
        if isinstance(dim, bool):  # the form `var(x, unbiased)`
            dim, unbiased = None, dim
        given = {"unbiased": unbiased, "keepdim": keepdim, "correction": correction}
        return by(TABLE[name], self, dim=dim, **given)

    return run


def _with_identity(name: str, identity: object) -> Callable[..., Any]:
    """A reduction that has no masked form: masked elements become what changes nothing."""

    def run(self: Any, dim: object, keepdim: bool) -> Any:
        masked = to_dense(self)
        mask = masked.get_mask()
        data = masked.get_data().masked_fill(~mask, identity)
        return wrapped(call(TABLE[name], (data, dim, keepdim)), left(mask, dim, keepdim))

    return run


RULES.update(
    all=_with_identity("all", True),
    any=_with_identity("any", False),
    var=_spread("var"),
    std=_spread("std"),
)
