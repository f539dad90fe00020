"""Constants of a program under a fake mode: `tensor(3)` has its number there, too, as long as nobody writes to
it unseen.

Takes: fake tensors that stand for constants, and the operators that run on them. Gives: `Constants`, the
results that are
constants again, and the numbers that are read from them.
Keeps true: a constant shares memory with others as the program's tensors do; what is written with other than
constants is no
constant from then on, nor is any of its views. Only constants of one element are computed with.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from facula import core
from facula.fx import _pytree as pytree
from facula.ops.table.overloads import overload_of
from facula.ops.table.tags import Tag

__all__ = ["Constants"]

#: whether programs are exported with the elements of their example (`real_examples`), as a setting says
propagate_real_tensors = False


def _writes(func: Callable[..., Any], kwargs: dict[str, Any]) -> bool:
    """Whether an operator writes to its first argument, or to `out=`."""
    overload = overload_of(func)
    function = getattr(overload, "_op", overload)
    name = str(getattr(function, "__name__", None) or getattr(overload, "_opname", ""))
    return isinstance(function, core.InplaceOp) or name.endswith("_") or "out" in kwargs


class Constants:
    """The constants of one fake mode."""

    def __init__(self) -> None:
        #: by the place of their memory, those that still live
        self.by_storage: dict[int, list[weakref.ref[Any]]] = {}
        #: elements of a result that is still computed
        self.most: float = 1

    def __bool__(self) -> bool:
        return bool(self.by_storage)

    def concern(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether a constant, or what lies in the memory of one, is among the arguments."""
        return any(
            getattr(x, "constant", None) is not None or core.storage_place(x) in self.by_storage
            for x in _flat(args, kwargs)
            if isinstance(x, core.Tensor)
        )

    def keep(self, found: object, known: core.Tensor | None) -> None:
        """Results that stand for these real tensors."""
        if known is None:
            return
        for fake, real in zip(pytree.tree_leaves(found), pytree.tree_leaves(known), strict=False):
            if isinstance(fake, core.Tensor) and isinstance(real, core.Tensor):
                fake.constant = real
                place = core.storage_place(fake)
                self.by_storage.setdefault(place, []).append(weakref.ref(fake))

    def known(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result of an operator on constants only; None, and what it writes to forgotten, where it has others."""
        tensors = [x for x in _flat(args, kwargs) if isinstance(x, core.Tensor)]
        small = all(
            getattr(x, "constant", None) is not None and x.constant.numel() <= self.most
            for x in tensors
        )
        random = Tag.nondeterministic_seeded in getattr(overload_of(func), "tags", ())
        if not small or random:
            if _writes(func, kwargs):
                self.forget(tensors[0])
                self.forget(kwargs.get("out"))
            return None
        real = pytree.tree_map(
            lambda x: getattr(x, "constant", None) if isinstance(x, core.Tensor) else x,
            (args, kwargs),
        )
        found = func(*real[0], **real[1])
        leaves = [x for x in pytree.tree_leaves(found) if isinstance(x, core.Tensor)]
        return None if any(x.numel() > self.most for x in leaves) else found

    def forget(self, fake: core.Tensor | None) -> None:
        """A write of what nobody knows: it and all that share its memory are constants no more."""
        if fake is None:
            return
        for reference in self.by_storage.pop(core.storage_place(fake), ()):
            known = reference()
            if known is not None:
                known.constant = None


def _flat(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """Arguments, those in lists too."""
    found: list[Any] = []
    for value in (*args, *kwargs.values()):
        if isinstance(value, (tuple, list)):
            found += value
        else:
            found.append(value)
    return found
