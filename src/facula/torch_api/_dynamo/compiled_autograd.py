"""Compiled backward runs, by PyTorch's names.

Takes and gives: what `facula.compiler.compiled_autograd` does.  Keeps true: nothing is defined here.
"""

from facula.compiler.compiled_autograd import AutogradCompiler as AutogradCompilerInstance
from facula.compiler.compiled_autograd import disable as _disable
from facula.compiler.compiled_autograd import enable as _enable
from facula.compiler.compiled_autograd import in_compiled_autograd_region, reset

__all__ = [
    "AutogradCompilerInstance", "_disable", "_enable", "in_compiled_autograd_region", "reset",
]  # fmt: skip
