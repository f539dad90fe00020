"""Activation functions as modules.

Takes a tensor.  Gives the function of `facula.nn.functional` of the same name, with its parameters
held by the module.
Keeps true: constructor arguments, attribute names and printed forms are PyTorch's.
"""

from __future__ import annotations

import warnings
from typing import Any

import facula
from facula import core
from facula.core.errors import fail
from facula.nn import functional as F
from facula.nn import init
from facula.nn.modules.attention import MultiheadAttention  # noqa: F401
from facula.nn.modules.module import Module
from facula.nn.parameter import Parameter

__all__ = """Threshold ReLU RReLU Hardtanh ReLU6 Sigmoid Hardsigmoid Tanh SiLU Mish Hardswish ELU
CELU SELU GLU GELU Hardshrink LeakyReLU LogSigmoid Softplus Softshrink MultiheadAttention PReLU
Softsign Tanhshrink Softmin Softmax Softmax2d LogSoftmax""".split()


class _InplaceActivation(Module):
    """An activation whose only argument is ``inplace``."""

    __constants__ = ["inplace"]
    inplace: bool

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def extra_repr(self) -> str:
        """The flag, where it is set."""
        return "inplace=True" if self.inplace else ""


class ReLU(_InplaceActivation):
    """Rectified linear unit, ``max(x, 0)``. [Nair & Hinton 2010]

    The gradient at 0 is 0.

    Args:
        inplace: whether the result is written over the input

    Shape:
        any, and the output has the same.

    Example:
        >>> facula.nn.ReLU()(facula.tensor([-2.0, -0.5, 0.0, 1.0]))
        tensor([0., 0., 0., 1.])
    """

    def forward(self, input: core.Tensor) -> Any:
        """Elementwise."""
        return F.relu(input, inplace=self.inplace)


class SiLU(_InplaceActivation):
    """Sigmoid linear unit (swish), ``x * sigmoid(x)``. [Elfwing, Uchibe & Doya 2018]

    Args:
        inplace: whether the result is written over the input

    Shape:
        any, and the output has the same.

    Example:
        >>> facula.nn.SiLU()(facula.tensor([-2.0, -0.5, 0.0, 1.0]))
        tensor([-0.2384, -0.1888,  0.0000,  0.7311])
    """

    def forward(self, input: core.Tensor) -> Any:
        """Elementwise."""
        return F.silu(input, inplace=self.inplace)


class Mish(_InplaceActivation):
    """``x * tanh(softplus(x))``, smooth and not monotonic. [Misra 2019]

    Args:
        inplace: whether the result is written over the input

    Shape:
        any, and the output has the same.

    Example:
        >>> facula.nn.Mish()(facula.tensor([-2.0, -0.5, 0.0, 1.0]))
        tensor([-0.2525, -0.2207,  0.0000,  0.8651])
    """

    def forward(self, input: core.Tensor) -> Any:
        """Elementwise."""
        return F.mish(input, inplace=self.inplace)


class SELU(_InplaceActivation):
    """Self-normalising unit: ``scale * (x if x > 0 else alpha * (exp(x) - 1))``. [Klambauer et al.
    2017]

    ``alpha`` = 1.6732632 and ``scale`` = 1.0507010 are such that activations tend to mean 0 and
    variance 1; weights should be drawn with `init.kaiming_normal_` and nonlinearity 'linear',
    dropout should be `AlphaDropout`.

    Args:
        inplace: whether the result is written over the input

    Shape:
        any, and the output has the same.

    Example:
        >>> facula.nn.SELU()(facula.tensor([-2.0, -0.5, 0.0, 1.0]))
        tensor([-1.5202, -0.6918,  0.0000,  1.0507])
    """

    def forward(self, input: core.Tensor) -> Any:
        """Elementwise."""
        return F.selu(input, self.inplace)


class _SilentInplaceActivation(_InplaceActivation):
    """Does not print its flag."""

    def extra_repr(self) -> str:
        """Nothing."""
        return ""


class Hardsigmoid(_SilentInplaceActivation):
    """Sigmoid in three straight pieces: ``clamp(x / 6 + 1 / 2, 0, 1)``.

    Args:
        inplace: whether the result is written over the input

    Shape:
        any, and the output has the same.

    Example:
        >>> facula.nn.Hardsigmoid()(facula.tensor([-4.0, -1.0, 0.0, 4.0]))
        tensor([0.0000, 0.3333, 0.5000, 1.0000])
    """

    def forward(self, input: core.Tensor) -> Any:
        """Elementwise."""
        return F.hardsigmoid(input, self.inplace)


