"""`_dynamo.export`: a function as one graph module, which takes what the function takes.

Takes: a function or module, then its arguments. Gives: an `ExportResult`: the graph module, and no guards.
Keeps true: the module computes what the function does for these arguments, and for others of their structure for which
the program takes the same way; sizes of arguments may be others, unless the program fixes them, and nobody checks that
later. Nothing of the caller's is written while the program is captured: it runs on copies.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from facula import core, nn
from facula.capture.errors import UserError
from facula.capture.exports import exporting
from facula.compiler.api import compile as _compile
from facula.core.errors import fail
from facula.fx import GraphModule, Node, _pytree
from facula.fx.call_codegen import CallCodeGen
from facula.fx.codegen import _PyTreeInfo
from facula.fx.experimental.symbolic_shapes import ConstraintViolationError
from facula.fx.graph import Graph

__all__ = ["ExportResult", "export"]

_WEAK = "_dynamo_weak_dynamic_indices"


class ExportResult(NamedTuple):
    """What `export` gives."""

    graph_module: GraphModule
    guards: set[Any]


class _Recorder:
    """A backend that keeps the one graph, and what went in and came out of it."""

    def __init__(self) -> None:
        self.module: Any = None
        self.inputs: tuple[Any, ...] = ()
        self.outputs: tuple[Any, ...] = ()

    def __call__(self, module: Any, inputs: object) -> Any:
        self.module = module

        def run(*given: Any) -> Any:
            self.inputs = given
            copies = [_copy(value) for value in given]
            found = module(*copies)
            outputs = found if isinstance(found, (tuple, list)) else (found,)
            own = {id(copy): value for copy, value in zip(copies, given, strict=True)}
            self.outputs = tuple(own.get(id(value), value) for value in outputs)
            return self.outputs

        return run


def _copy(value: Any) -> Any:
    """An input that may be written to."""
    if not isinstance(value, core.Tensor):
        return value
    if value.is_leaf:
        return value.detach().clone().requires_grad_(value.requires_grad)
    return value.clone()


def _place(value: object, among: Any) -> int | None:
    """Where an object stands in a row of objects."""
    return next((i for i, other in enumerate(among) if other is value), None)


@contextmanager
def _sizes_may_change(leaves: Sequence[Any]) -> Iterator[None]:
    """A block in which all sizes of these tensors may change, where the program does not fix them."""
    tensors = [leaf for leaf in leaves if isinstance(leaf, core.Tensor)]
    before = [getattr(tensor, _WEAK, None) for tensor in tensors]
    for tensor in tensors:
        setattr(tensor, _WEAK, set(range(tensor.dim())))
    try:
        yield
    finally:
        for tensor, marks in zip(tensors, before, strict=True):
            if marks is not None:
                setattr(tensor, _WEAK, marks)
            else:
                vars(tensor).pop(_WEAK, None)


def export(
    f: Callable[..., Any],
    *extra_args: object,
    aten_graph: bool = False,
    pre_dispatch: bool = False,
    decomposition_table: Mapping[Any, Callable[..., Any]] | None = None,
    tracing_mode: str = "symbolic",
    dynamic_shapes: object = None,
    assume_static_by_default: bool = False,
    same_signature: bool = True,
    disable_constraint_solver: bool = False,
    specialize_float: bool = True,
    **extra: object,
) -> Any:
    """``export(f)(*args)`` captures the function as one graph; it must not end anywhere in between.

    Args:
        f: a function or module.
        extra_args: its arguments, where they are not given by a second call.
        aten_graph: operators below their gradients, as `make_fx` writes them.
        pre_dispatch: with `aten_graph`: operators above their gradients.
        decomposition_table: with `aten_graph`: as of `make_fx`.
        tracing_mode: with `aten_graph`: as of `make_fx`.
        dynamic_shapes: what sizes may be, as of `facula.export.export`; it is checked.
        assume_static_by_default: whether sizes stay what they are.
        same_signature: the module takes the function's arguments in their structure, not their leaves.
        disable_constraint_solver: taken for PyTorch's sake; without effect.
        specialize_float: taken for PyTorch's sake: floats are part of the graph.
        extra: keywords of `f`, where its arguments are given here.

    Raises:
        ConstraintViolationError: the program fixes a size that `dynamic_shapes` says may change.
        AssertionError: no operator on a tensor, with `same_signature=False`; a table without `aten_graph`.
        Unsupported: the program can not be captured whole.

    Example:
        >>> module, _ = facula._dynamo.export(lambda x: {"sum": x.sum()})(facula.ones(3))
        >>> module(facula.ones(5))
        {'sum': tensor(5.)}
    """

    if decomposition_table is not None and not aten_graph:
        fail(
            AssertionError,
            "export",
            "aten_graph=True was required with a table of decompositions (Specifying a decomposition_table table "
            "or tracing mode is illegal without setting aten_graph=True)",
            hint="pass aten_graph=True",
        )

    def inner(*args: Any, **kwargs: Any) -> ExportResult:
        args, kwargs = _distinct(args, kwargs)
        if dynamic_shapes is not None:
            _check_sizes(f, args, kwargs, dynamic_shapes)
        static = assume_static_by_default and dynamic_shapes is None
        captured = _Captured(f, args, kwargs, static)
        made = captured.module() if same_signature else captured.flat_module()
        if aten_graph:
            mode = "fake" if static and tracing_mode == "symbolic" else tracing_mode
            made = captured.traced(made, decomposition_table, mode, pre_dispatch)
        if same_signature:
            captured.sign(made)
        return ExportResult(made, set())

    return inner(*extra_args, **extra) if extra_args or extra else inner


def _check_sizes(f: Any, args: tuple[Any, ...], kwargs: dict[str, Any], shapes: object) -> None:
    """That the program keeps to what is said of sizes, which a trace with symbols finds out."""
    # lazily: programs that are compiled do not need it
    from facula.export import export as export_module

    module = f if isinstance(f, nn.Module) else _Function(f)
    try:
        export_module(module, args, kwargs or None, dynamic_shapes=shapes, strict=False)
    except UserError as error:
        if "Constraints violated" in str(error):
            raise ConstraintViolationError(str(error)) from error
        raise


def _distinct(args: object, kwargs: object) -> Any:
    """Arguments of which no two are one tensor: each has sizes of its own."""
    seen: set[int] = set()

    def apart(leaf: object) -> Any:
        if isinstance(leaf, core.Tensor) and id(leaf) in seen:
            return _copy(leaf)
        seen.add(id(leaf))
        return leaf

    return _pytree.tree_map(apart, (args, kwargs))


class _Function(nn.Module):
    """A function as a module with the function's signature."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.forward = function


