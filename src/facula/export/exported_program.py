"""`ExportedProgram`: a program as data.

Takes: the parts that a trace gave, or that a file holds. Gives: the graph, its signature and state,
`module()` to run it, `run_decompositions()` for a graph of fewer operators.
Keeps true: it is not run itself; what it gives belongs to it, and `run_decompositions` makes a new one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from facula import core
from facula.capture.errors import UserError
from facula.core.errors import fail
from facula.export._tree_utils import in_order, reorder_kwargs
from facula.export.core_forms import default_table, of_programs
from facula.export.dynamic_shapes import ValueRanges, unbacked_ranges
from facula.export.functional import env_of, functional
from facula.export.module_calls import ModuleCallEntry, ModuleCallSignature
from facula.export.own_mode import own_mode
from facula.export.ranges import Ranges
from facula.export.signature import ExportGraphSignature
from facula.export.unlift import unlift
from facula.export.verifier import TrainingVerifier, Verifier
from facula.fx import Graph, GraphModule
from facula.fx import _pytree as pytree
from facula.fx.shape_env import leaf_of, symbols_of
from facula.lower.table import operator_of

Tensor = core.Tensor


class CallSpec(NamedTuple):
    """How arguments and results are nested."""

    in_spec: Any
    out_spec: Any


class CustomDecompTable(dict[Any, Any]):
    """Decompositions by operator, to change before ``run_decompositions``: a dictionary.

    Example:
        >>> table = facula.export.default_decompositions()
        >>> isinstance(table, facula.export.CustomDecompTable)
        True
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        #: what was taken out on purpose, operators of programs among it
        self.taken_out: set[Any] = set()

    def __delitem__(self, op: Any) -> None:
        self.pop(op)

    def pop(self, op: core.Op, *default: Any) -> Any:
        """Take out the decomposition of an operator, whichever overload is named."""
        if op not in self and not default:
            self.__missing__(op)
        self.taken_out.add(op)
        return super().pop(op, *default)

    def __missing__(self, op: object) -> Any:
        raise KeyError(str(op))

    @property
    def has_materialized(self) -> bool:
        """Whether all of it is there: always."""
        return True

    def materialize(self) -> dict[Any, Any]:
        """A plain dictionary of it."""
        return dict(self)


def default_decompositions() -> CustomDecompTable:
    """The decompositions that lead to the core operators, by operator.

    Example:
        >>> table = facula.export.default_decompositions()
        >>> program = facula.export.export(facula.nn.GELU(), (facula.ones(2),))
        >>> program.run_decompositions(table).module()(facula.zeros(2))
        tensor([0., 0.])
    """
    return CustomDecompTable(default_table())


def _of_programs(table: CustomDecompTable) -> dict[Any, Any]:
    """The decompositions of operators that programs made of others since the table was made."""
    return {op: rule for op, rule in of_programs().items() if op not in table.taken_out}


