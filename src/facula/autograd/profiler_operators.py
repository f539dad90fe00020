"""Ranges of profiles as operators, which graphs can hold: `ops.profiler._record_function_enter` and `_exit`.

Takes a range's name, or the handle that its beginning gave. Gives the handle, a tensor with the range's number.
Keeps true: a range ends once; the module is imported when one of the two is asked for.
"""

from __future__ import annotations

import itertools
from typing import Any

from facula import core
from facula.autograd.profiler import record_function
from facula.core.errors import fail
from facula.ops.table.registry import F, composite

_NUMBERS = itertools.count(1)
_OPEN: dict[int, record_function] = {}


@composite("profiler::_record_function_enter(str name, str? args=None) -> Tensor")
def enter(name: str, args: str | None) -> Any:
    """Begin a range of profiles; gives its handle."""
    number = next(_NUMBERS)
    handle = F.scalar_tensor(number, dtype=core.int64)
    _OPEN[number] = record_function(name, args).__enter__()
    return handle


@composite("profiler::_record_function_exit(Tensor handle) -> ()")
def leave(handle: Any) -> None:
    """End the range whose beginning gave this handle."""
    found = _OPEN.pop(int(handle.item()), None)
    if found is None:
        fail(RuntimeError, "_record_function_exit", "the handle of a range that is open was required",
             handle.item(), hint="a range ends once")  # fmt: skip
    found.__exit__(None, None, None)
