"""Limiting gradients by norm or by value.

Takes parameters (or one).  Gives their gradients changed in place, and the total norm.
Keeps true: parameters without a gradient are left out; the norm is that of all gradients as one
vector.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import facula
from facula import core
from facula.autograd.grad_mode import no_grad
from facula.core.errors import fail
from facula.ops.layers import optimizer_kernels

__all__ = ["clip_grad_norm", "clip_grad_norm_", "clip_grad_value_"]


def _as_list(parameters: Any, op: str) -> list[Any]:
    if isinstance(parameters, core.Tensor):
        return [parameters]
    if hasattr(parameters, "__next__"):
        parameters = list(parameters)
        if not parameters:
            warnings.warn(
                "`parameters` is an empty generator, no gradient clipping will occur.",
                stacklevel=3,
            )
    return list(parameters)


_FLOATING = (core.float32, core.float64, core.bfloat16, core.float16)


def _one_launch(tensors: list[Any]) -> bool:
    """Whether one kernel may take all tensors together."""
    return all(
        type(t) is core.Tensor
        and t.dtype in _FLOATING
        and t.device.type == "cpu"
        and t.is_contiguous()
        and not t.requires_grad
        for t in tensors
    )


def get_total_norm(
    tensors: Any,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Any:
    """The norm of several tensors as one vector.

    Args:
        tensors: an iterable of tensors, or one
        norm_type: the p of the norm, ``inf`` for the largest element
        error_if_nonfinite: whether an infinite or undefined norm is an error
        foreach: kept as in PyTorch

    Example:
        >>> facula.nn.utils.get_total_norm([facula.tensor([3.0]), facula.tensor([4.0])])
        tensor(5.)
    """
    tensors = [tensors] if isinstance(tensors, core.Tensor) else list(tensors)
    norm_type = float(norm_type)
    if not tensors:
        return facula.tensor(0.0)
    with no_grad() if not any(t.requires_grad for t in tensors) else _nothing():
        device = tensors[0].device
        if foreach is not False and _one_launch(tensors):
            norms = optimizer_kernels.foreach_norm(tensors, norm_type)
        else:
            norms = [facula.linalg.vector_norm(t, norm_type) for t in tensors]
        total = facula.linalg.vector_norm(facula.stack([n.to(device) for n in norms]), norm_type)
    if error_if_nonfinite and bool(facula.logical_or(total.isnan(), total.isinf())):
        fail(
            RuntimeError,
            "clip_grad_norm_",
            f"a finite total norm of order {norm_type} for the gradients",
            got="a non-finite one, so it cannot be clipped",
            hint="set error_if_nonfinite=False to scale the gradients by the non-finite norm "
            "anyway",
        )
    return total


class _nothing:
    def __enter__(self) -> None:
        return None

    def __exit__(self, *exc_info: object) -> None:
        return None


def clip_grads_with_norm_(
    parameters: object, max_norm: float, total_norm: core.Tensor, foreach: bool | None = None
) -> None:
    """Scales gradients by ``max_norm / (total_norm + 1e-6)`` where that is less than one, in place.

    The second half of `clip_grad_norm_`, for a norm that was put together elsewhere.

    Args:
        parameters: an iterable of tensors, or one
        max_norm: the largest norm
        total_norm: the norm as it is, a tensor
        foreach: kept as in PyTorch

    Example:
        >>> w = facula.nn.Parameter(facula.zeros(2))
        >>> w.grad = facula.tensor([3.0, 4.0])
        >>> facula.nn.utils.clip_grads_with_norm_(w, 2.5, facula.tensor(5.0))
        >>> w.grad
        tensor([1.5000, 2.0000])
    """
    parameters = _as_list(parameters, "clip_grads_with_norm_")
    grads = [p.grad for p in parameters if p.grad is not None]
    if not grads:
        return
    with no_grad():
        # multiplied always, so that nothing waits for the value
        factor = facula.clamp(float(max_norm) / (total_norm + 1e-6), max=1.0)
        if foreach is not False and _one_launch(grads) and factor.device == grads[0].device:
            optimizer_kernels.scale_tensors(grads, factor)
        else:
            for grad in grads:
                grad.mul_(factor.to(grad.device))


def clip_grad_norm_(
    parameters: object,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Any:
    """Scales gradients, in place, so that their total norm is at most ``max_norm``. [Pascanu, Mikolov
    & Bengio 2013]

    The norm is that of all gradients as one vector; parameters without a gradient are left out.

    Args:
        parameters: an iterable of tensors, or one
        max_norm: the largest norm
        norm_type: the p of the norm, ``inf`` for the largest element
        error_if_nonfinite: whether an infinite or undefined norm is an error
        foreach: kept as in PyTorch

    Returns:
        the norm before, a tensor of one element.

    Raises:
        RuntimeError: the norm is not finite, with ``error_if_nonfinite``.

    Example:
        >>> w = facula.nn.Parameter(facula.zeros(2))
        >>> w.grad = facula.tensor([3.0, 4.0])
        >>> facula.nn.utils.clip_grad_norm_(w, max_norm=1.0), w.grad
        (tensor(5.), tensor([0.6000, 0.8000]))
    """
    parameters = _as_list(parameters, "clip_grad_norm_")
    grads = [p.grad for p in parameters if p.grad is not None]
    total = get_total_norm(grads, norm_type, error_if_nonfinite, foreach)
    clip_grads_with_norm_(parameters, max_norm, total, foreach)
    return total


def clip_grad_norm(
    parameters: Iterable[Any],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Any:
    """Scales gradients, in place, so that their total norm is at most ``max_norm``. [Pascanu, Mikolov
    & Bengio 2013] `clip_grad_norm_` under its older name; it warns.

    The norm is that of all gradients as one vector; parameters without a gradient are left out.

    Args:
        parameters: an iterable of tensors, or one
        max_norm: the largest norm
        norm_type: the p of the norm, ``inf`` for the largest element
        error_if_nonfinite: whether an infinite or undefined norm is an error
        foreach: kept as in PyTorch

    Returns:
        the norm before, a tensor of one element.

    Raises:
        RuntimeError: the norm is not finite, with ``error_if_nonfinite``.

    Example:
        >>> w = facula.nn.Parameter(facula.zeros(2))
        >>> w.grad = facula.tensor([3.0, 4.0])
        >>> facula.nn.utils.clip_grad_norm_(w, max_norm=1.0), w.grad
        (tensor(5.), tensor([0.6000, 0.8000]))
    """
    warnings.warn(
        "`clip_grad_norm` is deprecated: use `clip_grad_norm_`", FutureWarning, stacklevel=2
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def clip_grad_value_(
    parameters: core.Tensor, clip_value: float, foreach: bool | None = None
) -> None:
    """Clamps every element of gradients to [-clip_value, clip_value], in place.

    Args:
        parameters: an iterable of tensors, or one
        clip_value: the bound
        foreach: kept as in PyTorch

    Example:
        >>> w = facula.nn.Parameter(facula.zeros(2))
        >>> w.grad = facula.tensor([0.5, -4.0])
        >>> facula.nn.utils.clip_grad_value_(w, 1.0)
        >>> w.grad
        tensor([ 0.5000, -1.0000])
    """
    limit = float(clip_value)
    with no_grad():
        for parameter in _as_list(parameters, "clip_grad_value_"):
            if parameter.grad is not None:
                parameter.grad.clamp_(min=-limit, max=limit)


#: names under which PyTorch had them while they were private
_get_total_norm = get_total_norm
_clip_grads_with_norm_ = clip_grads_with_norm_
