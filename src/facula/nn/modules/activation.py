"""Activation functions as modules.

Takes a tensor.  Gives the function of `facula.nn.functional` of the same name, with its parameters
held by the module.
Keeps true: constructor arguments, attribute names and printed forms are PyTorch's.
"""

from __future__ import annotations

import warnings
from typing import Any

import facula
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
    """``max(x, 0)``."""

    def forward(self, input: Any) -> Any:
        """Elementwise."""
        return F.relu(input, inplace=self.inplace)


class SiLU(_InplaceActivation):
    """``x * sigmoid(x)``."""

    def forward(self, input: Any) -> Any:
        """Elementwise."""
        return F.silu(input, inplace=self.inplace)


class Mish(_InplaceActivation):
    """``x * tanh(softplus(x))``."""

    def forward(self, input: Any) -> Any:
        """Elementwise."""
        return F.mish(input, inplace=self.inplace)


class SELU(_InplaceActivation):
    """The self-normalising exponential linear unit."""

    def forward(self, input: Any) -> Any:
        """Elementwise."""
        return F.selu(input, self.inplace)


class _SilentInplaceActivation(_InplaceActivation):
    """Does not print its flag."""

    def extra_repr(self) -> str:
        """Nothing."""
        return ""


class Hardsigmoid(_SilentInplaceActivation):
    """``clamp(x / 6 + 1 / 2, 0, 1)``."""

    def forward(self, input: Any) -> Any:
        """Elementwise."""
        return F.hardsigmoid(input, self.inplace)


class Hardswish(_SilentInplaceActivation):
    """``x * hardsigmoid(x)``."""

    def forward(self, input: Any) -> Any:
        """Elementwise."""
        return F.hardswish(input, self.inplace)


class Sigmoid(Module):
    """``1 / (1 + exp(-x))``."""

    def forward(self, input: Any) -> Any:
        """Elementwise."""
        return facula.sigmoid(input)


class Tanh(Module):
    """Hyperbolic tangent."""

    def forward(self, input: Any) -> Any:
        """Elementwise."""
        return facula.tanh(input)


class LogSigmoid(Module):
    """``log(sigmoid(x))``."""

    def forward(self, input: Any) -> Any:
        """Elementwise."""
        return F.logsigmoid(input)


class Softsign(Module):
    """``x / (1 + |x|)``."""

    def forward(self, input: Any) -> Any:
        """Elementwise."""
        return F.softsign(input)


class Tanhshrink(Module):
    """``x - tanh(x)``."""

    def forward(self, input: Any) -> Any:
        """Elementwise."""
        return F.tanhshrink(input)


class Threshold(Module):
    """``x`` where it exceeds ``threshold``, else ``value``."""

    __constants__ = ["threshold", "value", "inplace"]

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold = threshold
        self.value = value
        self.inplace = inplace

    def forward(self, input: Any) -> Any:
        """Elementwise."""
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        """The parameters."""
        inplace = ", inplace=True" if self.inplace else ""
        return f"threshold={self.threshold}, value={self.value}{inplace}"


class RReLU(Module):
    """Leaky ReLU whose slope is drawn from ``[lower, upper]`` in training and their mean otherwise."""

    __constants__ = ["lower", "upper", "inplace"]

    def __init__(
        self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False
    ) -> None:
        super().__init__()
        self.lower = lower
        self.upper = upper
        self.inplace = inplace

    def forward(self, input: Any) -> Any:
        """Elementwise."""
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        """The parameters."""
        inplace = ", inplace=True" if self.inplace else ""
        return f"lower={self.lower}, upper={self.upper}{inplace}"


class Hardtanh(Module):
    """``clamp(x, min_val, max_val)``."""

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

    def forward(self, input: Any) -> Any:
        """Elementwise."""
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        """The parameters."""
        inplace = ", inplace=True" if self.inplace else ""
        return f"min_val={self.min_val}, max_val={self.max_val}{inplace}"


