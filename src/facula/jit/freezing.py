"""Modules whose attributes are constants of their graphs: `freeze`.

Takes scripted modules. Gives new ones.
Keeps true: the given module is not changed; what a method writes to, what is asked for by name, and what leaves the
graph stays an attribute; constants that are tensors share the memory of the module's.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.core.errors import fail
from facula.jit.graph_functions import unit_of_graph
from facula.jit.ir import Graph, Node, Value
from facula.jit.passes.cleaning import cse, dce, pool_constants
from facula.jit.passes.constants import propagate_constants
from facula.jit.passes.containers import lower_tuples
from facula.jit.passes.folding import optimize_frozen_graph
from facula.jit.passes.inlining import with_objects
from facula.jit.passes.memory import KnownMemory, storages
from facula.jit.running import SCRIPTED_CLASS, own_attribute, script_type
from facula.jit.script_objects import RecursiveScriptModule, ScriptModule
from facula.ops.table.schemas import types as T

__all__ = ["freeze", "freeze_module", "optimize_for_inference", "set_fusion_strategy"]


class _Freezing:
    """One module on its way."""

    def __init__(self, module: Any, preserved: list[str], keeps_parameters: bool) -> None:
        self.module, self.keeps_parameters = module, keeps_parameters
        #: attributes that stay, by object and name; objects that stay as they are; methods
        self.kept: set[tuple[int, str]] = set()
        self.whole: set[int] = set()
        self.methods: dict[int, list[str]] = {}
        self.alive: list[Any] = [module]  # identities are compared: nothing may go
        self.reached: dict[int, Any] = {id(module): module}
        self.graphs: list[tuple[Any, str, Any, Graph, dict[Value, Any]]] = []
        own = ["forward"] if "forward" in module._script_type.methods else []
        for name in dict.fromkeys([*own, *preserved]):
            self._preserve(name)

    def _preserve(self, path: str) -> None:
        *parts, name = path.split(".")
        owner = self.module
        for part in parts:
            self._keep(owner, part)
            owner = getattr(owner, part)
        kind = owner._script_type
        self.reached[id(owner)] = owner
        if name in kind.methods:
            self.methods.setdefault(id(owner), []).append(name)
            unit = kind.methods[name].compiled()
            graph, objects = with_objects(unit.graph, {unit.graph.parameters[0]: owner})
            self.alive.append(objects)
            self.graphs.append((owner, name, unit, graph, objects))
            return
        if name not in kind.attributes and name not in kind.constants:
            fail(AttributeError, "jit.freeze", f"an attribute or method of {kind.name} was required (unknown name)",
                 path, hint=f"it has {', '.join([*kind.attributes, *kind.methods])}")  # fmt: skip
        self._keep(owner, name)
        found = own_attribute(owner, name)
        if isinstance(found, ScriptModule):
            self._whole(found)

    def _keep(self, owner: Any, name: str) -> None:
        self.reached[id(owner)] = owner
        self.kept.add((id(owner), name))

    def _whole(self, module: Any) -> None:
        """A module that stays as it is, and all that is in it."""
        self.whole.add(id(module))
        self.reached[id(module)] = module
        for name in module._script_type.attributes:
            self._keep(module, name)
            child = getattr(module, name, None)
            if isinstance(child, ScriptModule) and id(child) not in self.whole:
                self._whole(child)

    # ---- what stays
    def run(self) -> Any:
        for _, _, _, graph, _ in self.graphs:
            propagate_constants(graph)
        self._written()
        for owner, _, _, graph, objects in self.graphs:
            self._escapes(owner, graph, objects)
        for _, _, _, graph, objects in self.graphs:
            self._fold(graph, objects)
            self._optimize(graph)
        for _, _, _, graph, objects in self.graphs:
            self._look(graph, objects)
        return self._built()

    def _written(self) -> None:
        """Attributes that some method assigns to or writes to, and those that share memory with them."""
        memory = KnownMemory()
        for _, _, _, graph, objects in self.graphs:
            for each, known in _all_graphs(graph, objects):
                for node in each.all_nodes():
                    if node.kind_ == "prim::ModuleContainerIndex":
                        fail(RuntimeError, "jit.freeze", "modules whose index is constant were required "
                                                         "(Freezing modules "
                             "containing prim::ModuleContainerIndex is not supported)", node.sourceRange(),
                             hint="leave the module unfrozen")  # fmt: skip
                    if node.kind_ == "prim::SetAttr":
                        owner = known.get(node.inputs_[0])
                        if owner is not None:
                            self._assigned(owner, node.attributes["name"])
                memory.look(each, known)
        for owner, name, value in _attributes(self.module, set()):
            own, inside = storages(value)
            if own & memory.written:
                self._keep(owner, name)
            elif inside & memory.written_inside and inside & self._shared(owner, name):
                fail(RuntimeError, "jit.freeze", "attributes that share no memory were required (module contains "
                     "attributes values that overlaps)", name,
                     hint="give each attribute a tensor of its own: x.clone()")  # fmt: skip
        self._closed(memory.written)

    def _assigned(self, owner: Any, name: str) -> None:
        kind = script_type(owner).attributes.get(name)
        if getattr(kind, "is_interface", False):
            fail(RuntimeError, "jit.freeze", "a module of an interface that stays was required (Freezing does not "
                 "support SetAttr on an interface type.)", name, hint="leave the module unfrozen")  # fmt: skip
        self._keep(owner, name)

    def _shared(self, owner: object, name: str) -> set[Any]:
        """The memory of the other attributes."""
        found: set[Any] = set()
        for other, own_name, held in _attributes(self.module, set()):
            if other is not owner or own_name != name:
                own, inside = storages(held)
                found |= own | inside
        return found

    def _closed(self, written: set[Any]) -> None:
        """What shares written memory stays, too."""
        for owner, name, value in _attributes(self.module, set()):
            own, inside = storages(value)
            if (id(owner), name) in self.kept or not (own | inside) & written:
                continue
            if (own | inside) & written and any((id(o), n) in self.kept and (storages(v)[0] & (own | inside))
                                                for o, n, v in _attributes(self.module, set())):  # fmt: skip
                self._keep(owner, name)

    def _escapes(self, owner: object, graph: Graph, objects: dict[Value, Any]) -> None:
        """Modules that something else than a look-up reads stay as they are."""
        for each, known in _all_graphs(graph, objects):
            given = {v for b in each.all_blocks() for v in b.results}
            for value in given:
                found = known.get(value)
                if found is self.module:
                    fail(RuntimeError, "jit.freeze", "a module whose methods do not give it was required (attempted to "
                         "freeze a module that return itself)", type(found).__name__,
                         hint="return its tensors")  # fmt: skip
                if isinstance(found, ScriptModule):
                    self._whole(found)
            for node in each.all_nodes():
                for i, value in enumerate(node.inputs_):
                    found = known.get(value)
                    plain = node.kind_ in ("prim::GetAttr", "prim::SetAttr") and i == 0
                    task = node.kind_ in ("prim::fork", "prim::awaitable")
                    if (
                        isinstance(found, ScriptModule)
                        and not plain
                        and not task
                        and found is not owner
                    ):
                        self._whole(found)

    # ---- constants
    def _may_fold(self, node: Node, known: dict[Value, Any]) -> bool:
        owner, name = known.get(node.inputs_[0]), node.attributes["name"]
        if owner is None or (id(owner), name) in self.kept:
            return False
        value = known.get(node.outputs_[0])
        if not isinstance(owner, ScriptModule):
            return _is_constant(value) and self._only_asked(owner)
        if not _is_constant(value):
            return False
        is_parameter = name in owner._parameters
        if self.keeps_parameters and is_parameter:
            return False
        return not (
            owner.training and (is_parameter or name == "training" or name in owner._buffers)
        )

    def _only_asked(self, owner: Any) -> bool:
        """Whether the graphs do nothing with an object of a script's class but read its attributes."""
        if SCRIPTED_CLASS[0](type(owner)) is None:
            return False
        uses = [
            use
            for _, _, _, graph, objects in self.graphs
            for _, known in _all_graphs(graph, objects)
            for value, found in known.items()
            if found is owner
            for use in value.uses()
        ]
        return all(use.user.kind_ == "prim::GetAttr" and use.offset == 0 for use in uses)

    def _fold(self, graph: Graph, objects: dict[Value, Any]) -> None:
        for each, known in _all_graphs(graph, objects):
            for node in list(each.all_nodes()):
                if node.kind_ != "prim::GetAttr" or not self._may_fold(node, known):
                    continue
                out = node.outputs_[0]
                value = _constant(known[out])
                made = Node(
                    node.block, "prim::Constant", [], [out.type], {"value": value}, node.place
                )
                made.outputs_[0].hint = out.hint
                made.insertBefore(node)
                out.replaceAllUsesWith(made.outputs_[0])
            for node in list(each.all_nodes()):
                if node.kind_ in ("prim::fork", "prim::awaitable"):
                    _drop_objects(node, known)

    def _optimize(self, graph: Graph) -> None:
        for each, _ in _all_graphs(graph, {}):
            propagate_constants(each)
            lower_tuples(each)
            cse(each)
            dce(each)
            pool_constants(each)

    def _look(self, graph: Graph, objects: dict[Value, Any]) -> None:
        """Attributes that the graph still looks up stay."""
        for each, known in _all_graphs(graph, objects):
            for node in each.all_nodes():
                if node.kind_ in ("prim::GetAttr", "prim::SetAttr"):
                    owner = known.get(node.inputs_[0])
                    if owner is not None:
                        self._keep(owner, node.attributes["name"])

    # ---- the new module
    def _built(self) -> Any:
        self.made: dict[int, Any] = {}
        self.kinds: dict[int, T.ClassType] = {}
        made = self._object(self.module)
        for owner, name, unit, graph, objects in self.graphs:
            kind = self.kinds.get(id(owner))
            if kind is None:
                continue
            for _, known in _all_graphs(graph, objects):
                for value, found in known.items():
                    if id(found) in self.kinds and value.type.kind == "Class":
                        value.type = self.kinds[id(found)]
            graph.parameters[0].type = kind
            parameters = [
                (unit.parameters[0][0], kind, unit.parameters[0][2]),
                *unit.parameters[1:],
            ]
            kind.methods[name] = unit_of_graph(graph, name, kind, parameters, unit.result_type())
        return made

    def _object(self, old: Any) -> Any:
        if id(old) in self.made:
            return self.made[id(old)]
        if id(old) in self.whole:
            self.made[id(old)] = old
            return old
        kind = T.ClassType(old._script_type.name, True, None)
        self.kinds[id(old)] = kind
        state: dict[str, Any] = {
            "training": old.training,
            "_parameters": {},
            "_buffers": {},
            "_modules": {},
        }
        for name, item in old._script_type.attributes.items():
            found = own_attribute(old, name, None)
            inside = isinstance(found, ScriptModule) and self._keeps_anything(found)
            if not self._is_kept(old, name) and not inside:
                continue
            kind.attributes[name] = item
            self._attribute(old, name, found, kind, state)
        made = self.made[id(old)] = RecursiveScriptModule(kind, state)
        return made

    def _attribute(
        self, old: object, name: str, found: Any, kind: T.ClassType, state: dict[str, Any]
    ) -> None:
        if isinstance(found, ScriptModule):
            state["_modules"][name] = self._object(found)
            kind.attributes[name] = (
                found._script_type if id(found) in self.whole else self.kinds[id(found)]
            )
            return
        for place, listed in (("_parameters", kind.parameters), ("_buffers", kind.buffers)):
            if name in getattr(old, place):
                state[place][name] = found
                listed.append(name)
                return
        state[name] = found

    def _is_kept(self, module: Any, name: str) -> bool:
        """Whether an attribute stays: one of the module, or of another of its class."""
        kind = module._script_type
        others = [o for o in self.reached.values() if getattr(o, "_script_type", None) is kind]
        return any((id(o), name) in self.kept for o in (module, *others))

    def _keeps_anything(self, module: object) -> bool:
        if id(module) in self.whole or id(module) in self.methods:
            return True
        return any((id(owner), name) in self.kept for owner, name, _ in _attributes(module, set()))


