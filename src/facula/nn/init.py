"""Initial values for parameters.

Takes a tensor.  Gives the same tensor, filled in place without recording.
Keeps true: every function returns the tensor it was given; ``generator`` makes the numbers
reproducible on their own.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import facula
from facula.autograd.grad_mode import no_grad
from facula.core.errors import fail

_LINEAR_NAMES = frozenset(
    """linear conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d sigmoid
    """.split()
)


def calculate_gain(nonlinearity: str, param: Any = None) -> float:
    """The factor by which weights grow so that a layer before ``nonlinearity`` keeps the variance."""
    if nonlinearity in _LINEAR_NAMES:
        return 1.0
    if nonlinearity == "tanh":
        return 5.0 / 3
    if nonlinearity == "relu":
        return math.sqrt(2.0)
    if nonlinearity == "leaky_relu":
        if param is None:
            slope = 0.01
        elif isinstance(param, (int, float)) and not isinstance(param, bool):
            slope = param
        else:
            fail(
                ValueError,
                "calculate_gain",
                f"negative_slope {param} not a valid number",
                hint="leave param out for the slope 0.01",
            )
        return math.sqrt(2.0 / (1 + slope**2))
    if nonlinearity == "selu":
        return 3.0 / 4
    fail(
        ValueError,
        "calculate_gain",
        f"Unsupported nonlinearity {nonlinearity}",
        hint="'linear' has the gain 1",
    )


def uniform_(tensor: Any, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Any:
    """Uniform in ``[a, b)``."""
    with no_grad():
        return tensor.uniform_(a, b, generator=generator)


def normal_(tensor: Any, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Any:
    """Normal."""
    with no_grad():
        return tensor.normal_(mean, std, generator=generator)


def _normal_cdf(x: float) -> float:
    return (1.0 + math.erf(x / math.sqrt(2.0))) / 2.0


def trunc_normal_(
    tensor: Any,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Any = None,
) -> Any:
    """Normal, limited to ``[a, b]``: by drawing again what lies outside, or, where that is most, by
    accepting uniform numbers with the density's share of its peak."""
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. The distribution of "
            "values may be "
            "incorrect.",
            stacklevel=2,
        )
    if tensor.is_meta:
        return tensor
    inside = _normal_cdf((b - mean) / std) - _normal_cdf((a - mean) / std)
    with no_grad():
        if inside > 0.3:
            return _draw_until_inside(tensor, mean, std, (a, b), generator)
        return _accept_uniform(tensor, mean, std, (a, b), generator)


def _draw_until_inside(
    tensor: Any, mean: float, std: float, limits: tuple[float, float], generator: Any
) -> Any:
    low, high = (tensor.new_tensor(x, device="cpu").item() for x in limits)
    tensor.normal_(mean, std, generator=generator)
    outside = (tensor < low) | (tensor > high)
    while bool(outside.any()):
        again = facula.empty_like(tensor).normal_(mean, std, generator=generator)
        tensor.copy_(facula.where(outside, again, tensor))
        outside = (tensor < low) | (tensor > high)
    return tensor


def _accept_uniform(
    tensor: Any, mean: float, std: float, limits: tuple[float, float], generator: Any
) -> Any:
    low, high = limits
    peak = -0.5 * ((min(max(mean, low), high) - mean) / std) ** 2
    left = facula.ones_like(tensor, dtype=facula.bool)
    while bool(left.any()):
        drawn = facula.empty_like(tensor).uniform_(low, high, generator=generator)
        tensor.copy_(facula.where(left, drawn, tensor))
        density = drawn.sub_(mean).div_(std).square_().mul_(-0.5).sub_(peak)
        chance = facula.empty_like(tensor).uniform_(generator=generator).log_()
        left = left & (chance > density)
    return tensor


def constant_(tensor: Any, val: float) -> Any:
    """All ``val``."""
    with no_grad():
        return tensor.fill_(val)


def ones_(tensor: Any) -> Any:
    """All ones."""
    return constant_(tensor, 1.0)


def zeros_(tensor: Any) -> Any:
    """All zeros."""
    with no_grad():
        return tensor.zero_()


def eye_(tensor: Any) -> Any:
    """The identity matrix."""
    if tensor.ndimension() != 2:
        fail(
            ValueError,
            "init",
            "Only tensors with 2 dimensions are supported",
            hint="view(size(0), -1) makes a matrix that shares the memory",
        )
    with no_grad():
        tensor.zero_()
        tensor.diagonal().fill_(1)
    return tensor


