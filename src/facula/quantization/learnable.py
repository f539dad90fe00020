"""Fake quantization whose scale and zero point are trained: `_LearnableFakeQuantize`.

Takes: tensors, an observer, whether its choice or what was trained counts. Gives: the nearest levels, with
gradients of scale and zero point. Keeps true: the scale is never below the least step of float32; zero points
stay within the range of integers.
"""

from __future__ import annotations

from typing import Any

import facula.nn as nn
from facula import core
from facula.core.errors import fail
from facula.ops.table.registry import F
from facula.quantization import fake
from facula.quantization.fake_quantize import FakeQuantizeBase, _is_per_channel
from facula.quantization.tensor import per_channel_symmetric, per_tensor_symmetric

_EPS = 2.0**-23


class _LearnableFakeQuantize(FakeQuantizeBase):
    """Replaces numbers by levels, of which scale and zero point are parameters.

    `enable_static_estimate`, as it begins, lets the observer choose; `enable_param_learning` the optimizer."""

    static_enabled: Any
    learning_enabled: Any
    eps: Any

    def __init__(
        self, observer: Any, quant_min: int = 0, quant_max: int = 255, scale: float = 1.0,
        zero_point: float = 0.0, channel_len: int = -1, use_grad_scaling: bool = False,
        **observer_kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__()
        fake._check_range("_LearnableFakeQuantize", quant_min, quant_max)
        self.quant_min, self.quant_max = quant_min, quant_max
        self.use_grad_scaling = use_grad_scaling
        observer_kwargs.update(quant_min=quant_min, quant_max=quant_max)
        if channel_len != -1 and (not isinstance(channel_len, int) or channel_len <= 0):
            fail(AssertionError, "_LearnableFakeQuantize", "Channel size must be a positive integer.",
                 channel_len, hint="-1 stands for one scale")  # fmt: skip
        count = 1 if channel_len == -1 else channel_len
        self.scale = nn.Parameter(F.full((count,), float(scale)))
        self.zero_point = nn.Parameter(F.full((count,), float(zero_point)))
        self.activation_post_process = observer(**observer_kwargs)
        seen = self.activation_post_process
        if not (-(2**31) <= quant_min and quant_max <= 2**31 - 1):
            fail(AssertionError, "_LearnableFakeQuantize", "a range of 32 bits was required",
                 (quant_min, quant_max), hint="0 to 255, or -128 to 127")  # fmt: skip
        self.dtype, self.qscheme = seen.dtype, seen.qscheme
        self.ch_axis = getattr(seen, "ch_axis", -1)
        self.register_buffer("static_enabled", core.tensor([1], dtype=core.uint8))
        self.register_buffer("learning_enabled", core.tensor([0], dtype=core.uint8))
        self.bitwidth = (quant_max - quant_min).bit_length()
        self.register_buffer("eps", core.tensor([_EPS]))

    def enable_param_learning(self) -> Any:
        """Train scale and zero point; the observer looks no more."""
        self.toggle_qparam_learning(True).toggle_fake_quant(True).toggle_observer_update(False)
        return self

    def enable_static_estimate(self) -> None:
        """Let the observer choose."""
        self.toggle_qparam_learning(False).toggle_fake_quant(True).toggle_observer_update(True)

    def enable_static_observation(self) -> None:
        """Look at numbers, and leave them as they are."""
        self.toggle_qparam_learning(False).toggle_fake_quant(False).toggle_observer_update(True)

    def toggle_observer_update(self, enabled: bool = True) -> Any:
        """Whether the observer looks."""
        self.static_enabled[0] = int(enabled)
        return self

    def enable_observer(self, enabled: bool = True) -> None:
        """Whether the observer looks."""
        self.toggle_observer_update(enabled)

    def toggle_qparam_learning(self, enabled: bool = True) -> Any:
        """Whether scale and zero point are trained."""
        self.learning_enabled[0] = int(enabled)
        self.scale.requires_grad = enabled
        self.zero_point.requires_grad = enabled
        return self

    def toggle_fake_quant(self, enabled: bool = True) -> Any:
        """Replace numbers, or leave them."""
        self.fake_quant_enabled[0] = int(enabled)
        return self

    def observe_quant_params(self) -> None:
        """Print scale and zero point."""
        print(f"_LearnableFakeQuantize Scale: {self.scale.detach()}")
        print(f"_LearnableFakeQuantize Zero Point: {self.zero_point.detach()}")

    def calculate_qparams(self) -> tuple[Any, Any]:
        """The scale and the zero point, as integers can have them."""
        self.scale.data.clamp_(min=_EPS)
        zero = self.zero_point.detach().round().clamp(self.quant_min, self.quant_max)
        return self.scale.detach(), zero.to(core.int64)

    def forward(self, X: core.Tensor) -> Any:  # noqa: N803 - PyTorch's name
        """The tensor, or the nearest levels."""
        if int(self.static_enabled[0]) == 1:
            seen = self.activation_post_process
            seen(X.detach())
            scale, zero = seen.calculate_qparams()
            self.scale.data.copy_(scale)
            self.zero_point.data.copy_(zero)
        else:
            self.scale.data.clamp_(min=_EPS)
        if int(self.fake_quant_enabled[0]) != 1:
            return X
        if self.qscheme in (per_tensor_symmetric, per_channel_symmetric):
            self.zero_point.data.zero_()
        share = 1.0
        limits = (self.quant_min, self.quant_max)
        if _is_per_channel(self.qscheme):
            if self.use_grad_scaling:
                share = 1.0 / (X.numel() / X.shape[self.ch_axis] * self.quant_max) ** 0.5
            return fake._fake_quantize_learnable_per_channel_affine(
                X, self.scale, self.zero_point, self.ch_axis, *limits, share
            )
        if self.use_grad_scaling:
            share = 1.0 / (X.numel() * self.quant_max) ** 0.5
        return fake._fake_quantize_learnable_per_tensor_affine(
            X, self.scale, self.zero_point, *limits, share
        )
