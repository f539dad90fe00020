"""Sizes that may change as PyTorch 2.1 and 2.2 wrote them: comparisons of dimensions of example arguments.

Takes: `dynamic_dim(x, 0) <= 10`, ... about tensors that are among the arguments. Gives: `dynamic_shapes` as
`export` takes them now.
Keeps true: dimensions that were said to be equal become one `Dim`; all bounds hold together.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.export.dynamic_shapes import Dim
from facula.fx import _pytree as pytree
from facula.ops.table import overloads

__all__ = ["Constraint", "constrain_as_size", "constrain_as_value", "dynamic_dim", "shapes_of"]


class Constraint:
    """A dimension of a tensor, with bounds and the dimensions that equal it.

    Made by `dynamic_dim`; comparisons give further ones.

    Example:
        >>> x = facula.ones(4, 2)
        >>> facula.export.dynamic_dim(x, 0) <= 8
        0 <= dynamic_dim(.., 0) <= 8
    """

    def __init__(
        self,
        tensor: core.Tensor,
        dim: int,
        least: int = 0,
        most: int | None = None,
        same: Constraint | None = None,
    ) -> None:
        self.tensor, self.dim, self.least, self.most, self.same = tensor, dim, least, most, same

    def _bounded(self, least: Any, most: Any) -> Constraint:
        for bound in (least, most):
            if bound is not None and type(bound) is not int:
                fail(TypeError, "dynamic_dim", "a whole number as a bound was required", type(bound).__name__,
                     hint="dynamic_dim(x, 0) <= 64; == takes another dynamic_dim")  # fmt: skip
        limits = [n for n in (self.most, most) if n is not None]
        least = max(self.least, least or 0)
        return Constraint(self.tensor, self.dim, least, min(limits, default=None), self.same)

    def __le__(self, other: object) -> Constraint:
        return self._bounded(None, other)

    def __lt__(self, other: Any) -> Constraint:
        return self._bounded(None, other - 1 if type(other) is int else other)

    def __ge__(self, other: object) -> Constraint:
        return self._bounded(other, None)

    def __gt__(self, other: Any) -> Constraint:
        return self._bounded(other + 1 if type(other) is int else other, None)

    def __eq__(self, other: object) -> Any:
        if not isinstance(other, Constraint):
            fail(TypeError, "dynamic_dim", "another dynamic_dim was required", type(other).__name__,
                 hint="a size that is fixed needs no constraint")  # fmt: skip
        return Constraint(self.tensor, self.dim, self.least, self.most, other)

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        fail(TypeError, "dynamic_dim", "one comparison at a time was required", "and, or, or a chain of them",
             hint="constraints=[2 <= dynamic_dim(x, 0), dynamic_dim(x, 0) <= 8]")  # fmt: skip

    def __repr__(self) -> str:
        top = "" if self.most is None else f" <= {self.most}"
        return f"{self.least} <= dynamic_dim(.., {self.dim}){top}"


def dynamic_dim(t: core.Tensor, index: int) -> Constraint:
    """A dimension whose size may change, for ``export(..., constraints=[...])`` of PyTorch 2.1 and 2.2.

    Args:
        t: a tensor among the example arguments
        index: the dimension

    Example:
        >>> x = facula.ones(4, 2)
        >>> program = facula.export.export(
        ...     facula.nn.Linear(2, 1), (x,), constraints=[facula.export.dynamic_dim(x, 0) <= 64]
        ... )
        >>> program.module()(facula.ones(7, 2)).shape
        facula.Size([7, 1])
    """
    if not isinstance(t, core.Tensor):
        fail(TypeError, "dynamic_dim", "a tensor was required (Expected tensor as input to dynamic_dim)",
             type(t).__name__, hint="pass an example argument itself")  # fmt: skip
    if not 0 <= index < t.dim():
        fail(ValueError, "dynamic_dim", "a dimension of the tensor was required (Expected the dimension passed to "
             f"dynamic_dim to be in the range [0:{t.dim() - 1}])", index, hint="dimensions count from 0")  # fmt: skip
    return Constraint(t, index)


def shapes_of(
    constraints: Sequence[Constraint], module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """`dynamic_shapes` that say the same."""
    for constraint in constraints:
        if not isinstance(constraint, Constraint):
            fail(TypeError, "export", "comparisons of dynamic_dim were required as constraints",
                 type(constraint).__name__, hint="constraints=[dynamic_dim(x, 0) <= 64]; dynamic_shapes= is the "
                 "newer form")  # fmt: skip
    roots: dict[tuple[int, int], tuple[int, int]] = {}

    def root(place: tuple[int, int]) -> tuple[int, int]:
        while roots.setdefault(place, place) != place:
            place = roots[place]
        return place

    bounds: dict[tuple[int, int], tuple[int, int | None]] = {}
    told = [(c, (id(c.tensor), c.dim)) for c in constraints]
    for constraint, place in told:
        root(place)
        if constraint.same is not None:
            roots[root((id(constraint.same.tensor), constraint.same.dim))] = root(place)
    everything = [c for c, _ in told] + [c.same for c, _ in told if c.same is not None]
    for constraint in everything:
        place = root((id(constraint.tensor), constraint.dim))
        least, most = bounds.get(place, (0, None))
        limits = [n for n in (most, constraint.most) if n is not None]
        bounds[place] = (max(least, constraint.least), min(limits, default=None))
    dims = {
        place: Dim(f"size_{number}", min=least, max=most)
        for number, (place, (least, most)) in enumerate(bounds.items())
    }
    leaves = {id(x) for x in pytree.tree_leaves((args, kwargs)) if isinstance(x, core.Tensor)}
    if not {tensor for tensor, _ in roots} <= leaves:
        fail(ValueError, "export", "constraints of tensors among the example arguments were required",
             "one of another tensor", hint="dynamic_dim takes the very object that args holds")  # fmt: skip

    def of_leaf(x: Any) -> Any:
        if not isinstance(x, core.Tensor):
            return None
        return {d: dims[root((id(x), d))] for d in range(x.dim()) if (id(x), d) in roots} or None

    bound = inspect.signature(module.forward).bind(*args, **kwargs)
    return pytree.tree_map(of_leaf, dict(bound.arguments))


def constrain_as_value(symbol: object, min: int | None = None, max: int | None = None) -> Any:  # noqa: A002
    """Say between which bounds a number that comes out of a tensor lies; gives the number.

    Args:
        symbol: the number, as `x.item()`
        min: the least
        max: the largest

    Example:
        >>> facula.export.constrain_as_value(facula.tensor(3).item(), min=1, max=5)
        3
    """
    _constrain("sym_constrain_range", symbol, min, max)
    return symbol


def constrain_as_size(symbol: object, min: int | None = None, max: int | None = None) -> Any:  # noqa: A002
    """`constrain_as_value` of a number that becomes a size, which is not negative.

    Args:
        symbol: the number, as `x.item()`
        min: the least
        max: the largest

    Example:
        >>> facula.export.constrain_as_size(facula.tensor(3).item(), max=5)
        3
    """
    _constrain("sym_constrain_range_for_size", symbol, min, max)
    return symbol


def _constrain(name: str, symbol: object, least: int | None, most: int | None) -> None:
    getattr(overloads.namespace("aten"), name)(symbol, min=least, max=most)
