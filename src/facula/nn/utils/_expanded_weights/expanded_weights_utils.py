"""What operators on expanded weights share: checks, the parameter behind a weight, where gradients are put.

Takes arguments of operators. Gives the same with parameters in place of expanded weights.
Keeps true: a parameter beside expanded weights that would get an ordinary gradient is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from facula import core
from facula.core.errors import fail

_MIX = (
    "ExpandedWeights does not support a mixture of ExpandedWeight parameters and normal Parameters"
)


def is_expanded(value: object) -> bool:
    """Whether a value stands for a parameter whose gradients are kept for each entry."""
    return isinstance(value, core.Tensor) and "orig_weight" in getattr(value, "__dict__", ())


def standard_kwargs(
    kwarg_names: Sequence[str], expanded_args: tuple[Any, ...]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments without the last ones, and these by their names."""
    count = len(expanded_args) - len(kwarg_names)
    return expanded_args[:count], dict(zip(kwarg_names, expanded_args[count:], strict=True))


def unpack_expanded_weight_or_tensor(
    maybe_expanded_weight: object, func: Callable[[Any], Any] = lambda x: x
) -> Any:
    """A function of the parameter behind an expanded weight, or of a tensor; None for what is no tensor.

    Raises:
        RuntimeError: it is a tensor that requires grad.
    """
    if is_expanded(maybe_expanded_weight):
        weight: Any = maybe_expanded_weight
        return func(weight.orig_weight)
    if isinstance(maybe_expanded_weight, core.Tensor):
        if maybe_expanded_weight.requires_grad:
            fail(RuntimeError, "ExpandedWeight", _MIX, hint="make all parameters expanded weights")
        return func(maybe_expanded_weight)
    return None


def check_inputs(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    """The number of entries of a call.

    Raises:
        RuntimeError: the first argument is no batch, or no batch of the size that a weight expects.
    """
    where, given = getattr(func, "__name__", str(func)), args[0] if args else None

    def refuse(text: str, got: object, hint: str) -> None:
        fail(RuntimeError, where, text, got, hint)

    if is_expanded(given):
        text = "Expanded Weights do not support inputs that are also ExpandedWeights."
        refuse(text, "one as input", "the input is an ordinary tensor")
    if not isinstance(given, core.Tensor):
        text = "Expanded Weights requires a Tensor as the first input"
        refuse(text, type(given).__name__, "the batch comes first")
    batch: Any = given
    if batch.dim() == 0:
        text = "Expanded Weights requires a batch dimension but got an input of size 0"
        refuse(text, "no dimension", "unsqueeze(0) is a batch of one")
    size = int(batch.shape[0])
    if size == 0:
        text = "0 is not a valid batch size for Expanded Weights"
        refuse(text, tuple(batch.shape), "give at least one entry")
    for weight in filter(is_expanded, (*args, *kwargs.values())):
        smaller = weight.allow_smaller_batches and size <= weight.batch_size
        if size != weight.batch_size and not smaller:
            text = "Expected ExpandedWeights to have batch size matching input"
            got = f"{size} entries for weights of {weight.batch_size}"
            refuse(text, got, "batch_size= says how many entries the inputs have")
    return size


def forward_helper(
    func: Any, expanded_args: tuple[Any, ...], expanded_kwargs: dict[str, Any]
) -> Any:
    """The result of an operator, of the parameters themselves."""
    check_inputs(func, expanded_args, expanded_kwargs)

    def plain(value: Any) -> Any:
        return value.orig_weight if is_expanded(value) else value

    return func(
        *(plain(v) for v in expanded_args), **{k: plain(v) for k, v in expanded_kwargs.items()}
    )


def set_grad_sample_if_exists(
    maybe_expanded_weight: Any, per_sample_grad_fn: Callable[[Any], Any]
) -> None:
    """Add the gradients for each entry to those that the parameter behind an expanded weight has."""
    unpacked = unpack_expanded_weight_or_tensor(maybe_expanded_weight)
    if not is_expanded(maybe_expanded_weight):
        return
    found = per_sample_grad_fn(unpacked)
    if maybe_expanded_weight.loss_reduction == "mean":
        found = found * maybe_expanded_weight.batch_size
    missing = maybe_expanded_weight.batch_size - found.shape[0]
    if missing > 0 and maybe_expanded_weight.allow_smaller_batches:
        padded = found.new_zeros((maybe_expanded_weight.batch_size, *found.shape[1:]))
        padded[: found.shape[0]] = found
        found = padded
    before = getattr(unpacked, "grad_sample", None)
    unpacked.grad_sample = found if before is None else before + found


def sum_over_all_but_batch_and_last_n(tensor: core.Tensor, n_dims: int) -> Any:
    """The sum over the dimensions between the first and the last so many."""
    dims = tuple(range(1, tensor.dim() - n_dims))
    return tensor.sum(dims) if dims else tensor
