"""Padding layers.

Takes ``[N, C, ...]`` or ``[C, ...]``.  Gives it with its positions extended at both ends.
Keeps true: paddings are given from the last dimension to the first, before and after in turn; a
negative one crops.
"""

from __future__ import annotations

from typing import Any

from facula import core
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

    def __init__(self, padding: object) -> None:
        super().__init__()
        self.padding = type(self)._expand(padding)

    def forward(self, input: core.Tensor) -> Any:
        """The padded input."""
        return F.pad(input, self.padding, self._mode)

    def extra_repr(self) -> str:
        """The padding."""
        return f"{self.padding}"


class _ConstantPadNd(_Pad):
    __constants__ = ["padding", "value"]

    def __init__(self, padding: object, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: core.Tensor) -> Any:
        """The input with ``value`` around it."""
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        """The padding and its value."""
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPadNd):
    """Extends ``[N, C, L]`` with a constant.

    Args:
        padding: one int for all sides, or 2 ints: before, after; negative ones crop
        value: what is put around

    Shape:
        ``[N, C, L]`` or ``[C, L]``, to the same with every size larger by its two paddings.

    Example:
        >>> facula.nn.ConstantPad1d((1, 2), 9.0)(facula.tensor([[1.0, 2.0, 3.0]]))
        tensor([[9., 1., 2., 3., 9., 9.]])
    """

    _expand = staticmethod(_pair)


class ConstantPad2d(_ConstantPadNd):
    """Extends ``[N, C, H, W]`` with a constant.

    Args:
        padding: one int for all sides, or 4 ints: left, right, top, bottom; negative ones crop
        value: what is put around

    Shape:
        ``[N, C, H, W]`` or ``[C, H, W]``, to the same with every size larger by its two paddings.

    Example:
        >>> facula.nn.ConstantPad2d((1, 1, 0, 1), 9.0)(facula.tensor([[[1.0, 2.0], [3.0, 4.0]]]))
        tensor([[[9., 1., 2., 9.],
                 [9., 3., 4., 9.],
                 [9., 9., 9., 9.]]])
    """

    _expand = staticmethod(_quadruple)


class ConstantPad3d(_ConstantPadNd):
    """Extends ``[N, C, D, H, W]`` with a constant.

    Args:
        padding: one int for all sides, or 6 ints: left, right, top, bottom, front, back; negative
            ones crop
        value: what is put around

    Shape:
        ``[N, C, D, H, W]`` or ``[C, D, H, W]``, to the same with every size larger by its two
        paddings.

    Example:
        >>> facula.nn.ConstantPad3d((1, 1, 0, 0, 0, 0), 9.0)(facula.tensor([[[[1.0, 2.0], [3.0, 4.0]]]]))
        tensor([[[[9., 1., 2., 9.],
                  [9., 3., 4., 9.]]]])
    """

    _expand = staticmethod(_sextuple)


class _ZeroPadNd(_ConstantPadNd):
    def __init__(self, padding: object) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        """The padding."""
        return f"{self.padding}"


class ZeroPad1d(_ZeroPadNd, ConstantPad1d):
    """Extends ``[N, C, L]`` with zeros.

    Args:
        padding: one int for all sides, or 2 ints: before, after; negative ones crop

    Shape:
        ``[N, C, L]`` or ``[C, L]``, to the same with every size larger by its two paddings.

    Example:
        >>> facula.nn.ZeroPad1d((1, 2))(facula.tensor([[1.0, 2.0, 3.0]]))
        tensor([[0., 1., 2., 3., 0., 0.]])
    """