def dirac_(tensor: Any, groups: int = 1) -> Any:
    """A convolution kernel that passes its input channels through, as many as there is room for."""
    dims = tensor.ndimension()
    if dims not in (3, 4, 5):
        fail(
            ValueError,
            "dirac_",
            "Only tensors with 3, 4, or 5 dimensions are supported",
            hint="weights of convolutions have them",
        )
    sizes = tensor.size()
    if sizes[0] % groups != 0:
        fail(
            ValueError,
            "dirac_",
            "dim 0 must be divisible by groups",
            hint="leave groups out for one group",
        )
    per_group = sizes[0] // groups
    centre = tuple(size // 2 for size in sizes[2:])
    with no_grad():
        tensor.zero_()
        for group in range(groups):
            for channel in range(min(per_group, sizes[1])):
                tensor[(group * per_group + channel, channel, *centre)] = 1
    return tensor


def _calculate_fan_in_and_fan_out(tensor: Any) -> tuple[int, int]:
    if tensor.dim() < 2:
        fail(
            ValueError,
            "init",
            ("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions"),
            hint="normal_() and uniform_() fill vectors",
        )
    field = math.prod(tensor.shape[2:])
    return tensor.size(1) * field, tensor.size(0) * field


def _calculate_correct_fan(tensor: Any, mode: str) -> int:
    mode = mode.lower()
    if mode not in ("fan_in", "fan_out"):
        fail(
            ValueError,
            "kaiming",
            f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']",
            hint="'fan_in' keeps the variance forward, 'fan_out' backward",
        )
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    return fan_in if mode == "fan_in" else fan_out


def xavier_uniform_(tensor: Any, gain: float = 1.0, generator: Any = None) -> Any:
    """Uniform, for equal variance forward and backward. [Glorot & Bengio 2010]"""
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    bound = math.sqrt(3.0) * gain * math.sqrt(2.0 / (fan_in + fan_out))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Any, gain: float = 1.0, generator: Any = None) -> Any:
    """Normal, for equal variance forward and backward. [Glorot & Bengio 2010]"""
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / (fan_in + fan_out)), generator)


def _kaiming_std(tensor: Any, a: float, mode: str, nonlinearity: str) -> float | None:
    """The standard deviation, None where there is nothing to fill."""
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=3)
        return None
    fan = _calculate_correct_fan(tensor, mode)
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


def kaiming_uniform_(
    tensor: Any,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Any:
    """Uniform, for equal variance through rectifiers. [He et al. 2015]"""
    std = _kaiming_std(tensor, a, mode, nonlinearity)
    if std is None:
        return tensor
    bound = math.sqrt(3.0) * std
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Any,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Any:
    """Normal, for equal variance through rectifiers. [He et al. 2015]"""
    std = _kaiming_std(tensor, a, mode, nonlinearity)
    return tensor if std is None else normal_(tensor, 0, std, generator)


def orthogonal_(tensor: Any, gain: float = 1, generator: Any = None) -> Any:
    """A (semi-)orthogonal matrix over the first dimension and the rest. [Saxe et al. 2013]"""
    if tensor.ndimension() < 2:
        fail(
            ValueError,
            "orthogonal_",
            "Only tensors with 2 or more dimensions are supported",
            hint="normal_() and uniform_() fill vectors",
        )
    if tensor.numel() == 0:
        return tensor
    rows = tensor.size(0)
    columns = tensor.numel() // rows
    with no_grad():
        flat = tensor.new_empty((rows, columns)).normal_(0, 1, generator=generator)
        if rows < columns:
            flat.t_()
        q, r = facula.linalg.qr(flat)
        # the signs that make the distribution uniform over orthogonal matrices
        q *= facula.diag(r, 0).sign()
        if rows < columns:
            q.t_()
        tensor.view_as(q).copy_(q)
        tensor.mul_(gain)
    return tensor


def sparse_(tensor: Any, sparsity: float, std: float = 0.01, generator: Any = None) -> Any:
    """Normal, with the fraction ``sparsity`` of every column set to zero. [Martens 2010]"""
    if tensor.ndimension() != 2:
        fail(
            ValueError,
            "init",
            "Only tensors with 2 dimensions are supported",
            hint="view(size(0), -1) makes a matrix that shares the memory",
        )
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    with no_grad():
        tensor.normal_(0, std, generator=generator)
        for column in range(columns):
            chosen = facula.randperm(rows, generator=generator)[:zeros]
            tensor[chosen, column] = 0
    return tensor


def _deprecated(function: Callable) -> Callable:
    new = function.__name__
    old = new[:-1]

    def deprecated_init(*args: Any, **kwargs: Any) -> Any:
        warnings.warn(
            f"`nn.init.{old}` is now deprecated in favor of `nn.init.{new}`.",
            FutureWarning,
            stacklevel=2,
        )
        return function(*args, **kwargs)

    deprecated_init.__name__ = old
    deprecated_init.__doc__ = f"`{new}` under its older name."
    return deprecated_init


uniform = _deprecated(uniform_)
normal = _deprecated(normal_)
constant = _deprecated(constant_)
eye = _deprecated(eye_)
dirac = _deprecated(dirac_)
xavier_uniform = _deprecated(xavier_uniform_)
xavier_normal = _deprecated(xavier_normal_)
kaiming_uniform = _deprecated(kaiming_uniform_)
kaiming_normal = _deprecated(kaiming_normal_)
orthogonal = _deprecated(orthogonal_)
sparse = _deprecated(sparse_)
