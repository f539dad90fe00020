"""Lowered graphs as JSON, for the cache on disk.

Takes: a `Lowered`. Gives: bytes, and the `Lowered` again.
Keeps true: what is read back makes the same wrapper and the same C text; reading runs nothing: it looks
up operators in the table, and functions among `FUNCTIONS`; a lowered graph that holds anything else is
not written (`Unsaid`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from facula import core
from facula.codegen.c.loops.fused_unit import Unit
from facula.fx.symbols import SymInt
from facula.lower.loops import memory
from facula.lower.loops.program import DTYPES, Buffer, Extern, Program, View
from facula.ops.table import overloads
from facula.ops.table.registry import TABLE

#: functions besides operators that lowering calls, by the module that has them: it is imported when
#: a stored graph calls one
FUNCTIONS = {"check_within": "facula.lower.loops.gathers", "getitem": "operator"}
_CORE_KINDS = {
    "dtype": core.dtype,
    "layout": core.layout,
    "memory_format": core.memory_format,
}


class Unsaid(Exception):
    """A graph holds something that text can not name."""


@dataclass(slots=True)
class Launch:
    """Consecutive kernels as one call of a driver; None among the slots is the arena."""

    kernels: int
    slots: list[Buffer | None]


@dataclass(slots=True)
class Lowered:
    """A graph as launches and calls in order, with memory and C text."""

    program: Program  # inputs, constants and outputs; its steps are in `order`
    plan: memory.Plan
    order: list[Extern | Launch]
    unit: Unit
    #: before fusion, for the metrics
    steps: int
    #: whether the graph empties the list of its inputs
    empties: bool = False


# ------------------------------------------------------------------ writing


class _Writer:
    """Values as JSON has them; buffers by number, since many places name one."""

    def __init__(self) -> None:
        self.numbers: dict[int, int] = {}
        self.buffers: list[list[Any]] = []

    def buffer(self, b: Buffer | None) -> int | None:
        if b is None:
            return None
        number = self.numbers.get(id(b))
        if number is None:
            number = self.numbers[id(b)] = len(self.buffers)
            self.buffers.append([b.name, b.code, b.shape, b.strides, b.role])
        return number

    def many(self, given: Any) -> list[int | None]:
        return [self.buffer(b) for b in given]

    def value(self, x: object) -> Any:
        if x is None or type(x) in (bool, int, float, str) or isinstance(x, SymInt):
            return x
        if isinstance(x, View):
            return {"v": [self.buffer(x.buffer), x.shape, x.strides, x.offset, x.code]}
        if type(x) is tuple:
            return {"t": [self.value(item) for item in x]}
        if isinstance(x, list):
            return [self.value(item) for item in x]
        if isinstance(x, tuple):
            return (
                {"t": [self.value(item) for item in x]} if type(x) is core.Size else self.unsaid(x)
            )
        if isinstance(x, dict):
            return {"d": [[self.value(k), self.value(v)] for k, v in x.items()]}
        if isinstance(x, slice):
            return {"s": [self.value(part) for part in (x.start, x.stop, x.step)]}
        if type(x) is complex:
            return {"c": [x.real, x.imag]}
        if isinstance(x, core.device):
            return {"device": str(x)}
        for kind, type_ in _CORE_KINDS.items():
            if isinstance(x, type_):
                return {kind: str(x).rpartition(".")[2]}
        return self.unsaid(x)

    def unsaid(self, x: object) -> Any:
        """What stands for a value that text can not name."""
        raise Unsaid(f"an argument of type {type(x).__name__}")

    def target(self, target: object) -> Any:
        """What a step calls, by the table that has it."""
        return _written_target(target)

    def step(self, step: Extern | Launch) -> list[Any]:
        if isinstance(step, Launch):
            return [step.kernels, self.many(step.slots)]
        return [
            self.target(step.target), self.value(step.args), self.value(step.kwargs),
            self.many(step.results), step.several, step.origin,
        ]  # fmt: skip

    def plan(self, plan: memory.Plan) -> list[Any]:
        return [
            plan.size,
            [[self.buffer(b), place] for b, place in plan.offsets.items()],
            [self.many(step) for step in plan.allocate],
            [self.many(step) for step in plan.release],
            [[self.buffer(b), self.buffer(to)] for b, to in plan.aliases.items()],
        ]


class _Comparer(_Writer):
    """The same for a comparison within one process, where objects stand for themselves."""

    def unsaid(self, x: object) -> Any:
        return ["object", id(x)]

    def target(self, target: object) -> Any:
        return ["object", id(target)]


def _written_target(target: object) -> list[str]:
    """What a step calls, by the table that has it."""
    if isinstance(target, overloads.OpOverload):
        found = ["overload", *str(target).split(".", 2)]
    elif isinstance(target, core.Op) and TABLE.get(target.name) is target:
        found = ["operator", target.name]
    else:
        found = ["function", getattr(target, "__name__", "")]
    if _target(found) is not target:
        raise Unsaid(f"the function {target}")
    return found


def to_bytes(lowered: Lowered) -> bytes:
    """The file's content; raises `Unsaid` where there is none."""
    return json.dumps(_described(lowered, _Writer()), separators=(",", ":")).encode()


