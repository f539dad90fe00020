"""The operators whose ONNX form is written by hand, by family.

Takes and gives nothing: importing fills `onnx.table.TRANSLATIONS`.
Keeps true: each operator has one translation.
"""

from __future__ import annotations

from facula.onnx.translations import (
    activation,
    attention,
    convolution,
    creation,
    indexing,
    joining,
    normalisation,
    pooling,
    products,
    recurrent,
    reduction,
    resampling,
    rewritten,
    scattering,
    sorting,
    views,
)

__all__ = [
    "activation", "attention", "convolution", "creation", "indexing", "joining", "normalisation",
    "pooling", "products", "recurrent", "reduction", "resampling", "rewritten", "scattering",
    "sorting", "views",
]  # fmt: skip
