"""Sizes that a trace follows: `x.size(0)` stays a question to the input, where it was a number.

Takes: tensors of a running trace. Gives: the same elements as `SizedTensor`, whose sizes are `TracedInt`s:
ints for Python, values of the graph for the calls that they reach.
Keeps true: arithmetic of such ints is part of the graph; whatever turns one into a plain int (`int()`,
`range()`, a comparison) makes a constant of it; outside of the traced program's own code sizes are plain.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula import core
from facula.jit.marks import TRACING

__all__ = ["SizedTensor", "TracedInt", "plain", "sized"]

Tensor = core.Tensor


class TracedInt(int):
    """A number, and how its value comes about in a graph."""

    def __new__(cls, number: int, make: Callable[[], Any]) -> TracedInt:
        """The number, whose value of the graph is made when a call needs it."""
        made = int.__new__(cls, number)
        made._make = make
        made._value = None
        return made

    _make: Callable[[], Any]
    _value: Any

    def value(self) -> Any:
        """The value of the graph."""
        if self._value is None:
            self._value = self._make()
        return self._value

    def __reduce__(self) -> Any:
        return int, (int(self),)

    def __deepcopy__(self, memo: object) -> int:
        return int(self)


def _arithmetic(name: str, operator: str) -> None:
    on_ints = getattr(int, f"__{name}__")

    def forward(self: TracedInt, other: Any) -> Any:
        return _combined(operator, on_ints(int(self), other), self, other)

    def reflected(self: TracedInt, other: Any) -> Any:
        found = (
            NotImplemented
            if type(other) not in (int, TracedInt)
            else on_ints(int(other), int(self))
        )
        return _combined(operator, found, other, self)

    setattr(TracedInt, f"__{name}__", forward)
    setattr(TracedInt, f"__r{name}__", reflected)


def _combined(operator: str, found: object, left: object, right: object) -> Any:
    running = bool(TRACING) and not TRACING[-1].paused
    if found is NotImplemented or type(found) is not int or not running or isinstance(left, bool):
        return found
    recorder = TRACING[-1].recorder
    return TracedInt(
        found, lambda: recorder.call(operator, [recorder.of(left), recorder.of(right)])
    )


for _name, _operator in (
    ("add", "aten::add"), ("sub", "aten::sub"), ("mul", "aten::mul"),
    ("floordiv", "aten::floordiv"), ("mod", "aten::remainder"),
):  # fmt: skip
    _arithmetic(_name, _operator)


def _listening() -> Any:
    """The trace that runs, in the program's own code; None elsewhere."""
    mode = TRACING[-1] if TRACING else None
    return None if mode is None or mode.paused else mode


class SizedTensor(Tensor):
    """A tensor of a running trace."""

    __torch_function__ = core._disabled_torch_function_impl

    @property
    def shape(self) -> Any:
        """The sizes."""
        return self.size()

    def size(self, dim: int | None = None) -> Any:
        """The sizes, or one of them."""
        sizes = Tensor.size(self)
        mode = _listening()
        if mode is None:
            return sizes if dim is None else Tensor.size(self, dim)
        if dim is None:
            return core.Size([self._size_of(mode, i, n) for i, n in enumerate(sizes)])
        number = Tensor.size(self, dim)
        return self._size_of(mode, int(dim) % len(sizes), number)

    def _size_of(self, mode: Any, dim: int, number: int) -> TracedInt:
        recorder = mode.recorder
        made = lambda: recorder.call("aten::size", [recorder.of(self), recorder.of(dim)])  # noqa: E731
        return TracedInt(number, made)

    def numel(self) -> Any:
        """How many elements it has."""
        mode = _listening()
        number = Tensor.numel(self)
        if mode is None:
            return number
        recorder = mode.recorder
        return TracedInt(number, lambda: recorder.call("aten::numel", [recorder.of(self)]))

    nelement = numel

    def tolist(self) -> Any:
        """The elements as a list, which is a constant of the trace."""
        mode = _listening()
        if mode is not None:
            mode.warn("Python list", stacklevel=4)
        return Tensor.tolist(self)

    def numpy(self, *, force: bool = False) -> Any:
        """The elements as an array, which is a constant of the trace."""
        mode = _listening()
        if mode is not None:
            mode.warn("NumPy array", stacklevel=4)
        return Tensor.numpy(self, force=force)


def sized(value: object) -> Any:
    """Tensors in tuples, lists and dictionaries as such whose sizes are followed."""
    if type(value) is Tensor:
        return value.as_subclass(SizedTensor)
    if isinstance(value, (tuple, list)) and type(value) is not core.Size:
        items = [sized(v) for v in value]
        if isinstance(value, list):
            return items
        return type(value)(*items) if hasattr(value, "_fields") else _like(value, items)
    if type(value) is dict:
        return {key: sized(v) for key, v in value.items()}
    return value


def _like(value: tuple[Any, ...], items: list[Any]) -> Any:
    made = type(value)
    return tuple(items) if made is tuple else made(items)


def plain(value: object) -> Any:
    """Arguments with plain numbers."""
    if type(value) is TracedInt:
        return int(value)
    if isinstance(value, (tuple, list)):
        if not any(type(v) in (TracedInt, tuple, list, slice, core.Size) for v in value):
            return value
        items = [plain(v) for v in value]
        if isinstance(value, list):
            return items
        return type(value)(*items) if hasattr(value, "_fields") else _like(value, items)
    if isinstance(value, dict):
        return {key: plain(v) for key, v in value.items()}
    if isinstance(value, slice):
        return slice(plain(value.start), plain(value.stop), plain(value.step))
    return value