def _all_graphs(graph: Graph, objects: dict[Value, Any]) -> list[tuple[Graph, dict[Value, Any]]]:
    """A graph and those of the tasks that it starts."""
    found = [(graph, objects)]
    for node in graph.all_nodes():
        unit = (
            node.attributes.get("function")
            if node.kind_ in ("prim::fork", "prim::awaitable")
            else None
        )
        inner, source = getattr(unit, "_graph", None), getattr(unit, "source", None)
        if inner is not None and source is not None and source.name == "<graph>":
            found.extend(_all_graphs(inner, objects))
    return found


def _drop_objects(node: Node, known: dict[Value, Any]) -> None:
    """A task's inputs that are objects of which it looks nothing up are not handed over."""
    unit = node.attributes.get("function")
    graph = getattr(unit, "_graph", None)
    if unit is None or graph is None or unit.source.name != "<graph>":
        return
    dce(graph)
    read = {v for n in graph.all_nodes() for v in n.inputs_} | {
        v for b in graph.all_blocks() for v in b.results
    }
    kept = [
        i
        for i, p in enumerate(graph.parameters)
        if p in read or not isinstance(known.get(p), ScriptModule)
    ]
    if len(kept) < len(graph.parameters):
        graph.parameters = [graph.parameters[i] for i in kept]
        node.inputs_ = [node.inputs_[i] for i in kept]
        unit._parameters = [unit._parameters[i] for i in kept]


