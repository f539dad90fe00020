"""Operations as modules, so that a quantizer could observe their results.

Takes tensors of floating-point numbers. Gives `FloatFunctional`. Keeps true: every result passes
through `activation_post_process`, which changes nothing unless somebody replaced it.
"""

from __future__ import annotations

from typing import Any, NoReturn

from facula.core.errors import fail
from facula.nn import Identity, Module
from facula.ops.registry import F

__all__ = ["FloatFunctional"]


class FloatFunctional(Module):
    """Addition, multiplication and joining with a place for an observer."""

    def __init__(self) -> None:
        super().__init__()
        self.activation_post_process = Identity()

    def forward(self, x: Any) -> NoReturn:
        """Raises RuntimeError: its operations are methods."""
        hint = "use add, add_relu, mul, matmul or cat"
        fail(RuntimeError, "FloatFunctional", "one of its methods was required", "a call", hint)

    def add(self, x: Any, y: Any) -> Any:
        """``x + y``."""
        return self.activation_post_process(F.add(x, y))

    def add_scalar(self, x: Any, y: float) -> Any:
        """``x + y`` for a number, which needs no observer."""
        return F.add(x, y)

    def mul(self, x: Any, y: Any) -> Any:
        """``x * y``."""
        return self.activation_post_process(F.mul(x, y))

    def mul_scalar(self, x: Any, y: float) -> Any:
        """``x * y`` for a number, which needs no observer."""
        return F.mul(x, y)

    def cat(self, x: list[Any], dim: int = 0) -> Any:
        """The tensors of a list, joined."""
        return self.activation_post_process(F.cat(x, dim=dim))

    def add_relu(self, x: Any, y: Any) -> Any:
        """``relu(x + y)``."""
        return self.activation_post_process(F.relu(F.add(x, y)))

    def matmul(self, x: Any, y: Any) -> Any:
        """``x @ y``."""
        return self.activation_post_process(F.matmul(x, y))
