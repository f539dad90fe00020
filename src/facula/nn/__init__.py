"""Neural network layers, their functions, initial values and utilities.

Takes nothing.  Gives PyTorch's `torch.nn` names.
Keeps true: one module object per name, so that what patches `facula.nn.init` patches what layers
use.
"""

from __future__ import annotations

import importlib
from typing import Any

from facula.core.errors import fail
from facula.core.errors import no_attribute as _no_attribute
from facula.nn import functional, init, parallel, parameter, utils
from facula.nn import modules as modules
from facula.nn.modules import *  # noqa: F403
from facula.nn.parallel import DataParallel
from facula.nn.parameter import (
    Buffer,
    Parameter,
    UninitializedBuffer,
    UninitializedParameter,
)

__all__ = [
    *modules.__all__,
    "Buffer",
    "DataParallel",
    "Parameter",
    "UninitializedBuffer",
    "UninitializedParameter",
    "factory_kwargs",
    "functional",
    "init",
    "modules",
    "parallel",
    "parameter",
    "utils",
]


def factory_kwargs(kwargs: dict | None) -> dict:
    """The arguments among ``kwargs`` that say where and as what tensors are made.

    Args:
        kwargs: ``device``, ``dtype``, ``memory_format``, or these inside of ``factory_kwargs``;
            None for none

    Raises:
        TypeError: another name is given, or one twice.

    Example:
        >>> facula.nn.factory_kwargs({"dtype": facula.float64})
        {'dtype': facula.float64}
    """
    if kwargs is None:
        return {}
    known = {"device", "dtype", "memory_format"}
    unexpected = kwargs.keys() - known - {"factory_kwargs"}
    if unexpected:
        fail(
            TypeError,
            "factory_kwargs",
            f"unexpected kwargs {unexpected}",
            hint="dtype, device and memory_format are passed on",
        )
    result = dict(kwargs.get("factory_kwargs", {}))
    for key in known:
        if key in kwargs:
            if key in result:
                fail(
                    TypeError,
                    "factory_kwargs",
                    f"{key} specified twice, in **kwargs and in factory_kwargs",
                    hint="give it in one of the two places",
                )
            result[key] = kwargs[key]
    return result


def __getattr__(name: str) -> Any:
    if name in ("attention", "qat", "quantized", "intrinsic", "grad"):
        try:
            module = importlib.import_module(f"facula.nn.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"facula.nn.{name}":
                raise
        else:
            return module
    raise _no_attribute(__name__, name)
