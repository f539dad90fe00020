"""Which sizes may change, told by examples.

Takes: several sets of arguments of one program. Gives: `AdditionalInputs`, which stands for `dynamic_shapes`.
Keeps true: what is the same in all examples is fixed; a program that refuses one of them is not made.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.export.dynamic_shapes import Dim, arguments_by_name
from facula.fx import _pytree as pytree

__all__ = ["AdditionalInputs"]

Tensor = core.Tensor


class AdditionalInputs:
    """``dynamic_shapes`` by example: sizes that differ among the examples may change.

    Example:
        >>> more = facula.export.AdditionalInputs()
        >>> more.add((facula.ones(5, 2),))
        >>> layer = facula.nn.Linear(2, 1)
        >>> program = facula.export.export(layer, (facula.ones(3, 2),), dynamic_shapes=more)
        >>> program.module()(facula.ones(7, 2)).shape
        facula.Size([7, 1])
    """

    def __init__(self) -> None:
        self._examples: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def add(self, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> None:
        """Add an example: positional and keyword arguments."""
        if type(args) is not tuple or not (kwargs is None or type(kwargs) is dict):
            fail(
                AssertionError,
                "AdditionalInputs",
                "a tuple of arguments, and a dictionary of keyword arguments or None, were required",
                f"{type(args).__name__} and {type(kwargs).__name__}",
                hint="add((x,), {'name': y})",
            )
        self._examples.append((args, kwargs or {}))

    def dynamic_shapes(
        self, m: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None
    ) -> Any:
        """The shapes, nested as the arguments are.

        Raises:
            ValueError: the examples are nested otherwise, or differ in what can not change.
        """
        rows = [(args, kwargs or {}), *self._examples]
        named = [arguments_by_name(m, *row) for row in rows]
        flat = [pytree.tree_flatten(row) for row in named]
        spec = flat[0][1]
        for _, other in flat[1:]:
            if other != spec:
                fail(ValueError, "AdditionalInputs", f"examples nested alike were required: {spec}", other,
                     hint="pass the same arguments in the same containers")  # fmt: skip
        columns = zip(*[leaves for leaves, _ in flat], strict=True)
        return _nested(spec, iter([_shape(list(values)) for values in columns]))

    def verify(self, ep: Any) -> None:
        """Raise where a program refuses one of the examples."""
        check = ep.module()._inputs
        for args, kwargs in self._examples:
            try:
                check(args, kwargs)
            except (AssertionError, ValueError) as error:
                fail(RuntimeError, "AdditionalInputs", "a program that serves all examples was required",
                     f"{error}", hint="leave the example out, or write the forward for its sizes")  # fmt: skip


def _nested(spec: Any, leaves: Iterator[Any]) -> Any:
    """Leaves in containers; those of classes become lists, as `dynamic_shapes` has them."""
    if spec.is_leaf():
        return next(leaves)
    inner = [_nested(child, leaves) for child in spec.children_specs]
    if spec.type is dict:
        return dict(zip(spec.context, inner, strict=True))
    return tuple(inner) if spec.type is tuple else inner


def _shape(values: list[Any]) -> Any:
    """What becomes of one leaf."""
    first = values[0]
    if len({type(v) for v in values}) != 1:
        _refuse("differing types", values)
    if isinstance(first, Tensor):
        if len({v.dim() for v in values}) != 1:
            fail(ValueError, "AdditionalInputs", "tensors of as many dimensions were required of all examples",
                 [tuple(v.shape) for v in values], hint="only sizes may differ")  # fmt: skip
        sizes = zip(*[v.shape for v in values], strict=True)
        return tuple([None if len(set(row)) == 1 else Dim.DYNAMIC for row in sizes])
    if all(v == first for v in values):
        return None
    if type(first) is int:
        return Dim.DYNAMIC
    return _refuse("different values", values)


def _refuse(what: str, values: list[Any]) -> Any:
    shown = f"({', '.join(map(repr, values))})"
    return fail(
        ValueError,
        "AdditionalInputs",
        f"equal values were required of what is no tensor and no int: these have {what}, so they cannot be "
        f"marked as dynamic: {shown}",
        shown,
        hint="make it a tensor, or export once for each value",
    )
