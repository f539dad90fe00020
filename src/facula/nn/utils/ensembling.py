"""Modules under function transforms: called with given tensors, stacked, without running statistics.

Takes modules.  Gives what `func` names `functional_call`, `stack_module_state` and
`replace_all_batch_norm_modules_`.
Keeps true: a module's own tensors are never changed, except where the name ends in an underscore.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import facula
from facula.core.errors import fail
from facula.nn.utils.stateless import call_with


def functional_call(
    module: Any,
    parameter_and_buffer_dicts: Any,
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call `module` with the given tensors in place of its own.

    parameter_and_buffer_dicts: one dictionary of tensors by dotted name, or several with different
    names. Buffers that the call replaces are found in the dictionary afterwards.
    """
    if isinstance(parameter_and_buffer_dicts, dict):
        return call_with(
            module,
            parameter_and_buffer_dicts,
            args,
            kwargs,
            tie_weights=tie_weights,
            strict=strict,
        )
    if not isinstance(parameter_and_buffer_dicts, Sequence):
        fail(
            ValueError,
            "functional_call",
            (
                "Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, "
                f"but got {type(parameter_and_buffer_dicts)}"
            ),
            hint="dict(module.named_parameters()) is one",
        )
    if not all(isinstance(d, dict) for d in parameter_and_buffer_dicts):
        fail(
            ValueError,
            "functional_call",
            "Expected all elements of parameter_and_buffer_dicts to be dictionaries",
            hint="dict(module.named_parameters()) is one",
        )
    joined: dict[str, Any] = {}
    for part in parameter_and_buffer_dicts:
        repeated = sorted(joined.keys() & part.keys())
        if repeated:
            fail(
                ValueError,
                "functional_call",
                (
                    f"{repeated} appeared in multiple dictionaries; behavior of functional call "
                    "is ambiguous"
                ),
                hint="join the dicts first: {**first, **second}",
            )
        joined.update(part)
    try:
        return call_with(module, joined, args, kwargs, tie_weights=tie_weights, strict=strict)
    finally:
        for part in parameter_and_buffer_dicts:
            for name in part:
                part[name] = joined[name]


def stack_module_state(models: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The parameters and the buffers of several modules, stacked by name.

    The modules must be of one class and all in training or all in evaluation mode.
    """
    models = list(models)
    if not models:
        fail(
            RuntimeError,
            "stack_module_state",
            "stack_module_state: Expected at least one model, got 0.",
            hint="stack_module_state([model]) takes one",
        )
    if len({m.training for m in models}) > 1:
        fail(
            RuntimeError,
            "stack_module_state",
            "stack_module_state: Expected all models to have the same training/eval mode.",
            hint="call eval() or train() on all of them",
        )
    if any(type(m) is not type(models[0]) for m in models):
        fail(
            RuntimeError,
            "stack_module_state",
            "stack_module_state: Expected all models to be of the same class.",
            hint="stack each class by itself",
        )
    parameters = {
        name: _stacked([dict(m.named_parameters())[name] for m in models])
        for name, _ in models[0].named_parameters()
    }
    buffers = {
        name: _stacked([dict(m.named_buffers())[name] for m in models])
        for name, _ in models[0].named_buffers()
    }
    return parameters, buffers


def _stacked(tensors: list[Any]) -> Any:
    if len({t.requires_grad for t in tensors}) > 1:
        fail(
            RuntimeError,
            "stack_module_state",
            "Expected parameters from different models to have the same requires_grad.",
            hint="requires_grad_() sets it for all parameters of a module",
        )
    stacked = facula.stack([t.detach() for t in tensors])
    return stacked.requires_grad_(tensors[0].requires_grad)


def replace_all_batch_norm_modules_(root: Any) -> Any:
    """Let all batch normalisations below `root` (and `root`) keep no running statistics."""
    for module in root.modules():
        if isinstance(module, facula.nn.modules.batchnorm._BatchNorm):
            module.running_mean = None
            module.running_var = None
            module.num_batches_tracked = None
            module.track_running_stats = False
    return root
