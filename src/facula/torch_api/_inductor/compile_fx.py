"""`facula._inductor.compile_fx`: the backend's entry under PyTorch's name.

Takes: nothing. Gives: `compile_fx`, `compile_fx_inner`.
Keeps true: they are those of `facula.compiler`.
"""

from facula.compiler.backend import compile_fx
from facula.compiler.pipeline import compile_graph as compile_fx_inner

__all__ = ["compile_fx", "compile_fx_inner"]
