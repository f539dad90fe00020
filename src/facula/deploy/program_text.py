"""Programs as text, which the runtime in C reads (`native/fm_program.h`).

Takes: inputs, constants and regions. Gives: `program_text`.
Keeps true: the text has no names but those of inputs, constants and kernels, all of plain characters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from facula.deploy.noting import CODES, KINDS, MAP_OFFSET, Base
from facula.deploy.regions import Region


@dataclass(slots=True)
class Value:
    """An input or a constant: a size is `a * symbol + b`, as (a, b, symbol)."""

    name: str
    code: str
    sizes: tuple[tuple[int, int, int], ...]
    derived: bool = False
    offset: int = 0
    nbytes: int = 0


def plain_name(name: str) -> str:
    """A name of letters, digits and dots."""
    return re.sub(r"[^\w.\-]", "_", name, flags=re.ASCII)[:100] or "_"


def kernels_in(regions: Sequence[Region]) -> list[str]:
    """The kernels that regions launch."""
    found: dict[str, None] = {}
    for region in regions:
        for step in region.noted.steps:
            if step.kernel:
                found[step.kernel] = None
            if step.walked and step.walked[0] == "maps":
                found.update((name, None) for name in step.walked[1] if name)
    return list(found)


def program_text(
    symbols: int,
    inputs: Sequence[Value],
    constants: Sequence[Value],
    tables: dict[str, int],
    kernels: Sequence[str],
    regions: Sequence[Region],
) -> str:
    """The text of a program.

    Args:
        tables: the number among the constants of each table, by its digest.
        kernels: their names in the library, in the order of `kernels_in`.
        regions: the first one makes the derived constants.
    """
    numbers = {name: k for k, name in enumerate(kernels_in(regions))}
    lines = [f"facula-program 1 {symbols}", str(len(inputs))]
    lines += [_value(value) for value in inputs]
    lines.append(str(len(constants)))
    lines += [f"{_value(v)} {int(v.derived)} {v.offset} {v.nbytes}" for v in constants]
    lines += [str(len(kernels)), *kernels, str(len(regions))]

    def place(base: Base) -> int:
        if base is None:
            return -1
        kind, number = base
        if kind == "input":
            return int(number)
        if kind == "constant":
            return len(inputs) + int(number)
        if kind == "table":
            return len(inputs) + tables[number]
        return len(inputs) + len(constants) + int(number)

    for region in regions:
        lines += _Region(region, numbers, place, symbols).lines()
    return "\n".join(lines) + "\n"


def _value(value: Value) -> str:
    sizes = " ".join(f"{a} {b} {k}" for a, b, k in value.sizes)
    return f"{plain_name(value.name)} {CODES.index(value.code)} {len(value.sizes)} {sizes}"


class _Region:
    def __init__(
        self, region: Region, kernels: dict[str, int], place: Callable[..., Any], symbols: int
    ) -> None:
        self.region, self.kernels, self.place, self.symbols = region, kernels, place, symbols
        self.expressions: dict[Any, int] = {}
        self.numbers: Iterator[Any] = iter(region.numbers)

    def next(self, count: int) -> list[str]:
        """The next numbers."""
        found = []
        for _ in range(count):
            number = next(self.numbers)
            if isinstance(number, int):
                found.append(str(number))
            else:
                at = self.expressions.setdefault(number, len(self.expressions))
                found.append(f"${at}")
        return found

    def lines(self) -> list[str]:
        noted = self.region.noted
        storages = " ".join([str(noted.storages), *self.next(noted.storages)])
        steps = [self.step(step) for step in noted.steps]
        results = []
        for base, code, dims in noted.results:
            given = " ".join(self.next(1 + 2 * dims))
            results.append(f"{self.place(base)} {CODES.index(code)} {dims} {given}")
        ranges = " ".join(f"{least} {most}" for least, most in self.region.ranges)
        head = [f"region {ranges}", str(len(self.expressions))]
        head += [self.expression(each) for each in self.expressions]
        return [*head, storages, str(len(steps)), *steps, str(len(results)), *results]

    def expression(self, expression: Any) -> str:
        kind = expression[0]
        if kind == "p":
            terms = [f"{factor} {' '.join(map(str, powers))}" for factor, powers in expression[1]]
            return f"p {len(terms)} {' '.join(terms)}"
        if kind == "e":
            words = [str(word) for pair in expression[1] for word in pair]
            return f"e {len(expression[1])} {' '.join(words)}"
        if kind == "r":
            terms = [f"{factor} {' '.join(map(str, powers))}" for factor, powers in expression[2]]
            return f"r {expression[1]} {len(terms)} {' '.join(terms)}"
        if kind == "f":
            return f"f {expression[1]} {' '.join(map(str, expression[2]))}"
        _, symbol, least, values = expression
        return f"t {symbol} {least} {len(values)} {' '.join(map(str, values))}"

    def step(self, step: Any) -> str:
        kernel = self.kernels[step.kernel] if step.kernel else -1
        words = [str(KINDS.index(step.kind)), str(kernel), str(len(step.bases))]
        offsets = self.next(len(step.bases))
        for base, offset in zip(step.bases, offsets, strict=True):
            words += [str(self.place(base)), offset]
        sizes = self.next(step.sizes)
        if step.walked and step.walked[0] == "maps":
            for k, name in enumerate(step.walked[1]):
                if name:
                    sizes[k] = str(-self.kernels[name] - MAP_OFFSET)
        words += [str(len(sizes)), *sizes, str(step.scalars), *self.next(step.scalars)]
        words += self.next(2)
        if step.kind in ("iterate", "copy", "fill"):
            outputs, inputs, dims, kinds = step.walked
            words += [str(outputs), str(inputs), str(dims), *self.next(dims)]
            for dtype, compute in kinds:
                words += [str(dtype), str(compute), *self.next(dims)]
        return " ".join(words)
