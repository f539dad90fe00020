"""What a graph was lowered to, seen from outside: buffers, views of them, calls, the program.

Takes: nothing; `lowering` builds it. Gives: `Buffer`, `View`, `Extern`, `Program`; `views_in`.
Keeps true: nothing here needs the loops (`ir`), so that a process which reads lowered graphs from
disk imports neither them nor what made them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from facula import core

ITEMSIZE = {
    "f32": 4, "f64": 8, "bf16": 2, "f16": 2, "i64": 8, "i32": 4, "i16": 2, "i8": 1, "u8": 1,
    "b8": 1, "u16": 2, "u32": 4, "u64": 8, "c64": 8, "c128": 16, "c32": 4,
    "f8e4m3": 1, "f8e5m2": 1, "f8e4m3z": 1, "f8e5m2z": 1,
}  # fmt: skip
#: the core's dtypes by their codes
DTYPES: dict[str, Any] = {d.code: d for d in vars(core).values() if isinstance(d, core.dtype)}


class Buffer:
    """Memory that holds a tensor: an input, a result of a step, or what an extern call returned."""

    __slots__ = ("code", "name", "role", "shape", "strides")

    def __init__(
        self, name: str, code: str, shape: Sequence[int], strides: Sequence[int], role: str
    ) -> None:
        self.name, self.code, self.role = name, code, role
        self.shape, self.strides = tuple(shape), tuple(strides)

    @property
    def numel(self) -> int:
        """How many elements the tensor has."""
        return prod(self.shape)

    @property
    def extent(self) -> int:
        """How many elements lie between the first and the last one, both counted."""
        if not self.numel:
            return 0
        return 1 + sum((n - 1) * s for n, s in zip(self.shape, self.strides, strict=True))

    @property
    def nbytes(self) -> int:
        """The size of the memory."""
        return self.extent * ITEMSIZE[self.code]

    def __repr__(self) -> str:
        return f"{self.name}: {self.code}{list(self.shape)}"


@dataclass(frozen=True, slots=True)
class View:
    """A tensor: a buffer's memory with sizes, strides and the place of the first element."""

    buffer: Buffer
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0
    code: str = ""

    @property
    def whole(self) -> bool:
        """Whether it is the buffer's own tensor."""
        own = self.buffer
        return not self.offset and self.shape == own.shape and self.strides == own.strides


def views_in(structure: object) -> Iterator[View]:
    """Every view in a structure of tuples, lists and dicts."""
    if isinstance(structure, View):
        yield structure
    elif isinstance(structure, (tuple, list)):
        for item in structure:
            yield from views_in(item)
    elif isinstance(structure, dict):
        yield from views_in(list(structure.values()))


@dataclass(slots=True)
class Extern:
    """A call of an eager operator. Arguments hold `View` where tensors stand."""

    target: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    results: list[Buffer]
    several: bool
    origin: str = ""

    @property
    def reads(self) -> set[Buffer]:
        """The buffers read."""
        return {view.buffer for view in views_in((self.args, self.kwargs))}

    @property
    def writes(self) -> list[Buffer]:
        """The buffers written."""
        return self.results


@dataclass(slots=True)
class Program:
    """Inputs, constants, steps in order, and outputs: views, numbers or None.

    `calls` are those of the graph that became loops although all that they read and give is in
    memory: what `whole` may turn back into calls.
    """

    inputs: list[Buffer | None]
    constants: list[tuple[Buffer, Any]]
    steps: list[Any]
    outputs: Any
    calls: list[Extern] = field(default_factory=list)
