"""Graphs: steps in order, as a program that can be read and changed.

Takes calls that make, move and erase nodes.  Gives `Graph`, and its text as Python (`codegen.py`).
Keeps true: names of nodes are unique; a node that is used is not erased; new nodes stand at the
insertion point, which is the end unless `inserting_before`/`inserting_after` say otherwise.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from facula.core.errors import fail
from facula.fx import graph_lint, names
from facula.fx.codegen import CodeGen, PythonCode, PyTreeCodeGen
from facula.fx.node import OPCODES, Argument, Node, Target, map_aggregate, map_arg
from facula.fx.shape_env import nodes_of_numbers
from facula.ops.table import overloads

if TYPE_CHECKING:
    from facula.fx.graph_module import GraphModule

__all__ = ["CodeGen", "Graph", "PythonCode"]

_register_custom_builtin = names.register_custom_builtin
_PyTreeCodeGen = PyTreeCodeGen
_snake_case = names.snake_case
_Namespace = names.Namespace


class _NodeList:
    """The nodes of a graph in order, or backwards."""

    def __init__(self, graph: Graph, backwards: bool = False) -> None:
        self.graph = graph
        self.backwards = backwards

    def __len__(self) -> int:
        return self.graph._len

    def __iter__(self) -> Iterator[Node]:
        root = self.graph._root
        at = root._prev if self.backwards else root._next
        while at is not root:
            if not at._erased:
                yield at
            at = at._prev if self.backwards else at._next

    def __reversed__(self) -> _NodeList:
        return _NodeList(self.graph, not self.backwards)


class _InsertPoint:
    """A place for new nodes; as a context manager it gives back the one before."""

    def __init__(self, graph: Graph, insert: Callable[[Node], None]) -> None:
        self.graph = graph
        self.before = graph._insert
        graph._insert = insert

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        self.graph._insert = self.before


class Graph:
    """A program of nodes: placeholders, then calls, then one output.

    ``placeholder``, ``call_function``, ``call_method``, ``call_module``, ``get_attr`` and
    ``output`` add nodes, ``inserting_before`` says where; ``lint`` checks, ``python_code`` and
    ``print`` show it.

    Args:
        owning_module: the `GraphModule` that runs it
        tracer_cls: the class that recorded it
        tracer_extras: what that class needs to trace again

    Example:
        >>> graph = facula.fx.Graph()
        >>> x = graph.placeholder("x")
        >>> _ = graph.output(graph.call_function(facula.sin, (x,)))
        >>> facula.fx.GraphModule(facula.nn.Module(), graph)(facula.zeros(1))
        tensor([0.])
    """

    def __init__(
        self,
        owning_module: GraphModule | None = None,
        tracer_cls: type[Any] | None = None,
        tracer_extras: dict[str, Any] | None = None,
    ) -> None:
        """Make an empty graph."""
        self._graph_namespace = names.Namespace()
        self._replace_hooks: list[Callable[..., object]] = []
        self._create_hooks: list[Callable[[Node], object]] = []
        self._erase_hooks: list[Callable[[Node], object]] = []
        self._root = Node(self, "", "root", "", (), {})
        self._used_names: dict[str, int] = {}
        self._insert: Callable[[Node], None] = self._root.prepend
        self._len = 0
        self._ordered = False
        self._owning_module = owning_module
        self._owners = 0
        self._tracer_cls = tracer_cls
        self._tracer_extras = tracer_extras
        self._codegen = CodeGen()
        self._co_fields: dict[str, Any] = {}

    @property
    def owning_module(self) -> GraphModule | None:
        """The `GraphModule` whose graph this is."""
        return self._owning_module

    @owning_module.setter
    def owning_module(self, mod: GraphModule | None) -> None:
        self._owning_module = mod

    @property
    def nodes(self) -> Any:
        """The nodes in order; `reversed()` gives them backwards. Nodes may be added and erased meanwhile."""
        return _NodeList(self)

    def output_node(self) -> Node:
        """The node that returns the result."""
        last = self._root._prev
        if last.op == "output":
            return last
        found = self.find_nodes(op="output")
        if not found:
            fail(
                AssertionError,
                "output_node",
                "a graph with an output node was required",
                hint="graph.output(value) adds one",
            )
        return found[0]

    def find_nodes(self, *, op: str, target: Target | None = None, sort: bool = True) -> list[Node]:
        """The nodes of an opcode, of one target if that is given, in order.

        Args:
            op: the opcode.
            target: compared with `==`; needed for `call_function`.
            sort: kept for PyTorch's API: the nodes are always in order.
        """
        if op == "call_function" and target is None:
            return [n for n in self.nodes if n.op == op]
        return [n for n in self.nodes if n.op == op and (target is None or n.target == target)]

    def _number_nodes(self) -> None:
        if not self._ordered:
            for position, node in enumerate(self.nodes):
                node._order = position
            self._root._order = self._len
            self._ordered = True

    # ---------------------------------------------------------------- making nodes

    def create_node(
        self,
        op: str,
        target: Target,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        name: str | None = None,
        type_expr: Any | None = None,
    ) -> Node:
        """Make a node at the insertion point.

        Args:
            op: one of the opcodes.
            target: what is called or read; a name for anything but `call_function`.
            args, kwargs: its arguments.
            name: a wish; the name is made unique.
            type_expr: the annotation of the result.
        """
        if op not in OPCODES:
            fail(
                AssertionError,
                "create_node",
                f"one of the opcodes {OPCODES} was required",
                got=op,
                hint="graph.call_function(f, args) makes the usual node",
            )
        wanted = name if name is not None else self._target_to_str(target)
        node = Node(
            self,
            self._graph_namespace.create_name(wanted, None),
            op,
            target,
            () if args is None else args,
            {} if kwargs is None else kwargs,
            type_expr,
        )
        self._graph_namespace.associate_name_with_obj(node.name, node)
        self._insert(node)
        self._len += 1
        for hook in self._create_hooks:
            hook(node)
        return node

    def placeholder(
        self, name: str, type_expr: Any | None = None, default_value: Any = inspect.Signature.empty
    ) -> Node:
        """An input of the graph; `default_value` is used by callers that leave it out."""
        args = () if default_value is inspect.Signature.empty else (default_value,)
        return self.create_node("placeholder", name, args=args, type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: Any | None = None) -> Node:
        """Reading an attribute of the module by its path."""
        if self._owning_module is not None and not _has_attribute(
            self._owning_module, qualified_name
        ):
            warnings.warn(
                f"[get_attr] an attribute of the owning module was expected: '{qualified_name}' does "
                "not reference an nn.Module, nn.Parameter, or buffer; the graph will fail where it "
                "runs without it",
                stacklevel=2,
            )
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_module(
        self,
        module_name: str,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Any | None = None,
    ) -> Node:
        """Calling a submodule by its path."""
        if self._owning_module is not None and not _has_attribute(self._owning_module, module_name):
            warnings.warn(
                f"[call_module] a submodule of the owning module was expected: '{module_name}' is "
                "none; add it with GraphModule.add_submodule",
                stacklevel=2,
            )
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def call_method(
        self,
        method_name: str,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Any | None = None,
    ) -> Node:
        """Calling a method of the first argument."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_function(
        self,
        the_function: Callable[..., Any],
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Any | None = None,
        name: str | None = None,
    ) -> Node:
        """Calling a function."""
        return self.create_node(
            "call_function", the_function, args, kwargs, name=name, type_expr=type_expr
        )

    def output(self, result: Argument, type_expr: Any | None = None) -> Node:
        """Returning a result: nodes and constants in any nesting."""
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    def node_copy(
        self, node: Node, arg_transform: Callable[[Node], Argument] = lambda x: x
    ) -> Node:
        """A copy of a node of another graph.

        Args:
            node: what is copied.
            arg_transform: gives for each node among its arguments the one of this graph.
        """
        args = map_arg(node.args, arg_transform)
        kwargs = map_arg(node.kwargs, arg_transform)
        made = self.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        made.meta = copy.copy(node.meta)
        return made

    def graph_copy(
        self, g: Graph, val_map: dict[Node, Node], return_output_node: bool = False
    ) -> Argument | None:
        """Copy all nodes of a graph to the insertion point; gives what its output returns.

        Args:
            g: the graph.
            val_map: nodes of `g` -> nodes of this graph; those in it are not copied, and copies
                are entered.
            return_output_node: give the output node of `g` as well.
        """
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                result = map_arg(node.args[0], lambda n: val_map[n])
                return (result, node) if return_output_node else result
            val_map[node] = self.node_copy(node, lambda n: val_map[n])
        return None

    # ---------------------------------------------------------------- changing

    def take_apart(self) -> None:
        """Leave nothing of the graph, which nobody uses any more: nodes name each other, so they would
        else stay in memory until Python searches for cycles."""
        for node in list(self.nodes):
            node._let_go()
        self._root._let_go()
        self._graph_namespace, self._len = names.Namespace(), 0
        self._owning_module = self._tracer_extras = None

    def erase_node(self, to_erase: Node) -> None:
        """Take a node that nobody uses out of the graph."""
        if to_erase.users:
            fail(
                RuntimeError,
                "erase_node",
                "a node without users was required: Tried to erase Node "
                f"{to_erase} but it still had {len(to_erase.users)} users in the graph: "
                f"{to_erase.users}!",
                hint="replace_all_uses_with() another node first",
            )
        if to_erase.graph is not self:
            fail(
                RuntimeError,
                "erase_node",
                "a node of this graph was required",
                got=to_erase.name,
                hint="call erase_node() of its own graph, node.graph",
            )
        if to_erase._erased:
            warnings.warn(f"[erase_node] {to_erase} was erased before", stacklevel=2)
            return
        for hook in self._erase_hooks:
            hook(to_erase)
        to_erase._unlink()
        to_erase._erased = True
        self._len -= 1
        for node in to_erase._input_nodes:
            node.users.pop(to_erase, None)
        to_erase._set_arguments((), {})

    def inserting_before(self, n: Node | None = None) -> _InsertPoint:
        """New nodes go before `n` (None: to the start), inside of `with` or from now on."""
        if n is None:
            return self.inserting_after(self._root)
        self._check_own(n, "inserting_before")
        return _InsertPoint(self, n.prepend)

    def inserting_after(self, n: Node | None = None) -> _InsertPoint:
        """New nodes go behind `n` (None: to the end), in the order in which they are made."""
        if n is None:
            return self.inserting_before(self._root)
        self._check_own(n, "inserting_after")
        return _InsertPoint(self, n._next.prepend)

    def _check_own(self, n: Node, name: str) -> None:
        if n.graph is not self:
            fail(AssertionError, name, "a node of this graph was required: Node to insert at is not in "
                 "graph.", got=n.name, hint="node_copy() copies a node of another graph")  # fmt: skip

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Erase nodes that nobody uses and that do nothing else; gives whether there were any.

        Args:
            is_impure_node: says of a node whether it must stay; default `Node.is_impure`.
        """
        self.lint()
        before = self._len
        for node in reversed(self.nodes):
            impure = node.is_impure() if is_impure_node is None else is_impure_node(node)
            if not node.users and not impure and node.op not in ("placeholder", "output"):
                self.erase_node(node)
        return self._len != before

    def _clear_nodes(self) -> None:
        for node in reversed(self.nodes):
            node._set_arguments((), {})
            self.erase_node(node)

    # ---------------------------------------------------------------- inputs and outputs

    def process_inputs(self, *args: object) -> Any:
        """What the placeholders get of the arguments of a call."""
        return self._codegen.process_inputs(*args)

    def process_outputs(self, out: object) -> Any:
        """What the caller gets of what the output node has."""
        return self._codegen.process_outputs(out)

    def set_codegen(self, codegen: CodeGen) -> None:
        """Have the code written by another generator."""
        self._codegen = codegen

    def on_generate_code(
        self, make_transformer: Callable[[Any], Callable[[list[str]], list[str]]]
    ) -> contextlib.AbstractContextManager[None]:
        """Have the lines of the code changed before they are compiled.

        Args:
            make_transformer: takes the transformer before (or None), gives the next: lines -> lines.

        Gives a context manager that goes back to the one before; without `with` it stays.
        """
        before = self._codegen._body_transformer
        self._codegen._body_transformer = make_transformer(before)

        @contextlib.contextmanager
        def restored() -> Iterator[None]:
            try:
                yield
            finally:
                self._codegen._body_transformer = before

        return restored()

    # ---------------------------------------------------------------- sizes as nodes

    def create_size_node(self, tensor_node: Node, dim: int) -> Node:
        """A node for the size of a tensor along a dimension."""
        return self._sized("sym_size", tensor_node, dim, lambda t: t.shape[dim])

    def create_stride_node(self, tensor_node: Node, dim: int) -> Node:
        """A node for the stride of a tensor along a dimension."""
        return self._sized("sym_stride", tensor_node, dim, lambda t: t.stride()[dim])

    def create_storage_offset_node(self, tensor_node: Node) -> Node:
        """A node for the place of a tensor's first element in its storage."""
        return self._sized("sym_storage_offset", tensor_node, None, lambda t: t.storage_offset())

    def materialize_symints(self, values: object) -> list[Any]:
        """Nodes (or plain numbers) for numbers that depend on sizes of the graph's inputs."""
        return nodes_of_numbers(self, values)

    def materialize_symint(self, value: object) -> Any:
        """A node (or a plain number) for a number that depends on sizes of the graph's inputs."""
        return self.materialize_symints([value])[0]

    def _sized(self, name: str, node: Node, dim: int | None, read: Callable[[Any], Any]) -> Node:
        packet = getattr(overloads.namespace("aten"), name)
        function = packet.default if dim is None else packet.int
        made = self.call_function(function, (node,) if dim is None else (node, dim))
        value = node.meta.get("val", node.meta.get("example_value"))
        if value is not None:
            made.meta["val"] = read(value)
        return made

    # ---------------------------------------------------------------- text

    def _target_to_str(self, target: Target | None) -> str:
        if callable(target):
            op = str(getattr(target, "__name__", type(target).__name__))
        else:
            op = str(target)
            if op.startswith("__") and op.endswith("__"):
                op = op[2:-2]
        return names.snake_case(op)

    def python_code(
        self,
        root_module: str,
        *,
        verbose: bool = False,
        include_stride: bool = False,
        include_device: bool = False,
        colored: bool = False,
        expanded_def: bool = False,
        record_func: bool = False,
        additional_meta: list[str] | None = None,
    ) -> PythonCode:
        """The graph as the text of a `forward` function.

        Args:
            root_module: the name of what attributes are read from, usually `"self"`.
            verbose: with comments on shapes and where nodes come from.
            include_stride, include_device: more in these comments.
            expanded_def: one argument a line.
            colored, record_func: kept for PyTorch's API, they change nothing.
            additional_meta: entries of `meta` to show in comments.
        """
        namespace = names.Namespace()

        def name_of(n: Node) -> str:
            return namespace.create_name(n.name, n)

        saved = [(n, n._repr_fn) for n in self.nodes]
        for n, _ in saved:
            n._repr_fn = name_of
        try:
            return self._codegen._gen_python_code(
                self.nodes,
                root_module,
                namespace,
                verbose=verbose,
                include_stride=include_stride,
                include_device=include_device,
                expanded_def=expanded_def,
                additional_meta=additional_meta,
            )
        finally:
            for n, function in saved:
                n._repr_fn = function

    def __str__(self) -> str:
        annotation = [""]
        lines = [n.format_node(None, annotation) for n in self.nodes]
        return f"graph(){annotation[0]}:" + "".join(f"\n    {line}" for line in lines)

    def print_tabular(self) -> None:
        """Print the nodes as a table: opcode, name, target, arguments."""
        header = ("opcode", "name", "target", "args", "kwargs")
        rows = [(n.op, n.name, str(n.target), str(n.args), str(dict(n.kwargs))) for n in self.nodes]
        # as wide as the package `tabulate` makes them, which PyTorch prints this with
        least = [len(name) + 2 for name in header]
        widths = [max(least[i], *(len(row[i]) for row in rows)) for i in range(len(header))]
        lines = [
            "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
            for row in [header, tuple("-" * w for w in widths), *rows]
        ]
        print("\n".join(lines))

    # ---------------------------------------------------------------- checks and copies

    def lint(self) -> None:
        """Check the graph: names, order, users, and that attributes exist in the owning module.

        Raises:
            RuntimeError: what is wrong.
        """
        graph_lint.check(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Graph:
        made = Graph(tracer_cls=self._tracer_cls)
        memo[id(self)] = made
        val_map: dict[Node, Node] = {}
        result = made.graph_copy(self, val_map, return_output_node=True)
        made._codegen = copy.deepcopy(self._codegen, memo)
        made._tracer_extras = self._tracer_extras
        if result is not None:
            value, old = result
            out = made.create_node("output", old.target, (value,), {}, old.name, old.type)
            out.meta = copy.copy(old.meta)
            val_map[old] = out
        for old, new in val_map.items():
            memo[id(old)] = new
        return made

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state["_replace_hooks"] = state["_create_hooks"] = state["_erase_hooks"] = []
        state["_owning_module"] = state["_tracer_extras"] = None
        state["_insert"] = state["_root"] = state["_graph_namespace"] = None
        state["_saved_nodes"] = _saved(self)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        saved = state.pop("_saved_nodes")
        self.__init__()  # type: ignore[misc]
        kept = ("_root", "_insert", "_graph_namespace", "_len")
        self.__dict__.update({k: v for k, v in state.items() if k not in kept})
        made: list[Node] = []
        for op, target, args, kwargs, name, annotation, meta in saved:
            loaded = _loaded((args, kwargs), made)
            node = self.create_node(op, target, loaded[0], loaded[1], name, annotation)
            node.meta = meta
            made.append(node)


class _Position:
    """A node in a saved graph."""

    def __init__(self, index: int) -> None:
        self.index = index


def _saved(graph: Graph) -> list[tuple[Any, ...]]:
    positions = {n: _Position(i) for i, n in enumerate(graph.nodes)}

    def saved(a: object) -> Any:
        return map_arg(a, lambda n: positions[n])

    return [
        (n.op, n.target, saved(n.args), dict(saved(n.kwargs)), n.name, n.type, _plain_meta(n.meta))
        for n in graph.nodes
    ]


def _plain_meta(meta: dict[str, Any]) -> dict[str, Any]:
    """What of `meta` means something in another process."""
    return {k: v for k, v in meta.items() if isinstance(v, (str, int, float, bool, type(None)))}


def _loaded(a: object, made: list[Node]) -> Any:
    return map_aggregate(a, lambda x: made[x.index] if isinstance(x, _Position) else x)


def _has_attribute(module: GraphModule, path: str) -> bool:
    for part in path.split("."):
        if not hasattr(module, part):
            return False
        module = getattr(module, part)
    return True
