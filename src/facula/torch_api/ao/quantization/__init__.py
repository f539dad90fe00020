"""The borders of a model's quantized part.

Takes tensors. Gives modules that mark where numbers would become integers, and where they would be
numbers again. Keeps true: a model that nobody has converted computes what it computed without them.
"""

from __future__ import annotations

from typing import Any

from facula.nn import Module

__all__ = ["DeQuantStub", "QuantStub", "QuantWrapper"]


class QuantStub(Module):
    """Where the quantized part begins: the identity before a conversion."""

    def __init__(self, qconfig: Any = None) -> None:
        super().__init__()
        if qconfig:
            self.qconfig = qconfig

    def forward(self, x: Any) -> Any:
        """The argument."""
        return x


class DeQuantStub(QuantStub):
    """Where the quantized part ends: the identity before a conversion."""


class QuantWrapper(Module):
    """A module between the two borders."""

    def __init__(self, module: Module) -> None:
        super().__init__()
        self.quant = QuantStub(getattr(module, "qconfig", None))
        self.dequant = DeQuantStub(getattr(module, "qconfig", None))
        self.module = module
        self.train(module.training)

    def forward(self, X: Any) -> Any:  # noqa: N803 - PyTorch's name
        """The module's result."""
        return self.dequant(self.module(self.quant(X)))