class ZeroPad2d(_ZeroPadNd, ConstantPad2d):
    """Extends ``[N, C, H, W]`` with zeros.

    Args:
        padding: one int for all sides, or 4 ints: left, right, top, bottom; negative ones crop

    Shape:
        ``[N, C, H, W]`` or ``[C, H, W]``, to the same with every size larger by its two paddings.

    Example:
        >>> facula.nn.ZeroPad2d((1, 1, 0, 1))(facula.tensor([[[1.0, 2.0], [3.0, 4.0]]]))
        tensor([[[0., 1., 2., 0.],
                 [0., 3., 4., 0.],
                 [0., 0., 0., 0.]]])
    """


class ZeroPad3d(_ZeroPadNd, ConstantPad3d):
    """Extends ``[N, C, D, H, W]`` with zeros.

    Args:
        padding: one int for all sides, or 6 ints: left, right, top, bottom, front, back; negative
            ones crop

    Shape:
        ``[N, C, D, H, W]`` or ``[C, D, H, W]``, to the same with every size larger by its two
        paddings.

    Example:
        >>> facula.nn.ZeroPad3d((1, 1, 0, 0, 0, 0))(facula.tensor([[[[1.0, 2.0], [3.0, 4.0]]]]))
        tensor([[[[0., 1., 2., 0.],
                  [0., 3., 4., 0.]]]])
    """


class _ReflectionPadNd(_Pad):
    _mode = "reflect"


class ReflectionPad1d(_ReflectionPadNd):
    """Extends ``[N, C, L]`` with its reflection, the edge not repeated.

    Args:
        padding: one int for all sides, or 2 ints: before, after; less than the input's sizes;
            negative ones crop

    Shape:
        ``[N, C, L]`` or ``[C, L]``, to the same with every size larger by its two paddings.

    Example:
        >>> facula.nn.ReflectionPad1d((1, 2))(facula.tensor([[1.0, 2.0, 3.0]]))
        tensor([[2., 1., 2., 3., 2., 1.]])
    """

    _expand = staticmethod(_pair)


class ReflectionPad2d(_ReflectionPadNd):
    """Extends ``[N, C, H, W]`` with its reflection, the edge not repeated.

    Args:
        padding: one int for all sides, or 4 ints: left, right, top, bottom; less than the input's
            sizes; negative ones crop

    Shape:
        ``[N, C, H, W]`` or ``[C, H, W]``, to the same with every size larger by its two paddings.

    Example:
        >>> facula.nn.ReflectionPad2d((1, 1, 0, 1))(facula.tensor([[[1.0, 2.0], [3.0, 4.0]]]))
        tensor([[[2., 1., 2., 1.],
                 [4., 3., 4., 3.],
                 [2., 1., 2., 1.]]])
    """

    _expand = staticmethod(_quadruple)


class ReflectionPad3d(_ReflectionPadNd):
    """Extends ``[N, C, D, H, W]`` with its reflection, the edge not repeated.

    Args:
        padding: one int for all sides, or 6 ints: left, right, top, bottom, front, back; less than
            the input's sizes; negative ones crop

    Shape:
        ``[N, C, D, H, W]`` or ``[C, D, H, W]``, to the same with every size larger by its two
        paddings.

    Example:
        >>> facula.nn.ReflectionPad3d((1, 1, 0, 0, 0, 0))(facula.tensor([[[[1.0, 2.0], [3.0, 4.0]]]]))
        tensor([[[[2., 1., 2., 1.],
                  [4., 3., 4., 3.]]]])
    """

    _expand = staticmethod(_sextuple)


class _ReplicationPadNd(_Pad):
    _mode = "replicate"


class ReplicationPad1d(_ReplicationPadNd):
    """Extends ``[N, C, L]`` with its edge elements.

    Args:
        padding: one int for all sides, or 2 ints: before, after; negative ones crop

    Shape:
        ``[N, C, L]`` or ``[C, L]``, to the same with every size larger by its two paddings.

    Example:
        >>> facula.nn.ReplicationPad1d((1, 2))(facula.tensor([[1.0, 2.0, 3.0]]))
        tensor([[1., 1., 2., 3., 3., 3.]])
    """

    _expand = staticmethod(_pair)