class _Captured:
    """A call that was captured whole: the graph, and how arguments and result are nested."""

    def __init__(
        self, f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], static: bool
    ) -> None:
        self.f, self.recorder = f, _Recorder()
        self.names = _argument_names(f, args, kwargs)
        self.leaves, self.in_spec = _pytree.tree_flatten((list(args), kwargs))
        _refuse_unknown(self.leaves, "inputs")
        run = _compile(f, backend=self.recorder, fullgraph=True)
        with exporting(), _sizes_may_change(() if static else self.leaves):
            result = run(*args, **kwargs)
        self.results, self.out_spec = _pytree.tree_flatten(result)
        _refuse_unknown(self.results, "outputs")
        self.root = self.recorder.module

    def module(self) -> GraphModule:
        """The graph with the leaves of the arguments as placeholders, and those of the result as output."""
        graph = Graph()
        held: dict[str, Any] = {} if self.root is None else dict(_parts(self.root))
        holders = [] if self.root is None else self.root.graph.find_nodes(op="placeholder")
        named: dict[int, str] = {}
        metas: dict[int, dict[str, Any]] = {}
        for node, value in zip(holders, self.recorder.inputs, strict=True):
            at = _place(value, self.leaves)
            if at is not None:
                named[at], metas[at] = node.name.lower(), node.meta
        arguments = []
        for i in range(len(self.leaves)):
            name = named.get(i, self._name_of_unread(i))
            node = graph.create_node("placeholder", f"arg{i}", name=name)
            node.meta.update(metas.get(i, {}))
            arguments.append(node)
        values: dict[Any, Any] = {}
        for node, value in zip(holders, self.recorder.inputs, strict=True):
            at = _place(value, self.leaves)
            values[node] = arguments[at] if at is not None else _held(graph, held, node, value)
        copied = None if self.root is None else graph.graph_copy(self.root.graph, values)
        nodes = list(copied) if isinstance(copied, (tuple, list)) else [copied]
        graph.output([self._chosen(leaf, nodes, arguments, graph, held) for leaf in self.results])
        return GraphModule(held, graph)

    def _name_of_unread(self, position: int) -> str:
        """The name of an argument's leaf that the graph does not read."""
        if isinstance(self.leaves[position], core.Tensor) and len(self.leaves) == len(self.names):
            return self.names[position]
        return f"arg{position}"

    def _chosen(
        self,
        leaf: object,
        nodes: list[Any],
        arguments: list[Any],
        graph: Graph,
        held: dict[str, Any],
    ) -> Any:
        """What the output has for a leaf of the result."""
        at = _place(leaf, self.recorder.outputs)
        if at is not None and at < len(nodes):
            return nodes[at]
        own = _place(leaf, self.leaves) if isinstance(leaf, core.Tensor) else None
        if own is not None:
            return arguments[own]
        return _held(graph, held, None, leaf) if isinstance(leaf, core.Tensor) else leaf

    def flat_module(self) -> GraphModule:
        """The graph as it was captured.

        Raises:
            AssertionError: there is none.
        """
        if self.root is None:
            fail(
                AssertionError,
                "export",
                "a function with an operator on tensors was required (Failed to produce a graph during "
                "tracing as no tensor operations were found and same_signature is False)",
                getattr(self.f, "__name__", self.f),
                hint="a function without tensors has no graph; leave same_signature True",
            )
        return self.root

    def traced(
        self, module: GraphModule, table: Any, tracing_mode: str, pre_dispatch: bool
    ) -> GraphModule:
        """The graph once more, as `make_fx` writes it."""
        # lazily: few graphs are wanted below their gradients
        from facula.fx.proxy_tensor import make_fx

        trace = make_fx(
            module, table, tracing_mode, True, pre_dispatch=pre_dispatch, _allow_fake_constant=True
        )
        made = trace(*self.leaves)
        graph = Graph()
        values: dict[Any, Any] = {}
        for i, node in enumerate(made.graph.find_nodes(op="placeholder")):
            values[node] = graph.create_node(
                "placeholder",
                f"arg{i}",
                name=f"arg{i}_1" if isinstance(self.leaves[i], core.Tensor) else f"arg{i}",
            )
            values[node].meta.update(node.meta)
        output = graph.graph_copy(made.graph, values)
        nodes = list(output) if isinstance(output, (tuple, list)) else [output]
        graph.output(nodes)
        return GraphModule(made, graph)

    def sign(self, module: GraphModule) -> None:
        """Let a module of leaves take and give what the function does."""
        info = _PyTreeInfo(self.names, self.in_spec, self.out_spec)
        module.graph.set_codegen(CallCodeGen(info))
        module.recompile()