def _attributes(module: Any, seen: set[int]) -> list[tuple[Any, str, Any]]:
    """All attributes of a module and of those inside of it."""
    if id(module) in seen:
        return []
    seen.add(id(module))
    found = []
    for name in module._script_type.attributes:
        value = own_attribute(module, name, None)
        if isinstance(value, ScriptModule):
            found.extend(_attributes(value, seen))
        else:
            found.append((module, name, value))
    return found


def _is_constant(value: Any) -> bool:
    """Whether an attribute's value may stand in a graph."""
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return all(map(_is_constant, value))
    if isinstance(value, dict):
        return all(_is_constant(k) and _is_constant(v) for k, v in value.items())
    plain = (bool, int, float, complex, str, core.Tensor, core.device)
    return value is None or isinstance(value, plain)


def _constant(value: Any) -> Any:
    return value.detach() if isinstance(value, core.Tensor) else value


def freeze_module(
    module: Any,
    preservedAttrs: list[str] | None = None,
    freezeInterfaces: bool = True,
    preserveParameters: bool = False,
) -> Any:
    """A module with attributes as constants, where nothing writes to them.

    Args:
        module: a scripted module
        preservedAttrs: attributes and methods that stay; those of modules inside with dots
        freezeInterfaces: kept as in PyTorch: methods of interfaces are always those of the module that is there
        preserveParameters: whether parameters stay parameters
    """
    old = module._script_type
    if old.hooks or old.pre_hooks:
        fail(RuntimeError, "jit.freeze", "a module without hooks was required (those of modules inside are frozen with "
             "it)", ", ".join([*old.pre_hooks, *old.hooks]), hint="put it into another module")  # fmt: skip
    return _Freezing(module, list(preservedAttrs or ()), preserveParameters).run()


