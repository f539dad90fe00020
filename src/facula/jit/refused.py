"""Names of TorchScript that are not there yet.

Takes any arguments. Gives nothing.
Keeps true: each says that it is missing, and what to use instead.
"""

from __future__ import annotations

from typing import Any, NoReturn

from facula.core.errors import fail

__all__ = ["trace", "trace_module"]


def _refuse(name: str, hint: str) -> NoReturn:
    fail(NotImplementedError, f"jit.{name}", "a part of TorchScript that is there was required",
         f"jit.{name}, which is not yet", hint=hint)  # fmt: skip


def trace(*arguments: Any, **options: Any) -> NoReturn:
    """Raises NotImplementedError."""
    _refuse("trace", "jit.script() compiles the source; export.export() records a call")


def trace_module(*arguments: Any, **options: Any) -> NoReturn:
    """Raises NotImplementedError."""
    _refuse("trace_module", "jit.script() compiles the source; export.export() records a call")
