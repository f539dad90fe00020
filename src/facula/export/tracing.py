"""A module traced for export: one flat graph of parameters, buffers, constants and inputs.

Takes: a module, example arguments and `dynamic_shapes`.
Gives: `Parts`, from which an `ExportedProgram` is made: the graph with named placeholders, its
signature, the tensors that it reads, and the ranges of sizes.
Keeps true: the module runs once, on tensors without elements, so that nothing of it changes; each
parameter is one input, whatever its number of names; tensors that the module holds otherwise become
inputs, too.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from facula import core, nn
from facula.capture.exports import exporting
from facula.core.errors import fail
from facula.export.chosen_sizes import name_choices, sizes_are_chosen
from facula.export.deferred import write_deferred
from facula.export.dynamic_shapes import (
    IntInput,
    Resolved,
    ValueRanges,
    arguments_by_name,
    ints_marked,
)
from facula.export.kept_attributes import attributes_kept
from facula.export.kept_signatures import KeptSignatures
from facula.export.leaks import Watched, watch
from facula.export.module_calls import ModuleCallEntry, ModuleCalls, ModuleCallSignature
from facula.export.own_mode import own_mode
from facula.export.signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    SymIntArgument,
    TensorArgument,
)
from facula.fx import Graph, GraphModule, Node, fake_constants
from facula.fx import _pytree as pytree
from facula.fx.fake_tensor import FakeTensor, FakeTensorMode
from facula.fx.higher_order.grad_regions import wrap_regions
from facula.fx.pre_dispatch import ProgramLevel, memory_of, writes
from facula.fx.proxy_tensor import get_proxy_mode, lists_for_tuples, make_fx
from facula.fx.shape_env import ShapeEnv, nodes_of_numbers, write_checks
from facula.fx.symbols import SymInt
from facula.lower.aot.api import _Swapped
from facula.lower.aot.export import set_outputs
from facula.namespaces.random import fork_rng
from facula.ops.table.overloads import overload_of
from facula.ops.table.registry import TABLE

Tensor = core.Tensor


@dataclass
class Parts:
    """What an exported program is made of."""

    module: GraphModule
    signature: ExportGraphSignature
    state: dict[str, Any]
    constants: dict[str, Any]
    ranges: dict[str, ValueRanges]
    in_spec: Any
    out_spec: Any
    env: ShapeEnv
    argument_names: list[str] = field(default_factory=list)
    #: the modules of the program
    calls: list[ModuleCallEntry] = field(default_factory=list)
    #: tensors of the trace that nobody may keep
    watched: Watched = field(default_factory=list)


class _Held:
    """A module's parameters and buffers: each once, with all of its names."""

    def __init__(self, module: nn.Module) -> None:
        self.names: dict[int, list[str]] = {}
        self.tensors: list[Any] = []
        self.parameters = dict(module.named_parameters(remove_duplicate=False))
        self.buffers = dict(module.named_buffers(remove_duplicate=False))
        for name, tensor in (*self.parameters.items(), *self.buffers.items()):
            if id(tensor) not in self.names:
                self.tensors.append(tensor)
            self.names.setdefault(id(tensor), []).append(name)
        self.first = [self.names[id(t)][0] for t in self.tensors]
        self.module = module

    def replaced(self, values: list[Any]) -> _Swapped:
        """A block in which all names stand for other tensors."""
        pairs = zip(self.tensors, values, strict=True)
        return _Swapped(self.module, {n: v for t, v in pairs for n in self.names[id(t)]})

    def kind(self, name: str) -> InputKind:
        """Whether a name is that of a parameter or a buffer."""
        return InputKind.PARAMETER if name in self.parameters else InputKind.BUFFER

    def persistent(self, name: str) -> bool:
        """Whether a buffer is part of the state."""
        path, _, last = name.rpartition(".")
        return last not in self.module.get_submodule(path)._non_persistent_buffers_set


def _fake_mode(env: ShapeEnv) -> FakeTensorMode:
    mode = FakeTensorMode(allow_non_fake_inputs=True, shape_env=env)
    if fake_constants.propagate_real_tensors:
        # lazily: a setting that few programs make
        from facula.fx.real_examples import Examples

        mode.examples = Examples(mode)
    return mode


