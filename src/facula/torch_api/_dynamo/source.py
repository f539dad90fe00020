"""`torch._dynamo.source`: where a value of a program comes from, as callers of `ShapeEnv` name it.

Takes names of variables, attributes and items. Gives objects that say the expression which reads the value.
Keeps true: equal places are equal objects, so that they may be keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

__all__ = ["AttrSource", "ConstantSource", "GetItemSource", "GlobalSource", "LocalSource", "Source"]


@dataclass(frozen=True)
class Source:
    """A place that a value is read from."""

    @property
    def name(self) -> str:
        """The expression that reads the value."""
        raise NotImplementedError


@dataclass(frozen=True)
class _Spelled(Source):
    #: the expression, over `self`
    _form: ClassVar[str]

    @property
    def name(self) -> str:
        """The expression that reads the value."""
        return self._form.format(self=self)


@dataclass(frozen=True)
class ConstantSource(_Spelled):
    """A value that the caller names."""

    source_name: str
    _form: ClassVar[str] = "{self.source_name}"


@dataclass(frozen=True)
class LocalSource(_Spelled):
    """A variable of the function."""

    local_name: str
    is_input: bool = False
    _form: ClassVar[str] = "L[{self.local_name!r}]"


@dataclass(frozen=True)
class GlobalSource(_Spelled):
    """A variable of the module in which the function stands."""

    global_name: str
    _form: ClassVar[str] = "G[{self.global_name!r}]"


@dataclass(frozen=True)
class AttrSource(_Spelled):
    """An attribute of a value."""

    base: Source
    member: str
    _form: ClassVar[str] = "{self.base.name}.{self.member}"


@dataclass(frozen=True)
class GetItemSource(_Spelled):
    """An item of a value."""

    base: Source
    index: Any
    _form: ClassVar[str] = "{self.base.name}[{self.index!r}]"
