"""What a call of a higher order operator takes and gives, as a schema's text.

Takes: a node that calls one. Gives: `hop_schema_from_fx_node`: `cond(Tensor pred, GraphModule true_fn, ...)`.
Keeps true: names are those of the operator's own parameters, types those of the values that the node knows.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import facula
from facula import core
from facula.core.errors import fail
from facula.fx import GraphModule, Node
from facula.fx.higher_order import HigherOrderOperator

__all__ = ["HopSchema", "hop_schema_from_fx_node"]


@dataclass(frozen=True)
class HopSchema:
    """The parameters and results of one call: pairs of a type and a name, and types."""

    name: str
    arguments: tuple[tuple[str, str], ...]
    returns: tuple[str, ...]

    def __str__(self) -> str:
        arguments = ", ".join(f"{kind} {name}" for kind, name in self.arguments)
        return f"{self.name}({arguments}) -> {', '.join(self.returns) or '()'}"


def _kind(value: Any, owner: Any) -> str:
    """The type of a value, or of what a node gives."""
    if isinstance(value, Node):
        if value.op == "get_attr" and owner is not None:
            value = getattr(owner, str(value.target))
            return "GraphModule" if isinstance(value, GraphModule) else type(value).__name__
        value = value.meta.get("val")
    if isinstance(value, core.Tensor):
        return "Tensor"
    if isinstance(value, (tuple, list)):
        kinds = {_kind(x, owner) for x in value}
        return f"{kinds.pop() if len(kinds) == 1 else 'Any'}[{len(value)}]"
    return type(value).__name__


def hop_schema_from_fx_node(node: Node) -> HopSchema:
    """The schema of the call that a node is.

    Args:
        node: it

    Raises:
        RuntimeError: it calls no higher order operator.
    """
    operator: Any = node.target
    if not isinstance(operator, HigherOrderOperator):
        fail(RuntimeError, "hop_schema_from_fx_node", "a call of a higher order operator was required", str(operator),
             hint="torch.cond and the like become such calls")  # fmt: skip
    owner = node.graph.owning_module
    names = list(inspect.signature(getattr(facula, operator.__name__, operator)).parameters)
    given = [*node.args, *node.kwargs.values()]
    named = [*names[: len(node.args)], *node.kwargs]
    if len(named) != len(given):
        named = [f"arg{i}" for i in range(len(given))]
    arguments = tuple((_kind(x, owner), name) for x, name in zip(given, named, strict=True))
    result = node.meta.get("val")
    returns = () if result is None else (_kind(result, owner),)
    return HopSchema(operator.__name__, arguments, returns)
