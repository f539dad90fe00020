"""Tracing at the level of operators: what a function does to tensors, as a graph of overloads.

Takes a function and example inputs.  Gives `make_fx`, whose graphs hold calls of operators only:
below differentiation, `vmap` and composites, so that gradients are part of the trace.
Keeps true: the function runs as it would without a trace (on real or on fake tensors); a tensor is
known by its identity, or by the place of its elements, so that what the tape kept is found again;
tensors that the function holds become attributes.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import operator
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from facula import core, nn
from facula.autograd.transforms import wrapped
from facula.autograd.transforms.functionalization import simple_views
from facula.core.errors import fail
from facula.fx import _pytree as pytree
from facula.fx import traceback as fx_traceback
from facula.fx._symbolic_trace import Tracer
from facula.fx.codegen import PyTreeCodeGen, _PyTreeInfo
from facula.fx.dispatch_mode import TorchDispatchMode
from facula.fx.effects import has_side_effect
from facula.fx.experimental.symbolic_shapes import ShapeEnv
from facula.fx.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
    detect_fake_mode,
)
from facula.fx.graph import Graph
from facula.fx.graph_module import GraphModule
from facula.fx.immutable_collections import immutable_dict, immutable_list
from facula.fx.interpreter import Interpreter
from facula.fx.node import Node
from facula.fx.proxy import Proxy
from facula.fx.shape_env import leaf_of, node_of_number, note_source
from facula.fx.symbols import SymBool, SymFloat, SymInt
from facula.ops.table.overloads import OpOverload, overload_of
from facula.ops.table.registry import F

__all__ = [
    "DecompositionInterpreter", "PythonKeyTracer", "dispatch_trace", "get_innermost_proxy_mode",
    "get_proxy_mode", "handle_sym_dispatch", "make_fx", "maybe_disable_thunkify",
    "maybe_enable_thunkify", "py_sym_types", "selective_decompose",
]  # fmt: skip

Tensor = core.Tensor
#: makes a function one whose calls are noted as it makes them; filled by `pre_dispatch`, which lies above
PROGRAMS: list[Callable[[Callable[..., Any]], Callable[..., Any]]] = []


#: arguments of what makes tensors, in the order in which code shows them
_OPTIONS = ("dtype", "layout", "device", "pin_memory", "requires_grad", "memory_format")


@functools.cache
def _unsaid(func: Any) -> tuple[str, ...]:
    """The arguments that nodes of what makes tensors have even if the program does not give them: the page lock,
    and the device where no other tensor says it."""
    definition = getattr(getattr(func, "_op", func), "definition", None)
    kinds = {p.name: p.type for p in definition.schema.parameters} if definition else {}
    if "pin_memory" not in kinds or "requires_grad" not in kinds:
        return ()
    return ("pin_memory",) if "Tensor" in kinds.values() else ("device", "pin_memory")


def _with_options(
    given: dict[str, Any], missing: tuple[str, ...], device: core.device
) -> dict[str, Any]:
    """The arguments with those that are missing, in order."""
    said = {"device": device, "pin_memory": False}
    every = {**{name: said[name] for name in missing}, **given}
    rest = {name: value for name, value in every.items() if name not in _OPTIONS}
    return rest | {name: every[name] for name in _OPTIONS if name in every}


class PythonKeyTracer(Tracer):
    """The tracer of an operator-level trace: knows which node made a tensor."""

    def __init__(self) -> None:
        super().__init__(autowrap_modules=())
        self.root = nn.Module()
        self.graph = Graph(tracer_cls=PythonKeyTracer)
        self.tensor_attrs: dict[Any, str] = {}
        #: id -> (the tensor, kept so that the id stays its own; its node)
        self._by_id: dict[int, tuple[Tensor, Node]] = {}
        #: place of the elements -> node
        self._by_place: dict[Any, Node] = {}
        self._constants: dict[str, int] = {}
        #: expressions and symbols of sizes -> their nodes, and where symbols are read
        self.number_nodes: dict[Any, Any] = {}
        #: whether powers and differences of sizes are steps of the graph, as programs write them
        self.powers = False
        self.symbol_sources: dict[str, tuple[Node, int]] = {}
        self.derived_sources: dict[str, tuple[Node, int, Any]] = {}

    def call_module(
        self,
        m: nn.Module,
        forward: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """Modules are run through."""
        return forward(*args, **kwargs)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        """Parameters are tensors like others."""
        return attr_val

    def remember(self, t: Tensor, node: Node) -> None:
        """From now on `node` stands for `t`."""
        self._by_id[id(t)] = (t, node)
        self._by_place.setdefault(core.tensor_place(t), node)

    def written(self, t: Tensor, node: Node) -> None:
        """`node` wrote to `t`: whoever reads these elements from now on reads its result."""
        self._by_id[id(t)] = (t, node)
        self._by_place[core.tensor_place(t)] = node

    def at_place(self, t: Tensor, node: Node) -> None:
        """`node` stands for other tensors with the place of `t`."""
        self._by_place[core.tensor_place(t)] = node

    def node_of(self, t: Tensor) -> Node | None:
        """The node that stands for a tensor; None for one that the trace did not make."""
        known = self._by_id.get(id(t))
        if known is not None:
            return known[1]
        return self._by_place.get(core.tensor_place(t))

    def known_tensors(self) -> list[tuple[Tensor, Node]]:
        """The tensors that the trace has seen, each with its node."""
        return list(self._by_id.values())

    def constant(self, t: Tensor) -> Node:
        """A node that reads a tensor which the traced function holds."""
        is_parameter = isinstance(t, nn.Parameter)
        prefix = "_param_constant" if is_parameter else "_tensor_constant"
        number = self._constants.get(prefix, 0)
        self._constants[prefix] = number + 1
        name = f"{prefix}{number}"
        if is_parameter:
            setattr(self.root, name, t)
        else:
            self.root.register_buffer(name, t)
        made = self.graph.create_node("get_attr", name)
        self.remember(t, made)
        return made

    def create_arg(self, a: Any) -> Any:
        """What stands in the graph for a value."""
        if isinstance(a, Tensor):
            node = self.node_of(a)
            return self.constant(a) if node is None else node
        if isinstance(a, tuple):
            made = [self.create_arg(x) for x in a]
            return type(a)(*made) if hasattr(a, "_fields") else tuple(made)
        if isinstance(a, list):
            return immutable_list([self.create_arg(x) for x in a])
        if isinstance(a, dict):
            return immutable_dict({k: self.create_arg(v) for k, v in a.items()})
        if getattr(a, "_is_symbolic", False):
            return self.symbol_node(a)
        return a if isinstance(a, (core.Generator, Node)) else super().create_arg(a)

    def note_symbols(self, value: Any, node: Node) -> None:
        """Note which sizes of an input are symbols."""
        if isinstance(value, SymInt):
            self.number_nodes[value.expr] = node
        for dim, size in enumerate(value.shape if isinstance(value, FakeTensor) else ()):
            if isinstance(size, SymInt):
                note_source(self, size.expr, node, dim)

    def note_new_sizes(self, value: object, node: Node) -> None:
        """Note which sizes of a result are numbers without an example that it brings."""
        geometry = getattr(value, "_symbolic", None)
        for dim, size in enumerate(geometry[0] if geometry is not None else ()):
            if size.symbol is not None and size.unbacked:
                self.symbol_sources.setdefault(size.symbol, (node, dim))

    def symbol_node(self, number: SymInt) -> Any:
        """What stands in the graph for a number that depends on sizes."""
        return node_of_number(self, number)


class ProxyTorchDispatchMode(TorchDispatchMode):
    """A block in which every operator becomes a node of a tracer's graph."""

    #: whether nodes are operators of the table, as compilers want them, or PyTorch's
    hears_own_operators = True
    #: whether nodes are named as operators are, `_softmax`, and not `softmax`
    whole_names = False

    def __init__(
        self,
        tracer: PythonKeyTracer,
        tracing_mode: str = "real",
        pre_dispatch: bool = False,
        decomposition_table: Mapping[Any, Callable[..., Any]] | None = None,
        fake_mode: FakeTensorMode | None = None,
    ) -> None:
        self.tracer = tracer
        self.tracing_mode = tracing_mode
        self.pre_dispatch = pre_dispatch
        self.decomposition_table = decomposition_table or {}
        self.fake_mode = fake_mode
        #: what shapes of real values are noted with
        self.shadow_mode = fake_mode or FakeTensorMode(allow_non_fake_inputs=True)
        self.enable_tracing = True
        self.outer_frame: Any = None
        #: gives the calls of modules that run; None where nobody asks
        self.module_calls: Any = None

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if not self.enable_tracing:
            return func(*args, **kwargs)
        if any(map(wrapped.is_made_of_tensors, types)):
            return wrapped.handled(self, func, types, args, kwargs)
        decomposition = self.decomposition_table.get(func) if self.decomposition_table else None
        if decomposition is not None:
            with self:
                result = decomposition(*args, **kwargs)
            if result is not NotImplemented:
                return result
        opname = getattr(func, "_opname", None) or getattr(func, "__name__", "call")
        if opname in ("_local_scalar_dense", "item"):
            return self._number(func, args[0])
        return self.record(func, args, kwargs, None)

    def record(
        self,
        func: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        compute: Callable[..., Any] | None,
    ) -> Any:
        """The result of a call, which becomes one node; `compute` gives it without the trace."""
        opname: Any = getattr(func, "_opname", None) or getattr(func, "__name__", "call")
        tracer = self.tracer
        proxy_args = tuple([tracer.create_arg(a) for a in args])
        proxy_kwargs = {k: tracer.create_arg(v) for k, v in kwargs.items()} if kwargs else {}
        if compute is not None:
            result = compute(*args, **kwargs)
        else:
            if _changes_geometry(func):
                self._keep_place(args[0], proxy_args[0])
            result = self._computed(func, args, kwargs)
        if isinstance(result, Tensor) and (missing := _unsaid(func)):
            proxy_kwargs = _with_options(proxy_kwargs, missing, result.device)
        node = tracer.graph.create_node(
            "call_function", func, proxy_args, proxy_kwargs, name=self._name_for(opname)
        )
        self.describe(node)
        if args and result is args[0]:
            node.meta["val"] = self.value_of(result)
            node.meta["gives_first_argument"] = func
            tracer.written(result, node)
        else:
            self.track(result, node)
        return result

    def _name_for(self, opname: str) -> str:
        return opname if self.whole_names else opname.lstrip("_") or opname

    def describe(self, node: Node) -> None:
        """Note where in the program a node comes from."""
        node.meta["stack_trace"] = fx_traceback.user_stack(self.outer_frame, 3)
        if fx_traceback.has_preserved_node_meta():
            node.meta.update(fx_traceback.get_current_meta())
        if fx_traceback.NOTES and "custom" not in node.meta:
            note = fx_traceback.user_note(self.outer_frame)
            if note is not None:
                node.meta["custom"] = dict(note)
        if self.module_calls is not None:
            node.meta["nn_module_stack"] = self.module_calls.stack()

    def _keep_place(self, t: Tensor, node: Node) -> None:
        """The tensor is about to lie otherwise: others that lie as it does have a node of their own."""
        tracer = self.tracer
        other = tracer.graph.create_node("call_function", _DETACH, (node,), {}, name="detach")
        other.meta["val"] = self.value_of(t)
        tracer.at_place(t, other)

    def _computed(
        self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """The result of the call, as whatever lies below the trace gives it."""
        fake = self.fake_mode
        modes = core.DISPATCH_MODES
        if fake is not None and (not modes or (len(modes) == 1 and modes[0] is fake)):
            return fake.dispatch(func, args, kwargs)
        return func(*args, **kwargs)

    def _number(self, func: Callable[..., Any], t: Tensor) -> Any:
        """A number read from a tensor: possible for what the function holds, not for what it computes."""
        node = self.tracer.node_of(t)
        if node is None and not isinstance(t, FakeTensor):
            return func(t)
        if self.fake_mode is not None and self.fake_mode.shape_env is not None:
            if node is not None or getattr(t, "constant", None) is None:
                return self._read(func, t, node)
        raise DataDependentOutputException(func) from RuntimeError(
            "It appears that you're trying to get value out of a tracing tensor"
        )

    def _read(self, func: Any, t: Tensor, node: Node | None) -> Any:
        """A number without an example, and the node that reads it where the graph runs."""
        assert self.fake_mode is not None
        value = self.fake_mode.dispatch(func, (t,), {})
        key = leaf_of(value)
        tracer = self.tracer
        if key is not None and key not in tracer.number_nodes:
            arg = tracer.create_arg(t)
            made = tracer.graph.create_node(
                "call_function", func, (arg,), {}, name=self._name_for(func._opname)
            )
            made.meta["stack_trace"] = fx_traceback.user_stack(self.outer_frame, 2)
            made.meta["val"] = value
            tracer.number_nodes[key] = made
        return value

    def track(self, result: Any, node: Node) -> None:
        """Note that a node gives `result`; several results become nodes of their own."""
        if isinstance(result, Tensor):
            node.meta["val"] = self.value_of(result)
            self.tracer.remember(result, node)
            self.tracer.note_new_sizes(result, node)
        elif isinstance(result, (tuple, list)):
            for i, part in enumerate(result):
                if part is not None:
                    inner = self.tracer.graph.create_node(
                        "call_function", operator.getitem, (node, i), {}, name="getitem"
                    )
                    for key in ("stack_trace", "nn_module_stack"):
                        if key in node.meta:
                            inner.meta[key] = node.meta[key]
                    self.track(part, inner)
            node.meta["val"] = (
                type(result)(*[self.value_of(r) for r in result])
                if hasattr(result, "_fields")
                else type(result)([self.value_of(r) for r in result])
            )
        else:
            node.meta["val"] = result

    def value_of(self, x: object) -> Any:
        """A fake tensor that shows what a value looks like now."""
        if isinstance(x, FakeTensor):
            return core.fake_snapshot(x)
        if isinstance(x, Tensor):
            return core.fake_like(FakeTensor, x, self.shadow_mode)
        return x

    def __enter__(self) -> ProxyTorchDispatchMode:
        core.push_dispatch_mode(self)
        return self


_DETACH = overload_of(Tensor.detach)
# checks may need a number that nothing else uses; who writes them drops the others
has_side_effect(Tensor.item)


@functools.cache
def _changes_geometry(func: Callable[..., Any]) -> bool:
    """Whether a call gives its first argument another shape, strides or memory."""
    function = getattr(func, "_op", func)
    if isinstance(function, core.InplaceOp):
        return bool(function.op.definition.kind == "view")
    return getattr(func, "_opname", "") in ("resize_", "set_")


def get_proxy_mode() -> ProxyTorchDispatchMode | None:
    """The innermost trace that runs; None where there is none."""
    for mode in reversed(core.DISPATCH_MODES):
        if isinstance(mode, ProxyTorchDispatchMode):
            return mode
    return None


get_innermost_proxy_mode = get_proxy_mode


def name_wholly() -> None:
    """Let the running trace name nodes as operators are named, underscores in front included."""
    mode = get_proxy_mode()
    assert mode is not None
    mode.whole_names = True


@contextmanager
def disable_proxy_modes_tracing() -> Iterator[Any]:
    """A block in which the running trace records nothing."""
    mode = get_proxy_mode()
    if mode is None:
        yield None
        return
    before, mode.enable_tracing = mode.enable_tracing, False
    try:
        yield mode
    finally:
        mode.enable_tracing = before


# ------------------------------------------------------------------ make_fx


def lists_for_tuples(graph: Graph) -> None:
    """Let operators take sizes, dimensions and tensors as lists: schemas know no tuples."""
    for node in graph.nodes:
        if node.op == "call_function" and type(node.target) is OpOverload:
            schema = node.target._table_schema
            parameters = schema.parameters if schema is not None else ()
            listed = [
                immutable_list(a) if isinstance(a, tuple) and (p.is_list or p.name == "size") else a
                for a, p in zip(node.args, parameters, strict=False)
            ]
            if any(new is not old for new, old in zip(listed, node.args, strict=False)):
                node.args = (*listed, *node.args[len(listed) :])


def _input_names(f: Callable[..., Any], args: tuple[Any, ...]) -> list[str]:
    """The names of the parameters of `f` that the arguments are for."""
    target = f.forward if isinstance(f, nn.Module) else f
    names: list[str] = []
    try:
        for p in inspect.signature(target).parameters.values():
            if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD):
                names.append(p.name)
            else:
                break
    except (TypeError, ValueError):
        pass
    return names[: len(args)] + [f"arg{i}" for i in range(len(names), len(args))]


