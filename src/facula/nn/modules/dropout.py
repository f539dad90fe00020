"""Dropout layers.

Takes a tensor.  Gives it with elements or channels zeroed at random in training, and as it is in
evaluation.
Keeps true: what stays is scaled so that the expected value (for the alpha kinds: mean and variance)
is unchanged.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.core.errors import fail
from facula.nn import functional as F
from facula.nn.modules.module import Module

__all__ = ["AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout"]


class _DropoutNd(Module):
    __constants__ = ["p", "inplace"]
    p: float
    inplace: bool

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if p < 0 or p > 1:
            fail(
                ValueError,
                type(self).__name__,
                f"dropout probability has to be between 0 and 1, but got {p}",
                hint="p=0.5 zeroes half of the values, p=0 none",
            )
        self.p = p
        self.inplace = inplace

    def extra_repr(self) -> str:
        """The parameters."""
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_DropoutNd):
    """Zeroes elements at random in training, and divides the others by ``1 - p``. [Hinton et al. 2012]

    Nothing happens in evaluation (``module.eval()``).

    Args:
        p: the probability of being zeroed, 0 to 1
        inplace: whether the result is written over the input

    Shape:
        any, and the output has the same.

    Raises:
        ValueError: ``p`` is outside of [0, 1].

    Example:
        >>> layer = facula.nn.Dropout(0.5)
        >>> layer.eval()(facula.ones(3))
        tensor([1., 1., 1.])
    """

    def forward(self, input: core.Tensor) -> Any:
        """The same shape."""
        return F.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_DropoutNd):
    """Zeroes whole channels at random in training, and divides the others by ``1 - p``. [Tompson et
    al. 2015]

    Neighbouring elements of a channel say nearly the same: `Dropout` of single ones would take
    little away.

    Nothing happens in evaluation (``module.eval()``).

    Args:
        p: the probability of being zeroed, 0 to 1
        inplace: whether the result is written over the input

    Shape:
        ``[N, C, L]`` or ``[C, L]``, and the output has the same.

    Raises:
        ValueError: ``p`` is outside of [0, 1].

    Example:
        >>> layer = facula.nn.Dropout1d(0.5)
        >>> layer.eval()(facula.ones(1, 2, 3))
        tensor([[[1., 1., 1.],
                 [1., 1., 1.]]])
    """

    def forward(self, input: core.Tensor) -> Any:
        """The same shape."""
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(_DropoutNd):
    """Zeroes whole channels at random in training, and divides the others by ``1 - p``. [Tompson et
    al. 2015]

    Neighbouring elements of a channel say nearly the same: `Dropout` of single ones would take
    little away.

    Nothing happens in evaluation (``module.eval()``).

    Args:
        p: the probability of being zeroed, 0 to 1
        inplace: whether the result is written over the input

    Shape:
        ``[N, C, H, W]`` (three dimensions count as ``[N, C, L]``, with a warning), and the output
        has the same.

    Raises:
        ValueError: ``p`` is outside of [0, 1].

    Example:
        >>> layer = facula.nn.Dropout2d(0.5)
        >>> layer.eval()(facula.ones(1, 2, 1, 3))
        tensor([[[[1., 1., 1.]],
        <BLANKLINE>
                 [[1., 1., 1.]]]])
    """

    def forward(self, input: core.Tensor) -> Any:
        """The same shape."""
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(_DropoutNd):
    """Zeroes whole channels at random in training, and divides the others by ``1 - p``. [Tompson et
    al. 2015]

    Neighbouring elements of a channel say nearly the same: `Dropout` of single ones would take
    little away.

    Nothing happens in evaluation (``module.eval()``).

    Args:
        p: the probability of being zeroed, 0 to 1
        inplace: whether the result is written over the input

    Shape:
        ``[N, C, D, H, W]`` or ``[C, D, H, W]`` (others count as without a batch, with a warning),
        and the output has the same.

    Raises:
        ValueError: ``p`` is outside of [0, 1].

    Example:
        >>> layer = facula.nn.Dropout3d(0.5)
        >>> layer.eval()(facula.ones(1, 2, 1, 1))
        tensor([[[[1.]],
        <BLANKLINE>
                 [[1.]]]])
    """

    def forward(self, input: core.Tensor) -> Any:
        """The same shape."""
        return F.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(_DropoutNd):
    """Dropout that keeps mean 0 and variance 1, for networks with `SELU`. [Klambauer et al. 2017]

    Elements become SELU's lower limit instead of zero, and the result is scaled and shifted.

    Nothing happens in evaluation (``module.eval()``).

    Args:
        p: the probability of being zeroed, 0 to 1
        inplace: whether the result is written over the input

    Shape:
        any, and the output has the same.

    Raises:
        ValueError: ``p`` is outside of [0, 1].

    Example:
        >>> layer = facula.nn.AlphaDropout(0.5)
        >>> layer.eval()(facula.ones(3))
        tensor([1., 1., 1.])
    """

    def forward(self, input: core.Tensor) -> Any:
        """The same shape."""
        return F.alpha_dropout(input, self.p, self.training)


class FeatureAlphaDropout(_DropoutNd):
    """`AlphaDropout` of whole channels.

    Nothing happens in evaluation (``module.eval()``).

    Args:
        p: the probability of being zeroed, 0 to 1
        inplace: whether the result is written over the input

    Shape:
        ``[N, C, *]``, and the output has the same.

    Raises:
        ValueError: ``p`` is outside of [0, 1].

    Example:
        >>> layer = facula.nn.FeatureAlphaDropout(0.5)
        >>> layer.eval()(facula.ones(1, 2, 3))
        tensor([[[1., 1., 1.],
                 [1., 1., 1.]]])
    """

    def forward(self, input: core.Tensor) -> Any:
        """The same shape."""
        return F.feature_alpha_dropout(input, self.p, self.training)
