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
from facula import core
from facula.autograd.grad_mode import no_grad
from facula.core.errors import fail
from facula.namespaces.overrides import offered

_LINEAR_NAMES = frozenset(
    """linear conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d sigmoid
    """.split()
)


def calculate_gain(nonlinearity: str, param: object = None) -> float:
    """The factor by which weights grow so that a layer before a nonlinearity keeps the variance.

    1 for 'linear', the convolutions and 'sigmoid', 5/3 for 'tanh', sqrt(2) for 'relu', ``sqrt(2 /
    (1 + slope^2))`` for 'leaky_relu', 3/4 for 'selu'.

    Args:
        nonlinearity: its name, as in `nn.functional`
        param: slope of the leaky rectifier; None for 0.01

    Raises:
        ValueError: the name is unknown, or ``param`` is no number.

    Example:
        >>> facula.nn.init.calculate_gain("leaky_relu", 0.2)
        1.3867504905630728
    """
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


@offered
def uniform_(
    tensor: core.Tensor, a: float = 0.0, b: float = 1.0, generator: core.Generator | None = None
) -> Any:
    """Fills with numbers uniform in [a, b).

    Args:
        tensor: what is filled, in place, without recording
        a, b: the bounds
        generator: where numbers come from; None for the default one

    Returns:
        the tensor.

    Example:
        >>> w = facula.nn.init.uniform_(facula.empty(100), 2.0, 3.0)
        >>> bool((w >= 2).all() and (w < 3).all())
        True
    """
    with no_grad():
        return tensor.uniform_(a, b, generator=generator)


@offered
def normal_(
    tensor: core.Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    generator: core.Generator | None = None,
) -> Any:
    """Fills with normal numbers.

    Args:
        tensor: what is filled, in place, without recording
        mean, std: mean and standard deviation
        generator: where numbers come from; None for the default one

    Returns:
        the tensor.

    Example:
        >>> facula.nn.init.normal_(facula.empty(2, 3)).shape
        facula.Size([2, 3])
    """
    with no_grad():
        return tensor.normal_(mean, std, generator=generator)


def _normal_cdf(x: float) -> float:
    return (1.0 + math.erf(x / math.sqrt(2.0))) / 2.0


def trunc_normal_(
    tensor: core.Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: core.Generator | None = None,
) -> Any:
    """Fills with normal numbers that lie in [a, b].

    What lies outside is drawn again; where that is most, uniform numbers are accepted with the
    density's share of its peak.

    Args:
        tensor: what is filled, in place, without recording
        mean, std: mean and standard deviation before the cut
        a, b: the bounds
        generator: where numbers come from; None for the default one

    Returns:
        the tensor.

    Example:
        >>> facula.nn.init.trunc_normal_(facula.empty(1000), a=-1.0, b=1.0).abs().max() <= 1
        tensor(True)
    """
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
    tensor: core.Tensor,
    mean: float,
    std: float,
    limits: tuple[float, float],
    generator: core.Generator | None,
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
    tensor: core.Tensor,
    mean: float,
    std: float,
    limits: tuple[float, float],
    generator: core.Generator | None,
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


@offered
def constant_(tensor: core.Tensor, val: float) -> Any:
    """Fills with one value.

    Args:
        tensor: what is filled, in place, without recording
        val: the value

    Returns:
        the tensor.

    Example:
        >>> facula.nn.init.constant_(facula.empty(2), 0.3)
        tensor([0.3000, 0.3000])
    """
    with no_grad():
        return tensor.fill_(val)


def ones_(tensor: core.Tensor) -> Any:
    """Fills with ones.

    Args:
        tensor: what is filled, in place, without recording

    Returns:
        the tensor.

    Example:
        >>> facula.nn.init.ones_(facula.empty(2))
        tensor([1., 1.])
    """
    return constant_(tensor, 1.0)


