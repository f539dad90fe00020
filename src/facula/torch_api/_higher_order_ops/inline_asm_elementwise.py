"""Instructions of NVIDIA's devices on each element, under the name of PyTorch's module.

Takes: tensors and a text of such instructions. Gives: nothing here.
Keeps true: as in PyTorch, a tensor of another device is an error.
"""

from __future__ import annotations

from typing import Any, NoReturn

from facula.core.errors import fail
from facula.fx.higher_order import HigherOrderOperator

__all__ = ["InlineAsmElementwiseOp", "inline_asm_elementwise"]


class InlineAsmElementwiseOp(HigherOrderOperator):
    """`inline_asm_elementwise(*tensors, asm_str=, constraints=, dtype=)`."""

    def __init__(self) -> None:
        super().__init__("inline_asm_elementwise")

    def __call__(self, *inputs: Any, **told: object) -> NoReturn:
        where = inputs[0].device if inputs else "no tensor"
        fail(RuntimeError, "inline_asm_elementwise", "tensors of an NVIDIA device were required "
             "(inline_asm_elementwise only supports CUDA tensors)", where,
             hint="write the function with operators")  # fmt: skip


inline_asm_elementwise = InlineAsmElementwiseOp()