@contextlib.contextmanager
def _observed(
    module: nn.Module, held: _Held, signatures: KeptSignatures, tensors: list[Any]
) -> Iterator[None]:
    """The module runs on these tensors in the place of its own, and what it calls is noted."""
    with (
        held.replaced(tensors),
        _noting_calls(module),
        attributes_kept(module),
        signatures.noted(),
        sizes_are_chosen(module),
    ):
        yield


def trace_module(
    module: nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    dynamic_shapes: Any,
    kept: tuple[str, ...] = (),
    deferred: bool = False,
) -> Parts:
    """Trace a module for these arguments.

    Args:
        kept: paths of modules whose calls are noted
        deferred: guards that relate sizes are checks of the program
    """
    signatures, env = KeptSignatures(module, kept), ShapeEnv(duck_shape=False)
    env.keeps_conditions = True
    sizes = Resolved(env)
    marked = ints_marked((args, kwargs))
    sizes.read(module, marked[0], marked[1], dynamic_shapes)
    held = _Held(module)
    leaves, in_spec = pytree.tree_flatten((args, kwargs))
    mode = _fake_mode(env)
    fakes = _fakes(held, leaves, mode, sizes)
    leaves = _with_symbols(leaves, pytree.tree_leaves(marked), sizes)
    sizes.check()
    specs: dict[str, Any] = {}

    def program(*flat: Any) -> list[Any]:
        tensors = iter(flat[len(held.tensors) : len(fakes)])
        values = [next(tensors) if isinstance(x, Tensor) else x for x in leaves]
        positional, named = pytree.tree_unflatten(values, in_spec)
        with _observed(module, held, signatures, list(flat[: len(held.tensors)])):
            result = module(*positional, **named)
        flat_result, specs["out"] = pytree.tree_flatten(result)
        return [_checked(x) for x in flat_result]

    with own_mode(), contextlib.nullcontext() if fakes else mode:
        joint, level = _recorded(program, [*fakes, *(x for x in leaves if isinstance(x, SymInt))])
    _refuse_changes(module, joint)
    ranges = sizes.ranges()
    if deferred:
        write_deferred(joint.graph, env)
    named = _named_as_given(module, args, kwargs)
    builder = _Builder(joint, held, mode, leaves, _leaf_names(named, len(leaves)))
    watched = _finish(builder, level, mode)
    _hand_notes_down(module, builder.module)
    whole = ModuleCallSignature([], [], in_spec, specs["out"], list(named))
    return Parts(
        module=builder.module, signature=builder.signature, state=builder.state, constants=builder.constants,
        ranges=ranges, in_spec=in_spec, out_spec=specs["out"], env=env, argument_names=list(named), watched=watched,
        calls=signatures.entries(whole, builder.replaced),
    )  # fmt: skip


def _named_as_given(
    module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any]:
    """The arguments by name, in the order in which they were given: that of the leaves."""
    named = arguments_by_name(module, args, kwargs) if args or kwargs else {}
    return named | {name: named.pop(name) for name in kwargs}


def _hand_notes_down(module: nn.Module, made: GraphModule) -> None:
    """What a program noted of itself is noted of what is made of it."""
    if isinstance(module, GraphModule) and "custom" in module.meta:
        made.meta["custom"] = module.meta["custom"]


def _fakes(held: _Held, leaves: list[Any], mode: FakeTensorMode, sizes: Resolved) -> list[Any]:
    """Tensors without elements for what the module holds, then for what is given, with the symbols of its sizes."""
    given = [x for x in leaves if isinstance(x, Tensor)]
    fakes = [_fake(t, mode) for t in (*held.tensors, *given)]
    for real, fake in zip(given, fakes[len(held.tensors) :], strict=True):
        sizes.give_symbols(real, fake)
    return fakes


def _finish(builder: _Builder, level: Any, mode: FakeTensorMode) -> Watched:
    """Put the built graph in PyTorch's form; gives the tensors without elements that may have leaked."""
    watched = watch(level.tracer)
    if watched:
        mode._known.clear()
    _sizes_in_front(builder.graph)
    wrap_regions(builder.module, level.otherwise)
    lists_for_tuples(builder.graph)
    name_choices(builder.graph)
    builder.graph.lint()
    builder.module.recompile()
    return watched


