"""The contexts of PyTorch that scripted code enters: `no_grad`, `enable_grad`, `record_function`.

Takes nothing. Gives classes that compile in the place of the library's own (`STAND_INS`, `RANGE`), under the names that
PyTorch's files have for them.
Keeps true: each does what the library's context does, by operators that PyTorch has too, so that files with
them go both ways. The annotations are TorchScript's: `Any`, not `object`.
"""

from __future__ import annotations

from typing import Any

import facula
from facula.autograd import grad_mode, profiler
from facula.jit.signatures import PRIMITIVE, primitive
from facula.jit.values import Operators
from facula.ops.table.schemas import types as T

__all__ = ["RANGE", "STAND_INS"]


#: an open range of a profile: in files it has a class, which says nothing
RANGE = T.ClassType("__torch__.torch.classes.profiler._RecordFunction")
RANGE.attributes["capsule"] = T.Type("Capsule")
_OPENED: Any = T.optional_of(RANGE)
_OPERATORS: Any = Operators("profiler")


class no_grad:
    """`facula.no_grad`, as a class that compiles."""

    def __init__(self) -> None:
        self.prev = False

    def __enter__(self) -> None:
        self.prev = facula.is_grad_enabled()
        facula.set_grad_enabled(False)

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        facula.set_grad_enabled(self.prev)


class enable_grad:
    """`facula.enable_grad`, as a class that compiles."""

    def __init__(self) -> None:
        self.prev = False

    def __enter__(self) -> None:
        self.prev = facula.is_grad_enabled()
        facula.set_grad_enabled(True)

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        facula.set_grad_enabled(self.prev)


class record_function:
    """`facula.autograd.profiler.record_function`, as a class that compiles."""

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name = name
        self.args = args
        self.record: _OPENED = None

    def __enter__(self):  # type: ignore[no-untyped-def]
        self.record = _OPERATORS._record_function_enter_new(self.name, self.args)
        return self

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        record = self.record
        assert record is not None
        _OPERATORS._record_function_exit(record)


def _enter(name: str, args: str | None) -> Any:
    made = profiler.record_function(name, args)
    made.__enter__()
    return made


def _leave(record: record_function) -> None:
    record.__exit__(None, None, None)


primitive("profiler::_record_function_enter_new(str name, str? args=None) -> any", _enter)
primitive("profiler::_record_function_exit(any record) -> ()", _leave)
PRIMITIVE["profiler::_record_function_enter_new"][0].results = RANGE

#: a context of the library -> the class that compiles in its place, and the module that files name
STAND_INS: dict[Any, tuple[type, str]] = {
    grad_mode.no_grad: (no_grad, "__torch__.torch.autograd.grad_mode"),
    grad_mode.enable_grad: (enable_grad, "__torch__.torch.autograd.grad_mode"),
    profiler.record_function: (record_function, "__torch__.torch.autograd.profiler"),
}
