"""Compilers of graphs as functions of a list, under PyTorch's names."""

from __future__ import annotations

from facula.torch_api._functorch.aot_autograd import make_boxed_compiler, make_boxed_func

__all__ = ["make_boxed_compiler", "make_boxed_func"]
