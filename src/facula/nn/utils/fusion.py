"""Folding batch normalization into the layer before it.

Takes layers in evaluation mode.  Gives one layer with the same output.
Keeps true: the given layers are not changed.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any

import facula
from facula import core
from facula.core.errors import fail
from facula.nn.parameter import Parameter

__all__ = [
    "fuse_conv_bn_eval",
    "fuse_conv_bn_weights",
    "fuse_linear_bn_eval",
    "fuse_linear_bn_weights",
]


def _require_eval(op: str, layer: Any, bn: Any) -> None:
    if layer.training or bn.training:
        fail(
            AssertionError,
            op,
            "both layers in evaluation mode",
            got="training mode",
            hint="call eval() on both first",
        )
    if bn.running_mean is None or bn.running_var is None:
        fail(
            AssertionError,
            op,
            "a norm with running statistics",
            got="none",
            hint="make it with track_running_stats=True",
        )


def _fused(
    weight: core.Tensor,
    bias: core.Tensor | None,
    mean: core.Tensor,
    var: core.Tensor,
    eps: float,
    scale: Parameter,
    shift: Parameter,
    dim: int,
) -> tuple[Parameter, Parameter]:
    """Weight and bias that include the norm; ``dim`` is the weight's output dimension."""
    dtype, bias_dtype = weight.dtype, weight.dtype if bias is None else bias.dtype
    bias = facula.zeros_like(mean) if bias is None else bias
    factor = facula.rsqrt(var + eps)
    if scale is not None:
        factor = factor * scale
    shape = [1] * weight.dim()
    shape[dim] = -1
    new_bias = (bias - mean) * factor
    if shift is not None:
        new_bias = new_bias + shift
    new_weight = (weight * factor.reshape(shape)).to(dtype)
    return (
        Parameter(new_weight, weight.requires_grad),
        Parameter(new_bias.to(bias_dtype), bias.requires_grad),
    )


def fuse_conv_bn_weights(
    conv_w: Any,
    conv_b: Any,
    bn_rm: Any,
    bn_rv: Any,
    bn_eps: float,
    bn_w: Any,
    bn_b: Any,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """Weight and bias of a convolution with a batch normalization behind it folded in.

    Args:
        conv_w, conv_b: weight and bias of the layer; None for no bias
        bn_rm, bn_rv: running mean and variance
        bn_eps: what is added to the variance
        bn_w, bn_b: weight and bias of the normalization; None for 1 and 0
        transpose: whether the convolution is a transposed one

    Returns:
        two parameters.

    Example:
        >>> one = facula.ones(1)
        >>> weight, bias = facula.nn.utils.fuse_conv_bn_weights(facula.ones(1, 1, 1), None, one, 4 * one, 0.0, one, one)
        >>> weight.flatten().tolist(), bias.tolist()
        ([0.5], [0.5])
    """
    return _fused(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, 1 if transpose else 0)


def _with_norm(layer: Any, bn: Any, fuse: Callable[..., tuple[Any, Any]]) -> Any:
    """A copy of a layer with the scale and shift of a norm in its weight and bias."""
    fused = copy.deepcopy(layer)
    fused.weight, fused.bias = fuse(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    )
    return fused


def fuse_conv_bn_eval(conv: object, bn: object, transpose: bool = False) -> Any:
    """One layer that does what a convolution and a batch normalization behind it do in evaluation.

    Args:
        conv: the layer, in evaluation mode
        bn: the normalization, in evaluation mode, with running statistics
        transpose: whether the convolution is a transposed one

    Returns:
        a copy of the layer with other weight and bias.

    Raises:
        AssertionError: one of them is in training mode.

    Example:
        >>> layer, norm = facula.nn.Conv1d(2, 3, 2).eval(), facula.nn.BatchNorm1d(3).eval()
        >>> fused = facula.nn.utils.fuse_conv_bn_eval(layer, norm)
        >>> x = facula.randn(1, 2, 5)
        >>> facula.allclose(fused(x), norm(layer(x)), atol=1e-6)
        True
    """
    _require_eval("fuse_conv_bn_eval", conv, bn)
    return _with_norm(conv, bn, functools.partial(fuse_conv_bn_weights, transpose=transpose))


def fuse_linear_bn_weights(
    linear_w: Any, linear_b: Any, bn_rm: Any, bn_rv: Any, bn_eps: float, bn_w: Any, bn_b: Any
) -> tuple[Parameter, Parameter]:
    """Weight and bias of a linear layer with a batch normalization behind it folded in.

    Args:
        linear_w, linear_b: weight and bias of the layer; None for no bias
        bn_rm, bn_rv: running mean and variance
        bn_eps: what is added to the variance
        bn_w, bn_b: weight and bias of the normalization; tensors

    Returns:
        two parameters.

    Example:
        >>> one = facula.ones(1)
        >>> weight, bias = facula.nn.utils.fuse_linear_bn_weights(facula.ones(1, 1), None, one, 4 * one, 0.0, one, one)
        >>> weight.flatten().tolist(), bias.tolist()
        ([0.5], [0.5])
    """
    return _fused(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, 0)


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """One layer that does what a linear layer and a batch normalization behind it do in evaluation.

    Args:
        linear: the layer, in evaluation mode
        bn: the normalization, in evaluation mode, with running statistics

    Returns:
        a copy of the layer with other weight and bias.

    Raises:
        AssertionError: one of them is in training mode.

    Example:
        >>> layer, norm = facula.nn.Linear(2, 3).eval(), facula.nn.BatchNorm1d(3).eval()
        >>> fused = facula.nn.utils.fuse_linear_bn_eval(layer, norm)
        >>> x = facula.randn(4, 2)
        >>> facula.allclose(fused(x), norm(layer(x)), atol=1e-6)
        True
    """
    op = "fuse_linear_bn_eval"
    _require_eval(op, linear, bn)
    if linear.out_features != bn.num_features and bn.num_features != 1:
        fail(
            AssertionError,
            op,
            f"a norm over {linear.out_features} features, or 1",
            got=bn.num_features,
            hint=f"make the norm with {linear.out_features} features",
        )
    return _with_norm(linear, bn, fuse_linear_bn_weights)