def described(lowered: Lowered) -> dict[str, Any]:
    """All that a lowered graph is, as nested values that compare equal where two of them do the same."""
    return _described(lowered, _Comparer())


def _described(lowered: Lowered, writer: _Writer) -> dict[str, Any]:
    program, unit = lowered.program, lowered.unit
    return {
        "inputs": writer.many(program.inputs),
        "constants": writer.many(b for b, _ in program.constants),
        "outputs": writer.value(program.outputs),
        "plan": writer.plan(lowered.plan),
        "order": [writer.step(step) for step in lowered.order],
        "unit": [unit.text, unit.drivers, unit.numbers],
        "steps": lowered.steps,
        "empties": lowered.empties,
        "buffers": writer.buffers,
    }


# ------------------------------------------------------------------ reading


def _target(found: Sequence[str]) -> Any:
    """What a step calls; None for what no table has."""
    kind, *names = found
    if kind == "function":
        module = FUNCTIONS.get(names[0])
        return getattr(import_module(module), names[0]) if module is not None else None
    if kind == "operator":
        return TABLE.get(names[0])
    space, name, overload = names
    if space not in overloads.known_namespaces():
        return None
    return getattr(getattr(overloads.namespace(space), name), overload)


class _Reader:
    """The objects again; KeyError, TypeError and their like for what was not written here."""

    def __init__(self, buffers: list[Any]) -> None:
        self.buffers = [Buffer(*b) for b in buffers]
        for b in self.buffers:
            if not b.name.isidentifier() or b.code not in DTYPES:
                raise ValueError(f"{b.name!r} as the name of a buffer")

    def many(self, given: Any) -> list[Any]:
        buffers = self.buffers
        return [None if number is None else buffers[number] for number in given]

    def value(self, x: object) -> Any:
        if isinstance(x, list):
            return [self.value(item) for item in x]
        if not isinstance(x, dict):
            return x
        (kind, held), = x.items()  # fmt: skip
        return _READ[kind](self, held)

    def view(self, held: Any) -> View:
        number, shape, strides, offset, code = held
        return View(self.buffers[number], tuple(shape), tuple(strides), offset, code)

    def step(self, given: Any) -> Extern | Launch:
        if len(given) == 2:
            return Launch(given[0], self.many(given[1]))
        target, args, kwargs, results, several, origin = given
        found = _target(target)
        if found is None:
            raise ValueError(f"{target} as what a step calls")
        return Extern(
            found, self.value(args), self.value(kwargs), self.many(results), several, origin
        )

    def plan(self, given: Any) -> memory.Plan:
        size, offsets, allocate, release, aliases = given
        b = self.buffers
        return memory.Plan(
            size,
            {b[key]: place for key, place in offsets},
            [self.many(step) for step in allocate],
            [self.many(step) for step in release],
            {b[key]: b[to] for key, to in aliases},
        )


def _core_value(kind: str) -> Callable[[_Reader, Any], Any]:
    def read(reader: _Reader, name: Any) -> Any:
        found = getattr(core, name)
        if not isinstance(found, _CORE_KINDS[kind]):
            raise TypeError(f"{name} as a {kind}")
        return found

    return read


_READ: dict[str, Callable[[_Reader, Any], Any]] = {
    "v": _Reader.view,
    "t": lambda reader, held: tuple([reader.value(item) for item in held]),
    "d": lambda reader, held: {reader.value(k): reader.value(v) for k, v in held},
    "s": lambda reader, held: slice(*[reader.value(part) for part in held]),
    "c": lambda reader, held: complex(*held),
    "device": lambda reader, held: core.device(held),
    **{kind: _core_value(kind) for kind in _CORE_KINDS},
}


def from_bytes(content: bytes | memoryview) -> Lowered:
    """What was written; raises some exception for anything else. Constants have no tensors yet."""
    made = json.loads(bytes(content).decode())
    reader = _Reader(made["buffers"])
    text, drivers, numbers = made["unit"]
    return Lowered(
        Program(
            reader.many(made["inputs"]),
            [(b, None) for b in reader.many(made["constants"])],
            [],
            reader.value(made["outputs"]),
        ),
        reader.plan(made["plan"]),
        [reader.step(step) for step in made["order"]],
        Unit(text, drivers, numbers),
        made["steps"],
        made["empties"],
    )
