"""The translations: which function writes an operator into a graph.

Takes functions for operators, given by `translation` and by programs. Gives `TRANSLATIONS`, and
`REWRITES`, which make an operator of others first.
Keeps true: an operator stands here only where its definition says nothing from which nodes follow:
pointwise operators are written from their expression, composites from their body, and row operators
without a node of their own from their program. The table stands here, and not in the definitions,
because ONNX lies layers above them, as the code generator's templates do.

A translation is `f(call, *arguments)`, arguments in schema order: tensors are values, numbers that
depend on sizes too. It gives a value, or a list of them; NotImplemented leaves a pointwise operator to
its expression.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula.core.errors import fail
from facula.onnx.errors import UnsupportedOperatorError
from facula.onnx.graph import Graph, Value
from facula.onnx.sizes import Sizes

Translation = Callable[..., Any]

TRANSLATIONS: dict[str, Translation] = {}
#: operators that are made of others for ONNX only
REWRITES: dict[str, Callable[..., Any]] = {}


def translation(name: str) -> Callable[[Translation], Translation]:
    """Enter a translation of an operator."""

    def enter(function: Translation) -> Translation:
        TRANSLATIONS[name] = function
        return function

    return enter


def rewrite(name: str) -> Callable[[Any], Any]:
    """Enter a function that computes an operator by others, of the same arguments."""

    def enter(function: Callable[..., Any]) -> Any:
        REWRITES[name] = function
        return function

    return enter


class Call:
    """One call while it is translated: the graph, and what is known of the results."""

    def __init__(self, graph: Graph, sizes: Sizes, name: str, metas: list[Any]) -> None:
        self.graph = graph
        self.sizes = sizes
        self.name = name
        #: the results without elements
        self.metas = metas

    def op(self, kind: str, *inputs: Any, **settings: Any) -> Any:
        """Append a node: see `Graph.op`."""
        return self.graph.op(kind, *inputs, **settings)

    @property
    def dtype(self) -> Any:
        """The dtype of the first result."""
        return self.metas[0].dtype

    def shape(self, number: int = 0) -> list[Any]:
        """The sizes of a result, as numbers and values."""
        return self.sizes.shape_of(self.metas[number])

    def dims(self, dim: Any, rank: int) -> list[int]:
        """Dimensions as numbers from 0; None and () are all of them."""
        if dim is None or (isinstance(dim, (tuple, list)) and not dim):
            return list(range(rank))
        given = dim if isinstance(dim, (tuple, list)) else [dim]
        return [int(d) % rank if rank else 0 for d in given if rank]

    def unsupported(self, required: str, got: object, hint: str) -> Any:
        """Raise: ONNX has no form for these arguments."""
        fail(UnsupportedOperatorError, "onnx.export", f"{self.name}: {required}", got, hint=hint)

    def static(self, what: str, numbers: Any) -> list[int]:
        """Numbers that ONNX keeps as attributes, and that therefore may not depend on sizes."""
        found = list(numbers)
        if any(isinstance(n, Value) for n in found):
            self.unsupported(f"a {what} that is the same for all sizes was required",
                             "one that depends on the sizes of inputs",
                             "leave the dimension that it depends on out of dynamic_shapes")  # fmt: skip
        return [int(n) for n in found]