class ExportedProgram:
    """A flat graph, the meaning of its inputs and outputs, and the tensors that it reads; `export`
    makes it.

    ``module()`` gives a module again, ``run_decompositions()`` a program of core operators;
    ``graph``, ``graph_signature``, ``state_dict``, ``constants`` and ``range_constraints`` are what
    it consists of.

    Args:
        root: the graph with its module
        graph_signature: what inputs and outputs mean
        state_dict: parameters and buffers by name
        constants: other tensors by name
        range_constraints: bounds of sizes
        in_spec, out_spec: forms of arguments and result
        guards: what sizes must satisfy
        argument_names: of the forward
        example_inputs: what it was traced with
        training: whether the module was in training
        module_call_graph: the modules of the program; None: the outermost alone

    Example:
        >>> program = facula.export.export(facula.nn.Linear(2, 1), (facula.ones(1, 2),))
        >>> list(program.state_dict), len(program.graph.nodes)
        (['weight', 'bias'], 5)
    """

    def __init__(
        self,
        root: GraphModule,
        graph_signature: ExportGraphSignature,
        state_dict: dict[str, Any],
        constants: dict[str, Any],
        range_constraints: dict[str, ValueRanges],
        in_spec: Any,
        out_spec: Any,
        *,
        guards: list[Any],
        argument_names: list[str],
        example_inputs: tuple[tuple[Any, ...], dict[str, Any]] | None,
        training: bool = False,
        module_call_graph: list[ModuleCallEntry] | None = None,
    ) -> None:
        self._module = root
        self._signature = graph_signature
        self._state_dict = state_dict
        self._constants = constants
        self.ranges = range_constraints
        self.in_spec, self.out_spec = in_spec, out_spec
        self.guards = guards
        self.argument_names = argument_names
        self._example_inputs = example_inputs
        self.training = training
        if module_call_graph is None:
            whole = ModuleCallSignature([], [], in_spec, out_spec, argument_names)
            module_call_graph = [ModuleCallEntry("", whole)]
        self._module_call_graph = module_call_graph
        self._verifiers: list[type[Verifier]] = [Verifier]

    @property
    def module_call_graph(self) -> list[ModuleCallEntry]:
        """The modules of the program, the outermost first, and what they were called with where that was kept."""
        return self._module_call_graph

    @property
    def graph_module(self) -> GraphModule:
        """The graph as a module of flat inputs and outputs."""
        return self._module

    @property
    def graph(self) -> Graph:
        """The graph."""
        return self._module.graph

    @property
    def graph_signature(self) -> ExportGraphSignature:
        """What inputs and outputs are."""
        return self._signature

    @property
    def state_dict(self) -> dict[str, Any]:
        """Parameters and buffers by their path."""
        return self._state_dict

    @property
    def constants(self) -> dict[str, Any]:
        """Other tensors that the program reads, by name."""
        return self._constants

    @property
    def tensor_constants(self) -> dict[str, Any]:
        """The same as `constants`."""
        return self._constants

    @property
    def range_constraints(self) -> dict[str, ValueRanges]:
        """The values that sizes may have, by symbol."""
        return Ranges(self.ranges)

    @property
    def example_inputs(self) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """The arguments that the program was exported with."""
        return self._example_inputs

    @example_inputs.setter
    def example_inputs(self, value: Any) -> None:
        pair = isinstance(value, tuple) and len(value) == 2
        if value is not None and not (
            pair and isinstance(value[0], tuple) and isinstance(value[1], dict)
        ):
            fail(ValueError, "export", "a pair of arguments and keywords was required: Example inputs should be a "
                 "tuple containing example arguments (as a tuple) and keywords (as a dictionary)",
                 type(value).__name__, hint="write ((x,), {})")  # fmt: skip
        if value is not None:
            self._given_as(*value)
        self._example_inputs = value

    def _given_as(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Raise for arguments that are nested otherwise than in the export."""
        found = pytree.tree_structure(
            in_order((args, reorder_kwargs(kwargs, self.in_spec)), self.in_spec)
        )
        if found != self.in_spec:
            fail(ValueError, "export", "arguments nested as in the export were required (Trying to flatten user "
                 f"inputs with exported input tree spec): {self.in_spec}", found,
                 hint="pass arguments as they were given to export()")  # fmt: skip

    @property
    def call_spec(self) -> Any:
        """How arguments and results are nested."""
        return CallSpec(self.in_spec, self.out_spec)

    @property
    def verifiers(self) -> list[type[Verifier]]:
        """What checks the program."""
        return self._verifiers

    @property
    def verifier(self) -> type[Verifier]:
        """The first of them."""
        return self._verifiers[0]

    @property
    def dialect(self) -> str:
        """Which operators the graph has."""
        return self.verifier.dialect

    def parameters(self) -> Iterator[Any]:
        """The parameters."""
        return (p for _, p in self.named_parameters())

    def named_parameters(self) -> Iterator[tuple[str, Any]]:
        """The parameters with their paths."""
        return ((name, self._state_dict[name]) for name in self._signature.parameters)

    def buffers(self) -> Iterator[Any]:
        """The buffers."""
        return (b for _, b in self.named_buffers())

    def named_buffers(self) -> Iterator[tuple[str, Any]]:
        """The buffers with their paths."""
        for name in self._signature.buffers:
            held = self._constants if name in self._constants else self._state_dict
            yield name, held[name]

    def module(self, check_guards: bool = True) -> GraphModule:
        """A module that runs the program, with the parameters and buffers of this one.

        `check_guards`: whether it refuses inputs of sizes, dtypes and values that it was not made for.
        """
        return unlift(self, check_guards)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        fail(
            RuntimeError,
            "export",
            "a module was required to run: Unable to call ExportedProgram directly. You should use "
            "`exported_program.module()` instead",
            hint="exported_program.module()(*args) runs it",
        )

    def run_decompositions(
        self, decomp_table: dict[Any, Any] | None = None, decompose_custom_triton_ops: bool = False
    ) -> ExportedProgram:
        """The program without writes, and with operators replaced by others.

        Args:
            decomp_table: operator -> function that computes it by others; without one, down to the core operators.
                Operators that are made of others (`conv2d`, `linear`) stay where the table has no rule for them,
                unless they give views.
            decompose_custom_triton_ops: taken for PyTorch's sake; there are none.
        """
        table = default_decompositions() if decomp_table is None else decomp_table
        if isinstance(table, CustomDecompTable):
            table = {**_of_programs(table), **table}
        return self._decomposed(table, told=True)

    def _decomposed(self, table: dict[Any, Any], told: bool = False) -> ExportedProgram:
        """The program without writes, by PyTorch's operators or by the package's own."""
        rules = {op: rule for op, rule in table.items() if operator_of(op) is not None}
        with own_mode():
            made, signature = functional(self._module, self._signature, rules, told)
        program = self._with(made, signature)
        program._verifiers = [v for v in self._verifiers if v is not TrainingVerifier] or [Verifier]
        program.ranges = _ranges_of(made, self.ranges)
        program.guards = _guards_of(made, self.ranges)
        return program

    def _transform_do_not_use(self, *passes: Any) -> ExportedProgram:
        """The program that passes make of this one, under PyTorch's name.

        Args:
            passes: functions that take a graph module, and give a `PassResult` or change the module and give None
        """
        # lazily: few programs run passes
        from facula.export.transformed import transformed

        return transformed(self, passes)

    def _update(self, module: GraphModule, signature: ExportGraphSignature, **others: Any) -> Any:
        """The program with another graph.

        Args:
            module: the graph
            signature: what its inputs and outputs are
            others: `state_dict`, `constants`: other tensors; `verifiers`: what checks it
        """
        made = self._with(module, signature)
        made._verifiers = list(others.get("verifiers", made._verifiers))
        made._state_dict = others.get("state_dict", made._state_dict)
        made._constants = others.get("constants", made._constants)
        return made

    def _with(self, module: GraphModule, signature: ExportGraphSignature) -> ExportedProgram:
        made = ExportedProgram(
            module,
            signature,
            self._state_dict,
            self._constants,
            self.ranges,
            self.in_spec,
            self.out_spec,
            guards=self.guards,
            argument_names=self.argument_names,
            example_inputs=self._example_inputs,
            training=self.training,
            module_call_graph=self._module_call_graph,
        )
        made._verifiers = self._verifiers
        return made

    def validate(self) -> None:
        """Check the graph and that the signature is one of it."""
        self.graph.lint()
        placeholders = [n.name for n in self.graph.nodes if n.op == "placeholder"]
        described = [spec.arg.name for spec in self._signature.input_specs]
        if placeholders != described:
            fail(
                ValueError,
                "export",
                f"a signature of the inputs {placeholders} was required",
                described,
                hint="describe the inputs in the order of the placeholders",
            )

    def __str__(self) -> str:
        code = self._module.print_readable(print_output=False).replace("\n", "\n    ")
        return (
            f"ExportedProgram:\n    {code}\nGraph signature: {self._signature}\n"
            f"Range constraints: {self.range_constraints}\n"
        )

    __repr__ = __str__


def _guards_of(module: GraphModule, ranges: dict[str, ValueRanges]) -> list[Any]:
    """What a graph relies on; raises where it fixed a size that may change."""
    env = env_of(module)
    if env is None:
        return []
    fixed = [
        name for name in ranges if name in env.replacements and name not in env.unbacked.ranges
    ]
    if fixed:
        fail(
            UserError,
            "run_decompositions",
            f"decompositions that serve all sizes {', '.join(fixed)} were required",
            ", ".join(f"{name} == {env.replacements[name]}" for name in fixed),
            "leave the decomposition out that reads these sizes as numbers",
        )
    return list(env.guards)


def _ranges_of(module: GraphModule, ranges: dict[str, ValueRanges]) -> dict[str, ValueRanges]:
    """The ranges of symbols, with those of numbers that another trace read anew."""
    env = env_of(module)
    if env is None:
        return ranges
    found = {name: known for name, known in ranges.items() if name not in env.unbacked.ranges}
    present = set().union(*[symbols_of(leaf_of(n.meta.get("val"))) for n in module.graph.nodes])
    found.update({k: v for k, v in unbacked_ranges(env).items() if k in present or k in ranges})
    return found
