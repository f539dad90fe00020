"""Which nodes a backend takes.

Takes nodes with the modules of their graph.  Gives yes or no; supports can be combined.
Keeps true: asking changes nothing.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from facula import core, nn
from facula.fx import names
from facula.fx.node import Node

__all__ = [
    "OpSupports", "OperatorSupport", "OperatorSupportBase", "any_chain", "chain", "create_op_support",
]  # fmt: skip

IsNodeSupported = Callable[[Mapping[str, nn.Module], Node], bool]
SupportDict = Mapping[str, Any]


def target_name(node: Node, submodules: Mapping[str, nn.Module]) -> str:
    """The name of what a node calls: of a function, a method or the class of a module."""
    if node.op == "call_module":
        kind = type(submodules[str(node.target)])
        return f"{names.public_module(kind.__module__)}.{kind.__qualname__}"
    return str(node.target) if isinstance(node.target, str) else names.qualified_name(node.target)


class OperatorSupportBase(abc.ABC):
    """Says of nodes whether they are taken."""

    @abc.abstractmethod
    def is_node_supported(self, submodules: Mapping[str, nn.Module], node: Node) -> bool:
        """Whether a node is taken."""
        raise NotImplementedError


class OperatorSupport(OperatorSupportBase):
    """Takes what a table names: target -> None, or (dtypes by position, dtypes by name)."""

    _support_dict: SupportDict

    def __init__(self, support_dict: SupportDict | None = None) -> None:
        self._support_dict = support_dict or {}

    def is_node_supported(self, submodules: Mapping[str, nn.Module], node: Node) -> bool:
        """Whether a node is in the table, with dtypes that it allows."""
        if node.op not in ("call_function", "call_method", "call_module"):
            return True
        name = target_name(node, submodules)
        if name not in self._support_dict:
            return False
        allowed = self._support_dict[name]
        if allowed is None:
            return True
        positional, named = allowed
        pairs = list(zip(node.args, positional, strict=False))
        pairs += [(node.kwargs[k], v) for k, v in (named or {}).items() if k in node.kwargs]
        return all(_dtype_of(a) in d for a, d in pairs if isinstance(a, Node) and _dtype_of(a))


def _dtype_of(node: Node) -> core.dtype | None:
    value = node.meta.get("val", node.meta.get("tensor_meta"))
    return getattr(value, "dtype", None)


class _Made(OperatorSupportBase):
    def __init__(self, function: IsNodeSupported) -> None:
        self.function = function

    def is_node_supported(self, submodules: Mapping[str, nn.Module], node: Node) -> bool:
        return self.function(submodules, node)


def create_op_support(is_node_supported: IsNodeSupported) -> OperatorSupportBase:
    """A support out of a function of (modules, node)."""
    return _Made(is_node_supported)


def chain(*op_support: OperatorSupportBase) -> OperatorSupportBase:
    """Takes what all take."""
    return _Made(lambda mods, node: all(s.is_node_supported(mods, node) for s in op_support))


def any_chain(*op_support: OperatorSupportBase) -> OperatorSupportBase:
    """Takes what one of them takes."""
    return _Made(lambda mods, node: any(s.is_node_supported(mods, node) for s in op_support))


class OpSupports:
    """Supports that are often needed."""

    @classmethod
    def decline_if_input_dtype(cls, dtype: core.dtype) -> OperatorSupportBase:
        """Takes nodes without an input of a dtype."""
        return _Made(
            lambda mods, node: all(_dtype_of(n) is not dtype for n in node.all_input_nodes)
        )

    @classmethod
    def decline_if_node_in_names(cls, disallow_set: set[str]) -> OperatorSupportBase:
        """Takes nodes without one of these names."""
        return _Made(lambda mods, node: node.name not in disallow_set)


def supported_modules(root: nn.Module, kinds: Sequence[type]) -> OperatorSupportBase:
    """Takes calls of modules of some classes."""
    modules = dict(root.named_modules())
    return _Made(
        lambda mods, node: (
            node.op == "call_module" and isinstance(modules[str(node.target)], tuple(kinds))
        )
    )
