"""What optimizers outside of facula take from `optim.optimizer` besides the base class.

Takes: parameters, steps, settings. Gives: the choice of a form, numbers of steps, texts for documentation.
Keeps true: facula's own optimizers do without; the module is loaded when somebody asks for one of the names.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import facula
from facula import core
from facula.optim.tensor_groups import (
    _get_foreach_kernels_supported_devices as _get_foreach_kernels_supported_devices,
)
from facula.optim.tensor_groups import (
    _get_fused_kernels_supported_devices as _get_fused_kernels_supported_devices,
)

_params_doc = (
    "params (iterable): parameters, named parameters or dictionaries of groups of parameters"
)
_foreach_doc = (
    "foreach (bool, optional): whether lists of tensors are updated together (default: None)"
)
_fused_doc = "fused (bool, optional): whether a step is one launch (default: None)"
_capturable_doc = "capturable (bool, optional): whether steps may be captured in a graph of a device (default: False)"
_differentiable_doc = (
    "differentiable (bool, optional): whether gradients go through a step (default: False)"
)
_maximize_doc = "maximize (bool, optional): whether the objective is made larger (default: False)"


def _use_grad_for_differentiable(function: Callable[..., Any]) -> Callable[..., Any]:
    """A step that is recorded if the optimizer is differentiable, and not recorded otherwise."""

    @functools.wraps(function)
    def step(self: Any, *args: Any, **kwargs: Any) -> Any:
        before = core.is_grad_enabled()
        try:
            core.set_grad_enabled(self.defaults["differentiable"])
            return function(self, *args, **kwargs)
        finally:
            core.set_grad_enabled(before)

    return step


def _get_value(x: Any) -> Any:
    """A number, of a tensor its element."""
    return x.item() if isinstance(x, core.Tensor) else x


def _stack_if_compiling(x: Any) -> Any:
    """The list itself: lists of tensors go through captured code as they are."""
    return x


def _dispatch_sqrt(x: Any) -> Any:
    """The square root of a number or a tensor."""
    return x.sqrt() if isinstance(x, core.Tensor) else x**0.5


def _to_scalar(x: Any) -> Any:
    """A tensor of one element without dimensions; anything else as it is."""
    return x.squeeze() if isinstance(x, core.Tensor) and x.dim() else x


def _get_scalar_dtype(is_fused: bool | None = None) -> core.dtype:
    """The dtype in which an optimizer counts its steps."""
    if is_fused:
        return core.float32
    return core.float64 if facula.get_default_dtype() == core.float64 else core.float32


def _view_as_real(params: list[core.Tensor], *state_and_grads: list[Any]) -> None:
    """Replaces complex parameters, and what belongs to them, by views with real and imaginary parts."""
    for number, parameter in enumerate(params):
        if parameter.is_complex():
            params[number] = facula.view_as_real(parameter)
            for given in state_and_grads:
                given[number] = facula.view_as_real(given[number])


def _get_capturable_supported_devices(supports_xla: bool = True) -> list[str]:
    """Devices whose steps may be captured in a graph."""
    return ["cuda", "xpu", "hpu", *(["xla"] if supports_xla else [])]


def _default_to_fused_or_foreach(
    params: Sequence[core.Tensor | None], differentiable: bool, use_fused: bool = False
) -> tuple[bool, bool]:
    """(fused, foreach) where the user says neither: lists for plain tensors on an accelerator."""
    if differentiable:
        return False, False

    def all_on(devices: list[str]) -> bool:
        return all(
            p is None
            or (type(p) in (core.Tensor, facula.nn.Parameter) and p.device.type in devices)
            for p in params
        )

    floats = all(p is None or p.is_floating_point() for p in params)
    fused = use_fused and floats and all_on(_get_fused_kernels_supported_devices())
    accelerators = [d for d in _get_foreach_kernels_supported_devices() if d != "cpu"]
    return fused, not fused and all_on(accelerators)


def _disable_dynamo_if_unsupported(
    single_tensor_fn: Callable[..., Any] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator of functions that do a step: they are compiled as they are."""
    return lambda function: function