class ReLU6(Hardtanh):
    """``clamp(x, 0, 6)``."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        """The flag, where it is set."""
        return "inplace=True" if self.inplace else ""


class ELU(Module):
    """``x`` where positive, else ``alpha * (exp(x) - 1)``."""

    __constants__ = ["alpha", "inplace"]

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: Any) -> Any:
        """Elementwise."""
        return F.elu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        """The parameters."""
        return f"alpha={self.alpha}{', inplace=True' if self.inplace else ''}"


class CELU(ELU):
    """``max(x, 0) + min(alpha * (exp(x / alpha) - 1), 0)``."""

    def forward(self, input: Any) -> Any:
        """Elementwise."""
        return F.celu(input, self.alpha, self.inplace)


class GLU(Module):
    """``a * sigmoid(b)`` for the halves ``a`` and ``b`` of the input along ``dim``."""

    __constants__ = ["dim"]

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Any) -> Any:
        """Half the size along ``dim``."""
        return F.glu(input, self.dim)

    def extra_repr(self) -> str:
        """The dimension."""
        return f"dim={self.dim}"


class GELU(Module):
    """``x * Phi(x)``, or its tanh approximation."""

    __constants__ = ["approximate"]

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Any) -> Any:
        """Elementwise."""
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        """The approximation."""
        return f"approximate={self.approximate!r}"


class Hardshrink(Module):
    """``x`` where ``|x|`` exceeds ``lambd``, else 0."""

    __constants__ = ["lambd"]

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Any) -> Any:
        """Elementwise."""
        return F.hardshrink(input, self.lambd)

    def extra_repr(self) -> str:
        """The threshold."""
        return f"{self.lambd}"


class Softshrink(Hardshrink):
    """``sign(x) * max(|x| - lambd, 0)``."""

    def forward(self, input: Any) -> Any:
        """Elementwise."""
        return F.softshrink(input, self.lambd)

    def extra_repr(self) -> str:
        """The threshold."""
        return str(self.lambd)


class LeakyReLU(Module):
    """``x`` where positive, else ``negative_slope * x``."""

    __constants__ = ["inplace", "negative_slope"]

    def __init__(self, negative_slope: float = 1e-2, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope = negative_slope
        self.inplace = inplace

    def forward(self, input: Any) -> Any:
        """Elementwise."""
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        """The parameters."""
        inplace = ", inplace=True" if self.inplace else ""
        return f"negative_slope={self.negative_slope}{inplace}"


class Softplus(Module):
    """``log(1 + exp(beta * x)) / beta``, linear where ``beta * x`` exceeds ``threshold``."""

    __constants__ = ["beta", "threshold"]

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: Any) -> Any:
        """Elementwise."""
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        """The parameters."""
        return f"beta={self.beta}, threshold={self.threshold}"


class PReLU(Module):
    """Leaky ReLU with a learned slope, one for all channels or one each."""

    __constants__ = ["num_parameters"]

    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None
    ) -> None:
        self.num_parameters = num_parameters
        super().__init__()
        self.init = init
        self.weight = Parameter(facula.empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the slopes back to ``init``."""
        init.constant_(self.weight, self.init)

    def forward(self, input: Any) -> Any:
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
    """``softmax(-x)``."""

    def forward(self, input: Any) -> Any:
        """The same shape."""
        return F.softmin(input, self.dim, _stacklevel=5)


class Softmax(_AlongDimension):
    """``exp(x) / sum(exp(x))`` along ``dim``."""

    def forward(self, input: Any) -> Any:
        """The same shape."""
        return F.softmax(input, self.dim, _stacklevel=5)


class LogSoftmax(_AlongDimension):
    """``log(softmax(x))`` along ``dim``."""

    def forward(self, input: Any) -> Any:
        """The same shape."""
        return F.log_softmax(input, self.dim, _stacklevel=5)


class Softmax2d(Module):
    """Softmax over the channels at every position of an image."""

    def forward(self, input: Any) -> Any:
        """``[N, C, H, W]`` or ``[C, H, W]``."""
        if input.dim() not in (3, 4):
            fail(
                ValueError,
                "Softmax2d",
                f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead",
                hint="channels are dimension -3; Softmax(dim) takes other shapes",
            )
        return F.softmax(input, -3, _stacklevel=5)
