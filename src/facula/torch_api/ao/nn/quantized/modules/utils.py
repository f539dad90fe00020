"""What layers of integers are made with: weights as integers, and the class that those layers share.

Re-exports names of `facula.quantization.modules.quantized`.
"""

from __future__ import annotations

from facula.quantization.modules.quantized import (
    WeightedQuantizedModule,
)
from facula.quantization.modules.quantized import (
    quantized_weight as _quantize_weight,
)

__all__ = ["WeightedQuantizedModule", "_quantize_weight"]
