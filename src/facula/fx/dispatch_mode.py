"""Blocks in which an object hears of every operator.

Takes nothing.  Gives `TorchDispatchMode`, whose subclasses define `__torch_dispatch__`.
Keeps true: a mode is not asked about what it calls itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula import core


class TorchDispatchMode:
    """A block in which `__torch_dispatch__` of this object is asked about every operator.

    Subclasses define `__torch_dispatch__(self, func, types, args=(), kwargs=None)`.
    """

    #: whether it hears of the package's own operators, not of PyTorch's that do the same
    hears_own_operators = False

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        raise NotImplementedError

    def __enter__(self) -> Any:
        core.push_dispatch_mode(self)
        return self

    def __exit__(self, *exception: object) -> None:
        core.pop_dispatch_mode()

    @classmethod
    def push(cls, *args: object, **kwargs: object) -> TorchDispatchMode:
        """An object of the class, for `with`."""
        return cls(*args, **kwargs)
