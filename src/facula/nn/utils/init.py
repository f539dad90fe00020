"""Making a module without drawing its initial values.

Takes a module class and its arguments.  Gives the module with uninitialised parameters.
Keeps true: the class takes ``device``, for it is made on the meta device first.
"""

from __future__ import annotations

import inspect

from facula.core.errors import fail
from facula.nn.modules.module import Module


def skip_init(module_cls: type, *args: object, **kwargs: object) -> Module:
    """Makes a module without initialising its parameters: their elements are undefined.

    Args:
        module_cls: a subclass of `Module` that takes ``device``
        *args, **kwargs: for the class

    Raises:
        RuntimeError: the class is no module class, or takes no ``device``.

    Example:
        >>> facula.nn.utils.skip_init(facula.nn.Linear, 5, 1).weight.shape
        facula.Size([1, 5])
    """
    if not (isinstance(module_cls, type) and issubclass(module_cls, Module)):
        fail(
            RuntimeError,
            "skip_init",
            "a Module class",
            got=module_cls,
            hint="pass the class, and its arguments after it",
        )
    if "device" not in inspect.signature(module_cls).parameters:
        fail(
            RuntimeError,
            "skip_init",
            "a module that takes a 'device' argument",
            got=module_cls,
            hint="give its __init__ a device argument, and make the parameters there",
        )
    device = kwargs.pop("device", "cpu")
    return module_cls(*args, device="meta", **kwargs).to_empty(device=device)
