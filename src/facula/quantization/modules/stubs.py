"""The borders of a model's quantized part.

Takes tensors. Gives modules that mark where numbers become integers, and where they are numbers again.
Keeps true: a model that nobody has converted computes what it computed without them.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.nn import Module
from facula.quantization.create import quantize_per_tensor

__all__ = ["DeQuantStub", "DeQuantize", "QuantStub", "QuantWrapper", "Quantize"]


class QuantStub(Module):
    """Where the quantized part begins: an observer before a conversion."""

    def __init__(self, qconfig: object = None) -> None:
        super().__init__()
        if qconfig:
            self.qconfig = qconfig

    def forward(self, x: core.Tensor) -> Any:
        """The argument."""
        return x


class DeQuantStub(Module):
    """Where the quantized part ends: the identity before a conversion."""

    def __init__(self, qconfig: object = None) -> None:
        super().__init__()
        if qconfig:
            self.qconfig = qconfig

    def forward(self, x: core.Tensor) -> Any:
        """The argument."""
        return x


class QuantWrapper(Module):
    """A module between the two borders."""

    def __init__(self, module: Module) -> None:
        super().__init__()
        qconfig = getattr(module, "qconfig", None)
        self.add_module("quant", QuantStub(qconfig))
        self.add_module("dequant", DeQuantStub(qconfig))
        self.add_module("module", module)
        self.train(module.training)

    def forward(self, X: Any) -> Any:  # noqa: N803 - PyTorch's name
        """The module's result."""
        return self.dequant(self.module(self.quant(X)))


class Quantize(Module):
    """Numbers to integers."""

    scale: Any
    zero_point: Any

    def __init__(
        self, scale: Any, zero_point: Any, dtype: core.dtype, factory_kwargs: object = None
    ) -> None:
        super().__init__()
        scale, zero_point = float(scale), int(zero_point)
        self.register_buffer("scale", core.tensor([scale]))
        self.register_buffer("zero_point", core.tensor([zero_point], dtype=core.int64))
        self.dtype = dtype

    def forward(self, X: Any) -> Any:  # noqa: N803 - PyTorch's name
        """The integers."""
        return quantize_per_tensor(X.detach(), float(self.scale), int(self.zero_point), self.dtype)

    @staticmethod
    def from_float(mod: Module, use_precomputed_fake_quant: bool = False) -> Quantize:
        """By what a border's observer chose."""
        scale, zero = mod.activation_post_process.calculate_qparams()
        return Quantize(scale.item(), int(zero.item()), mod.activation_post_process.dtype)

    def extra_repr(self) -> str:
        """The parameters."""
        return f"scale={self.scale}, zero_point={self.zero_point}, dtype={self.dtype}"


class DeQuantize(Module):
    """Integers to numbers."""

    def forward(self, Xq: Any) -> Any:  # noqa: N803 - PyTorch's name
        """The numbers."""
        return Xq.dequantize()

    @staticmethod
    def from_float(mod: Module, use_precomputed_fake_quant: bool = False) -> DeQuantize:
        """In the place of a border."""
        return DeQuantize()
