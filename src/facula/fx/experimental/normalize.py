"""One form for calls: arguments by name, operators of Python for arithmetic.

Takes: a graph module. Gives: a new one whose calls have the form.
Keeps true: it computes the same; what a call's signature is not known for stays as it is.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from facula.fx.experimental.schema_type_annotation import AnnotateTypesWithSchema
from facula.fx.graph_module import GraphModule
from facula.fx.interpreter import Transformer
from facula.fx.node import Argument, Node, Target
from facula.fx.operator_schemas import normalize_function, normalize_module
from facula.fx.proxy import Proxy
from facula.ops.table.registry import F

__all__ = ["NormalizeArgs", "NormalizeOperators"]


class NormalizeArgs(Transformer):
    """Makes a module whose calls give their arguments by name, with defaults filled in.

    Args:
        module: the module.
        normalize_to_only_use_kwargs: whether all arguments are given by name; otherwise by position,
            as far as that goes.

    >>> from facula.fx.experimental.normalize import NormalizeArgs
    >>> traced = facula.fx.symbolic_trace(lambda x, y: facula.add(x, other=y))
    >>> made = NormalizeArgs(traced).transform()
    >>> sorted(list(made.graph.nodes)[2].kwargs)
    ['alpha', 'input', 'other']
    """

    def __init__(self, module: GraphModule, normalize_to_only_use_kwargs: bool = True) -> None:
        super().__init__(module)
        self.node_map: dict[Proxy, Node] = {}
        self.normalize_to_only_use_kwargs = normalize_to_only_use_kwargs

    def run_node(self, n: Node) -> Any:
        """The node's call in its form, with all that the node says of itself.

        Args:
            n: the node.
        """
        out = super().run_node(n)
        if n.op != "output" and isinstance(out, Proxy):
            self.node_map[out] = n
            out.node.meta = n.meta
            out.node.type = n.type
        return out

    def call_function(
        self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]
    ) -> Any:
        """A call of a function with named arguments.

        Args:
            target, args, kwargs: the call.
        """
        found = None
        if callable(target):
            found = normalize_function(
                target,
                args,
                kwargs,
                normalize_to_only_use_kwargs=self.normalize_to_only_use_kwargs,
            )
        if found is not None and getattr(target, "__module__", None) != "_operator":
            args, kwargs = found
        return super().call_function(target, args, kwargs)

    def call_module(
        self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]
    ) -> Any:
        """A call of a module with named arguments.

        Args:
            target, args, kwargs: the call.
        """
        found = normalize_module(
            self.module,
            str(target),
            args,
            kwargs,
            normalize_to_only_use_kwargs=self.normalize_to_only_use_kwargs,
        )
        if found is not None:
            args, kwargs = found
        return super().call_module(target, args, kwargs)


class NormalizeOperators(AnnotateTypesWithSchema):
    """Makes a module whose arithmetic of two operands is Python's operators.

    Args:
        module: the module.
        annotate_functionals, annotate_modules, annotate_get_attrs: as for `AnnotateTypesWithSchema`.

    >>> from facula.fx.experimental.normalize import NormalizeOperators
    >>> traced = facula.fx.symbolic_trace(lambda x, y: facula.add(x, y))
    >>> list(NormalizeOperators(traced).transform().graph.nodes)[2].target
    <built-in function add>
    """

    binary_magic_method_remap: dict[Callable[..., Any], Callable[..., Any]] = {
        F.add: operator.add,
        F.mul: operator.mul,
        F.sub: operator.sub,
        F.div: operator.truediv,
        F.floor_divide: operator.floordiv,
        F.remainder: operator.mod,
        F.eq: operator.eq,
        F.ne: operator.ne,
        F.lt: operator.lt,
        F.le: operator.le,
        F.gt: operator.gt,
        F.ge: operator.ge,
    }

    def call_function(
        self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]
    ) -> Any:
        """A call of a function, as an operator of Python where there is one.

        Args:
            target, args, kwargs: the call.
        """
        operands = list(args)
        named = dict(kwargs)
        for name in ("input", "other")[len(operands) :]:
            if name in named:
                operands.append(named.pop(name))
        if callable(target) and len(operands) == 2 and not named:
            target = self.binary_magic_method_remap.get(target, target)
            if target in self.binary_magic_method_remap.values():
                args, kwargs = tuple(operands), {}
        return super().call_function(target, args, kwargs)
