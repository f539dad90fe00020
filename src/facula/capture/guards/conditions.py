"""Guards: what has to hold for a captured segment to be right.

Takes: sources and what was found there during capture. Gives: the steps of a program of the core that
reads and checks them in one call, and for a failed guard the reason.
Keeps true: guards are checked in the order in which they were found, so that reading a source never
needs more than what was checked before it; tensors are checked behind all others.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from facula import core
from facula.autograd import autocast
from facula.capture.values.sources import Held, Line, Source, Text

if TYPE_CHECKING:
    from facula.capture.values.kinds import Value


class Guard(NamedTuple):
    """One fact about one source."""

    kind: str
    source: Source
    value: Any
    line: Line | None = None

    def label(self) -> str:
        """The guard as a user reads it."""
        return _LABELS[self.kind](self.source.label(), self.value)

    def reason(self, slots: dict[str, Any]) -> str | None:
        """Why the guard fails for a frame's state, None if it holds."""
        try:
            found = self.source.read(slots)
        except (KeyError, AttributeError, IndexError, TypeError) as error:
            return f"{self.source.label()} is not there any more ({type(error).__name__})"
        if self.kind in ("same", "different"):
            alike = found is self.value.read(slots)
            return None if alike == (self.kind == "same") else f"{self.label()} does not hold"
        out = Text()
        name = out.hold(found)
        condition = _TEXTS[self.kind](out, name, self.value)
        if condition is None:
            return _tensor_reason(self.source.label(), self.value, found)
        if eval(condition, out.held):  # noqa: S307 - text that this module wrote
            return f"{self.label()} does not hold: it is {_short(found)}"
        return None


def _short(value: Value) -> str:
    text = repr(value)
    return text if len(text) < 60 else text[:57] + "..."


def _equal(out: Text, name: str, value: object) -> str:
    if value is None or value is True or value is False or value is ...:
        return f"{name} is not {value!r}"
    kind = type(value)
    typed = f"type({name}) is not {out.hold(kind)}"
    if kind is float:
        if value != value:
            return f"{typed} or {name} == {name}"
        if value == 0.0:
            return f"repr({name}) != {repr(value)!r}"
    if kind in (int, float, str, bytes):
        return f"{typed} or {name} != {out.literal(value)}"
    return f"{typed} or {name} != {out.hold(value)}"


_TEXTS = {
    "type": lambda out, name, value: f"type({name}) is not {out.hold(value)}",
    "is": lambda out, name, value: f"{name} is not {out.hold(value)}",
    "not": lambda out, name, value: f"{name} is {out.hold(value)}",
    "equal": _equal,
    "length": lambda out, name, value: f"len({name}) != {value}",
    "longer": lambda out, name, value: f"len({name}) <= {value}",
    "keys": lambda out, name, value: f"list({name}) != {out.hold(value)}",
    "has": lambda out, name, value: f"{out.literal(value)} not in {name}",
    "lacks": lambda out, name, value: f"{out.literal(value)} in {name}",
    "same": lambda out, name, value: f"{name} is not {out.source(value)}",
    "different": lambda out, name, value: f"{name} is {out.source(value)}",
    "integer": lambda out, name, value: f"type({name}) is not int or {name} < 2",
    "condition": lambda out, name, value: f"{name} is not {value!r}",
    "tensor": lambda out, name, value: None,
    "plain-module": lambda out, name, value: f"not {out.hold(value)}({name})",
}
_LABELS = {
    "type": lambda label, value: f"type({label}) is {value.__name__}",
    "is": lambda label, value: f"{label} is {_short(value)}",
    "not": lambda label, value: f"{label} is not {_short(value)}",
    "equal": lambda label, value: f"{label} == {value!r}",
    "length": lambda label, value: f"len({label}) == {value}",
    "longer": lambda label, value: f"len({label}) > {value}",
    "keys": lambda label, value: f"list({label}) == {_short(value)}",
    "has": lambda label, value: f"{value!r} in {label}",
    "lacks": lambda label, value: f"{value!r} not in {label}",
    "same": lambda label, value: f"{label} is {value.label()}",
    "different": lambda label, value: f"{label} is not {value.label()}",
    "integer": lambda label, value: f"{label} is an int >= 2 (dynamic)",
    "condition": lambda label, value: f"{label} is {value!r}",
    "tensor": lambda label, value: f"{label} is {value}",
    "plain-module": lambda label, value: f"{label} has no hooks",
}


class TensorFacts(NamedTuple):
    """What is asked of a tensor; a size or stride of -1 may be anything (a size at least 2)."""

    cls: type
    dtype: Any
    device: Any
    requires_grad: bool
    shape: tuple[int, ...]
    stride: tuple[int, ...]

    def __str__(self) -> str:
        sizes = ["*" if n < 0 else str(n) for n in self.shape]
        grad = ", requires_grad" if self.requires_grad else ""
        kind = "" if self.cls is core.Tensor else f"{self.cls.__name__}, "
        return (
            f"a tensor ({kind}{self.dtype}, [{', '.join(sizes)}], stride {list(self.stride)}{grad})"
        )


def facts_of(tensor: core.Tensor, dynamic: frozenset[int]) -> TensorFacts:
    """What a tensor has now, but for its dynamic dimensions (and the strides that follow them)."""
    shape = tuple(-1 if i in dynamic else n for i, n in enumerate(tensor.shape))
    stride = tuple(tensor.stride())
    if dynamic:
        free = [
            any(
                j in dynamic and tensor.stride(j) <= stride[i]
                for j in range(tensor.dim())
                if j != i
            )
            for i in range(tensor.dim())
        ]
        stride = tuple(-1 if f else s for f, s in zip(free, stride, strict=True))
    return TensorFacts(
        type(tensor), tensor.dtype, tensor.device, tensor.requires_grad, shape, stride
    )


