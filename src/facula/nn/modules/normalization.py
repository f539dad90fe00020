"""Normalization over features or groups of channels, and local response normalization.

Takes a tensor.  Gives it normalised, in the same shape.
Keeps true: weights start at 1 and biases at 0, so that a fresh layer only normalises.
"""

from __future__ import annotations

import numbers
from typing import Any

import facula
from facula import core
from facula.core.errors import fail
from facula.nn import functional as F
from facula.nn import init
from facula.nn.modules.module import Module
from facula.nn.parameter import Parameter

__all__ = ["CrossMapLRN2d", "GroupNorm", "LayerNorm", "LocalResponseNorm", "RMSNorm"]


class LocalResponseNorm(Module):
    """Divides each element by a power of the squares of ``size`` neighbouring channels. [Krizhevsky et
    al. 2012]

    ``x / (k + alpha / size * sum of squares)^beta``. As in PyTorch, the first channel is counted for all channels
    behind its neighbours, too.

    Args:
        size: how many channels are summed over
        alpha: factor of the mean square
        beta: the exponent
        k: what is added

    Shape:
        ``[N, C, *]``, and the output has the same.

    Example:
        >>> facula.nn.LocalResponseNorm(3)(facula.ones(1, 4, 1, 1)).flatten()
        tensor([1.0000, 0.9999, 0.9999, 1.0000])
    """

    __constants__ = ["size", "alpha", "beta", "k"]

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: core.Tensor) -> Any:
        """The same shape."""
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        """The parameters."""
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class CrossMapLRN2d(Module):
    """Divides each element by a power of the squares of ``size`` neighbouring channels, as Caffe does.
    [Krizhevsky et al. 2012]

    ``x / (k + alpha / size * sum of squares)^beta``.

    Args:
        size: how many channels are summed over
        alpha: factor of the mean square
        beta: the exponent
        k: what is added

    Shape:
        ``[N, C, H, W]``, and the output has the same.

    Example:
        >>> facula.nn.CrossMapLRN2d(3)(facula.ones(1, 4, 1, 1)).flatten()
        tensor([1.0000, 0.9999, 0.9999, 0.9999])
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: core.Tensor) -> Any:
        """``[N, C, H, W]``, the same shape."""
        pre = int((self.size - 1) / 2 + 1) - 1
        padded = F.pad(input * input, (0, 0, 0, 0, pre, pre))
        channels = input.size(1)
        window: Any = sum(padded[:, i : i + channels] for i in range(2 * pre + 1))
        behind = max(channels - pre - 1, 0)  # those whose neighbours do not reach to the first
        window = window + F.pad(
            input[:, :1].expand(-1, behind, -1, -1) ** 2, (0, 0, 0, 0, channels - behind, 0)
        )
        scale = window * (self.alpha / self.size) + self.k
        return input * scale.pow(-self.beta)

    def extra_repr(self) -> str:
        """The parameters."""
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


def _as_shape(normalized_shape: Any) -> tuple[int, ...]:
    if isinstance(normalized_shape, numbers.Integral):
        return (normalized_shape,)  # type: ignore[return-value]
    return tuple(normalized_shape)


class LayerNorm(Module):
    """Normalises over the last dimensions: ``(x - mean) / sqrt(var + eps) * weight + bias``. [Ba,
    Kiros & Hinton 2016]

    Training and evaluation are alike.

    Args:
        normalized_shape: sizes of the last dimensions, over which is normalised; an int for one
        eps: added to the (biased) variance
        elementwise_affine: whether ``weight`` (starts at 1) and ``bias`` (at 0), of
            ``normalized_shape``, are learned
        bias: whether there is a bias where parameters are asked for
        device, dtype: of the parameters

    Shape:
        ``[*, normalized_shape]``, and the output has the same.

    Example:
        >>> norm = facula.nn.LayerNorm(3, elementwise_affine=False)
        >>> norm(facula.tensor([[1.0, 2.0, 3.0]]))
        tensor([[-1.2247,  0.0000,  1.2247]])
    """

    __constants__ = ["normalized_shape", "eps", "elementwise_affine"]
    normalized_shape: tuple[int, ...]
    eps: float
    elementwise_affine: bool

    def __init__(
        self,
        normalized_shape: object,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: core.device | str | int | None = None,
        dtype: core.dtype | None = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _as_shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        shape = self.normalized_shape
        for name, present in (
            ("weight", elementwise_affine),
            ("bias", elementwise_affine and bias),
        ):
            value = Parameter(facula.empty(shape, device=device, dtype=dtype)) if present else None
            self.register_parameter(name, value)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Weight 1, bias 0."""
        if self.elementwise_affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def forward(self, input: core.Tensor) -> Any:
        """The same shape."""
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """The parameters."""
        return (
            f"{self.normalized_shape}, eps={self.eps}, "
            f"elementwise_affine={self.elementwise_affine}, "
            f"bias={self.bias is not None}"
        )


class GroupNorm(Module):
    """Normalises over groups of channels and all positions, for each instance. [Wu & He 2018]

    One group is a `LayerNorm` over all but the batch, ``num_channels`` groups an `InstanceNorm2d`.

    Args:
        num_groups: a divisor of ``num_channels``
        num_channels: C
        eps: added to the variance
        affine: whether ``weight`` (starts at 1) and ``bias`` (at 0), ``[C]``, are learned
        device, dtype: of the parameters
        bias: whether there is a bias where ``affine`` asks for parameters

    Shape:
        ``[N, C, *]``, and the output has the same.

    Raises:
        ValueError: ``num_channels`` is no multiple of ``num_groups``.

    Example:
        >>> facula.nn.GroupNorm(2, 4)(facula.randn(3, 4, 5)).shape
        facula.Size([3, 4, 5])
    """

    __constants__ = ["num_groups", "num_channels", "eps", "affine"]

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: core.device | str | int | None = None,
        dtype: core.dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % num_groups != 0:
            fail(
                ValueError,
                "GroupNorm",
                "num_channels must be divisible by num_groups",
                hint="num_groups=1 normalizes over all channels",
            )
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        for name, present in (("weight", affine), ("bias", affine and bias)):
            value = facula.empty(num_channels, device=device, dtype=dtype) if present else None
            self.register_parameter(name, Parameter(value) if present else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Weight 1, bias 0."""
        if self.affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def forward(self, input: core.Tensor) -> Any:
        """The same shape."""
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """The parameters."""
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """Divides by the root mean square of the last dimensions: ``x / sqrt(mean(x^2) + eps) * weight``.
    [Zhang & Sennrich 2019]

    Args:
        normalized_shape: sizes of the last dimensions, over which the mean is; an int for one
        eps: added to the mean square; None for the machine epsilon of the input's dtype
        elementwise_affine: whether ``weight`` (starts at 1) is learned
        device, dtype: of the parameter

    Shape:
        ``[*, normalized_shape]``, and the output has the same.

    Example:
        >>> facula.nn.RMSNorm(2, elementwise_affine=False)(facula.tensor([[3.0, 4.0]]))
        tensor([[0.8485, 1.1314]])
    """

    __constants__ = ["normalized_shape", "eps", "elementwise_affine"]

    def __init__(
        self,
        normalized_shape: object,
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: core.device | str | int | None = None,
        dtype: core.dtype | None = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _as_shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        if elementwise_affine:
            self.weight = Parameter(facula.empty(self.normalized_shape, device=device, dtype=dtype))
        else:
            self.register_parameter("weight", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Weight 1."""
        if self.elementwise_affine:
            init.ones_(self.weight)

    def forward(self, x: core.Tensor) -> Any:
        """The same shape."""
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        """The parameters."""
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
        )