class ReplicationPad2d(_ReplicationPadNd):
    """Extends ``[N, C, H, W]`` with its edge elements.

    Args:
        padding: one int for all sides, or 4 ints: left, right, top, bottom; negative ones crop

    Shape:
        ``[N, C, H, W]`` or ``[C, H, W]``, to the same with every size larger by its two paddings.

    Example:
        >>> facula.nn.ReplicationPad2d((1, 1, 0, 1))(facula.tensor([[[1.0, 2.0], [3.0, 4.0]]]))
        tensor([[[1., 1., 2., 2.],
                 [3., 3., 4., 4.],
                 [3., 3., 4., 4.]]])
    """

    _expand = staticmethod(_quadruple)


class ReplicationPad3d(_ReplicationPadNd):
    """Extends ``[N, C, D, H, W]`` with its edge elements.

    Args:
        padding: one int for all sides, or 6 ints: left, right, top, bottom, front, back; negative
            ones crop

    Shape:
        ``[N, C, D, H, W]`` or ``[C, D, H, W]``, to the same with every size larger by its two
        paddings.

    Example:
        >>> facula.nn.ReplicationPad3d((1, 1, 0, 0, 0, 0))(facula.tensor([[[[1.0, 2.0], [3.0, 4.0]]]]))
        tensor([[[[1., 1., 2., 2.],
                  [3., 3., 4., 4.]]]])
    """

    _expand = staticmethod(_sextuple)


class _CircularPadNd(_Pad):
    _mode = "circular"
    _dims = 0

    def _check_input_dim(self, input: core.Tensor) -> None:
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

    def forward(self, input: core.Tensor) -> Any:
        """The input continued periodically."""
        self._check_input_dim(input)
        return F.pad(input, self.padding, self._mode)


class CircularPad1d(_CircularPadNd):
    """Extends ``[N, C, L]`` as if it went on periodically.

    Args:
        padding: one int for all sides, or 2 ints: before, after; at most the input's sizes;
            negative ones crop

    Shape:
        ``[N, C, L]`` or ``[C, L]``, to the same with every size larger by its two paddings.

    Example:
        >>> facula.nn.CircularPad1d((1, 2))(facula.tensor([[1.0, 2.0, 3.0]]))
        tensor([[3., 1., 2., 3., 1., 2.]])
    """

    _expand = staticmethod(_pair)
    _dims = 1


class CircularPad2d(_CircularPadNd):
    """Extends ``[N, C, H, W]`` as if it went on periodically.

    Args:
        padding: one int for all sides, or 4 ints: left, right, top, bottom; at most the input's
            sizes; negative ones crop

    Shape:
        ``[N, C, H, W]`` or ``[C, H, W]``, to the same with every size larger by its two paddings.

    Example:
        >>> facula.nn.CircularPad2d((1, 1, 0, 1))(facula.tensor([[[1.0, 2.0], [3.0, 4.0]]]))
        tensor([[[2., 1., 2., 1.],
                 [4., 3., 4., 3.],
                 [2., 1., 2., 1.]]])
    """

    _expand = staticmethod(_quadruple)
    _dims = 2


class CircularPad3d(_CircularPadNd):
    """Extends ``[N, C, D, H, W]`` as if it went on periodically.

    Args:
        padding: one int for all sides, or 6 ints: left, right, top, bottom, front, back; at most
            the input's sizes; negative ones crop

    Shape:
        ``[N, C, D, H, W]`` or ``[C, D, H, W]``, to the same with every size larger by its two
        paddings.

    Example:
        >>> facula.nn.CircularPad3d((1, 1, 0, 0, 0, 0))(facula.tensor([[[[1.0, 2.0], [3.0, 4.0]]]]))
        tensor([[[[2., 1., 2., 1.],
                  [4., 3., 4., 3.]]]])
    """

    _expand = staticmethod(_sextuple)
    _dims = 3
