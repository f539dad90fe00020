"""`unflatten`: an exported program as a tree of modules, as the original was.

Takes: an exported program, whose nodes know the module calls that they come from.
Gives: `UnflattenedModule`, whose modules stand under the paths of the original ones; each runs the graph
of its own nodes, takes what it reads of others and gives what others read of it.
Keeps true: the tree computes what the program computes and has its state; what the program writes to is
written; a module that was called again with the same graph is there once.
"""

from __future__ import annotations

import abc
import operator
from typing import Any

from facula import nn
from facula.core.errors import fail
from facula.export._tree_utils import reorder_kwargs
from facula.export.exported_program import ExportedProgram
from facula.export.inner_modules import (
    CallsInTurn,
    InnerModules,
    own_state,
    put_inside,
    settle_writes,
)
from facula.export.input_check import InputCheck
from facula.export.kept_calls import KeptCalls
from facula.export.unlift import put
from facula.fx import Graph, GraphModule, Node
from facula.fx import _pytree as pytree
from facula.fx.codegen import PyTreeCodeGen
from facula.fx.node import map_arg

__all__ = ["FlatArgsAdapter", "InterpreterModule", "UnflattenedModule", "unflatten"]


class FlatArgsAdapter(abc.ABC):
    """Turns arguments that are nested otherwise into those that a program was exported for.

    Example:
        >>> class First(facula.export.FlatArgsAdapter):
        ...     def adapt(self, target_spec, input_spec, input_args, metadata=None, obj=None):
        ...         return input_args[: target_spec.num_leaves]
        >>> program = facula.export.export(facula.nn.ReLU(), (facula.ones(2),))
        >>> x = facula.tensor([-1.0, 1.0])
        >>> facula.export.unflatten(program, First())([x, x])
        tensor([0., 1.])
    """

    @abc.abstractmethod
    def adapt(
        self,
        target_spec: Any,
        input_spec: Any,
        input_args: list[Any],
        metadata: dict[str, Any] | None = None,
        obj: Any | None = None,
    ) -> list[Any]:
        """The leaves for ``target_spec``, of leaves that were nested as ``input_spec``."""

    def get_flat_arg_paths(self) -> list[str]:
        """The paths of the leaves that are read; none: they are not known."""
        return []


class InterpreterModule(GraphModule):
    """The graph of one module's calls."""

    #: the class of the module that it was exported from
    ty: str | None = None

    def type_name(self) -> str | None:
        """The name of the class of the module that it was exported from."""
        return self.ty

    @property
    def graph_module(self) -> GraphModule:
        """The module that runs the graph: this one."""
        return self

    def _assign_all(self, root: dict[str, Any], graph: Graph) -> None:
        """Take what the graph names, outer modules before what is put into them."""
        for path in sorted(root, key=lambda path: path.count(".")):
            put_inside(self, path, root[path])


class UnflattenedModule(InterpreterModule):
    """An exported program as a tree of modules; `unflatten` makes it.

    Example:
        >>> net = facula.nn.Sequential(facula.nn.Linear(2, 1))
        >>> tree = facula.export.unflatten(facula.export.export(net, (facula.ones(1, 2),)))
        >>> isinstance(tree, facula.export.UnflattenedModule), list(tree.state_dict())
        (True, ['0.weight', '0.bias'])
    """

    module_call_graph: list[Any]
    flat_args_adapter: FlatArgsAdapter | None

    @property
    def graph_module(self) -> GraphModule:
        """The graph as a function of the leaves of the arguments."""
        graph = Graph()
        known: dict[Node, Node] = {}
        graph.output(graph.graph_copy(self.graph, known))
        return GraphModule(self, graph)


class _AnyArguments(PyTreeCodeGen):
    """A function of any arguments: they are checked, adapted and taken apart by `_inputs`."""

    def gen_fn_def(
        self, free_vars: list[str], maybe_return_annotation: str, *, expanded_def: bool = False
    ) -> str:
        """The head, and a statement that checks and flattens."""
        head = f"def {self._func_name}(self, *args, **kwargs){maybe_return_annotation}:"
        leaves = [v.partition(" :")[0].partition(" =")[0].strip() for v in free_vars if v != "self"]
        into = f"{', '.join(leaves)}, = " if leaves else ""
        return f"{head}\n    {into}self._inputs(args, kwargs)"


