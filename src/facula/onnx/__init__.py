"""ONNX: what libraries register for an exporter. facula writes no ONNX files.

Takes symbolic functions of operators. Gives the registry that they go into, and the answers that are
true here. Keeps true: a registration is kept and can be taken back; a request for a file is an error
that says what to use instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula.core.errors import fail

__all__ = [
    "export",
    "is_in_onnx_export",
    "register_custom_op_symbolic",
    "unregister_custom_op_symbolic",
]

#: (operator, opset version) -> the symbolic function
_SYMBOLIC: dict[tuple[str, int], Callable[..., Any]] = {}


def register_custom_op_symbolic(
    symbolic_name: str, symbolic_fn: Callable[..., Any], opset_version: int
) -> None:
    """Keeps the function that would write an operator into an ONNX graph.

    Raises:
        ValueError: the name is not of the form `namespace::name`.
    """
    if "::" not in symbolic_name:
        required = "a name 'namespace::name' was required"
        fail(
            ValueError,
            "onnx.register_custom_op_symbolic",
            required,
            repr(symbolic_name),
            hint="for example 'mylib::scale'",
        )
    _SYMBOLIC[symbolic_name, opset_version] = symbolic_fn


def unregister_custom_op_symbolic(symbolic_name: str, opset_version: int) -> None:
    """Takes a registration back."""
    _SYMBOLIC.pop((symbolic_name, opset_version), None)


def is_in_onnx_export() -> bool:
    """Whether a model is being exported: never."""
    return False


def export(*arguments: Any, **options: Any) -> Any:
    """Raises NotImplementedError: facula writes no ONNX files."""
    hint = "facula.export.export() writes programs; weights go through facula.save or safetensors"
    fail(NotImplementedError, "onnx.export", "another format was required", "ONNX", hint)