def _distinct(leaves: list[Any]) -> list[Any]:
    """Inputs of which no two are one object: a tensor that is given twice is two inputs."""
    seen: set[int] = set()
    made = []
    for x in leaves:
        if isinstance(x, Tensor) and id(x) in seen:
            wants = x.requires_grad
            x = core.fake_snapshot(x) if isinstance(x, FakeTensor) else x.detach()
            x.requires_grad_(wants)
        if isinstance(x, Tensor):
            seen.add(id(x))
        made.append(x)
    return made


def _stand_in(fake_mode: FakeTensorMode, x: FakeTensor, source: str) -> Any:
    """What is traced with in place of an input."""
    if isinstance(x, Tensor):
        return fake_mode.from_tensor(x, source=source)
    if type(x) is int and fake_mode.shape_env is not None:
        return fake_mode.shape_env.create_symint(x, source)
    return x


class _MakefxTracer:
    """One `make_fx`: its settings, and the traces that it makes."""

    def __init__(
        self,
        decomposition_table: Mapping[Any, Callable[..., Any]] | None,
        tracing_mode: str,
        allow_non_fake_inputs: bool,
        pre_dispatch: bool,
        own_operators: bool,
    ) -> None:
        if tracing_mode not in ("real", "fake", "symbolic"):
            fail(AssertionError, "make_fx", 'a tracing_mode "real", "fake" or "symbolic" was required',
                 tracing_mode, hint="'real' is the default")  # fmt: skip
        self.decomposition_table = decomposition_table
        self.tracing_mode = tracing_mode
        self.allow_non_fake_inputs = allow_non_fake_inputs
        self.pre_dispatch = pre_dispatch
        self.own_operators = own_operators
        #: whether sizes depend on elements, for which "fake" needs symbols
        self.sizes_depend = False

    def _fake_mode(self, leaves: list[Any]) -> FakeTensorMode | None:
        found = detect_fake_mode(leaves)
        if found is not None or self.tracing_mode == "real":
            return found
        if self.tracing_mode == "fake" and not self.sizes_depend:
            return FakeTensorMode(allow_non_fake_inputs=self.allow_non_fake_inputs)
        symbolic = self.tracing_mode == "symbolic"
        shape_env = ShapeEnv(allow_scalar_outputs=symbolic)
        shape_env.keeps_conditions = symbolic
        return FakeTensorMode(
            allow_non_fake_inputs=self.allow_non_fake_inputs,
            shape_env=shape_env,
            static_shapes=not symbolic,
        )

    def trace(self, f: Callable[..., Any], *args: object) -> GraphModule:
        """The graph module of `f` for these inputs."""
        try:
            return self._traced(f, *args)
        except DynamicOutputShapeException:
            if self.tracing_mode != "fake" or self.sizes_depend:
                raise
        self.sizes_depend = True  # again, with symbols for those sizes
        return self._traced(f, *args)

    def _traced(self, f: Callable[..., Any], *args: object) -> GraphModule:
        leaves, in_spec = pytree.tree_flatten(args)
        fake_mode = self._fake_mode(leaves)
        if fake_mode is not None:
            leaves = [_stand_in(fake_mode, x, f"s{i}") for i, x in enumerate(leaves)]
        leaves = _distinct(leaves)
        names = _input_names(f, args)
        leaf_names = [
            f"{name}_{i + 1}"
            for name, arg in zip(names, args, strict=True)
            for i in range(len(pytree.tree_leaves(arg)))
        ]
        tracer = PythonKeyTracer()
        mode = ProxyTorchDispatchMode(
            tracer,
            self.tracing_mode,
            self.pre_dispatch,
            self.decomposition_table,
            fake_mode,
        )
        follows_sizes = fake_mode is not None and not fake_mode.static_shapes
        mode.hears_own_operators = self.own_operators or follows_sizes
        mode.outer_frame = sys._getframe(2)
        for name, leaf in zip(leaf_names, leaves, strict=True):
            node = tracer.graph.placeholder(name)
            mode.track(leaf, node)
            tracer.note_symbols(leaf, node)
        result = self._run(f, mode, fake_mode, pytree.tree_unflatten(leaves, in_spec))
        is_nested = any(not isinstance(s, pytree.LeafSpec) for s in in_spec.children_specs)
        out_spec = None
        if is_nested:
            result, out_spec = pytree.tree_flatten(result)
            tracer.graph.set_codegen(PyTreeCodeGen(_PyTreeInfo(names, in_spec, out_spec)))
        output = tracer.graph.output(tracer.create_arg(result))
        output.meta["val"] = pytree.tree_map(mode.value_of, result)
        tracer.graph.eliminate_dead_code()
        lists_for_tuples(tracer.graph)
        made = GraphModule(tracer.root, tracer.graph, getattr(f, "__name__", "f").strip("<>"))
        made.shape_env = None if fake_mode is None else fake_mode.shape_env
        return made

    def _run(
        self,
        f: Callable[..., Any],
        mode: ProxyTorchDispatchMode,
        fake_mode: FakeTensorMode | None,
        args: tuple[Any, ...],
    ) -> Any:
        if fake_mode is None:
            with mode:
                return f(*args)
        with fake_mode, mode:
            return f(*args)


