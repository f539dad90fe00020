"""Trees of scripted modules with classes of their own.

Takes: a scripted module, and what is to change in the graphs of each module of it. Gives: another tree with the same
tensors. Keeps true: the given modules, their classes and graphs stay as they are; modules of one class whose changes
are alike, and whose children are of the same classes, have one class again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from facula.jit.graph_functions import unit_of_graph
from facula.jit.ir import Graph, Node, Value
from facula.jit.ir_editing import copied_node
from facula.jit.script_objects import RecursiveScriptModule, ScriptModule
from facula.ops.table.schemas import types as T

__all__ = ["Change", "compiled_units", "rebuilt", "retyped"]


class Change(NamedTuple):
    """A change of one module.

    ``key`` tells changes of modules of one class apart; ``graph`` is told the name of the unit, the copy of its graph,
    and what stands there for the values of the original; ``module`` is told the new module, and ``kind`` its new class.
    """

    key: Any
    graph: Callable[[Any, Graph, dict[Value, Value]], None] | None = None
    module: Callable[[Any], None] | None = None
    kind: Callable[[T.ClassType], None] | None = None


def _inner(unit: Any) -> Any:
    """The unit that has the graph, of one that stands for another; None where nothing is compiled yet."""
    while unit is not None and getattr(unit, "_graph", None) is None:
        held = vars(unit)
        inside = held.get("_unit") or held.get("_whole")
        unit = None if inside is unit else inside
    return unit


def compiled_units(kind: T.ClassType) -> dict[str, Any]:
    """The methods of a class that have graphs."""
    found = {name: _inner(unit) for name, unit in kind.methods.items()}
    return {name: unit for name, unit in found.items() if unit is not None}


def retyped(graph: Graph, kind: T.ClassType) -> None:
    """Values that are modules get the types that the class of the first parameter says."""
    graph.parameters[0].type = kind
    for node in graph.all_nodes():
        if node.kind_ == "prim::GetAttr":
            owner = node.inputs_[0].type
            found = (
                owner.attributes.get(node.attributes["name"])
                if isinstance(owner, T.ClassType)
                else None
            )
            if found is not None:
                node.outputs_[0].type = found
        elif node.kind_ == "prim::unchecked_cast" and isinstance(
            node.outputs_[0].type, T.ClassType
        ):
            node.outputs_[0].type = node.inputs_[0].type


def copied(graph: Graph) -> tuple[Graph, dict[Value, Value]]:
    """A copy of a graph, and what stands there for each value."""
    made, values = Graph(), {}
    for p in graph.parameters:
        values[p] = made.add_parameter(p.type, p.hint)
    made.nodes_ = [copied_node(node, made, values) for node in graph.nodes_]
    made.results = [values[v] for v in graph.results]
    return made, values


class _Rebuilding:
    def __init__(self, changes: dict[int, Change]) -> None:
        self.changes = changes
        self.made: dict[int, Any] = {}
        self.kinds: dict[Any, T.ClassType] = {}
        self.alive: list[Any] = []

    def module(self, old: Any) -> Any:
        """The new module of an old one."""
        if id(old) in self.made:
            return self.made[id(old)]
        self.alive.append(old)
        if not isinstance(old, RecursiveScriptModule) or hasattr(old, "_observer"):
            self.made[id(old)] = old
            return old
        children = {n: None if c is None else self.module(c) for n, c in old._modules.items()}
        kinds = tuple((n, getattr(c, "_script_type", None)) for n, c in children.items())
        change = self.changes.get(id(old))
        key = (old._script_type, None if change is None else change.key, kinds)
        if key not in self.kinds:
            self.kinds[key] = self._kind(old._script_type, dict(kinds), change)
        kind = self.kinds[key]
        state = dict(vars(old))
        for name in ("_parameters", "_buffers"):
            state[name] = dict(state[name])
        state["_modules"] = children
        made = self.made[id(old)] = type(old).__new__(type(old))
        RecursiveScriptModule.__init__(made, kind, state)
        if change is not None and change.module is not None:
            change.module(made)
        return made

    def _kind(
        self, old: T.ClassType, children: dict[str, Any], change: Change | None
    ) -> T.ClassType:
        made = T.ClassType(old.name, True, old.python)
        made.attributes = dict(old.attributes)
        for name, own in children.items():
            known = old.attributes.get(name)
            if own is not None and not getattr(known, "is_interface", False):
                made.attributes[name] = own
        made.parameters, made.buffers = list(old.parameters), list(old.buffers)
        made.constants, made.finals, made.notes = dict(old.constants), old.finals, dict(old.notes)
        made.static, made.properties, made.setters = (
            dict(old.static),
            dict(old.properties),
            dict(old.setters),
        )
        made.pre_hooks, made.hooks = list(old.pre_hooks), list(old.hooks)
        made.methods = dict(old.methods)
        if change is not None and change.kind is not None:
            change.kind(made)
        copies: dict[int, Any] = {}
        for name, unit in compiled_units(old).items():
            if id(unit) in copies:
                made.methods[name] = copies[id(unit)]
                continue
            graph, values = copied(unit.graph)
            retyped(graph, made)
            if change is not None and change.graph is not None:
                change.graph(unit, graph, values)
                retyped(graph, made)
            first = unit.parameters[0]
            parameters = [(first[0], made, first[2]), *unit.parameters[1:]]
            copy = unit_of_graph(graph, unit.name, made, parameters, unit.result_type())
            made.methods[name] = copies[id(unit)] = copy
        return made


def rebuilt(module: Any, changes: dict[int, Change] | None = None) -> Any:
    """The same tree of modules with classes of its own.

    Args:
        module: the scripted module
        changes: what changes, by the identity of the module
    """
    return _Rebuilding(changes or {}).module(module)


def insert_behind(value: Value, node: Node) -> None:
    """Put a node right behind what makes a value."""
    if value.node.kind_ == "prim::Param":
        block = value.node.block
        block.nodes_.insert(0, node)
        node.block = block
    else:
        node.insertAfter(value.node)


def children_of(module: Any) -> dict[str, Any]:
    """All scripted modules of a tree by their names, the first name of each."""
    found: dict[str, Any] = {}
    seen: set[int] = set()

    def walk(each: Any, prefix: str) -> None:
        if id(each) in seen or not isinstance(each, ScriptModule):
            return
        seen.add(id(each))
        found[prefix] = each
        for name, child in each._modules.items():
            walk(child, f"{prefix}.{name}" if prefix else name)

    walk(module, "")
    return found