def freeze(
    mod: Any,
    preserved_attrs: list[str] | None = None,
    optimize_numerics: bool = True,
    preserve_parameters: bool = False,
) -> Any:
    """A module with parameters and attributes as constants of its graph, where nothing writes to them.

    Args:
        mod: a scripted module in evaluation mode
        preserved_attrs: names that stay, attributes and methods
        optimize_numerics: whether normalisations are folded into the convolutions before them
        preserve_parameters: whether parameters stay parameters

    Raises:
        RuntimeError: the module is in training mode, or not scripted.
        AttributeError: a name that shall stay does not exist.

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
    made = freeze_module(mod, preserved_attrs, True, preserve_parameters)
    run_frozen_optimizations(made, optimize_numerics, preserved_attrs)
    return made


def run_frozen_optimizations(
    mod: Any, optimize_numerics: bool = True, preserved_methods: list[str] | None = None
) -> None:
    """Passes over the graphs of a frozen module, where they stand.

    Args:
        mod: a module that `freeze` made
        optimize_numerics: whether normalisations are folded into the convolutions before them
        preserved_methods: kept as in PyTorch: all methods of the module are optimized

    Example:
        >>> frozen = facula.jit.freeze(facula.jit.script(facula.nn.ReLU().eval()))
        >>> facula.jit.run_frozen_optimizations(frozen)
    """
    for unit in mod._script_type.methods.values():
        optimize_frozen_graph(unit.compiled().graph, optimize_numerics)


def optimize_for_inference(mod: Any, other_methods: list[str] | None = None) -> Any:
    """The frozen module, with normalisations folded into the convolutions before them.

    Args:
        mod: a scripted module
        other_methods: names of methods beside ``forward`` that stay

    Example:
        >>> fast = facula.jit.optimize_for_inference(facula.jit.script(facula.nn.Linear(2, 1).eval()))
        >>> fast(facula.ones(1, 2)).shape
        facula.Size([1, 1])
    """
    return mod if not hasattr(mod, "training") else freeze(mod.eval(), other_methods)


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