class Hardswish(_SilentInplaceActivation):
    """``x * clamp(x + 3, 0, 6) / 6``, swish in pieces. [Howard et al. 2019]

    Args:
        inplace: whether the result is written over the input

    Shape:
        any, and the output has the same.

    Example:
        >>> facula.nn.Hardswish()(facula.tensor([-4.0, -1.0, 0.0, 4.0]))
        tensor([-0.0000, -0.3333,  0.0000,  4.0000])
    """

    def forward(self, input: core.Tensor) -> Any:
        """Elementwise."""
        return F.hardswish(input, self.inplace)


class Sigmoid(Module):
    """``1 / (1 + exp(-x))``, a number between 0 and 1.

    Before a binary cross-entropy leave it out and use `BCEWithLogitsLoss`, which is exact where
    this rounds to 0 or 1.

    Shape:
        any, and the output has the same.

    Example:
        >>> facula.nn.Sigmoid()(facula.tensor([-2.0, -0.5, 0.0, 1.0]))
        tensor([0.1192, 0.3775, 0.5000, 0.7311])
    """

    def forward(self, input: core.Tensor) -> Any:
        """Elementwise."""
        return facula.sigmoid(input)


class Tanh(Module):
    """Hyperbolic tangent, a number between -1 and 1.

    Shape:
        any, and the output has the same.

    Example:
        >>> facula.nn.Tanh()(facula.tensor([-2.0, -0.5, 0.0, 1.0]))
        tensor([-0.9640, -0.4621,  0.0000,  0.7616])
    """

    def forward(self, input: core.Tensor) -> Any:
        """Elementwise."""
        return facula.tanh(input)


class LogSigmoid(Module):
    """``log(sigmoid(x))``, without overflow for large ``|x|``.

    Shape:
        any, and the output has the same.

    Example:
        >>> facula.nn.LogSigmoid()(facula.tensor([-200.0, 0.0, 2.0]))
        tensor([-2.0000e+02, -6.9315e-01, -1.2693e-01])
    """

    def forward(self, input: core.Tensor) -> Any:
        """Elementwise."""
        return F.logsigmoid(input)


class Softsign(Module):
    """``x / (1 + |x|)``, a number between -1 and 1.

    Shape:
        any, and the output has the same.

    Example:
        >>> facula.nn.Softsign()(facula.tensor([-2.0, -0.5, 0.0, 1.0]))
        tensor([-0.6667, -0.3333,  0.0000,  0.5000])
    """

    def forward(self, input: core.Tensor) -> Any:
        """Elementwise."""
        return F.softsign(input)


class Tanhshrink(Module):
    """``x - tanh(x)``.

    Shape:
        any, and the output has the same.

    Example:
        >>> facula.nn.Tanhshrink()(facula.tensor([-2.0, -0.5, 0.0, 1.0]))
        tensor([-1.0360, -0.0379,  0.0000,  0.2384])
    """

    def forward(self, input: core.Tensor) -> Any:
        """Elementwise."""
        return F.tanhshrink(input)


class Threshold(Module):
    """``x`` where ``x > threshold``, else ``value``.

    Args:
        threshold: the least number that is replaced is the one equal to it
        value: what takes the place
        inplace: whether the result is written over the input

    Shape:
        any, and the output has the same.

    Example:
        >>> facula.nn.Threshold(0.1, 20.0)(facula.tensor([-2.0, -0.5, 0.0, 1.0]))
        tensor([20., 20., 20.,  1.])
    """

    __constants__ = ["threshold", "value", "inplace"]

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold = threshold
        self.value = value
        self.inplace = inplace

    def forward(self, input: core.Tensor) -> Any:
        """Elementwise."""
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        """The parameters."""
        inplace = ", inplace=True" if self.inplace else ""
        return f"threshold={self.threshold}, value={self.value}{inplace}"