class _Adapting(InputCheck):
    """Arguments for an unflattened module: nested as in the export, or adapted."""

    def __init__(self, check: InputCheck, adapter: FlatArgsAdapter | None) -> None:
        vars(self).update(vars(check))
        self.adapter = adapter
        #: modules that begin with their first call
        self.turns: list[CallsInTurn] = []

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        for turns in self.turns:
            turns.restart()
        leaves, spec = pytree.tree_flatten((args, kwargs))
        if spec == self.in_spec or set(kwargs) == set(self.in_spec.children_specs[1].context):
            ordered = pytree.tree_structure((args, reorder_kwargs(kwargs, self.in_spec)))
            if ordered == self.in_spec:
                return super().__call__(args, kwargs)
        if self.adapter is None:
            fail(
                TypeError,
                "unflatten",
                "arguments nested as in the export were required (There is no flat args adapter "
                f"specified. Are you sure you are calling this with the right arguments?): "
                f"{self.in_spec}",
                spec,
                hint="pass arguments as they were given to export(), or flat_args_adapter= to unflatten()",
            )
        adapted = self.adapter.adapt(self.in_spec, spec, leaves)
        if len(adapted) != self.in_spec.num_leaves:
            fail(
                TypeError,
                "unflatten",
                f"{self.in_spec.num_leaves} leaves were required of the flat args adapter (Flat args "
                "adaption failed, number of args mismatch)",
                len(adapted),
                hint="return one leaf for each of target_spec",
            )
        positional, named = pytree.tree_unflatten(list(adapted), self.in_spec)
        return super().__call__(positional, named)


def unflatten(
    module: ExportedProgram, flat_args_adapter: FlatArgsAdapter | None = None
) -> UnflattenedModule:
    """The modules of an exported program.

    Args:
        module: an exported program
        flat_args_adapter: takes arguments that are nested otherwise

    Returns:
        a module whose inner modules have the paths of the original ones.

    Example:
        >>> net = facula.nn.Sequential(facula.nn.Linear(2, 3), facula.nn.ReLU())
        >>> tree = facula.export.unflatten(facula.export.export(net, (facula.ones(1, 2),)))
        >>> [name for name, _ in tree.named_children()], tree(facula.ones(1, 2)).shape
        (['0', '1'], facula.Size([1, 3]))
    """
    flat = module.module(check_guards=False)
    graph = flat.graph
    own_state(flat)
    settle_writes(graph)
    stacks = _stacks(graph)
    kept = {
        e.fqn: e.signature for e in module.module_call_graph if e.fqn and e.signature is not None
    }
    root = _Part(flat, stacks, "", "", 0, KeptCalls(graph, kept), InnerModules())
    outputs = graph.output_node()
    body = [n for n in graph.nodes if n.op not in ("placeholder", "get_attr", "output")]
    for node in graph.find_nodes(op="placeholder"):
        root.known[node] = root.graph.placeholder(node.name)
        root.known[node].meta = dict(node.meta)
    root.add(body)
    root.graph.output(map_arg(outputs.args[0], root.value))
    made = root.finished(UnflattenedModule, "UnflattenedModule")
    for name in (*module.state_dict, *module.constants):
        value = _attribute(flat, name)
        put(made, name, value, isinstance(value, nn.Parameter), name not in module.state_dict)
    turns = root.modules.in_turn(made)
    order = [entry.fqn for entry in module.module_call_graph]
    _in_order(made, "", {path: place for place, path in enumerate(order)})
    made._inputs = _Adapting(flat._inputs, flat_args_adapter)
    made._inputs.turns = turns
    made.graph.set_codegen(_AnyArguments(graph._codegen.pytree_info))
    made.recompile()
    made.training = module.training
    made.module_call_graph, made.flat_args_adapter = [], flat_args_adapter
    return made


def _in_order(module: nn.Module, path: str, places: dict[str, int]) -> None:
    """Bring the modules inside into the order that they have in the original."""
    inside: Any = module._modules
    names = sorted(inside, key=lambda name: places.get(path + name, len(places)))
    items = [(name, inside[name]) for name in names]
    inside.clear()
    inside.update(items)
    for name, each in items:
        if each is not None:
            _in_order(each, f"{path}{name}.", places)


def _stacks(graph: Graph) -> dict[Node, list[tuple[str, str]]]:
    """For each node the calls around it: (key, path), without the outermost module's."""
    found: dict[Node, list[tuple[str, str]]] = {}
    last: list[tuple[str, str]] = []
    for node in graph.nodes:
        if node.op in ("placeholder", "get_attr", "output"):
            continue
        calls = node.meta.get("nn_module_stack")
        if calls is not None:  # a number of a shape belongs to whatever is computed before it
            last = [(key, path) for key, (path, _) in calls.items() if path]
        found[node] = last
    return found