def make_fx(
    f: Callable[..., Any],
    decomposition_table: Mapping[Any, Callable[..., Any]] | None = None,
    tracing_mode: str = "real",
    _allow_non_fake_inputs: bool = False,
    *,
    pre_dispatch: bool = False,
    record_module_stack: bool = False,
    _allow_fake_constant: bool = False,
    _error_on_data_dependent_ops: bool = True,
    record_stack_traces: bool = False,
    proxy_module_inputs: bool = False,
    _disable_torch_fn_metadata_mode: bool = False,
    _whole_indexing: bool = False,
) -> Callable[..., GraphModule]:
    """A function that traces `f` with the inputs it is given.

    Args:
        f: takes and gives nested tensors.
        decomposition_table: overloads -> functions that are traced in their place; one that returns
            NotImplemented leaves the operator.
        tracing_mode: "real" runs the function; "fake" computes shapes only; "symbolic" keeps sizes as
            symbols, so that the graph serves other sizes.
        _allow_non_fake_inputs: in "fake" and "symbolic", tensors that `f` holds are taken as constants.
        pre_dispatch: calls are noted as the program makes them, above their gradients.
        _whole_indexing: nodes are operators of the table, as compilers want them, and a view by several slices
            and ints is one node; else they are PyTorch's, except where sizes are symbols.

    The other arguments are PyTorch's; stack traces are always recorded.

    Raises:
        DataDependentOutputException: `f` reads a number from a tensor that it computed.
    """
    table = decomposition_table or {}
    if not _whole_indexing:
        table = {overload_of(F.basic_index): simple_views, **table}
    own = _whole_indexing or pre_dispatch
    tracer = _MakefxTracer(table, tracing_mode, _allow_non_fake_inputs, pre_dispatch, own)
    program = f
    if pre_dispatch:
        if not PROGRAMS:  # what fills it is loaded by the first trace that wants it
            importlib.import_module("facula.fx.pre_dispatch")
        program = functools.wraps(f)(PROGRAMS[0](f))

    def wrapped(*args: object) -> GraphModule:
        return tracer.trace(program, *args)

    wrapped.__name__ = f"make_fx({getattr(f, '__name__', 'f')})"
    return wrapped


