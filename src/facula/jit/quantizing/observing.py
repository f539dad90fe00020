"""Where observers stand in scripted modules.

Takes: a scripted module, and the configurations of its parts by name. Gives: a module of its own classes that calls
observers. Keeps true: a value is observed where it stands outermost, once; what is one with what follows it (a layer
before relu) is observed behind that; results that are elements of observed ones need no observer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula.jit.ir import Block, Graph, Node, Value
from facula.jit.quantizing import roles
from facula.jit.quantizing.flat import Flat
from facula.jit.quantizing.observers import fresh
from facula.jit.quantizing.trees import Change, children_of, insert_behind, rebuilt
from facula.ops.table.schemas import types as T

__all__ = ["observed"]

#: nodes whose results are observed where all that they read is
_STRUCTURE = ("prim::ListConstruct", "prim::TupleConstruct", "prim::ListUnpack", "prim::TupleUnpack",
              "prim::TupleIndex", "aten::__getitem__")  # fmt: skip


class _Places:
    """The values of a flat graph that are observed, and by what."""

    def __init__(self, flat: Flat, configs: dict[int, Any], dynamic: bool) -> None:
        self.flat, self.configs, self.dynamic = flat, configs, dynamic
        self.found: dict[Value, Any] = {}
        self.uses: dict[Value, list[tuple[Node, int]]] = {}
        for node in flat.graph.all_nodes():
            for i, value in enumerate(node.inputs_):
                self.uses.setdefault(value, []).append((node, i))
        self.given = {v for b in flat.graph.all_blocks() for v in b.results}
        seen: set[Value] = set()
        for value in flat.graph.parameters:
            self._maybe(value, seen)
        self._block(flat.graph, seen)

    def config(self, node: Node) -> Any:
        """The configuration of the module that has a node, or, in traces, the weight that it reads."""
        weight = roles.arguments(node).get("weight")
        place = None if weight is None else self.flat.attribute(weight)
        owner = self.flat.owners.get(node) if place is None else place[0]
        return self.configs.get(id(owner))

    # ---- what a value is
    def _weight(self, value: Value) -> bool:
        return any(
            roles.role(node) == "layer" and roles.arguments(node).get("weight") is value
            for node, _ in self.uses.get(value, ())
        )

    def _reader(self, value: Value) -> Node | None:
        """A node that reads a value as numbers that become integers."""
        for node, i in self.uses.get(value, ()):
            kind, names = roles.role(node), roles.arguments(node)
            if self.config(node) is None:
                continue
            if kind == "layer" and (i == 0 or names.get("weight") is value):
                if not self.dynamic or roles.name_of(node) == "linear":
                    return node
            elif kind == "own" and i == 0 and not self.dynamic:
                return node
            elif self._table(node) and names.get("weight") is value:
                return node
        return None

    def _table(self, node: Node) -> bool:
        """Whether a node looks rows of a table up that a configuration wants as bytes."""
        config = self.config(node)
        custom = "" if config is None else custom_operator(config.weight)
        own = bool(custom) and custom.startswith(roles.name_of(node) or "?")
        return own and roles.form(f"{custom}_rowwise_offsets") is not None

    def _continued(self, value: Value) -> bool:
        """Whether a value is one with what follows: an operator of integers does both."""
        uses = self.uses.get(value, [])
        if len(uses) != 1 or value in self.given:
            return False
        return roles.name_of(uses[0][0]) == "relu" and _with_relu(value.node)

    def _makes(self, node: Node, seen: set[Value]) -> Any:
        """The configuration by which the results of a node become integers; None where they stay numbers."""
        if self.dynamic:
            return None
        kind = roles.role(node)
        if roles.name_of(node) == "relu" and self._continued(node.inputs_[0]):
            return self._makes(node.inputs_[0].node, seen)
        if kind in ("layer", "own"):
            return self.config(node)
        if kind in ("arithmetic", "joined"):
            read = roles.tensors(node)
            both = kind == "joined" or len(read) == 2
            return self.config(node) if both and read and all(v in seen for v in read) else None
        return None

    def _through(self, node: Node, seen: set[Value]) -> bool:
        """Whether results of a node are observed because what it reads is."""
        kind = roles.role(node)
        if kind == "arithmetic" and len(roles.tensors(node)) == 2:
            return False
        if kind not in ("shared", "fixed", "arithmetic") and node.kind_ not in _STRUCTURE:
            return False
        read = [v for v in node.inputs_ if roles.holds_tensors(v.type)]
        return bool(read) and all(v in seen for v in read)

    # ---- in order
    def _block(self, block: Block, seen: set[Value]) -> None:
        for node in block.nodes_:
            if node.kind_ == "prim::If":
                self._if(node, seen)
                continue
            for inner in node.blocks_:
                self._block(inner, set(seen))
            if self._through(node, seen):
                seen.update(node.outputs_)
                continue
            for value in node.outputs_:
                self._maybe(value, seen)

    def _if(self, node: Node, seen: set[Value]) -> None:
        sides = []
        for inner in node.blocks_:
            own = set(seen)
            self._block(inner, own)
            sides.append([v in own for v in inner.results])
        for value, known in zip(node.outputs_, zip(*sides, strict=True), strict=True):
            if all(known):
                seen.add(value)
            else:
                self._maybe(value, seen)

    def _maybe(self, value: Value, seen: set[Value]) -> None:
        if value in seen or not roles.is_tensor(value) or self._continued(value):
            return
        config = self._makes(value.node, seen)
        if config is None:
            reader = self._reader(value)
            config = None if reader is None else self.config(reader)
        origin = self.flat.origins.get(value)
        if config is None or origin is None or origin.unit.self_type is None:
            return
        weight = self._weight(value) or self._is_rows(value)
        maker = config.weight if weight else config.activation
        if self.dynamic and not weight and is_half(maker):
            return
        self.found[value] = maker
        seen.add(value)

    def _is_rows(self, value: Value) -> bool:
        return any(
            self._table(n) and roles.arguments(n).get("weight") is value
            for n, _ in self.uses.get(value, ())
        )


def _with_relu(node: Node) -> bool:
    """Whether an operator of integers does what a node does, and relu."""
    return bool(roles.role(node)) and any(
        roles.form(f"{name}_relu") is not None for name in (roles.name_of(node),)
    ) and (roles.role(node) != "joined")  # fmt: skip


def custom_operator(maker: object) -> str:
    """The operator that an observer names instead of a choice of its own: bags of tables."""
    return str(getattr(_looked_at(maker), "custom_op", "") or "")


def is_half(maker: object) -> bool:
    """Whether numbers become floats of 16 bits."""
    # lazily: dtypes are the core's
    from facula import core

    return getattr(_looked_at(maker), "dtype", None) is core.float16


_MADE: dict[int, tuple[Any, Any]] = {}


def _looked_at(maker: object) -> Any:
    """An observer that a maker makes, to read its settings."""
    if id(maker) not in _MADE:
        _MADE[id(maker)] = maker, fresh(maker)._observer
    return _MADE[id(maker)][1]


def _inherited(configs: dict[str, Any], tree: dict[str, Any]) -> dict[int, Any]:
    """The configuration of each module: that of its name, or of the module around it."""
    found: dict[int, Any] = {}
    for path, module in tree.items():
        at = path
        while at and at not in configs:
            at = at.rpartition(".")[0]
        found[id(module)] = configs.get(at)
    return found


def _inserted(
    sites: list[tuple[Any, Value, str]],
) -> Callable[[Any, Graph, dict[Value, Value]], None]:
    def change(unit: object, graph: Graph, values: dict[Value, Value]) -> None:
        for own, old, name in reversed(sites):
            if own is not unit:
                continue
            value, kind = values[old], graph.parameters[0].type
            get = Node(
                graph,
                "prim::GetAttr",
                [graph.parameters[0]],
                [kind.attributes[name]],
                {"name": name},
            )
            get.outputs_[0].hint = name
            call = Node(
                graph,
                "prim::CallMethod",
                [get.outputs_[0], value],
                [value.type],
                {"name": "forward"},
            )
            call.outputs_[0].hint = value.hint
            value.replaceAllUsesWith(call.outputs_[0])
            call.inputs_[1] = value
            insert_behind(value, get)
            call.insertAfter(get)

    return change


def observed(
    module: object, configs: dict[str, Any], dynamic: bool, method: str = "forward"
) -> Any:
    """A module that calls observers.

    Args:
        module: the scripted module
        configs: what makes observers, by the names of modules; "" for all others; None for none
        dynamic: whether only what linear layers take is observed, and their weights
        method: the method in which observers go
    """
    flat = Flat(module, method)
    tree = children_of(module)
    places = _Places(flat, _inherited(configs, tree), dynamic)
    sites: dict[int, dict[tuple[Any, Value], Any]] = {}
    for value, maker in places.found.items():
        origin = flat.origins[value]
        sites.setdefault(id(origin.owner), {}).setdefault((origin.unit, origin.value), maker)
    changes = {key: _change(own) for key, own in sites.items()}
    return rebuilt(module, changes)


def _change(own: dict[tuple[Any, Value], Any]) -> Change:
    named = [(unit, value, f"_observer_{i}") for i, (unit, value) in enumerate(own)]
    makers = list(own.values())
    samples = [fresh(maker) for maker in makers]

    def kind(made: T.ClassType) -> None:
        made.attributes.update(
            {n: s._script_type for (_, _, n), s in zip(named, samples, strict=True)}
        )

    def module(made: Any) -> None:
        for (_, _, name), maker in zip(named, makers, strict=True):
            made._modules[name] = fresh(maker)

    key = tuple((id(u), id(v), id(m)) for (u, v, _), m in zip(named, makers, strict=True))
    return Change(key, _inserted(named), module, kind)
