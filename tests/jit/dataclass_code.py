"""Dataclasses, and scripted functions that use them; what they give stands in `test_dataclasses.py`."""

import dataclasses
from dataclasses import InitVar, dataclass
from typing import ClassVar, Dict, List, Optional  # noqa: UP035 - as programs write them

from facula import Tensor


@dataclass
class Pair:
    left: Tensor
    right: Optional[Tensor] = None  # noqa: UP045
    count: int = 3
    kinds: ClassVar[int] = 7

    def total(self) -> Tensor:
        right = self.right
        if right is None:
            return self.left.sum() * self.count
        return (self.left + right).sum() * self.count


@dataclass
class Scaled:
    value: Tensor
    factor: InitVar[float]
    names: Dict[str, int] = dataclasses.field(default=None, compare=False)  # noqa: UP006

    def __post_init__(self, factor: float) -> None:
        self.value = self.value * factor


@dataclass(order=True)
class Version:
    major: int
    minor: int = 0
    words: List[str] = dataclasses.field(compare=False, default=None)  # noqa: UP006
    fixed: int = dataclasses.field(init=False, default=11)


@dataclass(init=False)
class Checked:
    index: Tensor
    weight: Optional[Tensor] = None  # noqa: UP045

    def __init__(self, index: Tensor, weight: Optional[Tensor] = None):  # noqa: UP045
        if index.dim() != 2:
            raise ValueError(f"two dimensions, not {index.dim()}")
        self.index = index
        self.weight = weight


@dataclass
class Filled:
    items: List[int] = dataclasses.field(default_factory=list)  # noqa: UP006


def pairs(x: Tensor):
    alone, both = Pair(x), Pair(x, right=x * 2, count=1)
    return alone.total(), both.total(), alone.right is None, both.count


def scaled(x: Tensor):
    return Scaled(x, 2.5, {"a": 1}).value


def versions(a: int, b: int):
    one, other = Version(1, a, ["x"]), Version(1, b, ["y"])
    return one < other, one <= other, one > other, one >= other, one == other, one.fixed


def equal_pairs(x: Tensor):
    one, other = Pair(x, count=2), Pair(x, None, 2)
    return one == other, one == Pair(x, x, 2), one == Pair(x + 1, None, 2)


def checked(x: Tensor):
    made = Checked(x)
    return made.index.size(0), made.weight is None