def zeros_(tensor: core.Tensor) -> Any:
    """Fills with zeros.

    Args:
        tensor: what is filled, in place, without recording

    Returns:
        the tensor.

    Example:
        >>> facula.nn.init.zeros_(facula.empty(2))
        tensor([0., 0.])
    """
    with no_grad():
        return tensor.zero_()


def eye_(tensor: core.Tensor) -> Any:
    """Makes a matrix the identity, as far as it goes.

    Args:
        tensor: what is filled, in place, without recording; a matrix

    Raises:
        ValueError: the tensor has not two dimensions.

    Returns:
        the tensor.

    Example:
        >>> facula.nn.init.eye_(facula.empty(2, 3))
        tensor([[1., 0., 0.],
                [0., 1., 0.]])
    """
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


def dirac_(tensor: core.Tensor, groups: int = 1) -> Any:
    """Makes a convolution's weight pass its input channels through, as many as there is room for.

    Args:
        tensor: what is filled, in place, without recording; of 3, 4 or 5 dimensions
        groups: in each of which channels are passed

    Raises:
        ValueError: the tensor has another number of dimensions, or ``groups`` does not divide the
            first size.

    Returns:
        the tensor.

    Example:
        >>> w = facula.nn.init.dirac_(facula.empty(2, 2, 3))
        >>> facula.nn.functional.conv1d(facula.tensor([[[1.0, 2.0], [3.0, 4.0]]]), w, padding=1)
        tensor([[[1., 2.],
                 [3., 4.]]])
    """
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


def _calculate_fan_in_and_fan_out(tensor: core.Tensor) -> tuple[int, int]:
    if tensor.dim() < 2:
        fail(
            ValueError,
            "init",
            ("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions"),
            hint="normal_() and uniform_() fill vectors",
        )
    field = math.prod(tensor.shape[2:])
    return tensor.size(1) * field, tensor.size(0) * field


def _calculate_correct_fan(tensor: core.Tensor, mode: str) -> int:
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


def xavier_uniform_(
    tensor: core.Tensor, gain: float = 1.0, generator: core.Generator | None = None
) -> Any:
    """Uniform in [-b, b], ``b = gain sqrt(6 / (fan_in + fan_out))``: variance stays forward and
    backward. [Glorot & Bengio 2010]

    ``fan_in`` is the second size times the sizes of the kernel, ``fan_out`` the first times those.

    Args:
        tensor: what is filled, in place, without recording
        gain: a factor, see `calculate_gain`
        generator: where numbers come from; None for the default one

    Raises:
        ValueError: the tensor has fewer than two dimensions.

    Returns:
        the tensor.

    Example:
        >>> facula.nn.init.xavier_uniform_(facula.empty(2, 4)).abs().max() <= 1
        tensor(True)
    """
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    bound = math.sqrt(3.0) * gain * math.sqrt(2.0 / (fan_in + fan_out))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(
    tensor: core.Tensor, gain: float = 1.0, generator: core.Generator | None = None
) -> Any:
    """Normal with ``std = gain sqrt(2 / (fan_in + fan_out))``: variance stays forward and backward.
    [Glorot & Bengio 2010]

    Args:
        tensor: what is filled, in place, without recording
        gain: a factor, see `calculate_gain`
        generator: where numbers come from; None for the default one

    Raises:
        ValueError: the tensor has fewer than two dimensions.

    Returns:
        the tensor.

    Example:
        >>> facula.nn.init.xavier_normal_(facula.empty(2, 4)).shape
        facula.Size([2, 4])
    """
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / (fan_in + fan_out)), generator)


def _kaiming_std(tensor: core.Tensor, a: float, mode: str, nonlinearity: str) -> float | None:
    """The standard deviation, None where there is nothing to fill."""
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=3)
        return None
    fan = _calculate_correct_fan(tensor, mode)
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


