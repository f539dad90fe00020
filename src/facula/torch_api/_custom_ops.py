"""PyTorch's first module for operators of one's own, which older libraries import.

Takes and gives what `facula.library` does. Keeps true: one registry, whichever name is used.
"""

from __future__ import annotations

from facula.library import custom_op, impl, impl_abstract, infer_schema

__all__ = ["custom_op", "impl", "impl_abstract", "infer_schema"]
