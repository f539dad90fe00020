"""Patterns of a `BackendConfig` in graphs.

Takes: nodes, and patterns: a class of modules, a function, the name of a method, `MatchAllNode`, or a tuple of the
last part and what its arguments are. Gives: whether one fits; all that fit in a graph. Keeps true: nodes of a
pattern, but the last, are used inside of it only; a node belongs to one match; larger patterns come first.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from facula import core
from facula.fx import Node
from facula.nn import Module
from facula.nn.utils.parametrize import type_before_parametrizations
from facula.quantization.backend_config.classes import BackendPatternConfig
from facula.quantization.utils import MatchAllNode, Pattern

__all__ = ["Match", "MatchAllNode", "all_matches", "is_match", "parts_of", "same_call"]

#: writing forms of Python's operators compute what the others do
_PLAIN = {operator.iadd: operator.add, operator.imul: operator.mul}


def _canonical(function: Any) -> Any:
    """A function without its second names, and the operator of a form that writes."""
    function = _PLAIN.get(function, function) if callable(function) else function
    if isinstance(function, core.InplaceOp):
        return function.op
    if isinstance(function, core.Alias):
        return core.operator_of(function)
    return function


def same_call(target: object, wanted: object) -> bool:
    """Whether a function that a graph calls is one that a pattern names."""
    return target is wanted or _canonical(target) is _canonical(wanted)


def is_match(
    modules: dict[str, Module], node: Any, pattern: Pattern, max_uses: int = sys.maxsize
) -> bool:
    """Whether a pattern ends at a node.

    Args:
        modules: the modules of the graph by name
        node: the node, or a constant among arguments
        pattern: the pattern
        max_uses: how many users the node may have

    Returns:
        True where it fits

    Example:
        >>> from facula import fx, nn
        >>> from facula.quantization.graph.matching import is_match
        >>> model = fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
        >>> last = list(model.graph.nodes)[-2]
        >>> is_match(dict(model.named_modules()), last, (nn.ReLU, nn.Linear))
        True
    """
    head, parts = (pattern[0], pattern[1:]) if isinstance(pattern, tuple) else (pattern, ())
    if head is MatchAllNode or isinstance(head, MatchAllNode):
        return True
    if not isinstance(node, Node):
        return not parts and node == head
    if len(node.users) > max_uses or not _is_head(modules, node, head):
        return False
    if not parts:
        return True
    given = node.args
    return len(given) == len(parts) and all(
        is_match(modules, argument, part, max_uses=1)
        for argument, part in zip(given, parts, strict=True)
    )


def _is_head(modules: dict[str, Module], node: Node, head: Any) -> bool:
    if isinstance(head, type) and issubclass(head, Module):
        if node.op != "call_module":
            return False
        module = modules.get(str(node.target))
        return module is not None and type_before_parametrizations(module) is head
    if isinstance(head, str):
        if node.op == "call_function" and node.target is getattr:
            return len(node.args) > 1 and node.args[1] == head
        return node.op == "call_method" and node.target == head
    return node.op == "call_function" and callable(head) and same_call(node.target, head)


def parts_of(node: Any, pattern: Pattern) -> Any:
    """The nodes of a match, in the shape of its pattern; `MatchAllNode` stays what it is."""
    if not isinstance(pattern, tuple):
        return node
    return (node, *(parts_of(a, p) for a, p in zip(node.args, pattern[1:], strict=True)))


def _inner(parts: Any, pattern: Pattern) -> Iterator[Any]:
    """The nodes of a match without what may be anything."""
    head = pattern[0] if isinstance(pattern, tuple) else pattern
    if head is MatchAllNode:
        return
    if not isinstance(pattern, tuple):
        if isinstance(parts, Node):
            yield parts
        return
    yield parts[0]
    for part, inner in zip(parts[1:], pattern[1:], strict=True):
        yield from _inner(part, inner)


def _deepest(parts: Any) -> Any:
    """The first node that is computed, along the last arguments."""
    while isinstance(parts, tuple):
        parts = parts[-1]
    return parts


@dataclass
class Match:
    """A place of a graph where a pattern fits."""

    last: Any
    parts: Any
    pattern: Any
    config: BackendPatternConfig | None
    nodes: list[Any] = field(default_factory=list)

    @property
    def root(self) -> Any:
        """The node that has the weight, or that is computed first."""
        getter = self.config._root_node_getter if self.config is not None else None
        return getter(self.parts) if getter is not None else _deepest(self.parts)

    @property
    def extra(self) -> list[Any]:
        """Inputs beside those of the root."""
        getter = self.config._extra_inputs_getter if self.config is not None else None
        return list(getter(self.parts)) if getter is not None else []


def _size(pattern: Pattern) -> int:
    return 1 + sum(_size(p) for p in pattern[1:]) if isinstance(pattern, tuple) else 1


def all_matches(
    graph: Any,
    modules: dict[str, Module],
    configs: dict[Any, BackendPatternConfig],
    own: Callable[[Node], bool] = lambda node: False,
) -> dict[Any, Match]:
    """Every node that belongs to a match, with the match.

    Args:
        graph: the graph
        modules: its modules by name
        configs: what belongs to each pattern
        own: says which calls of modules are quantized in a way of their own; they match by themselves
    """
    found: dict[Any, Match] = {}
    ordered = sorted(configs.items(), key=lambda item: -_size(item[0]))
    for node in reversed(list(graph.nodes)):
        if node in found or node.op in ("placeholder", "output", "get_attr"):
            continue
        if node.op == "call_module" and own(node):
            found[node] = Match(node, node, None, None, [node])
            continue
        for pattern, config in ordered:
            if not is_match(modules, node, pattern):
                continue
            match = Match(node, parts_of(node, pattern), pattern, config)
            match.nodes = list(_inner(match.parts, pattern))
            if any(n in found for n in match.nodes):
                continue
            for inner in match.nodes:
                found[inner] = match
            break
    return found


_is_match = is_match