@offered
def kaiming_uniform_(
    tensor: core.Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: core.Generator | None = None,
) -> Any:
    """Uniform in [-b, b], ``b = gain sqrt(3 / fan)``: variance stays through rectifiers. [He et al.
    2015]

    Args:
        tensor: what is filled, in place, without recording
        a: slope of the leaky rectifier behind the layer
        mode: 'fan_in' keeps the variance forward, 'fan_out' backward
        nonlinearity: what is behind the layer, see `calculate_gain`
        generator: where numbers come from; None for the default one

    Raises:
        ValueError: the tensor has fewer than two dimensions, or mode or nonlinearity is unknown.

    Returns:
        the tensor.

    Example:
        >>> w = facula.nn.init.kaiming_uniform_(facula.empty(4, 6), nonlinearity="relu")
        >>> w.abs().max() <= 1
        tensor(True)
    """
    std = _kaiming_std(tensor, a, mode, nonlinearity)
    if std is None:
        return tensor
    bound = math.sqrt(3.0) * std
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: core.Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: core.Generator | None = None,
) -> Any:
    """Normal with ``std = gain / sqrt(fan)``: variance stays through rectifiers. [He et al. 2015]

    Args:
        tensor: what is filled, in place, without recording
        a: slope of the leaky rectifier behind the layer
        mode: 'fan_in' keeps the variance forward, 'fan_out' backward
        nonlinearity: what is behind the layer, see `calculate_gain`
        generator: where numbers come from; None for the default one

    Raises:
        ValueError: the tensor has fewer than two dimensions, or mode or nonlinearity is unknown.

    Returns:
        the tensor.

    Example:
        >>> facula.nn.init.kaiming_normal_(facula.empty(4, 6), mode="fan_out").shape
        facula.Size([4, 6])
    """
    std = _kaiming_std(tensor, a, mode, nonlinearity)
    return tensor if std is None else normal_(tensor, 0, std, generator)


def orthogonal_(
    tensor: core.Tensor, gain: float = 1, generator: core.Generator | None = None
) -> Any:
    """A random matrix with orthonormal rows or columns, whichever are fewer. [Saxe et al. 2013]

    The matrix is the first dimension by all others.

    Args:
        tensor: what is filled, in place, without recording; of two dimensions or more
        gain: a factor
        generator: where numbers come from; None for the default one

    Raises:
        ValueError: the tensor has fewer than two dimensions.

    Returns:
        the tensor.

    Example:
        >>> w = facula.nn.init.orthogonal_(facula.empty(2, 3))
        >>> facula.allclose(w @ w.T, facula.eye(2), atol=1e-6)
        True
    """
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


def sparse_(
    tensor: core.Tensor, sparsity: float, std: float = 0.01, generator: core.Generator | None = None
) -> Any:
    """Normal numbers, with a share of every column set to zero. [Martens 2010]

    Args:
        tensor: what is filled, in place, without recording; a matrix
        sparsity: the share
        std: standard deviation of the others
        generator: where numbers come from; None for the default one

    Raises:
        ValueError: the tensor has not two dimensions.

    Returns:
        the tensor.

    Example:
        >>> w = facula.nn.init.sparse_(facula.empty(10, 2), sparsity=0.3)
        >>> (w == 0).sum(0)
        tensor([3, 3])
    """
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


_no_grad_uniform_, _no_grad_normal_, _no_grad_fill_ = uniform_, normal_, constant_
_no_grad_trunc_normal_, _no_grad_zero_ = trunc_normal_, zeros_


def _deprecated(function: Callable) -> Callable:
    new = function.__name__
    old = new[:-1]

    def deprecated_init(*args: object, **kwargs: object) -> Any:
        warnings.warn(
            f"`nn.init.{old}` is now deprecated in favor of `nn.init.{new}`.",
            FutureWarning,
            stacklevel=2,
        )
        return function(*args, **kwargs)

    deprecated_init.__name__ = old
    deprecated_init.__doc__ = f"`{new}` under its older name; it warns.\n\n{function.__doc__}"
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
