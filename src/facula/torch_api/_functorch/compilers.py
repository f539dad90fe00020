"""Compilers of flat graphs, under PyTorch's names."""

from facula.lower.aot.api import nop

__all__ = ["nop"]