def _tensor_reason(label: str, facts: TensorFacts, found: object) -> str | None:
    if not isinstance(found, core.Tensor) or type(found) is not facts.cls:
        return f"type({label}) is {facts.cls.__name__} does not hold: it is {type(found).__name__}"

    def differs(what: str, expected: object, actual: object) -> str:
        return f"tensor '{label}' {what}. expected {expected}, actual {actual}"

    for name in ("dtype", "device"):
        if getattr(found, name) != getattr(facts, name):
            return differs(f"{name} mismatch", getattr(facts, name), getattr(found, name))
    if found.requires_grad != facts.requires_grad:
        wanted = f"requires_grad={int(facts.requires_grad)}"
        return differs("requires_grad mismatch", wanted, int(found.requires_grad))
    if found.dim() != len(facts.shape):
        return differs("rank mismatch", len(facts.shape), found.dim())
    for i, (expected, size) in enumerate(zip(facts.shape, found.shape, strict=True)):
        if expected >= 0 and expected != size:
            return differs(f"size mismatch at index {i}", expected, size)
        if expected < 0 and size < 2:
            return differs(f"size mismatch at index {i}", "at least 2", size)
    for i, (expected, step) in enumerate(zip(facts.stride, found.stride(), strict=True)):
        if expected >= 0 and expected != step and facts.shape[i] != 1:
            return differs(f"stride mismatch at index {i}", expected, step)
    return None


class Steps:
    """Sources and guards as the steps of `core.GuardProgram`; each source has a register."""

    def __init__(self, slots: list[str]) -> None:
        self.steps: list[tuple[int, int, int, Any, int]] = []
        self.registers: dict[Source, int] = {}
        self.slots = ["F", *slots]

    def _step(self, kind: str, target: int, source: int, value: object, number: int = 0) -> None:
        self.steps.append((core.GUARD_OPERATIONS[kind], target, source, value, number))

    def register(self, source: Source) -> int:
        """Where the value of a source is, once its steps have run."""
        known = self.registers.get(source)
        if known is None:
            base = self.register(source.base) if source.base is not None else 0
            known = self.registers[source] = len(self.registers)
            kind, key = source.kind, source.key
            if kind == "slot":
                self._step("argument", known, 0, None, self.slots.index(key))
            elif kind == "held":
                self._step("constant", known, 0, key.value)
            elif kind == "attr":
                name = "dictionary" if key == "__dict__" else "attribute"
                self._step(name, known, base, sys.intern(key))
            elif kind == "item":
                item = key[1].value if isinstance(key[1], Held) else key[1]
                place = item if type(item) is int and item >= 0 else -1
                self._step("item", known, base, item, place)
            else:
                self._step("apply", known, base, (key[0].value, tuple(key[1])))
        return known

    def guard(self, guard: Guard) -> None:
        """The step that checks a guard."""
        kind, value, number = guard.kind, guard.value, 0
        source = self.register(guard.source)
        if kind == "equal":
            if value is None or value is ... or type(value) is bool:
                kind = "is"
            elif type(value) is float and (value != value or value == 0.0):
                kind = "repr"
        elif kind in ("length", "longer"):
            number = value
        elif kind in ("same", "different"):
            number, value = self.register(value), None
        elif kind == "plain-module":
            value = value.hooks()
        self._step(kind, 0, source, value, number)

    def program(
        self, state: tuple[int, Any], wanted: list[int], grouped: list[int], watch: core.NameWatch
    ) -> Any:
        """What checks all guards in one call, the watched names first."""
        count = len(self.registers)
        make: Any = core.GuardProgram
        return make(state, self.steps, count, wanted, grouped, watch)


AutocastState = tuple[tuple[str, bool, Any], ...]


def autocast_state() -> AutocastState:
    """What autocast does in this thread: for each device whether it is on, and its dtype."""
    return tuple(
        (device, autocast.is_autocast_enabled(device), autocast.get_autocast_dtype(device))
        for device in ("cpu", "cuda")
    )


class GuardSet:
    """The guards of one segment."""

    def __init__(self) -> None:
        self.guards: dict[tuple[str, Source, Any], Guard] = {}
        #: gives the user's line, where guards are shown with theirs
        self.where: Callable[[], Line | None] | None = None

    def add(self, kind: str, source: Source | None, value: object = None) -> None:
        """Ask for something, once."""
        if source is None or source.kind == "held":
            return
        several: Any = value if kind in ("has", "lacks", "longer", "different") else None
        key = (kind, source, id(value) if kind == "not" else several)
        if key not in self.guards:
            line = self.where() if self.where is not None else None
            self.guards[key] = Guard(kind, source, value, line)

    def steps(self, slots: list[str]) -> Steps:
        """All guards as steps, first use first, tensors behind the others."""
        made = Steps(slots)
        for guard in sorted(self.guards.values(), key=lambda g: g.kind == "tensor"):
            made.guard(guard)
        return made

    def write(self, out: Text, state: AutocastState) -> None:
        """Lines that return MISS where autocast is set otherwise than it was at the start."""
        for device, enabled, dtype in state:
            if enabled:
                ask = out.hold(autocast.get_autocast_dtype)
                out.lines.append(f"if {ask}({device!r}) is not {out.hold(dtype)}: return MISS")


def state_of_thread() -> tuple[int, Any]:
    """What every segment depends on: the thread's routing bits and the default dtype."""
    return core.thread_keys(), core.get_default_dtype()
