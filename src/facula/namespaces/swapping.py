"""Exchanging two tensors in place.

Takes two tensors without views and weak references. Gives nothing: each object becomes what the other
was, and every list, module or optimizer that holds one of them sees the change. Keeps true: identities
stay, everything else goes over.
"""

from __future__ import annotations

import copyreg
import weakref
from typing import Any

from facula import core
from facula.core.errors import fail


def _slots(tensor: Any) -> set[str]:
    return set(copyreg._slotnames(type(tensor)) or ())  # type: ignore[attr-defined]


def _swap_attribute(first: object, second: core.Tensor, name: str) -> None:
    """Exchange an attribute; one that is not set on one side is not set on the other afterwards."""
    missing = object()
    of_first, of_second = getattr(first, name, missing), getattr(second, name, missing)
    for tensor, value in ((first, of_second), (second, of_first)):
        if value is not missing:
            setattr(tensor, name, value)
        elif hasattr(tensor, name):
            delattr(tensor, name)


def _check(first: object, second: Any) -> None:
    for name, tensor in (("t1", first), ("t2", second)):
        if weakref.getweakrefs(tensor):
            fail(
                RuntimeError,
                "swap_tensors",
                "tensors without weak references were required",
                f"Cannot swap {name} because it has weakref associated with it",
                hint="a weak reference would silently mean the other tensor: drop it first",
            )
    if _slots(first) != _slots(second):
        fail(
            RuntimeError,
            "swap_tensors",
            "classes with the same __slots__ were required",
            f"Cannot swap t1 and t2 if they have different slots: {type(first).__name__} and "
            f"{type(second).__name__}",
            hint="classes without __slots__ can always be swapped",
        )


def swap_tensors(t1: core.Tensor, t2: core.Tensor) -> None:
    """Make `t1` what `t2` is, and the other way round: elements, shape, dtype, gradient, hooks,
    history, class and attributes. The two objects keep their identities.

    Neither may have views or weak references, and the slots of their classes must be the same. A
    graph that was recorded before and ends in one of them, or kept it, raises in backward.
    """
    _check(t1, t2)
    if t1 is t2:
        return
    core.swap_contents(t1, t2)  # first: it refuses views
    t1.__class__, t2.__class__ = t2.__class__, t1.__class__
    t1.__dict__, t2.__dict__ = t2.__dict__, t1.__dict__
    for name in sorted(_slots(t1)):
        _swap_attribute(t1, t2, name)
