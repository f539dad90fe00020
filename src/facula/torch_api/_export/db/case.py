"""The form of an example of export.

Takes: a module, example inputs, and what is said of them. Gives: `ExportCase`, and `SupportLevel`, which says whether
it can be exported.
Keeps true: a case is data; nothing is exported here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

__all__ = ["ExportCase", "SupportLevel"]


class SupportLevel(Enum):
    """Whether an example can be exported."""

    SUPPORTED = 1
    NOT_SUPPORTED_YET = 0


@dataclass(frozen=True)
class ExportCase:
    """An example.

    Args:
        example_args: arguments of the model
        description: what it shows
        model: the module
        name: of the example
        example_kwargs: keywords of the model
        extra_args: further arguments, for which the exported program is right too
        tags: what it has to do with
        support_level: whether it can be exported
        dynamic_shapes: sizes that may change
    """

    example_args: tuple[Any, ...]
    description: str
    model: Any
    name: str
    example_kwargs: dict[str, Any] = field(default_factory=dict)
    extra_args: tuple[Any, ...] | None = None
    tags: frozenset[str] = frozenset()
    support_level: SupportLevel = SupportLevel.SUPPORTED
    dynamic_shapes: dict[str, Any] | None = None
