"""`torch._dynamo.source`: where a value of a program comes from, as callers of `ShapeEnv` name it.

Takes names of variables, attributes and items. Gives objects that say the expression which reads the value.
Keeps true: equal places are equal objects, so that they may be keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["AttrSource", "ConstantSource", "GetItemSource", "GlobalSource", "LocalSource", "Source"]


@dataclass(frozen=True)
class Source:
    """A place that a value is read from."""

    @property
    def name(self) -> str:
        """The expression that reads the value."""
        raise NotImplementedError


@dataclass(frozen=True)
class ConstantSource(Source):
    """A value that the caller names."""

    source_name: str

    @property
    def name(self) -> str:
        """The expression that reads the value."""
        return self.source_name


@dataclass(frozen=True)
class LocalSource(Source):
    """A variable of the function."""

    local_name: str
    is_input: bool = False

    @property
    def name(self) -> str:
        """The expression that reads the value."""
        return f"L[{self.local_name!r}]"


@dataclass(frozen=True)
class GlobalSource(Source):
    """A variable of the module in which the function stands."""

    global_name: str

    @property
    def name(self) -> str:
        """The expression that reads the value."""
        return f"G[{self.global_name!r}]"


@dataclass(frozen=True)
class AttrSource(Source):
    """An attribute of a value."""

    base: Source
    member: str

    @property
    def name(self) -> str:
        """The expression that reads the value."""
        return f"{self.base.name}.{self.member}"


@dataclass(frozen=True)
class GetItemSource(Source):
    """An item of a value."""

    base: Source
    index: Any

    @property
    def name(self) -> str:
        """The expression that reads the value."""
        return f"{self.base.name}[{self.index!r}]"
