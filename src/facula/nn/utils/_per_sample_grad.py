"""Gradients for each entry of a batch, of a module's parameters: `call_for_per_sample_grads`.

Takes a module. Gives a function that calls it. Keeps true: the result is the module's, and a backward pass puts
`grad_sample`, with the entries along the first dimension, on each parameter that requires grad.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from facula import core
from facula.autograd.transforms.tree import flatten
from facula.core.errors import fail
from facula.nn.modules.module import Module
from facula.nn.utils._expanded_weights import ExpandedWeight
from facula.nn.utils.ensembling import functional_call

__all__ = ["call_for_per_sample_grads"]


def _refuse(text: str, got: object, hint: str) -> None:
    fail(RuntimeError, "call_for_per_sample_grads", text, got, hint)


def _size_of(args: Any, kwargs: Any, dim: int) -> int:
    """The number of entries that all tensors among the arguments have."""
    sizes = [
        x.shape[dim]
        for x in flatten((args, kwargs))[0]
        if isinstance(x, core.Tensor) and x.dim() > dim
    ]
    if not sizes:
        text = (
            "a tensor among the inputs was required: ExpandedWeights cannot compute the batch size from the inputs "
            "(they may be in objects that are no lists or dictionaries)"
        )
        _refuse(text, "none", "batch_size= says it")
    for size in sizes:
        if size != sizes[0]:
            text = (
                "inputs of one batch size were required: found at least one input with batch size "
                f"{sizes[0]} and one with batch size {size}"
            )
            _refuse(text, sizes, "batch_size= says which counts")
    return int(sizes[0])


def _check(module: Any, batch_size: Any, loss_reduction: Any) -> None:
    if loss_reduction not in ("sum", "mean"):
        text = "Expected loss_reduction argument to be sum or mean"
        _refuse(text, loss_reduction, "as the loss joins the entries")
    if not isinstance(module, Module):
        _refuse("Module passed must be nn.Module", type(module).__name__, "wrap it in a module")
    if not (batch_size is None or isinstance(batch_size, int)):
        text = "Batch size passed must be None or an integer"
        _refuse(text, type(batch_size).__name__, "None takes that of the inputs")
    if batch_size is not None and batch_size < 1:
        _refuse("Batch size must be positive", batch_size, "None takes that of the inputs")
    for name, weight in module.named_parameters():
        if weight.requires_grad and getattr(weight, "grad_sample", None) is not None:
            text = "parameters without grad_sample were required: they add up, which is incorrect for multiple calls"
            _refuse(text, name, "del parameter.grad_sample after a step")


def call_for_per_sample_grads(
    module: Any,
    *,
    batch_size: int | None = None,
    loss_reduction: str = "sum",
    batch_first: bool = True,
) -> Callable[..., Any]:
    """A function that calls a module so that a backward pass gives gradients for each entry of the batch.

    They are on the parameters, as `grad_sample`; their `grad` stays as it is.

    Args:
        module: made of linear layers, convolutions, embeddings and norms of entries
        batch_size: how many entries the inputs have; None for that of the tensors among them
        loss_reduction: "sum" or "mean", by which the loss joins the entries
        batch_first: whether entries lie along the first dimension of the inputs, or the second

    Raises:
        RuntimeError: no size of a batch can be told, or a parameter has a `grad_sample`.

    Example:
        >>> layer = facula.nn.Linear(2, 1, bias=False)
        >>> call = facula.nn.utils._per_sample_grad.call_for_per_sample_grads(layer)
        >>> call(facula.tensor([[1.0, 2.0], [3.0, 4.0]])).sum().backward()
        >>> layer.weight.grad_sample
        tensor([[[1., 2.]],
        <BLANKLINE>
                [[3., 4.]]])
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        _check(module, batch_size, loss_reduction)
        size = _size_of(args, kwargs, 0 if batch_first else 1) if batch_size is None else batch_size
        weights: dict[str, Any] = {}
        for name, value in module.named_parameters():
            if value.requires_grad:
                weights[name] = ExpandedWeight(value, size, loss_reduction)
                weights[name].set_batch_first(batch_first)
        return functional_call(module, weights, args, kwargs)

    return functools.wraps(module.forward)(call) if isinstance(module, Module) else call
