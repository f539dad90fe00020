"""What the inputs and outputs of an exported graph are.

Takes: names of nodes, and what each stands for. Gives: `ExportGraphSignature` and its parts.
Keeps true: inputs are parameters, buffers, constants, then the user's; outputs are new elements of
what the program writes to, then the user's; every name is the name of a node of the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

__all__ = [
    "ConstantArgument", "ExportBackwardSignature", "ExportGraphSignature", "InputKind", "InputSpec",
    "OutputKind", "OutputSpec", "SymIntArgument", "TensorArgument",
]  # fmt: skip


@dataclass
class TensorArgument:
    """A tensor, by the name of its node."""

    name: str


@dataclass
class SymIntArgument:
    """A number that depends on sizes, by the name of its node."""

    name: str


@dataclass
class ConstantArgument:
    """A value that is the same in every call."""

    name: str
    value: int | float | bool | str | None


class InputKind(Enum):
    """What an input stands for."""

    USER_INPUT = auto()
    PARAMETER = auto()
    BUFFER = auto()
    CONSTANT_TENSOR = auto()


class OutputKind(Enum):
    """What an output stands for."""

    USER_OUTPUT = auto()
    LOSS_OUTPUT = auto()
    BUFFER_MUTATION = auto()
    PARAMETER_MUTATION = auto()
    USER_INPUT_MUTATION = auto()


@dataclass
class InputSpec:
    """An input: its kind, and for what is not the user's its path in the module."""

    kind: InputKind
    arg: Any
    target: str | None = None
    persistent: bool | None = None

    def __str__(self) -> str:
        text = f"{self.arg.name}: {self.kind.name}"
        if self.target is not None:
            text += f" target={self.target!r}"
        return text if self.persistent is None else f"{text} persistent={self.persistent}"


@dataclass
class OutputSpec:
    """An output: its kind, and what it is written to."""

    kind: OutputKind
    arg: Any
    target: str | None = None

    def __str__(self) -> str:
        target = "" if self.target is None else f" target={self.target!r}"
        return f"{self.arg.name}: {self.kind.name}{target}"


@dataclass
class ExportBackwardSignature:
    """Which outputs are gradients of what, and which is the loss.

    Args:
        gradients_to_parameters: names of outputs, to names of parameters
        gradients_to_user_inputs: names of outputs, to names of inputs
        loss_output: the loss's name

    Example:
        >>> facula.export.ExportBackwardSignature({"g": "weight"}, {}, "loss").loss_output
        'loss'
    """

    gradients_to_parameters: dict[str, str]
    gradients_to_user_inputs: dict[str, str]
    loss_output: str


def _value(arg: Any) -> Any:
    return arg.value if isinstance(arg, ConstantArgument) else arg.name


@dataclass
class ExportGraphSignature:
    """The inputs and outputs of an exported graph, in order, and what each of them is.

    Args:
        input_specs, output_specs: one for each

    Example:
        >>> program = facula.export.export(facula.nn.Linear(2, 1), (facula.ones(1, 2),))
        >>> program.graph_signature.parameters, program.graph_signature.user_inputs
        (('weight', 'bias'), ('input_1',))
    """

    input_specs: list[InputSpec] = field(default_factory=list)
    output_specs: list[OutputSpec] = field(default_factory=list)

    def _inputs(self, kind: InputKind) -> Iterable[InputSpec]:
        return (spec for spec in self.input_specs if spec.kind is kind)

    def _outputs(self, kind: OutputKind) -> dict[str, str]:
        return {s.arg.name: s.target or "" for s in self.output_specs if s.kind is kind}

    @property
    def parameters(self) -> tuple[str, ...]:
        """The paths of parameters."""
        return tuple(s.target or "" for s in self._inputs(InputKind.PARAMETER))

    @property
    def buffers(self) -> tuple[str, ...]:
        """The paths of buffers."""
        return tuple(s.target or "" for s in self._inputs(InputKind.BUFFER))

    @property
    def non_persistent_buffers(self) -> tuple[str, ...]:
        """The paths of buffers that are no part of the state."""
        return tuple(
            s.target or "" for s in self._inputs(InputKind.BUFFER) if s.persistent is False
        )

    @property
    def lifted_tensor_constants(self) -> tuple[str, ...]:
        """The names of tensors that the program holds besides parameters and buffers."""
        return tuple(s.target or "" for s in self._inputs(InputKind.CONSTANT_TENSOR))

    @property
    def user_inputs(self) -> tuple[Any, ...]:
        """The user's inputs: names, and the values of constants."""
        return tuple(_value(s.arg) for s in self._inputs(InputKind.USER_INPUT))

    @property
    def user_outputs(self) -> tuple[Any, ...]:
        """The user's outputs: names, and the values of constants."""
        kinds = (OutputKind.USER_OUTPUT, OutputKind.LOSS_OUTPUT)
        return tuple(_value(s.arg) for s in self.output_specs if s.kind in kinds)

    @property
    def inputs_to_parameters(self) -> dict[str, str]:
        """Names of nodes to paths of parameters."""
        return {s.arg.name: s.target or "" for s in self._inputs(InputKind.PARAMETER)}

    @property
    def inputs_to_buffers(self) -> dict[str, str]:
        """Names of nodes to paths of buffers."""
        return {s.arg.name: s.target or "" for s in self._inputs(InputKind.BUFFER)}

    @property
    def inputs_to_lifted_tensor_constants(self) -> dict[str, str]:
        """Names of nodes to names of constants."""
        return {s.arg.name: s.target or "" for s in self._inputs(InputKind.CONSTANT_TENSOR)}

    @property
    def buffers_to_mutate(self) -> dict[str, str]:
        """Names of outputs to paths of the buffers that they are written to."""
        return self._outputs(OutputKind.BUFFER_MUTATION)

    @property
    def parameters_to_mutate(self) -> dict[str, str]:
        """Names of outputs to paths of the parameters that they are written to."""
        return self._outputs(OutputKind.PARAMETER_MUTATION)

    @property
    def user_inputs_to_mutate(self) -> dict[str, str]:
        """Names of outputs to names of the inputs that they are written to."""
        return self._outputs(OutputKind.USER_INPUT_MUTATION)

    @property
    def backward_signature(self) -> ExportBackwardSignature | None:
        """None: exported graphs have no gradients of their own."""
        return None

    def replace_all_uses(self, old: str, new: str) -> None:
        """Call a node by another name."""
        specs: list[Any] = [*self.input_specs, *self.output_specs]
        for spec in specs:
            if spec.arg.name == old:
                spec.arg.name = new
            if isinstance(spec, OutputSpec) and spec.kind is OutputKind.USER_INPUT_MUTATION:
                spec.target = new if spec.target == old else spec.target

    def get_replace_hook(self, replace_inputs: bool = False) -> Callable[[Any, str, Any], None]:
        """What a graph calls when a node takes another's place: the signature follows."""

        def follow(old: Any, new: str, user: Any) -> None:
            if user.op == "output" or (replace_inputs and old.op == "placeholder"):
                self.replace_all_uses(old.name, new)

        return follow

    def __str__(self) -> str:
        inputs = "\n".join(map(str, self.input_specs))
        outputs = "\n".join(map(str, self.output_specs))
        return f"\n# inputs\n{inputs}\n\n# outputs\n{outputs}\n"
