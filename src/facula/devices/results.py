"""The results of an operator on a device, before its kernel has run.

Takes an operator and its arguments. Gives `unset_results`, and `tensors_of`, the name under which backends
find the tensors among nested values.
Keeps true: shapes and dtypes are the operator's own, found on tensors without data.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.core.nested import mapped, tensors_in

__all__ = ["tensors_of", "unset_results"]

tensors_of = tensors_in


def unset_results(operator: Any, arguments: tuple[Any, ...]) -> Any:
    """The results that an operator would give, on its arguments' device and with unset elements.

    Shapes and dtypes are found, and wrong arguments refused, as on every device: by the operator
    itself, run on tensors without data. For backends, as the start of `run`.
    """
    devices = [t.device for t in tensors_in(arguments) if t.device.type not in ("cpu", "meta")]
    positional, keywords = operator.definition.trim(
        mapped(arguments, _without_data, core.device("meta"))
    )
    with_shapes = operator(*positional, **keywords)
    return mapped(with_shapes, lambda t: core.empty_like(t, device=devices[0]) if devices else t)


def _without_data(tensor: Any) -> Any:
    return core.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")
