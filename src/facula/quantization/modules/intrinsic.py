"""Layers that stand for several: what fusing makes, to be quantized as one.

Takes: a layer and what follows it. Gives: sequences of them with a type of their own. Keeps true: as float modules they
compute what their parts computed.
"""

from __future__ import annotations

from typing import Any

import facula.nn as nn
from facula.core.errors import fail


class _FusedModule(nn.Sequential):
    """A sequence that is quantized as one layer."""


def _sequence(name: str, doc: str, *kinds: tuple[str, ...]) -> type:
    """A fused class of layers of the named kinds."""

    def __init__(self: Any, *parts: object) -> None:
        if len(parts) != len(kinds):
            fail(
                TypeError,
                name,
                f"{len(kinds)} modules were required",
                len(parts),
                hint="one for each step that is fused",
            )
        for part, wanted in zip(parts, kinds, strict=True):
            # parametrized modules have a class of their own, below the layer's
            if not isinstance(part, tuple(getattr(nn, word) for word in wanted)):
                fail(
                    AssertionError,
                    name,
                    f"Incorrect types for input modules: one of {list(wanted)} was required",
                    type(part).__name__,
                    hint="the modules come in the order in which they run",
                )
        _FusedModule.__init__(self, *parts)

    return type(
        name, (_FusedModule,), {"__init__": __init__, "__doc__": doc, "__module__": __name__}
    )


_RELU = ("ReLU",)
for _n in (1, 2, 3):
    _conv, _norm = (f"Conv{_n}d",), (f"BatchNorm{_n}d",)
    globals()[f"ConvReLU{_n}d"] = _sequence(
        f"ConvReLU{_n}d", "relu of a convolution.", _conv, _RELU
    )
    globals()[f"ConvBn{_n}d"] = _sequence(f"ConvBn{_n}d", "A normalized convolution.", _conv, _norm)
    globals()[f"ConvBnReLU{_n}d"] = _sequence(
        f"ConvBnReLU{_n}d", "relu of a normalized convolution.", _conv, _norm, _RELU
    )
    if _n > 1:
        globals()[f"BNReLU{_n}d"] = _sequence(f"BNReLU{_n}d", "relu of a norm.", _norm, _RELU)
ConvReLU1d: Any = globals()["ConvReLU1d"]
ConvReLU2d: Any = globals()["ConvReLU2d"]
ConvReLU3d: Any = globals()["ConvReLU3d"]
ConvBn1d: Any = globals()["ConvBn1d"]
ConvBn2d: Any = globals()["ConvBn2d"]
ConvBn3d: Any = globals()["ConvBn3d"]
ConvBnReLU1d: Any = globals()["ConvBnReLU1d"]
ConvBnReLU2d: Any = globals()["ConvBnReLU2d"]
ConvBnReLU3d: Any = globals()["ConvBnReLU3d"]
BNReLU2d: Any = globals()["BNReLU2d"]
BNReLU3d: Any = globals()["BNReLU3d"]
LinearReLU: Any = _sequence("LinearReLU", "relu of a linear layer.", ("Linear",), _RELU)
LinearBn1d: Any = _sequence(
    "LinearBn1d", "A normalized linear layer.", ("Linear",), ("BatchNorm1d",)
)
LinearLeakyReLU: Any = _sequence(
    "LinearLeakyReLU", "leaky_relu of a linear layer.", ("Linear",), ("LeakyReLU",)
)
LinearTanh: Any = _sequence("LinearTanh", "tanh of a linear layer.", ("Linear",), ("Tanh",))


class ConvAdd2d(_FusedModule):
    """A convolution and the sum of its result with another tensor.

    Args:
        conv: the convolution, an ``nn.Conv2d``.
        add: what makes the sum of two tensors.

    Example:
        >>> layer = facula.ao.nn.intrinsic.ConvAdd2d(facula.nn.Conv2d(3, 4, 1), facula.add)
        >>> layer(facula.ones(1, 3, 2, 2), facula.ones(1, 4, 2, 2)).shape
        facula.Size([1, 4, 2, 2])
    """

    def __init__(self, conv: nn.Module, add: Any) -> None:
        super().__init__(conv)
        self.add = add

    def forward(self, x1: Any, x2: Any) -> Any:  # type: ignore[override]  # takes both operands
        """The sum."""
        return self.add(self[0](x1), x2)


class ConvAddReLU2d(_FusedModule):
    """relu of the sum of a convolution and another tensor.

    Args:
        conv: the convolution, an ``nn.Conv2d``.
        add: what makes the sum of two tensors.
        relu: what follows the sum.

    Example:
        >>> parts = facula.nn.Conv2d(3, 4, 1), facula.add, facula.nn.ReLU()
        >>> layer = facula.ao.nn.intrinsic.ConvAddReLU2d(*parts)
        >>> layer(facula.ones(1, 3, 2, 2), facula.ones(1, 4, 2, 2)).shape
        facula.Size([1, 4, 2, 2])
    """

    def __init__(self, conv: nn.Module, add: Any, relu: Any) -> None:
        super().__init__(conv)
        self.add = add
        self.relu = relu

    def forward(self, x1: Any, x2: Any) -> Any:  # type: ignore[override]  # takes both operands
        """relu of the sum."""
        return self.relu(self.add(self[0](x1), x2))
