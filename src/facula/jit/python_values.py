"""Which operator a Python object is in scripted code, and what it stands for otherwise.

Takes objects of the surrounding program. Gives names of operators, or wrapped objects.
Keeps true: the core's functions and Python's `math` are found by name among the primitives and operators.
"""

from __future__ import annotations

import math
import types
import warnings
from typing import Any

from facula import autograd, core
from facula.autograd.grad_mode import set_grad_enabled
from facula.jit._logging import add_stat_value, time_point
from facula.jit.ir import Value
from facula.jit.signatures import primitives_of, signatures
from facula.jit.values import Compiled, Items, Python, TypeName, Unit
from facula.ops.table.schemas import types as T

__all__ = ["builtin_name", "is_own", "wrapped"]

_PYTHON = {
    len: "aten::len", abs: "prim::abs", ord: "aten::ord", chr: "aten::chr", hex: "aten::hex",
    oct: "aten::oct", bin: "aten::bin", str: "aten::str", divmod: "aten::divmod", round: "aten::round",
    sorted: "aten::sorted", hash: "aten::hash", pow: "aten::pow", any: "aten::any", all: "aten::all", sum: "aten::sum",
    warnings.warn: "aten::warn", math.remainder: "aten::mathremainder", math.pow: "aten::pow",
    add_stat_value: "prim::AddStatValue", time_point: "prim::TimePoint",
    autograd.grad: "aten::grad", autograd.backward: "aten::backward",
    core.device: "aten::device", core.Size: "aten::Size", set_grad_enabled: "aten::set_grad_enabled",
}  # fmt: skip


def is_own(obj: object) -> bool:
    """Whether an object belongs to the library."""
    return core.errors.is_own(getattr(obj, "__module__", None) or "")


def builtin_name(obj: object) -> str | None:
    """The operator that a Python function is, or None."""
    try:
        known = _PYTHON.get(obj)
    except TypeError:
        return None
    if known is not None:
        return known
    module = getattr(obj, "__module__", None)
    name = getattr(obj, "__name__", "")
    if module in ("math", "cmath"):
        return f"aten::{name}" if primitives_of(f"aten::{name}") else None
    if isinstance(obj, (types.BuiltinFunctionType, type(core.tensor))) and is_own(obj):
        found = signatures(f"aten::{name}")
        return f"aten::{name}" if found else None
    if isinstance(obj, types.FunctionType) and is_own(obj):
        return f"aten::{name}" if primitives_of(f"aten::{name}") else None
    return None


def wrapped(obj: object) -> Any:
    """What an object of the program stands for in scripted code."""
    if isinstance(obj, (Value, Items, Python)):
        return obj
    if isinstance(obj, T.Type):
        return TypeName(obj)
    if isinstance(obj, Compiled):
        return Unit(obj)
    return Python(obj)