def _with_symbols(leaves: list[Any], marked: list[Any], sizes: Resolved) -> list[Any]:
    """The leaves, with the symbol of each int that may change in its place."""
    changing = [sizes.number_of(x) if isinstance(x, IntInput) else None for x in marked]
    return [n if isinstance(n, SymInt) else x for x, n in zip(leaves, changing, strict=True)]


def _refuse_changes(module: nn.Module, joint: GraphModule) -> None:
    """Raise for a tensor that the program writes to, and that is no state of the module."""
    places: dict[int, list[str]] | None = None
    for node in joint.graph.nodes:
        holder = memory_of(node.args[0]) if node.args and writes(node) else None
        if holder is None or holder.op != "get_attr":
            continue
        tensor = getattr(joint, str(holder.target))
        places = _attributes(module) if places is None else places
        place = places.get(id(tensor), [f"a tensor of shape {tuple(tensor.shape)}"])[0]
        fail(
            RuntimeError,
            "export",
            "buffers were required of what the forward writes to",
            f"Constant {place} is mutated in the forward method",
            hint="register it with register_buffer(name, tensor, persistent=False)",
        )


@contextlib.contextmanager
def _noting_calls(module: nn.Module) -> Iterator[None]:
    """A block in which nodes note the calls of modules that they come from."""
    mode = get_proxy_mode()
    assert mode is not None
    calls = mode.module_calls = ModuleCalls(module)
    try:
        yield
    finally:
        mode.module_calls = None
        calls.close()


def _fake(t: Tensor, mode: FakeTensorMode) -> Any:
    if isinstance(t, FakeTensor):  # of the user's, whose sizes are numbers
        made: Any = core.fake_like(mode.tensor_class, t, mode)
    else:
        made = mode.from_tensor(t.detach(), static_shapes=True)
        if mode.examples is not None:
            mode.examples.hold(made, t)
    made.requires_grad_(t.requires_grad)
    if t.requires_grad and not t.is_leaf:
        made._inner = True
    return made


def _checked(x: FakeTensor) -> Any:
    """A result, if a graph can give it."""
    if isinstance(x, (Tensor, int, float, bool, str, complex)) or x is None:
        return x
    return fail(
        RuntimeError,
        "export",
        "tensors, numbers, strings and None were required as results, in containers that pytree "
        "knows (Unsupported output type)",
        type(x).__name__,
        "export.register_dataclass makes a dataclass such a container",
    )


def _recorded(program: Callable[..., Any], inputs: list[Any]) -> tuple[GraphModule, ProgramLevel]:
    """The graph of what a program calls, as it calls it; and the level that recorded it."""
    levels: list[ProgramLevel] = []

    def run(*flat: Any) -> Any:
        with ProgramLevel() as level:
            mode = get_proxy_mode()
            assert mode is not None
            level.tracer, mode.whole_names, mode.tracer.powers = mode.tracer, True, True
            levels.append(level)
            return program(*flat)

    recording = core.is_grad_enabled()
    try:
        with exporting(), fork_rng():
            made = make_fx(run, {}, "fake", True, _whole_indexing=True)(*inputs)
    finally:
        core.set_grad_enabled(recording)  # the program may have left it otherwise
    return made, levels[-1]


def _leaf_names(named: dict[str, Any], count: int) -> list[str]:
    """A name for each leaf of the arguments: `x`, and for what is nested in it `x_0`, `x_key`."""
    found: list[str] = []
    for name, value in named.items():
        try:
            paths = [pytree.keystr(path) for path, _ in pytree.tree_leaves_with_path(value)]
        except ValueError:  # a container without keys
            paths = [f"_{i}" for i in range(len(pytree.tree_leaves(value)))]
        for path in paths:
            found.append(re.sub(r"\W+", "_", name + path).rstrip("_"))
    return found if len(found) == count else [f"arg_{i}" for i in range(count)]


