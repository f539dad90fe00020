"""Convolutions with weights of 8 bits whose inputs are numbers, quantized by their range.

Takes: float tensors. Gives: float tensors. Keeps true: geometry, packed parameters and states are those of the
layers of integers.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.core.errors import fail
from facula.nn import functional
from facula.quantization.modules import intrinsic as nni
from facula.quantization.modules import quantized as nnq

__all__ = [
    "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d",
]  # fmt: skip


def _define(name: str) -> Any:
    base = getattr(nnq, name)
    run, dims = getattr(nnq._ops(), f"{base._kind}_dynamic"), int(base._kind[-2]) + 2

    def forward(self: Any, input: core.Tensor, reduce_range: bool = True) -> Any:
        if input.dim() != dims:
            raise ValueError(
                f"[conv] Input shape must be of {dims} dimensions: got {input.dim()}\nhint: [batch, channels, extents]"
            )
        if self.padding_mode != "zeros":
            input = functional.pad(input, self._reversed_padding_repeated_twice, self.padding_mode)
        return run(input, self._packed_params, reduce_range)

    def from_float(cls: Any, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        layer = mod[0] if isinstance(mod, nni._FusedModule) else mod
        config = getattr(mod, "qconfig", None)
        if config is None:
            fail(AssertionError, f"{name}.from_float", "a layer with a qconfig was required",
                 type(mod).__name__, hint="layer.qconfig = default_dynamic_qconfig")  # fmt: skip
        observer = config.weight()
        observer(layer.weight)
        if observer.dtype is not core.qint8:
            fail(AssertionError, f"{name}.from_float", "Weight observer must have a dtype of qint8",
                 observer.dtype, hint="default_weight_observer is one")  # fmt: skip
        made = cls._of(layer)
        made.set_weight_bias(nnq.quantized_weight(layer.weight, observer), layer.bias)
        return made

    fields = {
        "forward": forward,
        "from_float": classmethod(from_float),
        "_word": f"DynamicQuantized{name}",
        "__doc__": f"`nn.{name}` of numbers that are quantized by their range.",
        "__module__": __name__,
    }
    return type(name, (base,), fields)


Conv1d: Any = _define("Conv1d")
Conv2d: Any = _define("Conv2d")
Conv3d: Any = _define("Conv3d")
ConvTranspose1d: Any = _define("ConvTranspose1d")
ConvTranspose2d: Any = _define("ConvTranspose2d")
ConvTranspose3d: Any = _define("ConvTranspose3d")
