"""Examples of export: modules with what makes export interesting, and what may be exported of them.

Takes nothing. Gives: `all_examples`, by name. Keeps true: what is called supported is exported with the same numbers
(tests/export/test_examples.py does).
"""

from __future__ import annotations

from typing import Any

import facula
from facula import nn
from facula.export import Dim

from .case import ExportCase, SupportLevel

__all__ = ["all_examples", "filter_examples_by_support_level"]

Tensor = facula.Tensor


class CondOperands(nn.Module):
    """A choice by the elements of a tensor, which stays in the program."""

    def forward(self, x: Tensor, y: Tensor) -> Any:
        """Adds or subtracts."""
        return facula.cond(x.sum() > 0, lambda a, b: a + b, lambda a, b: a - b, (x, y))


class StaticIf(nn.Module):
    """A choice by the number of dimensions, which is decided when the program is exported."""

    def forward(self, x: Tensor) -> Any:
        """Adds a constant."""
        return x + 1 if x.dim() == 2 else x


class StaticForLoop(nn.Module):
    """A loop over numbers that are known, which is unrolled."""

    def forward(self, x: Tensor) -> Any:
        """A list of sums."""
        return [x + i for i in range(3)]


class DynamicShapeView(nn.Module):
    """A shape that follows from a size which may change."""

    def forward(self, x: Tensor) -> Any:
        """The elements in pairs of rows."""
        return x.view(-1, 2, x.shape[1]).mean(1)


class ScalarOutput(nn.Module):
    """A size as a result."""

    def forward(self, x: Tensor) -> Any:
        """One more than the number of rows."""
        return x.shape[0] + 1


class Dictionary(nn.Module):
    """Dictionaries as arguments and results."""

    def forward(self, x: Tensor, options: dict[str, Tensor]) -> Any:
        """A dictionary."""
        return {"sum": x + options["offset"], "offset": options["offset"]}


class BufferMutation(nn.Module):
    """A buffer that is written to."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", facula.zeros(1))

    def forward(self, x: Tensor) -> Any:
        """Adds how often it was called."""
        self.count.add_(1)
        return x + self.count


class FnWithKwargs(nn.Module):
    """Positional arguments and keywords, some of them of any name."""

    def forward(self, first: Tensor, *rest: Tensor, scale: Tensor, **others: Tensor) -> Any:
        """The sum of all, scaled."""
        total = first
        for x in (*rest, *others.values()):
            total = total + x
        return total * scale


class DataDependentBranch(nn.Module):
    """A choice by elements in Python, which no program can keep: `cond` says it."""

    def forward(self, x: Tensor) -> Any:
        """Doubles what is positive."""
        return x * 2 if x.sum() > 0 else x


def _case(name: str, model: nn.Module, args: tuple[Any, ...], **more: Any) -> ExportCase:
    return ExportCase(args, str(type(model).__doc__), model, name, **more)


def all_examples() -> dict[str, ExportCase]:
    """All examples by name.

    Example:
        >>> from facula._export.db.examples import all_examples
        >>> all_examples()["static_if"].description
        'A choice by the number of dimensions, which is decided when the program is exported.'
    """
    x = facula.arange(6.0).reshape(2, 3) + 1
    rows = {"x": {0: 2 * Dim("pairs")}}
    cases = [
        _case("cond_operands", CondOperands(), (x, x * 2), extra_args=(-x, x)),
        _case("static_if", StaticIf(), (x,)),
        _case("static_for_loop", StaticForLoop(), (x,)),
        _case("dynamic_shape_view", DynamicShapeView(), (x.repeat(2, 1),), dynamic_shapes=rows),
        _case("scalar_output", ScalarOutput(), (x,), dynamic_shapes={"x": {0: Dim("rows")}}),
        _case("dictionary", Dictionary(), (x, {"offset": x})),
        _case("buffer_mutation", BufferMutation(), (x,)),
        _case("fn_with_kwargs", FnWithKwargs(), (x, x), example_kwargs={"scale": x, "bias": x}),
        _case(
            "data_dependent_branch", DataDependentBranch(), (x,), support_level=SupportLevel.NOT_SUPPORTED_YET
        ),
    ]  # fmt: skip
    return {case.name: case for case in cases}


def filter_examples_by_support_level(support_level: SupportLevel) -> dict[str, ExportCase]:
    """The examples of a level.

    Args:
        support_level: the level
    """
    return {n: c for n, c in all_examples().items() if c.support_level is support_level}