class _Part:
    """The graph of one call, while it is made."""

    def __init__(
        self,
        flat: GraphModule,
        stacks: Any,
        path: str | None,
        place: str,
        depth: int,
        kept: KeptCalls,
        modules: InnerModules,
    ) -> None:
        self.flat, self.stacks, self.path, self.depth = flat, stacks, path, depth
        #: where the module will stand: its path, unless another module than its owner calls it
        self.place, self.kept, self.modules = place, kept, modules
        self.graph = Graph()
        self.known: dict[Node, Node] = {}
        self.holds: dict[str, Any] = {}
        #: name of an inner module -> it
        self.inner: dict[str, GraphModule] = {}

    def value(self, node: Node) -> Node:
        """What stands here for a node of the flat graph."""
        known = self.known.get(node)
        if known is None:  # only attributes are made when they are read
            target = self.local(str(node.target))
            assert target is not None
            self.holds[target] = _attribute(self.flat, str(node.target))
            known = self.known[node] = self.graph.get_attr(target)
            known.meta = dict(node.meta)
        return known

    def local(self, target: str) -> str | None:
        """The path of an attribute from this module; None for one of another."""
        if self.path is None:
            return None
        if isinstance(_attribute(self.flat, target), GraphModule) or not self.path:
            return target
        return target[len(self.path) + 1 :] if target.startswith(self.path + ".") else None

    def add(self, nodes: list[Node]) -> None:
        """Enter nodes; those of one call become a module."""
        start = 0
        while start < len(nodes):
            call = self._call(nodes[start])
            stop = start + 1
            while stop < len(nodes) and self._call(nodes[stop]) == call:
                stop += 1
            if call is None:
                for node in nodes[start:stop]:
                    self.known[node] = self.graph.node_copy(node, self.value)
            else:
                self._enter(call, nodes[start:stop])
            start = stop

    def _call(self, node: Node) -> tuple[str, str] | None:
        stack = self.stacks[node]
        return stack[self.depth] if len(stack) > self.depth else None

    def _enter(self, call: tuple[str, str], nodes: list[Node]) -> None:
        key, path = call
        inside = set(nodes)
        own = self.path is not None and (not self.path or path.startswith(self.path + "."))
        name = path[len(self.path) + 1 if self.path else 0 :] if own else path.rpartition(".")[2]
        child = self._inside(path if own else None, name)
        read = dict.fromkeys(n for node in nodes for n in node.all_input_nodes if n not in inside)
        given = [
            n for n in read
            if n.op != "get_attr" or child.local(str(n.target)) is None
        ]  # fmt: skip
        results = [n for n in nodes if any(user not in inside for user in n.users)]
        call_ = self.kept.of(key, path, given, results)
        if call_ is not None:
            call_.fill(child, nodes)
            made = self._module(name, child, _class(nodes[0], key), call_.sign)
            self.known.update(call_.called(self.graph, made, self.value, nodes[0]))
            return
        for node in given:
            child.known[node] = child.graph.placeholder(node.name)
            child.known[node].meta = dict(node.meta)
        child.add(nodes)
        values = [child.known[n] for n in results]
        child.graph.output(values[0] if len(values) == 1 else tuple(values))
        made = self._module(name, child, _class(nodes[0], key))
        node = self.graph.call_module(made, tuple([self.value(n) for n in given]))
        node.meta["nn_module_stack"] = nodes[0].meta.get("nn_module_stack")
        self._note(node, made)
        self._receive(node, results)

    def _note(self, node: Node, made: str) -> None:
        """Let a call have what is annotated at all nodes of its module; these have the rest."""
        inside = [n for n in self.inner[made].graph.nodes if n.op.startswith("call")]
        notes = [n.meta.get("custom") or {} for n in inside]
        known = self.inner[made].meta.get("custom")
        if known is None:
            first = notes[0] if notes else {}
            known = {k: v for k, v in first.items() if all(k in n and n[k] == v for n in notes)}
            for n in inside if known else ():
                n.meta["custom"] = {k: v for k, v in n.meta["custom"].items() if k not in known}
            self.inner[made].meta["custom"] = known
        if known:
            node.meta["custom"] = dict(known)

    def _receive(self, node: Node, results: list[Node]) -> None:
        """Note what stands here for what a call gives."""
        if len(results) == 1:
            self.known[results[0]] = node
            node.meta["val"] = results[0].meta.get("val")
            return
        node.meta["val"] = tuple(n.meta.get("val") for n in results)
        for i, n in enumerate(results):
            self.known[n] = self.graph.call_function(operator.getitem, (node, i))
            self.known[n].meta["val"] = n.meta.get("val")

    def _inside(self, path: str | None, name: str) -> _Part:
        """The part of a call in this one."""
        place = f"{self.place}.{name}" if self.place else name
        return _Part(self.flat, self.stacks, path, place, self.depth + 1, self.kept, self.modules)

    def _module(self, name: str, child: _Part, kind: str | None, sign: Any = None) -> str:
        """The name of the inner module for a call: that of an earlier call with the same graph."""
        made: Any = child.finished(InterpreterModule, "InterpreterModule")
        made.ty = kind
        if sign is not None:
            sign(made)
        end, module = self.modules.place(child.place, made, child.holds)
        self.inner[name + end] = module
        if sign is None:
            return name + end
        self.modules.turns.setdefault(child.place, []).append(module)
        return name

    def finished(self, kind: type[GraphModule], name: str) -> GraphModule:
        """The module of this part."""
        return kind({**self.holds, **self.inner}, self.graph, name)


def _class(node: Node, key: str) -> str | None:
    """The class of the module that a node runs in."""
    _, kind = node.meta.get("nn_module_stack", {}).get(key, (None, None))
    return kind


def _attribute(module: nn.Module, path: str) -> Any:
    value: Any = module
    for name in path.split("."):
        value = getattr(value, name)
    return value
