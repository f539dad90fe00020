"""Graphs of the package's own operators by those of PyTorch.

Takes: a graph without writes, whose nodes know their values. Gives: a graph of the same inputs and results in which a
call of an operator that PyTorch has under another name, or with other arguments, is a call of PyTorch's.
Keeps true: what listeners hear of an operator (the field `heard`) is what stands for it here; where that would fix a
size that may change, the operator stays.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.fx import GraphModule, Interpreter, Node
from facula.fx import _pytree as pytree
from facula.fx import traceback as fx_traceback
from facula.fx.pre_dispatch import stays_whole
from facula.fx.proxy_tensor import disable_proxy_modes_tracing, get_proxy_mode, make_fx, name_wholly
from facula.lower.decompositions.rules import overload
from facula.lower.table import definition_of, operator_of
from facula.ops.table.registry import TABLE


def load_told_forms() -> None:
    """Read what PyTorch's operators are, if nobody asked for them yet."""
    if core.HEARD[0] is None:
        core.HEARD[1]()


def told_operators() -> dict[Any, Any]:
    """Operators of programs that PyTorch makes of others -> themselves, as rules of a table."""
    load_told_forms()
    return {
        overload(operator): operator
        for operator in TABLE.values()
        if operator.definition.heard is not None and stays_whole(operator.definition)
    }


def in_told_forms(module: GraphModule, rules: dict[Any, Any], env: Any) -> GraphModule:
    """The graph with PyTorch's operators; the very same where it has no others, or reads numbers from elements.

    Args:
        module: the graph
        rules: decompositions; operators of programs, `linear`, stand for themselves where these have no rule for them
        env: of its symbols, or None
    """
    load_told_forms()
    reads = env is not None and env.unbacked.ranges  # a second run would read them anew
    told = _Told(module, {operator_of(op) for op in rules}, env)
    if reads or not any(map(told.differs, module.graph.nodes)):
        return module
    placeholders = [n for n in module.graph.nodes if n.op == "placeholder"]
    recording = core.set_grad_enabled(False)
    try:
        with fx_traceback.preserve_node_meta():
            traced = make_fx(told.run_named, {}, "fake", True, _whole_indexing=True)
            made = traced(*[n.meta["val"] for n in placeholders])
    finally:
        core.set_grad_enabled(recording)
    for old, new in zip(placeholders, made.graph.nodes, strict=False):
        new._rename(old.name)
        new.meta = old.meta
    return made


def _alike(result: Any, value: Any) -> bool:
    """Whether results are all there: PyTorch's operator may write what the package's gives."""
    results, values = pytree.tree_leaves(result), pytree.tree_leaves(value)
    return [getattr(x, "shape", None) for x in results] == [
        getattr(x, "shape", None) for x in values
    ]


class _Told(Interpreter):
    """Runs a graph under a trace that hears of PyTorch's operators."""

    def __init__(self, module: GraphModule, decomposed: set[Any], env: Any) -> None:
        super().__init__(module)
        self.decomposed, self.symbols = decomposed, env

    def run_named(self, *args: Any) -> Any:
        """`run`, with nodes that are named as operators are."""
        name_wholly()
        return self.run(*args)

    def differs(self, node: Node) -> bool:
        """Whether PyTorch has what the node calls under another name, or in other parts that are asked for."""
        definition = definition_of(node)
        if definition is None or not (definition.heard or definition.file_name):
            return False
        own = bool(definition.stands_for) or not stays_whole(definition)
        return own or operator_of(node.target) in self.decomposed

    def run_node(self, n: Node) -> Any:
        """The result of a node, noted by PyTorch's operators where these serve all sizes."""
        if definition_of(n) is None:
            return super().run_node(n)
        return self._told(n) if self.differs(n) else self._noted(n)

    def _noted(self, n: Node) -> Any:
        """The result of a node, which is noted as the call that it is."""
        mode = get_proxy_mode()
        assert mode is not None

        def untraced(*args: Any, **kwargs: Any) -> Any:
            with disable_proxy_modes_tracing():
                return n.target(*args, **kwargs)

        with fx_traceback.set_current_meta(n):
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            return mode.record(n.target, args, kwargs, untraced)

    def _told(self, n: Node) -> Any:
        mode = get_proxy_mode()
        assert mode is not None
        tracer, graph, env = mode.tracer, mode.tracer.graph, self.symbols
        numbers = dict(tracer.number_nodes)
        last = next(iter(reversed(graph.nodes)))
        mark = None if env is None else env.mark()
        mode.hears_own_operators = False
        try:
            result = super().run_node(n)
            if _alike(result, n.meta["val"]) and (env is None or env.mark() == mark):
                return result
            if env is not None:
                env.back(mark)
        except (RuntimeError, TypeError, ValueError, NotImplementedError):
            pass  # a form for sizes that are known
        finally:
            mode.hears_own_operators = True
        for node in reversed(graph.nodes):
            if node is last:
                break
            graph.erase_node(node)
        tracer.number_nodes = numbers
        return self._noted(n)
