"""Graphs with all calls written out, and modules whose attributes are constants: `freeze`.

Takes graphs and scripted modules. Gives new ones.
Keeps true: the given graph or module is not changed; a branch on a constant is the side that is taken.
"""

from __future__ import annotations

import ast
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.jit import types as T
from facula.jit.functions import FunctionUnit
from facula.jit.ir import Block, Graph, Node, Value
from facula.jit.script_objects import INLINE, RecursiveScriptModule, ScriptModule
from facula.jit.source import Source

__all__ = ["freeze", "inlined", "optimize_for_inference", "set_fusion_strategy"]

_UNKNOWN = object()


class _Copy:
    """A graph that is being written out."""

    def __init__(self, graph: Graph, objects: dict[Value, Any]) -> None:
        self.graph, self.block = graph, graph
        self.objects = objects  # of the new graph's values: what they are known to be
        self.values: dict[Value, Value] = {}

    def nodes(self, block: Block) -> None:
        """Copies of all nodes of a block."""
        for node in block.nodes_:
            if node.kind_ in ("prim::CallMethod", "prim::CallFunction"):
                self._call(node)
            elif node.kind_ == "prim::If":
                self._if(node)
            elif node.kind_ == "prim::GetAttr" and self._known(node.inputs_[0]) is not _UNKNOWN:
                self._attribute(node)
            else:
                self._node(node)

    def _known(self, value: Value) -> Any:
        return self.objects.get(self.values[value], _UNKNOWN)

    def _node(self, node: Node) -> Node:
        inputs = [self.values[v] for v in node.inputs_]
        types = [v.type for v in node.outputs_]
        made = Node(
            self.block, node.kind_, inputs, types, dict(node.attributes), node.place, node.run
        )
        made.signature = node.signature
        self.block.nodes_.append(made)
        for old, new in zip(node.outputs_, made.outputs_, strict=True):
            new.hint = old.hint
            self.values[old] = new
        for inner in node.blocks_:
            outer, self.block = self.block, made.add_block()  # type: ignore[assignment]
            for p in inner.parameters:
                self.values[p] = self.block.add_parameter(p.type, p.hint)
            self.nodes(inner)
            self.block.results = [self.values[v] for v in inner.results]
            self.block = outer
        return made

    def _call(self, node: Node) -> None:
        if node.kind_ == "prim::CallFunction":
            unit = node.attributes["function"].compiled()
        else:
            kind = node.inputs_[0].type
            assert isinstance(kind, T.ClassType)
            if kind.is_interface or kind.is_module and self._known(node.inputs_[0]) is None:
                self._node(node)
                return
            unit = kind.methods[node.attributes["name"]].compiled()
        if not isinstance(getattr(unit, "_graph", None), Graph):
            self._node(node)
            return
        outer, self.values = self.values, {
            p: self.values[v] for p, v in zip(unit.graph.parameters, node.inputs_, strict=True)
        }  # fmt: skip
        self.nodes(unit.graph)
        result = self.values[unit.graph.results[0]]
        self.values = outer
        self.values[node.outputs_[0]] = result

    def _if(self, node: Node) -> None:
        test = self.values[node.inputs_[0]]
        if test.node.kind_ != "prim::Constant" or not self.objects:
            self._node(node)
            return
        side = node.blocks_[0 if test.node.attributes.get("value") else 1]
        self.nodes(side)
        for old, new in zip(node.outputs_, side.results, strict=True):
            self.values[old] = self.values[new]

    def _attribute(self, node: Node) -> None:
        found = getattr(self._known(node.inputs_[0]), node.attributes["name"])
        out = node.outputs_[0]
        plain = found is None or isinstance(found, (bool, int, float, str, core.Tensor))
        if plain:
            value = found.detach().clone() if isinstance(found, core.Tensor) else found
            made = Node(self.block, "prim::Constant", [], [out.type], {"value": value}, node.place)
            self.block.nodes_.append(made)
            self.values[out] = made.outputs_[0]
            return
        made = self._node(node)
        self.objects[made.outputs_[0]] = found


def inlined(graph: Graph) -> Graph:
    """The graph with all calls written out."""
    return _copied(graph, {})


def _copied(graph: Graph, objects: dict[Value, Any]) -> Graph:
    made = Graph()
    copy = _Copy(made, {})
    for p in graph.parameters:
        copy.values[p] = made.add_parameter(p.type, p.hint)
        if p in objects:
            copy.objects[copy.values[p]] = objects[p]
    copy.nodes(graph)
    made.results = [copy.values[v] for v in graph.results]
    _drop_unused(made)
    return made


