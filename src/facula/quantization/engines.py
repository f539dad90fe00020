"""Which engine the integers of quantized operators follow.

Takes and gives `engine`, one of `supported_engines`. Keeps true: every engine computes the same integers here; the name
decides default configurations, and the engine of a packed parameter is checked where it is used. Only `qnnpack` keeps
the whole range of 8 bits where `reduce_range` is asked for.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from facula.core.errors import fail

__all__ = ["checked_packed"]

#: properties of the module, below
engine: str
supported_engines: list[str]

_SUPPORTED = ("qnnpack", "onednn", "x86", "fbgemm")


def checked_packed(op: str, packed: object, kinds: tuple[type, ...], maker: str) -> Any:
    """Packed parameters of one of these classes, which `maker` makes; TypeError for anything else."""
    if not isinstance(packed, kinds):
        fail(
            TypeError,
            op,
            "packed parameters were required",
            type(packed).__name__,
            hint=f"facula.ops.quantized.{maker} makes them",
        )
    return packed


def known(name: Any) -> str:
    """The name of an engine, as files have it; ValueError for anything else."""
    if name not in (*_SUPPORTED, "none"):
        fail(ValueError, "load", f"the name of an engine, one of {list(_SUPPORTED)}, was required", name,
             hint="the file is damaged")  # fmt: skip
    return str(name)


class _Engines(ModuleType):
    """The module, with `engine` as a property that is checked."""

    _chosen = "x86"

    @property
    def engine(self) -> str:
        """The engine in use."""
        return self._chosen

    @engine.setter
    def engine(self, name: object) -> None:
        if name not in (*_SUPPORTED, "none"):
            fail(
                RuntimeError,
                "backends.quantized.engine",
                f"{name} is not a valid value for quantized engine: one of {list(_SUPPORTED)} was "
                "required",
                repr(name),
                hint="x86 is the default on this processor",
            )
        self._chosen = name

    @property
    def supported_engines(self) -> list[str]:
        """The engines that may be chosen."""
        return list(_SUPPORTED)


sys.modules[__name__].__class__ = _Engines
