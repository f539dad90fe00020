"""Questions about the inputs of exported graphs, under PyTorch's names.

Takes: an exported program and a placeholder. Gives: whether it stands for a parameter, a buffer or a
constant, and which.
Keeps true: nothing is changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from facula import nn
from facula.core.errors import fail
from facula.export import ExportedProgram
from facula.fx import Node
from facula.fx import _pytree as pytree

__all__ = [
    "get_buffer", "get_lifted_tensor_constant", "get_param", "is_buffer", "is_lifted_tensor_constant",
    "is_param", "nodes_filter", "register_dataclass_as_pytree_node", "sync_state", "wrap_method",
]  # fmt: skip


def _share(source: nn.Module, target: nn.Module) -> None:
    """Let a module have the parameters, buffers and modules of another, not copies."""
    for name in ("_parameters", "_buffers", "_modules"):
        vars(target)[name] = vars(source)[name]


class _Method(nn.Module):
    """A module whose `forward` is a method of another one, with that one's state."""

    def __init__(self, method: Any) -> None:
        super().__init__()
        _share(method.__self__, self)
        self.forward = method


def wrap_method(method: Any) -> nn.Module:
    """A module whose `forward` is a method of a module, so that the method can be exported.

    Args:
        method: a bound method

    Raises:
        ValueError: it is none of a module.
    """
    if not isinstance(getattr(method, "__self__", None), nn.Module):
        fail(ValueError, "export.wrap_method", "a method of a module was required", repr(method),
             hint="wrap_method(module.method)")  # fmt: skip
    return _Method(method)


@contextmanager
def _disable_load_state_dict_hooks(mod: nn.Module) -> Iterator[None]:
    """A block in which a module's `state_dict` calls no hooks.

    Args:
        mod: the module
    """
    hooks = mod._state_dict_hooks, mod._state_dict_pre_hooks
    before = [dict(each) for each in hooks]
    for each in hooks:
        each.clear()
    try:
        yield
    finally:
        for each, known in zip(hooks, before, strict=True):
            each.update(known)


def sync_state(*wrapped_method_modules: nn.Module) -> None:
    """Let modules of methods of one module have one state again, that of the first: files give each its own.

    Args:
        *wrapped_method_modules: what the exported methods became
    """
    if wrapped_method_modules:
        first, *others = wrapped_method_modules
        for each in others:
            for name, value in [*first._parameters.items(), *first._buffers.items()]:
                held = each._parameters if name in first._parameters else each._buffers
                held[name] = value


def nodes_filter(nodes: list[Node], node_call_back: Any) -> list[Node]:
    """The nodes of which a question is true."""
    return [node for node in nodes if node_call_back(node)]


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
