"""`facula._inductor.compile_fx`: the backend's entry under PyTorch's name.

Takes: nothing. Gives: `compile_fx`, `compile_fx_inner`.
Keeps true: they are those of `facula.compiler.inductor`.
"""

from facula.compiler.inductor.backend import compile_fx
from facula.compiler.inductor.graph import compile_graph as compile_fx_inner

__all__ = ["compile_fx", "compile_fx_inner"]
