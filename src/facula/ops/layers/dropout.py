"""Dropout: of elements, of channels, and with SELU's mean and variance kept.

Takes tensors, a probability, and whether a model is in training. Gives `x * noise`, by which gradients
pass. Keeps true: one draw a call, from `random.draw`; outside of training nothing is drawn.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.random.draws import draw, drawn_for
from facula.ops.table.registry import F, composite


def _check_probability(op: str, p: float) -> None:
    if not 0.0 <= p <= 1.0:
        fail(
            ValueError,
            op,
            "dropout probability has to be between 0 and 1",
            p,
            hint="p is the share of elements to drop: 0.1 drops a tenth of them",
        )


def _keep_noise(shape: Any, self: core.Tensor, p: float) -> Any:
    """1 with probability 1 - p, else 0, in the dtype of `self` (its real dtype for complex)."""
    dtype = self.dtype.to_real() if self.dtype.is_complex else self.dtype
    if shape == self.shape and dtype is self.dtype:
        return drawn_for(self, "bernoulli", 1.0 - p, 1.0, None)
    return draw(core.empty(shape, dtype=dtype, device=self.device), "bernoulli", 1.0 - p)


def _dropped(self: core.Tensor, shape: Sequence[int], p: float) -> Any:
    if p == 1.0:
        return self * F.zeros((), dtype=self.dtype, device=self.device)
    return self * _keep_noise(shape, self, p).div_(1.0 - p)


def _into(self: core.Tensor, result: core.Tensor, inplace: bool) -> Any:
    return self.copy_(result) if inplace else result


@composite(
    "dropout(Tensor input, float p=0.5, bool training=True, bool inplace=False) -> Tensor",
    file_arguments={"training": "train"},
    file_keeps=("p", "training"),
    names=("nn.functional.dropout",),
    out=False,
    elementwise=True,
    quantized="same range",
    quantizers={"fx": "own", "script": "shared"},
)
def dropout(input, p, training, inplace):
    """In training, zero each element with probability `p` and scale the others by 1 / (1 - p).
    [Srivastava 2014]

    Example:
        >>> _ = facula.manual_seed(0)
        >>> kept = facula.nn.functional.dropout(facula.ones(1000), p=0.5)
        >>> kept.unique()
        tensor([0., 2.])
    """
    _check_probability("dropout", p)
    if not training or p == 0 or input.numel() == 0:
        return input
    return _into(input, _dropped(input, input.shape, p), inplace)


@composite(
    "dropout_flag(Tensor input, float p, bool train) -> Tensor", names=("dropout",), out=False
)
def dropout_flag(input, p, train):
    """`nn.functional.dropout` with every argument given."""
    return F.dropout(input, p, train)


@composite("dropout_(Tensor input, float p, bool train) -> Tensor", names=("dropout_",), out=False)
def dropout_(input, p, train):
    """`nn.functional.dropout` in place."""
    return F.dropout(input, p, train, True)


@composite(
    "native_dropout(Tensor input, float p, bool? train=None) -> (Tensor, Tensor)",
    names=("native_dropout",),
    out=False,
)
def native_dropout(input, p, train):
    """Dropout together with its mask."""
    if input.numel() == 0:
        return input.clone(), F.empty_like(input)
    if train is False:
        return input.clone(), F.ones_like(input, dtype=core.bool_)
    keep = _keep_noise(input.shape, input, p)
    scale = 0.0 if p == 1 else 1.0 / (1.0 - p)
    return input * (keep * scale), keep.to(core.bool_)


def _feature_shape(input: core.Tensor) -> tuple[int, ...]:
    if input.dim() < 2:
        fail(
            RuntimeError,
            "feature_dropout",
            "Feature dropout requires at least 2 dimensions in the input",
            input.dim(),
            hint="the shape is read as [N, C, ...]: unsqueeze() adds what is missing",
        )
    return (*input.shape[:2], *(1,) * (input.dim() - 2))


@composite(
    "feature_dropout(Tensor input, float p, bool train) -> Tensor",
    names=("feature_dropout",),
    out=False,
    quantized="same range",
)
def feature_dropout(input, p, train):
    """Dropout of whole channels of [N, C, *]."""
    _check_probability("feature_dropout", p)
    if not train or p == 0 or input.numel() == 0:
        return input
    return _dropped(input, _feature_shape(input), p)


def _check_channels(name: str, dims: int, space: int) -> None:
    """Raise or warn where the dimensions are none of [C, *] and [N, C, *]."""
    if dims in (space + 1, space + 2) and name != "dropout2d":
        return
    if space == 1:
        fail(
            RuntimeError,
            name,
            "Expected 2D or 3D input: [C, L] or [N, C, L] was required",
            f"{dims}D (Expected 2D or 3D input, but received a {dims}D input)",
            hint="dropout() takes any shape",
        )
    if dims == space + 2:
        return
    core.unkept()  # each call warns
    if dims == 3 and space == 2:
        text = (
            "Received a 3D input and assuming that channel-wise 1D dropout behavior is desired: it is "
            "read as [N, C, L]. dropout1d() takes such inputs"
        )
    else:
        text = (
            f"Received a {dims}-D input to {name}, which is deprecated and will result in an error in a future "
            "release: use dropout() for other than channels"
        )
    warnings.warn(f"{name}: {text}", stacklevel=4)


def _define_dropout(space: int) -> None:
    name = f"dropout{space}d"

    def channels(input: core.Tensor, p: float, training: bool, inplace: bool) -> Any:
        _check_probability(name, p)
        _check_channels(name, input.dim(), space)
        if not training or p == 0 or input.numel() == 0:
            return input
        # three dimensions of dropout2d are read as [N, C, L]
        batched = input.dim() == space + 2 or space == 2
        x = input if batched else input.unsqueeze(0)
        result = _dropped(x, _feature_shape(x), p)
        return _into(input, result if batched else result.squeeze(0), inplace)

    channels.__doc__ = f"Dropout of whole channels of [N, C, *] with {space} spatial dimension(s)."
    composite(
        f"{name}(Tensor input, float p=0.5, bool training=True, bool inplace=False) -> Tensor",
        names=(f"nn.functional.{name}",),
        file_form="dropped_channels" if space == 2 else f"dropped_channels_{space}d",
        out=False,
    )(channels)


for _space in (1, 2, 3):
    _define_dropout(_space)

#: a SELU unit saturates at minus this: scale * alpha
SATURATION = 1.7580993408473766


def _alpha_dropped(self: Any, shape: Sequence[int], p: float) -> Any:
    """Set to the saturation value instead of 0, then restore mean and variance. [Klambauer 2017]"""
    if p == 1.0:
        return self * F.zeros((), dtype=self.dtype, device=self.device)
    keep = _keep_noise(shape, self, p)
    a = 1.0 / math.sqrt((SATURATION * SATURATION * p + 1.0) * (1.0 - p))
    offset = (keep - 1.0) * (SATURATION * a) + SATURATION * a * p
    return self * (keep * a) + offset


@composite(
    "alpha_dropout(Tensor input, float p=0.5, bool training=False, bool inplace=False) -> Tensor",
    file_arguments={"training": "train"},
    file_keeps=("p", "training"),
    names=("nn.functional.alpha_dropout", "alpha_dropout"),
    out=False,
    elementwise=True,
    quantized="same range",
)
def alpha_dropout(input, p, training, inplace):
    """Dropout that keeps the mean and variance of SELU activations. [Klambauer 2017]"""
    _check_probability("alpha_dropout", p)
    if not training or p == 0 or input.numel() == 0:
        return input
    return _into(input, _alpha_dropped(input, input.shape, p), inplace)


@composite(
    "feature_alpha_dropout(Tensor input, float p=0.5, bool training=False, bool inplace=False) -> "
    "Tensor",
    names=("nn.functional.feature_alpha_dropout", "feature_alpha_dropout"),
    out=False,
    file_arguments={"training": "train"},
    file_keeps=("p", "training"),
)
def feature_alpha_dropout(input, p, training, inplace):
    """`alpha_dropout` of whole channels of [N, C, *]."""
    _check_probability("feature_alpha_dropout", p)
    if not training or p == 0 or input.numel() == 0:
        return input
    return _into(input, _alpha_dropped(input, _feature_shape(input), p), inplace)
