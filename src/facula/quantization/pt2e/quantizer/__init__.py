"""What a quantizer is, and those that there are.

Gives: the words of `quantizer`, and `ComposableQuantizer`; `xnnpack_quantizer` and `x86_inductor_quantizer` are
modules beside it, as in PyTorch.
"""

from __future__ import annotations

from facula.quantization.pt2e.quantizer.composable_quantizer import ComposableQuantizer
from facula.quantization.pt2e.quantizer.quantizer import (
    DerivedQuantizationSpec,
    EdgeOrNode,
    FixedQParamsQuantizationSpec,
    QuantizationAnnotation,
    QuantizationSpec,
    QuantizationSpecBase,
    Quantizer,
    SharedQuantizationSpec,
)

__all__ = [
    "ComposableQuantizer",
    "DerivedQuantizationSpec",
    "EdgeOrNode",
    "FixedQParamsQuantizationSpec",
    "QuantizationAnnotation",
    "QuantizationSpec",
    "QuantizationSpecBase",
    "Quantizer",
    "SharedQuantizationSpec",
]