class RReLU(Module):
    """Leaky rectifier with a random slope for negative numbers. [Xu et al. 2015]

    In training every negative element is multiplied by a number of its own, uniform in [lower,
    upper]; in evaluation all by ``(lower + upper) / 2``.

    Args:
        lower, upper: bounds of the slope, 1/8 and 1/3 by default
        inplace: whether the result is written over the input

    Shape:
        any, and the output has the same.

    Example:
        >>> facula.nn.RReLU(0.1, 0.3).eval()(facula.tensor([-1.0, 2.0]))
        tensor([-0.2000,  2.0000])
    """

    __constants__ = ["lower", "upper", "inplace"]

    def __init__(
        self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False
    ) -> None:
        super().__init__()
        self.lower = lower
        self.upper = upper
        self.inplace = inplace

    def forward(self, input: core.Tensor) -> Any:
        """Elementwise."""
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        """The parameters."""
        inplace = ", inplace=True" if self.inplace else ""
        return f"lower={self.lower}, upper={self.upper}{inplace}"


class Hardtanh(Module):
    """``clamp(x, min_val, max_val)``.

    Args:
        min_val, max_val: the bounds
        inplace: whether the result is written over the input
        min_value, max_value: older names of the bounds; a `FutureWarning` says so

    Raises:
        AssertionError: ``max_val`` is not larger than ``min_val``.

    Shape:
        any, and the output has the same.

    Example:
        >>> facula.nn.Hardtanh(-1.0, 0.5)(facula.tensor([-2.0, -0.5, 0.0, 1.0]))
        tensor([-1.0000, -0.5000,  0.0000,  0.5000])
    """

    __constants__ = ["min_val", "max_val", "inplace"]

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        super().__init__()
        for old, value in (("min_value", min_value), ("max_value", max_value)):
            if value is not None:
                warnings.warn(
                    f"keyword argument `{old}` is deprecated and rename to `{old[:7]}`",
                    FutureWarning,
                    stacklevel=2,
                )
        self.min_val = min_val if min_value is None else min_value
        self.max_val = max_val if max_value is None else max_value
        self.inplace = inplace
        if self.max_val <= self.min_val:
            fail(
                AssertionError,
                "Hardtanh",
                "max_val must be larger than min_val",
                hint="leave both out for the range from -1 to 1",
            )

    def forward(self, input: core.Tensor) -> Any:
        """Elementwise."""
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        """The parameters."""
        inplace = ", inplace=True" if self.inplace else ""
        return f"min_val={self.min_val}, max_val={self.max_val}{inplace}"