class _Builder:
    """Makes the graph of a trace one with named placeholders, and writes its signature."""

    def __init__(
        self, joint: GraphModule, held: _Held, mode: Any, leaves: list[Any], leaf_names: list[str]
    ) -> None:
        self.mode = mode
        self.held, self.leaves = held, leaves
        self.module: GraphModule = joint
        self.graph: Graph = self.module.graph
        self.signature = ExportGraphSignature()
        # not `state_dict()`: hooks may give it other names
        self.state = dict(held.parameters)
        self.state |= {k: v for k, v in held.buffers.items() if held.persistent(k)}
        self.constants: dict[str, Any] = {}
        #: nodes that are no more -> those in their place
        self.replaced: dict[Node, Node] = {}
        inputs = [n for n in self.graph.nodes if n.op == "placeholder"]
        write_checks(self.graph, mode.shape_env, overload_of(TABLE["_assert_scalar"]))
        self._finished_outputs()
        # what the user gives has its own name, what the module holds is told apart from it
        self.taken: set[str] = set()
        leaf_names = [self._apart(name) for name in leaf_names]
        held_names = [self._apart(self._input_name(name)) for name in held.first]
        self._leave_names(self.taken)
        count = len(held.tensors)
        for node, name, called in zip(inputs[:count], held.first, held_names, strict=True):
            self._held_input(node, name, called)
        self._lift_constants(inputs[:count])
        self._user_inputs(inputs[count:], leaf_names)
        self._outputs()

    def _finished_outputs(self) -> None:
        values = list(self.graph.output_node().args[0])
        with self.graph.inserting_before(self.graph.output_node()):
            set_outputs(self.graph, nodes_of_numbers(self.graph, values))  # results that are sizes
        self.graph.eliminate_dead_code(is_kept)

    def _input_name(self, name: str) -> str:
        kind = "p" if self.held.kind(name) is InputKind.PARAMETER else "b"
        return re.sub(r"\W", "_", f"{kind}_{name}")

    def _apart(self, name: str) -> str:
        """A name for an input that no other has."""
        made, number = re.sub(r"\W", "_", name), 0
        while made in self.taken:
            number += 1
            made = f"{name}_{number}"
        self.taken.add(made)
        return made

    def _leave_names(self, names: set[str]) -> None:
        """Let calls that have the names of inputs take others: an input is called what it is called."""
        calls = [n for n in self.graph.nodes if n.op not in ("placeholder", "output")]
        if not any(node.name in names for node in calls):
            return
        used, last = set(names), dict[str, int]()
        for name in names:
            base, number = _numbered(name)
            last[base] = max(last.get(base, 0), number)
        for node in calls:
            base, number = _numbered(node.name)
            if node.name in used:
                number = last.get(base, 0) + 1
                node.name = f"{base}_{number}"
            used.add(node.name)
            last[base] = max(last.get(base, 0), number)
        known = self.graph._graph_namespace._used_names
        known |= used
        known -= names

    def _rename(self, node: Node, name: str) -> None:
        name = re.sub(r"\W", "_", name)
        node._rename(name)
        node.target = node.name

    def _held_input(self, node: Node, name: str, called: str) -> None:
        kind = self.held.kind(name)
        persistent = self.held.persistent(name) if kind is InputKind.BUFFER else None
        self._rename(node, called)
        spec = InputSpec(kind, TensorArgument(node.name), name, persistent)
        self.signature.input_specs.append(spec)
        if persistent is False:
            self.constants[name] = self.held.buffers[name]

    def _lift_constants(self, behind: list[Node]) -> None:
        """Tensors that the trace found outside of its inputs become inputs."""
        places = _attributes(self.held.module)
        at: Node | None = behind[-1] if behind else None
        made: dict[int, Node] = {}
        for node in list(self.graph.nodes):
            if node.op != "get_attr":
                continue
            tensor = getattr(self.module, str(node.target))
            if isinstance(tensor, GraphModule):  # of a function that an operator takes
                continue
            found = made.get(id(tensor))
            if found is None:
                name, *others = places.get(id(tensor), [f"lifted_tensor_{len(made)}"])
                with self._insertion(at):
                    found = at = made[id(tensor)] = self.graph.placeholder(re.sub(r"\W", "_", name))
                found.meta = {"val": self.mode.from_tensor(tensor.detach(), static_shapes=True)}
                self._rename(found, self._apart(re.sub(r"\W", "_", f"c_{name}")))
                held = tensor.detach() if tensor.requires_grad else tensor
                self.constants |= dict.fromkeys([name, *others], held)
                spec = InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(found.name), name)
                self.signature.input_specs.append(spec)
            node.replace_all_uses_with(found)
            self.replaced[node] = found
            self.graph.erase_node(node)
        self.module = GraphModule(self.module, self.graph)
        self.graph = self.module.graph

    def _insertion(self, behind: Node | None) -> Any:
        if behind is not None:
            return self.graph.inserting_after(behind)
        return self.graph.inserting_before(next(iter(self.graph.nodes)))

    def _user_inputs(self, nodes: list[Node], names: list[str]) -> None:
        count = sum(isinstance(leaf, Tensor) for leaf in self.leaves)
        remaining, numbers = iter(nodes[:count]), iter(nodes[count:])
        at = [n for n in self.graph.nodes if n.op == "placeholder"]
        last = next((n for n in reversed(at) if n not in nodes), None)
        for leaf, name in zip(self.leaves, names, strict=True):
            if isinstance(leaf, Tensor):
                last = next(remaining)
                self._rename(last, name)
                arg: Any = TensorArgument(last.name)
            elif isinstance(
                leaf, SymInt
            ):  # behind all tensors in the trace, here where it is given
                with self._insertion(last):
                    last = self.graph.placeholder(re.sub(r"\W", "_", name))
                last.meta["val"] = leaf
                last.target = last.name
                traced = next(numbers)
                traced.replace_all_uses_with(last)
                self.replaced[traced] = last
                self.graph.erase_node(traced)
                arg = SymIntArgument(last.name)
            else:
                with self._insertion(last):
                    last = self.graph.placeholder(re.sub(r"\W", "_", name))
                last.meta["val"] = leaf
                last.target = last.name
                arg = ConstantArgument(last.name, leaf)
            self.signature.input_specs.append(InputSpec(InputKind.USER_INPUT, arg))

    def _outputs(self) -> None:
        self.graph.output_node().meta.pop("val", None)  # that of its arguments
        for value in self.graph.output_node().args[0]:
            arg = output_argument(value)
            self.signature.output_specs.append(OutputSpec(OutputKind.USER_OUTPUT, arg))


