"""Linear layers.

Takes inputs of shape ``[..., in_features]``.  Gives ``[..., out_features]``.
Keeps true: weights are ``[out_features, in_features]``, initialised uniformly in ``1 /
sqrt(in_features)``.
"""

from __future__ import annotations

import math
from typing import Any

import facula
from facula import core
from facula.autograd.grad_mode import no_grad
from facula.core.errors import fail
from facula.nn import functional as F
from facula.nn import init
from facula.nn.modules.lazy import LazyModuleMixin
from facula.nn.modules.module import Module
from facula.nn.parameter import Parameter, UninitializedParameter

__all__ = ["Bilinear", "Identity", "LazyLinear", "Linear"]


class Identity(Module):
    """Gives its input; takes and ignores any arguments of construction.

    Args:
        *args, **kwargs: ignored

    Shape:
        any, and the output is the input itself.

    Example:
        >>> facula.nn.Identity(54, unused=0.1)(facula.tensor([1.0, 2.0]))
        tensor([1., 2.])
    """

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__()

    def forward(self, input: core.Tensor) -> Any:
        """The input."""
        return input


class Linear(Module):
    """``x @ weight.T + bias``, a matrix product over the last dimension.

    ``weight`` is ``[out_features, in_features]`` and ``bias`` ``[out_features]``; both start
    uniform in ``[-b, b]`` with ``b = 1 / sqrt(in_features)``.

    Args:
        in_features: size of the last dimension of inputs
        out_features: size of the last dimension of outputs
        bias: whether something is added; False sets ``bias`` to None
        device, dtype: of the parameters

    Shape:
        ``[*, in_features]`` to ``[*, out_features]``; any leading dimensions, none included.

    Raises:
        RuntimeError: at the call, where shapes or dtypes of input and weight do not fit.

    Example:
        >>> layer = facula.nn.Linear(20, 30)
        >>> layer(facula.randn(128, 20)).shape
        facula.Size([128, 30])
        >>> layer
        Linear(in_features=20, out_features=30, bias=True)
    """

    __constants__ = ["in_features", "out_features"]
    in_features: int
    out_features: int
    weight: Any

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: core.device | str | int | None = None,
        dtype: core.dtype | None = None,
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = Parameter(
            facula.empty((out_features, in_features), device=device, dtype=dtype)
        )
        if bias:
            self.bias = Parameter(facula.empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new weights."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            bound = 1 / math.sqrt(fan_in) if fan_in > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: core.Tensor) -> Any:
        """``[..., in_features]`` to ``[..., out_features]``."""
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        """The sizes."""
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )


class NonDynamicallyQuantizableLinear(Linear):
    """A linear layer that dynamic quantization leaves alone: attention reads its weight directly."""


class Bilinear(Module):
    """``x1 @ weight[k] @ x2 + bias[k]`` for every output k.

    ``weight`` is ``[out_features, in1_features, in2_features]``; it and ``bias`` start uniform in
    ``[-b, b]`` with ``b = 1 / sqrt(in1_features)``.

    Args:
        in1_features, in2_features: sizes of the last dimensions of the two inputs
        out_features: size of the last dimension of the output
        bias: whether something is added
        device, dtype: of the parameters

    Shape:
        ``[*, in1_features]`` and ``[*, in2_features]`` with the same leading dimensions to ``[*,
        out_features]``.

    Example:
        >>> facula.nn.Bilinear(2, 3, 4)(facula.randn(5, 2), facula.randn(5, 3)).shape
        facula.Size([5, 4])
    """

    __constants__ = ["in1_features", "in2_features", "out_features"]

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: core.device | str | int | None = None,
        dtype: core.dtype | None = None,
    ) -> None:
        super().__init__()
        if in1_features <= 0:
            fail(
                ValueError,
                "Bilinear",
                f"in1_features must be > 0, but got {in1_features}",
                hint="size(-1) of the first input",
            )
        self.in1_features = in1_features
        self.in2_features = in2_features
        self.out_features = out_features
        shape = (out_features, in1_features, in2_features)
        self.weight = Parameter(facula.empty(shape, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(facula.empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new weights."""
        bound = 1 / math.sqrt(self.weight.size(1))
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Any, input2: Any) -> Any:
        """``[..., in1_features]`` and ``[..., in2_features]`` to ``[..., out_features]``."""
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        """The sizes."""
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )


class LazyLinear(LazyModuleMixin, Linear):
    """`Linear` that reads ``in_features`` off its first input.

    Until then ``weight`` and ``bias`` are `UninitializedParameter`; after the first call the layer
    is an ordinary `Linear`. Make the optimizer after that call.

    Args:
        out_features: size of the last dimension of outputs
        bias: whether something is added
        device, dtype: of the parameters

    Example:
        >>> layer = facula.nn.LazyLinear(3)
        >>> layer(facula.ones(2, 5)).shape
        facula.Size([2, 3])
        >>> layer
        Linear(in_features=5, out_features=3, bias=True)
    """

    cls_to_become = Linear
    weight: Any
    bias: Any

    def __init__(
        self,
        out_features: int,
        bias: bool = True,
        device: core.device | str | int | None = None,
        dtype: core.dtype | None = None,
    ) -> None:
        # no bias at first, so that nothing of size zero is initialised
        super().__init__(0, 0, False)
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_features = out_features
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draw new weights once there are any."""
        if not self.has_uninitialized_params() and self.in_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: core.Tensor) -> None:
        """Make the weights for ``input``."""
        if self.has_uninitialized_params():
            with no_grad():
                self.in_features = input.shape[-1]
                self.weight.materialize((self.out_features, self.in_features))
                if self.bias is not None:
                    self.bias.materialize((self.out_features,))
                self.reset_parameters()
        if self.in_features == 0:
            if input.shape[-1] != self.weight.shape[-1]:
                fail(
                    AssertionError,
                    "LazyLinear",
                    (
                        f"The in_features inferred from input: {input.shape[-1]} is not equal to "
                        f"in_features from self.weight: {self.weight.shape[-1]}"
                    ),
                    hint="size(-1) of all inputs must be that of the first",
                )
            self.in_features = input.shape[-1]
