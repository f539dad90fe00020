"""Collectives that a trace sees: those that write to tensors, by those that give new ones.

Takes: tensors without elements, of which no other rank knows. Gives: calls of the functional collectives, and copies of
what they give into the tensors that were to be written.
Keeps true: nothing is sent; what cannot be told of another rank is refused (`async_op`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.distributed import functional_collectives as functional
from facula.distributed.operations import TRACED
from facula.fx.proxy_tensor import get_proxy_mode

Tensor = core.Tensor


def is_traced(values: Any) -> bool:
    """Whether a tensor among arguments stands for one in a trace that runs."""
    return get_proxy_mode() is not None and any(
        getattr(x, "_is_fake", False)
        for value in values
        for x in (value if isinstance(value, (list, tuple)) else (value,))
    )


def _all_reduce(group: Any, tensor: Tensor, op: Any) -> None:
    tensor.copy_(functional.wait_tensor(functional.all_reduce(tensor, op.name.lower(), group)))


def _all_gather_into_tensor(group: Any, output_tensor: Tensor, input_tensor: Tensor) -> None:
    whole = functional.wait_tensor(functional.all_gather_tensor(input_tensor, 0, group))
    output_tensor.copy_(whole.reshape(output_tensor.shape))


def _all_gather(group: Any, tensor_list: list[Tensor], tensor: Tensor) -> None:
    whole = functional.wait_tensor(functional.all_gather_tensor(tensor.unsqueeze(0), 0, group))
    for target, part in zip(tensor_list, whole.unbind(0), strict=True):
        target.copy_(part)


def _reduce_scatter_tensor(group: Any, output: Tensor, input: Tensor, op: Any) -> None:
    part = functional.reduce_scatter_tensor(input, op.name.lower(), 0, group)
    output.copy_(functional.wait_tensor(part).reshape(output.shape))


def _all_to_all_single(
    group: Any, output: Tensor, input: Tensor, output_split_sizes: Any, input_split_sizes: Any
) -> None:
    outputs, inputs = (list(s) if s else None for s in (output_split_sizes, input_split_sizes))
    made = functional.all_to_all_single(input, outputs, inputs, group)
    output.copy_(functional.wait_tensor(made))


_FORMS: dict[str, Callable[..., None]] = {
    form.__name__[1:]: form
    for form in (
        _all_reduce, _all_gather_into_tensor, _all_gather, _reduce_scatter_tensor, _all_to_all_single,
    )
}  # fmt: skip


def traced(name: str, given: dict[str, Any], group_of: Callable[[Any], Any]) -> bool:
    """Let the trace see a collective; False where none runs, or it has no form of new tensors."""
    form = _FORMS.get(name)
    group = group_of(given["group"]) if form is not None and is_traced(given.values()) else None
    if form is None or group is None:
        return False
    rest = {k: v for k, v in given.items() if k not in ("group", "async_op")}
    if given.get("async_op"):
        fail(NotImplementedError, name, "a collective that is waited for was required in a trace", "async_op=True",
             hint="call it with async_op=False, or a function of _functional_collectives")  # fmt: skip
    form(group, **rest)
    return True


TRACED.append(traced)
