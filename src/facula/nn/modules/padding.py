"""Padding layers.

Takes ``[N, C, ...]`` or ``[C, ...]``.  Gives it with its positions extended at both ends.
Keeps true: paddings are given from the last dimension to the first, before and after in turn; a
negative one crops.
"""

from __future__ import annotations

from typing import Any

from facula.core.errors import fail
from facula.nn import functional as F
from facula.nn.modules.module import Module
from facula.nn.modules.utils import _ntuple, _pair, _quadruple

__all__ = """CircularPad1d CircularPad2d CircularPad3d ConstantPad1d ConstantPad2d ConstantPad3d
ReflectionPad1d ReflectionPad2d ReflectionPad3d ReplicationPad1d ReplicationPad2d ReplicationPad3d
ZeroPad1d ZeroPad2d ZeroPad3d""".split()

_sextuple = _ntuple(6)


class _Pad(Module):
    """Pads in ``_mode``; ``_expand`` makes the tuple."""

    __constants__ = ["padding"]
    _expand: Any = None
    _mode = "constant"

    def __init__(self, padding: Any) -> None:
        super().__init__()
        self.padding = type(self)._expand(padding)

    def forward(self, input: Any) -> Any:
        """The padded input."""
        return F.pad(input, self.padding, self._mode)

    def extra_repr(self) -> str:
        """The padding."""
        return f"{self.padding}"


class _ConstantPadNd(_Pad):
    __constants__ = ["padding", "value"]

    def __init__(self, padding: Any, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Any) -> Any:
        """The input with ``value`` around it."""
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        """The padding and its value."""
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPadNd):
    """A constant around ``[N, C, L]``."""

    _expand = staticmethod(_pair)


class ConstantPad2d(_ConstantPadNd):
    """A constant around ``[N, C, H, W]``."""

    _expand = staticmethod(_quadruple)


class ConstantPad3d(_ConstantPadNd):
    """A constant around ``[N, C, D, H, W]``."""

    _expand = staticmethod(_sextuple)


class _ZeroPadNd(_ConstantPadNd):
    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        """The padding."""
        return f"{self.padding}"


class ZeroPad1d(_ZeroPadNd, ConstantPad1d):
    """Zeros around ``[N, C, L]``."""


class ZeroPad2d(_ZeroPadNd, ConstantPad2d):
    """Zeros around ``[N, C, H, W]``."""


class ZeroPad3d(_ZeroPadNd, ConstantPad3d):
    """Zeros around ``[N, C, D, H, W]``."""


class _ReflectionPadNd(_Pad):
    _mode = "reflect"


class ReflectionPad1d(_ReflectionPadNd):
    """``[N, C, L]`` mirrored at its ends."""

    _expand = staticmethod(_pair)


class ReflectionPad2d(_ReflectionPadNd):
    """``[N, C, H, W]`` mirrored at its edges."""

    _expand = staticmethod(_quadruple)


class ReflectionPad3d(_ReflectionPadNd):
    """``[N, C, D, H, W]`` mirrored at its faces."""

    _expand = staticmethod(_sextuple)


class _ReplicationPadNd(_Pad):
    _mode = "replicate"


class ReplicationPad1d(_ReplicationPadNd):
    """``[N, C, L]`` with its end values repeated."""

    _expand = staticmethod(_pair)


class ReplicationPad2d(_ReplicationPadNd):
    """``[N, C, H, W]`` with its edge values repeated."""

    _expand = staticmethod(_quadruple)


class ReplicationPad3d(_ReplicationPadNd):
    """``[N, C, D, H, W]`` with its face values repeated."""

    _expand = staticmethod(_sextuple)


class _CircularPadNd(_Pad):
    _mode = "circular"
    _dims = 0

    def _check_input_dim(self, input: Any) -> None:
        if input.dim() not in (self._dims + 1, self._dims + 2):
            fail(
                ValueError,
                type(self).__name__,
                (
                    f"expected {self._dims + 1}D or {self._dims + 2}D input (got {input.dim()}D "
                    "input)"
                ),
                hint="unsqueeze(0) adds a batch of one",
            )

    def forward(self, input: Any) -> Any:
        """The input continued periodically."""
        self._check_input_dim(input)
        return F.pad(input, self.padding, self._mode)


class CircularPad1d(_CircularPadNd):
    """``[N, C, L]`` continued periodically."""

    _expand = staticmethod(_pair)
    _dims = 1


class CircularPad2d(_CircularPadNd):
    """``[N, C, H, W]`` continued periodically."""

    _expand = staticmethod(_quadruple)
    _dims = 2


class CircularPad3d(_CircularPadNd):
    """``[N, C, D, H, W]`` continued periodically."""

    _expand = staticmethod(_sextuple)
    _dims = 3
