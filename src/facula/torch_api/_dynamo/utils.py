"""Counters of the compiler, and small helpers."""

from __future__ import annotations

import collections
import contextlib
import sys
import warnings
from collections.abc import Iterator
from typing import Any

from facula import core
from facula.capture import config
from facula.capture.events import COUNTERS as counters
from facula.core.config import describe as settings
from facula.ops.table.registry import F

from .. import cuda


@contextlib.contextmanager
def disable_cache_limit() -> Iterator[None]:
    """A block in which a function may be compiled as often as it is called with something new."""
    before = config.recompile_limit, config.accumulated_recompile_limit
    config.recompile_limit = config.accumulated_recompile_limit = sys.maxsize
    try:
        yield
    finally:
        config.recompile_limit, config.accumulated_recompile_limit = before


def same(a: Any, b: Any, tol: float = 1e-4) -> bool:
    """Whether two results are equal up to rounding."""
    if isinstance(a, (list, tuple, collections.deque)):
        return len(a) == len(b) and all(same(x, y, tol) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k], tol) for k in a)
    arrays = [hasattr(x, "__array_interface__") for x in (a, b)]
    if any(arrays) and not all(arrays) and not isinstance(a, core.Tensor):
        return bool(a == b)  # an array and a number
    if any(arrays):
        return same(core.as_tensor(a), core.as_tensor(b), tol)
    if isinstance(a, core.Tensor):
        b = core.as_tensor(b, dtype=a.dtype).expand(a.shape) if isinstance(b, (int, float)) else b
        return a.shape == b.shape and bool(F.allclose(a, b, rtol=tol, atol=tol, equal_nan=True))
    if type(a) is type(b) and type(a).__eq__ is object.__eq__ and hasattr(a, "__dict__"):
        return a is b or same(vars(a), vars(b), tol)  # objects that say nothing of equality
    return a == b


def warn_once(msg: str, stacklevel: int = 1) -> None:
    """Warn of something the first time that it is said in this process."""
    if msg not in _SAID:
        _SAID.add(msg)
        warnings.warn(msg, stacklevel=stacklevel + 1)


_SAID: set[str] = set()


def is_compile_supported(device_type: str) -> bool:
    """Whether `compile` makes code for a device type, a number behind it or not."""
    return device_type.partition(":")[0] in ("cpu", "cuda") and _has_device(device_type)


def _has_device(device_type: str) -> bool:
    return device_type.startswith("cpu") or cuda.is_available()


__all__ = ["counters", "is_compile_supported", "same", "settings", "warn_once"]