def dispatch_trace(
    root: nn.Module | Callable[..., Any],
    tracer: Tracer,
    concrete_args: tuple[Any, ...] | None = None,
) -> GraphModule:
    """The graph of a function, recorded by a given tracer from the active trace's point of view."""
    graph = tracer.trace(root, concrete_args)  # type: ignore[arg-type]
    name = type(root).__name__ if isinstance(root, nn.Module) else getattr(root, "__name__", "f")
    return GraphModule(tracer.root, graph, name.strip("<>"))


class DecompositionInterpreter:
    """Runs a graph under the active trace, with other decompositions."""

    def __init__(
        self,
        module: GraphModule,
        new_graph: Graph | None = None,
        decomposition_table: Mapping[Any, Callable[..., Any]] | None = None,
        **kwargs: Any,
    ) -> None:
        self.module = module
        self.new_graph = Graph() if new_graph is None else new_graph
        self.decomposition_table = decomposition_table or {}

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """The result; the decomposed graph is entered into `new_graph`."""
        traced = make_fx(self.module, self.decomposition_table)(*args)
        val_map: dict[Node, Node] = {}
        result = self.new_graph.graph_copy(traced.graph, val_map)
        self.new_graph.output(result)
        return self.module(*args)


def selective_decompose(
    joint_gm: GraphModule,
    *args: object,
    decomposition: Mapping[Any, Callable[..., Any]],
    should_decompose: Callable[[Node], bool],
    trace_joint_graph: bool = False,
) -> GraphModule:
    """A graph module in which the nodes that a predicate picks are decomposed."""

    class Selective(Interpreter):
        def run_node(self, n: Node) -> Any:
            mode = get_proxy_mode()
            assert mode is not None
            chosen = n.op == "call_function" and should_decompose(n)
            mode.decomposition_table = decomposition if chosen else {}
            return super().run_node(n)

    return make_fx(Selective(joint_gm).run)(*args)