class ReLU6(Hardtanh):
    """``clamp(x, 0, 6)``. [Krizhevsky 2010]

    Args:
        inplace: whether the result is written over the input

    Shape:
        any, and the output has the same.

    Example:
        >>> facula.nn.ReLU6()(facula.tensor([-1.0, 3.0, 8.0]))
        tensor([0., 3., 6.])
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        """The flag, where it is set."""
        return "inplace=True" if self.inplace else ""


class ELU(Module):
    """Exponential linear unit: ``x`` where positive, else ``alpha * (exp(x) - 1)``. [Clevert et al.
    2016]

    Args:
        alpha: minus the limit for x to minus infinity
        inplace: whether the result is written over the input

    Shape:
        any, and the output has the same.

    Example:
        >>> facula.nn.ELU()(facula.tensor([-2.0, -0.5, 0.0, 1.0]))
        tensor([-0.8647, -0.3935,  0.0000,  1.0000])
    """

    __constants__ = ["alpha", "inplace"]

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: core.Tensor) -> Any:
        """Elementwise."""
        return F.elu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        """The parameters."""
        return f"alpha={self.alpha}{', inplace=True' if self.inplace else ''}"


class CELU(ELU):
    """``max(x, 0) + min(0, alpha * (exp(x / alpha) - 1))``: an `ELU` with continuous derivative for
    every alpha. [Barron 2017]

    Args:
        alpha: minus the limit for x to minus infinity; not 0
        inplace: whether the result is written over the input

    Shape:
        any, and the output has the same.

    Example:
        >>> facula.nn.CELU(2.0)(facula.tensor([-2.0, -0.5, 0.0, 1.0]))
        tensor([-1.2642, -0.4424,  0.0000,  1.0000])
    """

    def forward(self, input: core.Tensor) -> Any:
        """Elementwise."""
        return F.celu(input, self.alpha, self.inplace)


class GLU(Module):
    """Gated linear unit ``a * sigmoid(b)``, a and b the halves of the input along ``dim``. [Dauphin et
    al. 2017]

    Args:
        dim: the dimension that is halved

    Shape:
        ``[*, 2 N, *]`` to ``[*, N, *]``; the size along ``dim`` must be even.

    Example:
        >>> facula.nn.GLU()(facula.tensor([-2.0, -0.5, 0.0, 1.0]))
        tensor([-1.0000, -0.3655])
    """

    __constants__ = ["dim"]

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: core.Tensor) -> Any:
        """Half the size along ``dim``."""
        return F.glu(input, self.dim)

    def extra_repr(self) -> str:
        """The dimension."""
        return f"dim={self.dim}"


class GELU(Module):
    """Gaussian error linear unit ``x * Phi(x)``, Phi the normal distribution function. [Hendrycks &
    Gimpel 2016]

    Args:
        approximate: 'none' for the exact function, 'tanh' for ``0.5 x (1 + tanh(sqrt(2 / pi) (x +
            0.044715 x^3)))``

    Shape:
        any, and the output has the same.

    Example:
        >>> facula.nn.GELU()(facula.tensor([-2.0, -0.5, 0.0, 1.0]))
        tensor([-0.0455, -0.1543,  0.0000,  0.8413])
    """

    __constants__ = ["approximate"]

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: core.Tensor) -> Any:
        """Elementwise."""
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        """The approximation."""
        return f"approximate={self.approximate!r}"


class Hardshrink(Module):
    """``x`` where ``|x| > lambd``, else 0.

    Args:
        lambd: half the width of the interval that becomes 0

    Shape:
        any, and the output has the same.

    Example:
        >>> facula.nn.Hardshrink(0.6)(facula.tensor([-2.0, -0.5, 0.0, 1.0]))
        tensor([-2.,  0.,  0.,  1.])
    """

    __constants__ = ["lambd"]

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: core.Tensor) -> Any:
        """Elementwise."""
        return F.hardshrink(input, self.lambd)

    def extra_repr(self) -> str:
        """The threshold."""
        return f"{self.lambd}"


class Softshrink(Hardshrink):
    """``sign(x) * max(|x| - lambd, 0)``, the proximal operator of the 1-norm.

    Args:
        lambd: how far numbers move towards 0; at least 0

    Shape:
        any, and the output has the same.

    Example:
        >>> facula.nn.Softshrink()(facula.tensor([-2.0, -0.5, 0.0, 1.0]))
        tensor([-1.5000, -0.0000,  0.0000,  0.5000])
    """

    def forward(self, input: core.Tensor) -> Any:
        """Elementwise."""
        return F.softshrink(input, self.lambd)

    def extra_repr(self) -> str:
        """The threshold."""
        return str(self.lambd)


class LeakyReLU(Module):
    """``x`` where positive, else ``negative_slope * x``. [Maas, Hannun & Ng 2013]

    Args:
        negative_slope: the slope for negative numbers
        inplace: whether the result is written over the input

    Shape:
        any, and the output has the same.

    Example:
        >>> facula.nn.LeakyReLU(0.1)(facula.tensor([-2.0, -0.5, 0.0, 1.0]))
        tensor([-0.2000, -0.0500,  0.0000,  1.0000])
    """

    __constants__ = ["inplace", "negative_slope"]

    def __init__(self, negative_slope: float = 1e-2, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope = negative_slope
        self.inplace = inplace

    def forward(self, input: core.Tensor) -> Any:
        """Elementwise."""
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        """The parameters."""
        inplace = ", inplace=True" if self.inplace else ""
        return f"negative_slope={self.negative_slope}{inplace}"


class Softplus(Module):
    """``log(1 + exp(beta * x)) / beta``, a smooth and positive `ReLU`. [Dugas et al. 2001]

    Args:
        beta: the sharpness of the bend
        threshold: where ``beta * x`` exceeds it the result is ``x``

    Shape:
        any, and the output has the same.

    Example:
        >>> facula.nn.Softplus()(facula.tensor([-2.0, -0.5, 0.0, 1.0]))
        tensor([0.1269, 0.4741, 0.6931, 1.3133])
    """

    __constants__ = ["beta", "threshold"]

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: core.Tensor) -> Any:
        """Elementwise."""
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        """The parameters."""
        return f"beta={self.beta}, threshold={self.threshold}"


class PReLU(Module):
    """`LeakyReLU` whose slope is learned. [He et al. 2015]

    The slopes are the parameter ``weight`` of shape ``[num_parameters]``; do not put weight decay
    on it.

    Args:
        num_parameters: 1 for one slope, or the number of channels (size of dimension 1) for one
            each
        init: where the slopes start
        device, dtype: of ``weight``

    Shape:
        any (``[N, C, *]`` with a slope each), and the output has the same.

    Example:
        >>> facula.nn.PReLU()(facula.tensor([-2.0, -0.5, 0.0, 1.0]))
        tensor([-0.5000, -0.1250,  0.0000,  1.0000], grad_fn=<PreluKernelBackward0>)
    """

    __constants__ = ["num_parameters"]

    def __init__(
        self,
        num_parameters: int = 1,
        init: float = 0.25,
        device: core.device | str | int | None = None,
        dtype: core.dtype | None = None,
    ) -> None:
        self.num_parameters = num_parameters
        super().__init__()
        self.init = init
        self.weight = Parameter(facula.empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the slopes back to ``init``."""
        init.constant_(self.weight, self.init)

    def forward(self, input: core.Tensor) -> Any:
        """Elementwise; channels are dimension 1."""
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        """The number of slopes."""
        return f"num_parameters={self.num_parameters}"


