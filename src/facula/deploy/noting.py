"""What a program launches, noted while it runs (`core.noted_launches`).

Takes: a function, its inputs and constants. Gives: `Noted`: the launches as a structure of plain values
and, apart from it, the numbers, which may be others for other sizes.
Keeps true: two runs with equal structures differ in nothing but these numbers; kernels have names.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.reduce import launch

#: kinds of steps, by their numbers in files (`native/fm_program.h`)
KINDS = ("driver", "body", "map", "iterate", "copy", "fill", "zero", "check")
CODES = (
    "f32", "f64", "f16", "bf16", "i64", "i32", "i16", "i8", "u8", "b8", "c64", "c128", "c32", "u16",
    "u32", "u64", "f8e4m3", "f8e5m2", "f8e4m3z", "f8e5m2z",
)  # fmt: skip
#: where a pointer leads: ("input", k), ("constant", k), ("table", digest), ("made", k), or None
Base = tuple[str, Any] | None
#: the address of kernel k among the sizes of a launch is -k - MAP_OFFSET
MAP_OFFSET = 1 << 62


@dataclass(slots=True)
class Step:
    """One launch; sizes, offsets and the like are numbers of `Noted.numbers`, from `at` on."""

    kind: str
    kernel: str | None
    bases: tuple[Base, ...]
    sizes: int
    scalars: int
    #: of an iteration: outputs, inputs, dimensions, ((dtype, compute), ...)
    walked: tuple[Any, ...] | None


@dataclass(slots=True)
class Noted:
    """The launches of one run."""

    steps: list[Step]
    storages: int
    #: of results: base, dtype's code, dimensions
    results: list[tuple[Base, str, int]]
    numbers: list[int] = field(default_factory=list)
    #: the numbers that say how many items a thread gets at least: any value is right
    free: set[int] = field(default_factory=set)
    tables: dict[str, bytes] = field(default_factory=dict)

    def structure(self) -> Any:
        """All but the numbers, as a value that compares."""
        steps = tuple((s.kind, s.kernel, s.bases, s.sizes, s.scalars, s.walked) for s in self.steps)
        return steps, self.storages, tuple(self.results), len(self.numbers)


def note(
    function: Callable[[], Sequence[Any]],
    inputs: Sequence[Any],
    constants: Sequence[Any],
    *,
    dry: bool,
) -> Noted:
    """Run a function and note what it launches."""
    before, launch.PLAINLY.on = launch.PLAINLY.on, True
    try:
        found = core.noted_launches(function, [*inputs, *constants], dry)
    finally:
        launch.PLAINLY.on = before
    if found is None:
        fail(
            NotImplementedError,
            "package",
            "a program whose launches follow from sizes alone was required: an operator of this one reads "
            "elements (sizes that depend on data), runs in Python, or draws random numbers",
            hint="put the module into eval(), and keep nonzero, unique, boolean masks, Fourier transforms and "
            "decompositions of matrices out of it",
        )
    steps, storages, results = found
    return _Writer(len(inputs), len(constants), storages).noted(steps, results)


class _Writer:
    def __init__(self, inputs: int, constants: int, storages: Sequence[Any]) -> None:
        self.inputs, self.outer = inputs, inputs + constants
        self.storages = storages
        self.numbers: list[int] = []
        self.free: set[int] = set()
        self.tables: dict[str, bytes] = {}
        self.places: dict[int, Base] = {}
        made = 0
        for k, (_, content) in enumerate(storages):
            if content is None:
                self.places[self.outer + k] = ("made", made)
                made += 1
            else:
                digest = hashlib.sha256(content).hexdigest()
                self.tables[digest] = content
                self.places[self.outer + k] = ("table", digest)
        self.made = made
        self.names = {address: name for name, address in core.KERNELS.items()}

    def base(self, number: int) -> Base:
        if number < 0:
            return None
        if number < self.inputs:
            return ("input", number)
        if number < self.outer:
            return ("constant", number - self.inputs)
        return self.places[number]

    def noted(self, steps: Sequence[Any], results: Sequence[Any]) -> Noted:
        self.numbers += [size for size, content in self.storages if content is None]
        done = [self.step(*each) for each in steps]
        kept = []
        for result in results:
            if result[0] is None:
                fail(
                    NotImplementedError,
                    "package",
                    "tensors were required as results",
                    repr(result[1]),
                    hint="give a tensor instead: facula.tensor(value)",
                )
            base, offset, shape, strides, code = result
            self.numbers += [offset, *shape, *strides]
            kept.append((self.base(base), code, len(shape)))
        return Noted(done, self.made, kept, self.numbers, self.free, self.tables)

    def step(
        self, kind: str, address: int, pointers: Any, sizes: Any, scalars: Any, total: int,
        grain: int, walked: Any, value: Any,
    ) -> Step:  # fmt: skip
        name = None
        if address:
            name = self.names[address]
        self.numbers += [offset for _, offset in pointers]
        maps = []
        for number in sizes:
            # a driver that ends in a map is given its address
            known = self.names.get(number) if number > 1 << 32 else None
            maps.append(known)
            self.numbers.append(0 if known else number)
        if value is not None:
            scalars = [int.from_bytes(value[k : k + 8], "little", signed=True) for k in (0, 8)]
        self.numbers += [*scalars, total, grain]
        self.free.add(len(self.numbers) - 1)
        shown: tuple[Any, ...] | None = None
        if walked is not None:
            outputs, inputs, shape, operands = walked
            self.numbers += shape
            for _, _, strides in operands:
                self.numbers += strides
            kinds = tuple((dtype, compute) for dtype, compute, _ in operands)
            shown = (outputs, inputs, len(shape), kinds)
        bases = tuple(self.base(number) for number, _ in pointers)
        found = Step(kind, name, bases, len(sizes), len(scalars), shown)
        if any(maps):
            found.walked = ("maps", tuple(maps))
        return found
