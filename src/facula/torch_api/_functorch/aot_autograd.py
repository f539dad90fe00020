"""Ahead-of-time differentiation under PyTorch's name: see `facula.lower.aot`."""

from facula.lower.aot.api import (
    aot_function,
    aot_module,
    aot_module_simplified,
    default_partition,
    make_boxed_func,
    min_cut_rematerialization_partition,
    nop,
)
from facula.lower.aot.export import (
    BackwardSignature,
    GraphSignature,
    aot_export_joint_simple,
    aot_export_module,
)

compiled_function = aot_function
compiled_module = aot_module


def make_boxed_compiler(compiler):  # type: ignore[no-untyped-def]
    """The compiler, giving functions of a list of arguments."""

    def boxed(fx_g, inps):  # type: ignore[no-untyped-def]
        return make_boxed_func(compiler(fx_g, inps))

    return boxed


__all__ = [
    "BackwardSignature",
    "GraphSignature",
    "aot_export_joint_simple",
    "aot_export_module",
    "aot_function",
    "aot_module",
    "aot_module_simplified",
    "compiled_function",
    "compiled_module",
    "default_partition",
    "make_boxed_compiler",
    "make_boxed_func",
    "min_cut_rematerialization_partition",
    "nop",
]
