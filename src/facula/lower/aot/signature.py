"""What a traced program does besides computing: writes to inputs, and results that share memory.

Takes: the level that made a program functional, its inputs and its results.
Gives: `Signature`, from which `runtime` does the same to real tensors.
Keeps true: the values that the graph gives are first the new elements of written inputs, then fresh
results, each once; what is a view of an input, or of another result, is made at run time as a view.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from facula import core
from facula.autograd.transforms.aliases import Alias
from facula.autograd.transforms.functionalization import FunctionalLevel
from facula.autograd.transforms.view_inverses import DETACH, ViewStep

Tensor = core.Tensor


@dataclass(slots=True)
class Write:
    """An input that the program changed."""

    input: int
    #: where the graph gives its new elements; None where only its geometry changed
    value: int | None = None
    #: whether autograd sees the write
    hidden: bool = True
    #: in-place views (`t_`, ..) to do after that
    geometry: tuple[ViewStep, ...] = ()


@dataclass(slots=True)
class Result:
    """One result: `kind` is "value", "input", "input view", "value view" or "constant"."""

    kind: str
    #: the number of the value or input, or the constant itself
    source: Any
    steps: tuple[ViewStep, ...] = ()


@dataclass(slots=True)
class Signature:
    """How the values of a graph become the effects and results of a program."""

    writes: list[Write] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    #: for each value of the graph, whether gradients flow through it
    differentiable: list[bool] = field(default_factory=list)

    @property
    def plain(self) -> bool:
        """Whether the results are exactly the values, and nothing else happens."""
        return not self.writes and [(r.kind, r.source) for r in self.results] == [
            ("value", i) for i in range(len(self.differentiable))
        ]


class _Reader:
    """Collects values and results while a level is at work."""

    def __init__(self, level: FunctionalLevel, inputs: Sequence[Any]) -> None:
        self.level = level
        self.inputs = inputs
        self.number_of = {id(x): i for i, x in reversed(list(enumerate(inputs)))}
        self.values: list[Tensor] = []
        self.positions: dict[int, int] = {}
        #: for a value and the memory, in the program, that it is the elements of: the result's value
        self.owned: dict[tuple[int, int], int] = {}
        self.signature = Signature()

    def position(self, value: Tensor, differentiable: bool) -> int:
        """Where the graph gives a value; it gives each once."""
        known = self.positions.get(id(value))
        if known is None:
            known = self.positions[id(value)] = len(self.values)
            self.values.append(value)
            self.signature.differentiable.append(differentiable)
        elif differentiable:
            self.signature.differentiable[known] = True
        return known

    def read_writes(self) -> None:
        """Find out which inputs were changed, and how."""
        for number, x in enumerate(self.inputs):
            if not isinstance(x, Tensor) or self.number_of[id(x)] != number:
                continue
            alias = self.level.alias_of(x)
            root = alias.root()
            write = Write(number)
            if root.memory.generation and root.memory.tensor is x:
                write.hidden = root.memory.hidden
                tracked = root.value.requires_grad and not write.hidden
                value = root.value if tracked else _unrecorded(root.value)
                write.value = self.position(value, tracked)
            if alias is not root and root.memory.tensor is x:
                write.geometry = tuple(_steps(alias))
            if write.value is not None or write.geometry:
                self.signature.writes.append(write)

    def alias_of(self, x: Tensor) -> Alias | None:
        """What a result shows of a memory, None where it shares none."""
        entries = x._aliases
        found = None if entries is None else entries.get(self.level.number)
        if found is None and core.storage_key(x) in self.level.memories:
            found = self.level.alias_of(x)
        return found

    def read_results(self, outputs: Sequence[Any]) -> None:
        """Find out what each result is."""
        shown: dict[int, set[int]] = {}
        for x in outputs:
            alias = self.alias_of(x) if isinstance(x, Tensor) else None
            if alias is not None:
                shown.setdefault(id(alias.memory), set()).add(id(alias))
        self.signature.results = [self._result(x, shown) for x in outputs]

    def _result(self, x: object, shown: dict[int, set[int]]) -> Result:
        if not isinstance(x, Tensor):
            return Result("constant", x)
        number = self.number_of.get(id(x))
        if number is not None:
            return Result("input", number)
        alias = self.alias_of(x)
        if alias is None:
            return self._fresh(x, core.storage_key(x))
        root = alias.root()
        owner = self.number_of.get(id(root.memory.tensor))
        if owner is not None:
            return Result("input view", owner, _steps_to(x, alias, self.inputs[owner]))
        if alias is root or root.memory.external or len(shown[id(alias.memory)]) == 1:
            return self._fresh(self.level.value_of(x), id(alias.memory))
        base = self._fresh(root.value, id(alias.memory))
        return Result("value view", base.source, _steps_to(x, alias, root.value))

    def _fresh(self, value: Tensor, owner: int) -> Result:
        """A value as what a result is; two memories with the same elements are two values."""
        key = (id(value), owner)
        number = self.owned.get(key)
        if number is None:
            if self.positions.get(id(value)) in self.owned.values():
                del self.positions[id(value)]
            number = self.owned[key] = self.position(value, value.requires_grad)
        return Result("value", number)


def _unrecorded(value: Tensor) -> Tensor:
    return value.detach() if value.requires_grad else value


def cotangent_strides(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """The memory order of a value's cotangent: the value's, or contiguous where its elements overlap."""
    if not any(s == 0 and n > 1 for n, s in zip(shape, strides, strict=True)):
        return tuple(strides)
    made, step = [], 1
    for n in reversed(shape):
        made.append(step)
        step *= max(n, 1)
    return tuple(reversed(made))


def _steps(alias: Alias) -> list[ViewStep]:
    """The views that lead from the whole memory to an alias."""
    found: list[ViewStep] = []
    while alias.parent is not None and alias.step is not None:
        found.append(alias.step)
        alias = alias.parent
    return found[::-1]


def _steps_to(x: Tensor, alias: Alias, base: Tensor) -> tuple[ViewStep, ...]:
    """The views that lead from a base to a result; one that was taken without recording has no history."""
    steps = _steps(alias)
    unrecorded = core.is_grad_enabled() and base.requires_grad and not x.requires_grad
    if unrecorded and not any(step.detaches for step in steps):
        steps.append(ViewStep(DETACH, (), None, core.TensorMeta(x)))
    return tuple(steps)


def read_signature(
    level: FunctionalLevel, inputs: Sequence[Any], outputs: Sequence[Any], gradients: bool
) -> tuple[Signature, list[Tensor]]:
    """The signature of a program that just ran, and the values that its graph is to give.

    gradients: whether any value has some.
    """
    reader = _Reader(level, inputs)
    reader.read_writes()
    reader.read_results(outputs)
    if not gradients:
        reader.signature.differentiable = [False] * len(reader.values)
    return reader.signature, reader.values
