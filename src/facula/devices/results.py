"""The results of an operator on a device, before its kernel has run.

Takes an operator and its arguments. Gives `unset_results`, and what finds or replaces the tensors among
nested values: `tensors_of` and `mapped`.
Keeps true: shapes and dtypes are the operator's own, found on tensors without data.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula import core

__all__ = ["mapped", "tensors_of", "unset_results"]


def unset_results(operator: Any, arguments: tuple[Any, ...]) -> Any:
    """The results that an operator would give, on its arguments' device and with unset elements.

    Shapes and dtypes are found, and wrong arguments refused, as on every device: by the operator
    itself, run on tensors without data. For backends, as the start of `run`.
    """
    devices = [t.device for t in tensors_of(arguments) if t.device.type not in ("cpu", "meta")]
    positional, keywords = operator.definition.trim(mapped(arguments, _without_data))
    with_shapes = operator(*positional, **keywords)
    return mapped(with_shapes, lambda t: core.empty_like(t, device=devices[0]) if devices else t)


def tensors_of(values: object) -> list[Any]:
    """The tensors among arguments or results, lists included."""
    if isinstance(values, core.Tensor):
        return [values]
    if isinstance(values, (tuple, list)):
        return [tensor for value in values for tensor in tensors_of(value)]
    return []


def _without_data(tensor: Any) -> Any:
    return core.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")


def mapped(values: object, function: Callable[[Any], Any]) -> Any:
    """Arguments or results with a function applied to every tensor."""
    if isinstance(values, core.Tensor):
        return function(values)
    if isinstance(values, tuple) and hasattr(values, "_fields"):
        return type(values)(*[mapped(value, function) for value in values])
    if isinstance(values, (tuple, list)):
        return type(values)(mapped(value, function) for value in values)
    if isinstance(values, core.device) and values.type not in ("cpu", "meta"):
        return core.device("meta")
    return values
