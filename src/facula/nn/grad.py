"""Gradients of convolutions, written out: with respect to the input and to the weight.

Takes the gradient of the output and the other argument. Gives what autograd would.
Keeps true: they are computed by differentiating the convolution, so that both agree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import facula
from facula import core
from facula.nn import functional as F

__all__ = [f"conv{n}d_{what}" for n in (1, 2, 3) for what in ("input", "weight")]


def _gradient(
    convolution: Callable[..., Any],
    input: core.Tensor,
    weight: core.Tensor,
    grad: core.Tensor,
    which: int,
    options: Any,
) -> Any:
    arguments = [input.detach(), weight.detach()]
    arguments[which].requires_grad_()
    with facula.enable_grad():
        output = convolution(*arguments, None, *options)
    return facula.autograd.grad(output, arguments[which], grad)[0]


def _make_input(space: int) -> Callable[..., Any]:
    convolution = getattr(F, f"conv{space}d")

    def function(
        input_size: Any,
        weight: core.Tensor,
        grad_output: core.Tensor,
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
    ) -> Any:
        input = grad_output.new_zeros(1).expand(tuple(input_size))
        options = (stride, padding, dilation, groups)
        return _gradient(convolution, input, weight, grad_output, 0, options)

    function.__name__ = f"conv{space}d_input"
    function.__doc__ = f"The gradient of `conv{space}d` with respect to its input."
    return function


def _make_weight(space: int) -> Callable[..., Any]:
    convolution = getattr(F, f"conv{space}d")

    def function(
        input: core.Tensor,
        weight_size: Any,
        grad_output: core.Tensor,
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
    ) -> Any:
        weight = grad_output.new_zeros(1).expand(tuple(weight_size))
        options = (stride, padding, dilation, groups)
        return _gradient(convolution, input, weight, grad_output, 1, options)

    function.__name__ = f"conv{space}d_weight"
    function.__doc__ = f"The gradient of `conv{space}d` with respect to its weight."
    return function


conv1d_input, conv2d_input, conv3d_input = (_make_input(n) for n in (1, 2, 3))
conv1d_weight, conv2d_weight, conv3d_weight = (_make_weight(n) for n in (1, 2, 3))
