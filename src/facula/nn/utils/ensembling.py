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
    args: object = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Calls a module with other tensors in place of its own.

    Args:
        module: what is called
        parameter_and_buffer_dicts: tensors by dotted name, or several dictionaries of them
        args: positional arguments, a tuple or one value
        kwargs: keyword arguments
        tie_weights: whether a tensor that the module has under several names is replaced under all
        strict: whether every parameter and buffer must be given

    Example:
        >>> layer = facula.nn.Linear(1, 1, bias=False)
        >>> facula.func.functional_call(layer, {"weight": facula.tensor([[2.0]])}, facula.tensor([3.0]))
        tensor([6.])
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
    joined = _joined(parameter_and_buffer_dicts)
    try:
        return call_with(module, joined, args, kwargs, tie_weights=tie_weights, strict=strict)
    finally:
        for part in parameter_and_buffer_dicts:
            for name in part:
                part[name] = joined[name]


def _joined(dicts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """All of several dictionaries, none of which has a name of another."""
    joined: dict[str, Any] = {}
    for part in dicts:
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
    return joined


def stack_module_state(models: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The parameters and the buffers of several modules of one class, stacked by name: for ensembles
    under `vmap`.

    Args:
        models: modules, all in training or all in evaluation mode

    Returns:
        (parameters, buffers), two dictionaries.

    Raises:
        RuntimeError: there is none, or classes or modes differ.

    Example:
        >>> models = [facula.nn.Linear(2, 1) for _ in range(3)]
        >>> parameters, buffers = facula.func.stack_module_state(models)
        >>> parameters["weight"].shape
        facula.Size([3, 1, 2])
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
    """Has all batch normalizations of a tree, in place, keep no running statistics: what `vmap` can
    not write.

    Args:
        root: the tree

    Returns:
        the tree.

    Example:
        >>> model = facula.nn.Sequential(facula.nn.BatchNorm1d(2))
        >>> facula.func.replace_all_batch_norm_modules_(model)[0].running_mean is None
        True
    """
    for module in root.modules():
        if isinstance(module, facula.nn.modules.batchnorm._BatchNorm):
            module.running_mean = None
            module.running_var = None
            module.num_batches_tracked = None
            module.track_running_stats = False
    return root
