"""Parameters as one vector and back.

Takes an iterable of parameters.  Gives their elements in one vector, or sets them from one.
Keeps true: all parameters are on one device.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import facula
from facula import core
from facula.core.errors import fail

__all__ = ["parameters_to_vector", "vector_to_parameters"]


def _same_device(parameter: core.Tensor, device: core.device | None) -> Any:
    if device is not None and parameter.device != device:
        fail(
            TypeError,
            "parameters_to_vector",
            f"all parameters on one device, {device}",
            got=parameter.device,
            hint=f"move them with .to('{device}')",
        )
    return parameter.device


def parameters_to_vector(parameters: Iterable[Any]) -> Any:
    """All elements of all parameters as one vector, through which gradients flow.

    Args:
        parameters: an iterable of tensors on one device

    Example:
        >>> facula.nn.utils.parameters_to_vector([facula.ones(2), facula.zeros(1, 2)])
        tensor([1., 1., 0., 0.])
    """
    device, parts = None, []
    for parameter in parameters:
        device = _same_device(parameter, device)
        parts.append(parameter.view(-1))
    return facula.cat(parts)


def vector_to_parameters(vec: core.Tensor, parameters: Iterable[Any]) -> None:
    """Makes slices of a vector the data of parameters, the inverse of `parameters_to_vector`.

    Args:
        vec: the vector, whose memory the parameters share then
        parameters: an iterable of tensors, as many elements together as ``vec`` has

    Raises:
        TypeError: ``vec`` is no tensor.

    Example:
        >>> w = facula.nn.Parameter(facula.zeros(1, 2))
        >>> facula.nn.utils.vector_to_parameters(facula.tensor([1.0, 2.0]), [w])
        >>> w.detach()
        tensor([[1., 2.]])
    """
    if not isinstance(vec, core.Tensor):
        fail(
            TypeError,
            "vector_to_parameters",
            "a Tensor",
            got=facula.typename(vec),
            hint="parameters_to_vector() makes one",
        )
    device, start = None, 0
    for parameter in parameters:
        device = _same_device(parameter, device)
        count = parameter.numel()
        parameter.data = vec[start : start + count].view_as(parameter).data
        start += count