#: the types of numbers that depend on sizes
py_sym_types = (SymInt, SymFloat, SymBool)


# sizes that a program takes or gives are one number each
pytree.register_pytree_node(
    core.Size,
    lambda size: (list(size), None),
    lambda numbers, _: tuple(numbers),
    serialized_type_name="torch.Size",
    flatten_with_keys_fn=pytree._sequence_with_keys,
)


def handle_sym_dispatch(
    func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """A call on numbers that depend on sizes: they keep their own expressions."""
    return func(*args, **kwargs)


@contextmanager
def maybe_enable_thunkify() -> Iterator[None]:
    """Kept for PyTorch's API: nodes for sizes are made when they are used, always."""
    yield


@contextmanager
def maybe_disable_thunkify() -> Iterator[None]:
    """Kept for PyTorch's API: nodes for sizes are made when they are used, always."""
    yield


def get_isolated_graphmodule(
    func: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    tracing_mode: str = "real",
) -> GraphModule:
    """The graph of a call, recorded apart from a trace that runs."""
    leaves, spec = pytree.tree_flatten((args, kwargs))

    def flat(leaves: list[Any]) -> Any:
        inner, keywords = pytree.tree_unflatten(list(leaves), spec)
        return func(*inner, **keywords)

    with disable_proxy_modes_tracing():
        return make_fx(flat, tracing_mode=tracing_mode)(leaves)


def is_proxy(x: object) -> bool:
    """Whether something stands for what a graph will compute."""
    return isinstance(x, Proxy)
