"""`export` as PyTorch's own code calls it.

Takes: a module and example arguments. Gives: an exported program.
Keeps true: it is the program of `export`, down to the core operators unless it is asked for as it stands.
"""

from __future__ import annotations

from typing import Any

from facula import nn
from facula.export.api import DEFAULT_EXPORT_DYNAMO_CONFIG, ExportDynamoConfig, export
from facula.export.core_forms import composites
from facula.export.exported_program import ExportedProgram
from facula.fx import GraphModule

__all__ = ["DEFAULT_EXPORT_DYNAMO_CONFIG", "ExportDynamoConfig"]


def _export_to_torch_ir(
    f: nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    dynamic_shapes: Any = None,
    *,
    preserve_module_call_signature: tuple[str, ...] = (),
    **options: object,
) -> GraphModule:
    """The module of a program with the operators that the original one calls, and with its state."""
    kept = preserve_module_call_signature
    program = export(
        f,
        args,
        kwargs,
        dynamic_shapes=dynamic_shapes,
        strict=True,
        preserve_module_call_signature=kept,
    )
    return program.module()


def _export(
    mod: nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    dynamic_shapes: Any = None,
    *,
    strict: bool = True,
    preserve_module_call_signature: tuple[str, ...] = (),
    pre_dispatch: bool = False,
    prefer_deferred_runtime_asserts_over_guards: bool = False,
    **options: object,
) -> ExportedProgram:
    """The program of a module; ``pre_dispatch`` leaves operators that are made of others."""
    program = export(
        mod,
        args,
        kwargs,
        dynamic_shapes=dynamic_shapes,
        strict=strict,
        preserve_module_call_signature=preserve_module_call_signature,
        prefer_deferred_runtime_asserts_over_guards=prefer_deferred_runtime_asserts_over_guards,
    )
    return program if pre_dispatch else program.run_decompositions(composites())