def _numbered(name: str) -> tuple[str, int]:
    """A name without the number at its end, and the number."""
    found = re.fullmatch(r"(.*)_(\d+)", name)
    return (found.group(1), int(found.group(2))) if found else (name, 0)


def _sizes_in_front(graph: Graph) -> None:
    """Read sizes of inputs before anything else, in the order of the inputs, under PyTorch's names."""
    inputs = [n for n in graph.nodes if n.op == "placeholder"]
    order = {node: i for i, node in enumerate(inputs)}
    reads = [
        n for n in graph.nodes
        if n.op == "call_function" and str(n.target) == "aten.sym_size.int" and n.args[0] in order
    ]  # fmt: skip
    reads.sort(key=lambda n: (order[n.args[0]], n.args[1]))
    at = inputs[-1] if inputs else None
    for node in reads:
        node._rename(f"size_read_{node.name}")
    for number, node in enumerate(reads, len(reads)):
        assert at is not None
        if at.next is not node:
            at.append(node)
        at = node
        node._rename(f"sym_size_int_{number}")


def is_kept(node: Node) -> bool:
    """Whether a node stays though nobody uses it; numbers that are read are there for others."""
    return node.is_impure() and getattr(node.target, "_op", node.target) is not Tensor.item


def output_argument(value: Node) -> Any:
    """What describes one output."""
    if not isinstance(value, Node):
        return ConstantArgument("", value)
    if isinstance(value.meta.get("val"), (SymInt, int)):
        return SymIntArgument(value.name)
    return TensorArgument(value.name)


def _attributes(module: nn.Module) -> dict[int, list[str]]:
    """Tensors that modules hold as plain attributes, with all of their paths."""
    found: dict[int, list[str]] = {}
    for path, owner in module.named_modules():
        for name, value in vars(owner).items():
            if isinstance(value, Tensor):
                found.setdefault(id(value), []).append(f"{path}.{name}" if path else name)
    return found
