"""Questions about the inputs of exported graphs, under PyTorch's names.

Takes: an exported program and a placeholder. Gives: whether it stands for a parameter, a buffer or a
constant, and which.
Keeps true: nothing is changed.
"""

from __future__ import annotations

from typing import Any

from facula.export import ExportedProgram
from facula.fx import Node
from facula.fx import _pytree as pytree

__all__ = [
    "get_buffer", "get_lifted_tensor_constant", "get_param", "is_buffer", "is_lifted_tensor_constant",
    "is_param", "register_dataclass_as_pytree_node",
]  # fmt: skip


def is_param(program: ExportedProgram, node: Node) -> bool:
    """Whether a placeholder stands for a parameter."""
    return node.name in program.graph_signature.inputs_to_parameters


def get_param(program: ExportedProgram, node: Node) -> Any:
    """The parameter that a placeholder stands for; None where it is none."""
    name = program.graph_signature.inputs_to_parameters.get(node.name)
    return None if name is None else program.state_dict[name]


def is_buffer(program: ExportedProgram, node: Node) -> bool:
    """Whether a placeholder stands for a buffer."""
    return node.name in program.graph_signature.inputs_to_buffers


def get_buffer(program: ExportedProgram, node: Node) -> Any:
    """The buffer that a placeholder stands for; None where it is none."""
    name = program.graph_signature.inputs_to_buffers.get(node.name)
    if name is None:
        return None
    return program.constants[name] if name in program.constants else program.state_dict[name]


def is_lifted_tensor_constant(program: ExportedProgram, node: Node) -> bool:
    """Whether a placeholder stands for a tensor that the program holds otherwise."""
    return node.name in program.graph_signature.inputs_to_lifted_tensor_constants


def get_lifted_tensor_constant(program: ExportedProgram, node: Node) -> Any:
    """The constant that a placeholder stands for; None where it is none."""
    name = program.graph_signature.inputs_to_lifted_tensor_constants.get(node.name)
    return None if name is None else program.constants[name]


def register_dataclass_as_pytree_node(
    cls: type, *, serialized_type_name: str | None = None, **options: object
) -> None:
    """Make a dataclass a container that programs take and give."""
    pytree.register_dataclass(cls, serialized_type_name=serialized_type_name)
