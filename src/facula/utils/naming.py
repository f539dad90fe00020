"""The modules in which names are shown.

Takes objects and names of modules. Gives `set_module`.
"""

from __future__ import annotations

from facula.core.errors import fail

__all__ = ["set_module"]


def set_module(obj: object, mod: str) -> None:
    """Have a class or function show another module as its own.

    Args:
        mod: the name of the module; anything but a text is an error.

    Example:
        >>> class Layer:
        ...     pass
        >>> facula.utils.set_module(Layer, "models")
        >>> Layer.__module__
        'models'
    """
    if not isinstance(mod, str):
        fail(TypeError, "set_module", "The mod argument should be a string", type(mod).__name__,
             hint="module.__name__ is a module's name")  # fmt: skip
    obj.__module__ = mod
