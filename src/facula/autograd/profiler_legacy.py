"""PyTorch's older name for `autograd.profiler`.

Takes and gives what `facula.autograd.profiler.profile` does. Keeps true: it is the same class.
"""

from __future__ import annotations

from facula.autograd.profiler import profile

__all__ = ["profile"]
