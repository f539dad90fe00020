"""Backends out of compilers for flat graphs: see `facula.lower.aot.backend`."""

from facula.lower.aot.backend import AotAutograd, aot_autograd

__all__ = ["AotAutograd", "aot_autograd"]