def _refuse_unknown(leaves: Sequence[Any], what: str) -> None:
    """That all leaves are of kinds that a graph takes or gives."""
    plain = (
        core.Tensor, int, float, bool, complex, str, bytes, type(None), core.dtype, core.device, nn.Module,
        type(core.strided), core.Generator,
    )  # fmt: skip
    for leaf in leaves:
        if not isinstance(leaf, plain) and not callable(leaf) and hasattr(leaf, "__dict__"):
            raise UserError(
                f"[export] {what} of tensors, numbers and containers of these were required (It looks like one "
                f"of the {what} with type `{type(leaf)}` is not supported or pytree-flattenable): got a "
                f"{type(leaf).__name__}\nhint: torch.utils._pytree.register_pytree_node says how it is taken apart"
            )


def _held(graph: Graph, held: dict[str, Any], node: Node | None, value: object) -> Any:
    """A node for a tensor that was read from outside: the module holds a copy of it."""
    if not isinstance(value, core.Tensor):
        return value
    stem = f"_captured_{len(held)}" if node is None else _owner_name(node)
    name, count = stem, 0
    while name in held:
        count += 1
        name = f"{stem}_{count}"
    if isinstance(value, nn.Parameter):
        held[name] = value
    else:
        held[name] = nn.Buffer(value)
    made = graph.get_attr(name)
    if node is not None:
        made.meta.update(node.meta)
    return made


def _owner_name(node: Node) -> str:
    """The name of a tensor of the outside: `L__self___linear_weight` for `L_self_modules_linear_parameters_weight_`."""
    parts = node.name.split("_")
    shown = [p for p in parts if p not in ("modules", "parameters", "buffers")]
    text = "_".join(shown).strip("_")
    for head in ("l_self_", "L_self_"):
        if text.startswith(head):
            return f"L__self___{text[len(head) :]}"
    return text or "_captured"


def _argument_names(f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
    """A name for each argument that was given: `*args` has one for each."""
    function = f.forward if isinstance(f, nn.Module) else f
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return [*(f"args_{i}" for i in range(len(args))), *kwargs]
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    rest = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "args")
    more = [f"{rest}_{i}" for i in range(len(args) - len(names))]
    return [*names[: len(args)], *more, *kwargs]


def _parts(root: GraphModule) -> Any:
    """What the nodes of a graph module name."""
    for node in root.graph.nodes:
        if node.op in ("get_attr", "call_module"):
            value = root
            for part in node.target.split("."):
                value = getattr(value, part)
            yield node.target, value
