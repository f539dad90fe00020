"""Dropout layers.

Takes a tensor.  Gives it with elements or channels zeroed at random in training, and as it is in
evaluation.
Keeps true: what stays is scaled so that the expected value (for the alpha kinds: mean and variance)
is unchanged.
"""

from __future__ import annotations

from typing import Any

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
    """Zeroes elements with probability ``p``."""

    def forward(self, input: Any) -> Any:
        """The same shape."""
        return F.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_DropoutNd):
    """Zeroes whole channels of ``[N, C, L]``."""

    def forward(self, input: Any) -> Any:
        """The same shape."""
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(_DropoutNd):
    """Zeroes whole channels of ``[N, C, H, W]``."""

    def forward(self, input: Any) -> Any:
        """The same shape."""
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(_DropoutNd):
    """Zeroes whole channels of ``[N, C, D, H, W]``."""

    def forward(self, input: Any) -> Any:
        """The same shape."""
        return F.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(_DropoutNd):
    """Dropout that keeps mean and variance, for networks with SELU."""

    def forward(self, input: Any) -> Any:
        """The same shape."""
        return F.alpha_dropout(input, self.p, self.training)


class FeatureAlphaDropout(_DropoutNd):
    """Alpha dropout of whole channels."""

    def forward(self, input: Any) -> Any:
        """The same shape."""
        return F.feature_alpha_dropout(input, self.p, self.training)