class _AlongDimension(Module):
    """A function along one dimension, None for the older rule that picks it."""

    __constants__ = ["dim"]
    dim: int | None

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def __setstate__(self, state: dict) -> None:
        super().__setstate__(state)
        self.__dict__.setdefault("dim", None)

    def extra_repr(self) -> str:
        """The dimension."""
        return f"dim={self.dim}"


class Softmin(_AlongDimension):
    """``softmax(-x)`` along a dimension.

    Args:
        dim: the dimension along which results sum to 1

    Shape:
        any, and the output has the same.

    Example:
        >>> facula.nn.Softmin(dim=0)(facula.tensor([-2.0, -0.5, 0.0, 1.0]))
        tensor([0.7101, 0.1584, 0.0961, 0.0354])
    """

    def forward(self, input: core.Tensor) -> Any:
        """The same shape."""
        return F.softmin(input, self.dim, _stacklevel=5)


class Softmax(_AlongDimension):
    """``exp(x_i) / sum_j exp(x_j)`` along a dimension, computed relative to the largest element.

    Losses want logarithms: use `LogSoftmax`, or `CrossEntropyLoss` on the scores themselves.

    Args:
        dim: the dimension along which results sum to 1; None takes 0 for inputs of 0, 1 and 3
            dimensions and 1 for others, with a warning

    Shape:
        any, and the output has the same.

    Example:
        >>> facula.nn.Softmax(dim=-1)(facula.tensor([-2.0, -0.5, 0.0, 1.0]))
        tensor([0.0303, 0.1360, 0.2242, 0.6095])
    """

    def forward(self, input: core.Tensor) -> Any:
        """The same shape."""
        return F.softmax(input, self.dim, _stacklevel=5)


class LogSoftmax(_AlongDimension):
    """``log(softmax(x))`` along a dimension, exact where the softmax rounds to 0.

    Args:
        dim: the dimension along which ``exp`` of the results sums to 1

    Shape:
        any, and the output has the same.

    Example:
        >>> facula.nn.LogSoftmax(dim=0)(facula.tensor([0.0, 1.0, 200.0]))
        tensor([-200., -199.,    0.])
    """

    def forward(self, input: core.Tensor) -> Any:
        """The same shape."""
        return F.log_softmax(input, self.dim, _stacklevel=5)


class Softmax2d(Module):
    """Softmax over the channels at every position of an image.

    Shape:
        ``[N, C, H, W]`` or ``[C, H, W]``, and the output has the same.

    Raises:
        ValueError: the input has another number of dimensions.

    Example:
        >>> x = facula.tensor([[[0.0]], [[1.0]]])
        >>> facula.nn.Softmax2d()(x)
        tensor([[[0.2689]],
        <BLANKLINE>
                [[0.7311]]])
    """

    def forward(self, input: core.Tensor) -> Any:
        """``[N, C, H, W]`` or ``[C, H, W]``."""
        if input.dim() not in (3, 4):
            fail(
                ValueError,
                "Softmax2d",
                f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead",
                hint="channels are dimension -3; Softmax(dim) takes other shapes",
            )
        return F.softmax(input, -3, _stacklevel=5)
