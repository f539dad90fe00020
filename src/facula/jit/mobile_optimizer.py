"""Scripted modules for inference on small machines, under PyTorch's names.

Takes: a scripted or traced module in eval mode. Gives: `optimize_for_mobile`, the frozen module:
parameters are constants, calls are written out, dropout is gone; `generate_mobile_module_lints`.
Keeps true: the numbers are those of the module.
"""

from __future__ import annotations

import enum
from typing import Any

from facula.core.errors import fail
from facula.jit.freezing import freeze
from facula.jit.script_objects import ScriptModule

__all__ = ["LintCode", "MobileOptimizerType", "generate_mobile_module_lints", "optimize_for_mobile"]


class MobileOptimizerType(enum.Enum):
    """Parts of the optimization that a program may ask to leave out."""

    CONV_BN_FUSION = 0
    INSERT_FOLD_PREPACK_OPS = 1
    REMOVE_DROPOUT = 2
    FUSE_ADD_RELU = 3
    HOIST_CONV_PACKED_PARAMS = 4
    VULKAN_AUTOMATIC_GPU_TRANSFER = 6


class LintCode(enum.Enum):
    """What `generate_mobile_module_lints` finds."""

    BUNDLED_INPUT = 1
    REQUIRES_GRAD = 2
    DROPOUT = 3
    BATCHNORM = 4


def _checked(module: Any) -> Any:
    if not isinstance(module, ScriptModule):
        fail(
            TypeError,
            "optimize_for_mobile",
            "a scripted module was required",
            type(module).__name__,
            hint="facula.jit.script(module.eval()) makes one",
        )
    return module


def optimize_for_mobile(
    script_module: Any,
    optimization_blocklist: set[MobileOptimizerType] | None = None,
    preserved_methods: list[str] | None = None,
    backend: str = "CPU",
) -> Any:
    """The module frozen for inference.

    Args:
        optimization_blocklist: parts to leave out; freezing is one part, so nothing is left out of it.
        preserved_methods: methods besides `forward` that the result keeps.
        backend: "CPU"; others are refused, since there are none.
    """
    if backend.lower() != "cpu":
        fail(
            TypeError,
            "optimize_for_mobile",
            "the backend 'CPU' was required",
            repr(backend),
            hint="there are no kernels for Vulkan and Metal here",
        )
    kept = list(preserved_methods or ())
    module = _checked(script_module)
    unknown = [name for name in kept if not hasattr(module, name)]
    if unknown:
        fail(
            AttributeError,
            "optimize_for_mobile",
            "methods of the module were required",
            ", ".join(unknown),
            hint="mark methods with @facula.jit.export, so that they are compiled",
        )
    return freeze(module.eval(), kept)


def generate_mobile_module_lints(script_module: Any) -> list[dict[str, Any]]:
    """What stands in the way of a fast start or small memory, each a dict of a name and a message."""
    module = _checked(script_module)
    found = []
    if not hasattr(module, "_generate_bundled_inputs_for_forward"):
        found.append(
            {"name": LintCode.BUNDLED_INPUT.name, "message": "No bundled input for forward."}
        )
    for name, parameter in module.named_parameters():
        if parameter.requires_grad:
            text = f"Param {name} requires grad, please set torch.no_grad() to reduce memory usage."
            found.append({"name": LintCode.REQUIRES_GRAD.name, "message": text})
    for kind, word in ((LintCode.DROPOUT, "dropout"), (LintCode.BATCHNORM, "batch_norm")):
        for node in module.graph.all_nodes() if hasattr(module.graph, "all_nodes") else ():
            if word in str(node.kind()):
                text = f"Operator {word} exists, remember to call eval() before saving the module."
                found.append({"name": kind.name, "message": text})
    return found