def _drop_unused(graph: Graph) -> None:
    """Removes constants and look-ups that nobody reads."""
    pure = ("prim::Constant", "prim::GetAttr")
    while True:
        used = {v for n in graph.all_nodes() for v in n.inputs_} | set(graph.results)
        used |= {v for n in graph.all_nodes() for b in n.blocks_ for v in b.results}
        blocks: list[Block] = [graph, *(b for n in graph.all_nodes() for b in n.blocks_)]
        dropped = False
        for block in blocks:
            kept = [n for n in block.nodes_ if n.kind_ not in pure or n.outputs_[0] in used]
            dropped = dropped or len(kept) < len(block.nodes_)
            block.nodes_ = kept
        if not dropped:
            return


def freeze(
    mod: Any,
    preserved_attrs: list[str] | None = None,
    optimize_numerics: bool = True,
    preserve_parameters: bool = False,
) -> Any:
    """A module of one graph with parameters and attributes as constants.

    Args:
        mod: a scripted module in evaluation mode
        preserved_attrs: names that stay
        optimize_numerics: kept as in PyTorch
        preserve_parameters: whether parameters stay parameters

    Raises:
        RuntimeError: the module is in training mode, or not scripted.

    Example:
        >>> frozen = facula.jit.freeze(facula.jit.script(facula.nn.Linear(2, 1).eval()))
        >>> len(list(frozen.parameters())), frozen(facula.ones(1, 2)).shape
        (0, facula.Size([1, 1]))
    """
    if not isinstance(mod, ScriptModule):
        fail(RuntimeError, "jit.freeze", "Freezing expects a ScriptModule as input. Please use torch.jit.script or "
             "torch.jit.trace to script your 'nn.Module'", type(mod).__name__,
             hint="jit.freeze(jit.script(module.eval()))")  # fmt: skip
    if mod.training:
        fail(RuntimeError, "jit.freeze", "Freezing is currently only implemented for modules in eval mode",
             "a module in training mode", hint="call .eval() on your module before freezing")  # fmt: skip
    old = mod._script_type
    if old.hooks or old.pre_hooks:
        fail(RuntimeError, "jit.freeze", "a module without hooks was required (those of modules inside are frozen with "
             "it)", ", ".join([*old.pre_hooks, *old.hooks]), hint="put it into another module")  # fmt: skip
    kind = T.ClassType(old.name, True, None)
    state: dict[str, Any] = {"training": False}
    kind.attributes["training"] = T.BOOL
    for name in ["forward", *(n for n in preserved_attrs or () if n in old.methods)]:
        kind.methods[name] = _frozen(mod, old.methods[name].compiled(), kind, name)
    for name in (n for n in preserved_attrs or () if n not in old.methods):
        kind.attributes[name], state[name] = old.attributes[name], getattr(mod, name)
    return RecursiveScriptModule(kind, state)


def _frozen(mod: Any, unit: Any, kind: T.ClassType, name: str) -> FunctionUnit:
    graph = _copied(unit.graph, {unit.graph.parameters[0]: mod})
    for node in graph.all_nodes():
        if node.kind_ == "prim::SetAttr":
            fail(RuntimeError, "jit.freeze", "a module that does not write to its attributes was required",
                 node.attributes["name"], hint="return the value instead")  # fmt: skip
    owner = graph.parameters[0]
    if any(owner in n.inputs_ for n in graph.all_nodes()):
        fail(RuntimeError, "jit.freeze", "attributes that are tensors, numbers or text were required",
             "a list, dict, object or a part that runs in Python", hint="leave the module unfrozen")  # fmt: skip
    owner.type = kind
    arguments = ast.arguments([], [], None, [], [], None, [])
    made = FunctionUnit(
        name,
        ast.FunctionDef(name, arguments, [], [], lineno=1),
        Source("", "<frozen>"),
        lambda n: None,
        {},
        kind,
    )
    made._read = True
    made._parameters = [(unit.parameters[0][0], kind, unit.parameters[0][2]), *unit.parameters[1:]]
    made.found_result = made._result = unit.result_type()
    made.graph = graph
    return made


def optimize_for_inference(mod: Any, other_methods: list[str] | None = None) -> Any:
    """The frozen module; freezing is all that is done to graphs here.

    Args:
        mod: a scripted module
        other_methods: names of methods beside ``forward`` that stay

    Example:
        >>> fast = facula.jit.optimize_for_inference(facula.jit.script(facula.nn.Linear(2, 1).eval()))
        >>> fast(facula.ones(1, 2)).shape
        facula.Size([1, 1])
    """
    return mod if mod._script_type.python is None else freeze(mod.eval(), other_methods)


_STRATEGY: list[Any] = [[("STATIC", 2), ("DYNAMIC", 10)]]


def set_fusion_strategy(strategy: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Keeps a strategy of specialisation, which the interpreter has no use for, and gives the one
    before.

    Args:
        strategy: pairs of 'STATIC' or 'DYNAMIC' and a depth

    Example:
        >>> before = facula.jit.set_fusion_strategy([("DYNAMIC", 3)])
        >>> facula.jit.set_fusion_strategy(before)
        [('DYNAMIC', 3)]
    """
    old, _STRATEGY[0] = _STRATEGY[0], strategy
    return old


INLINE.append(inlined)
