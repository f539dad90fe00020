"""Operations as modules, so that their results can be observed and quantized.

Takes: tensors. Gives: `FloatFunctional`, what it becomes, `QFunctional`, and `FXFloatFunctional`, which does not
observe. Keeps true: every result that has a range of its own passes through `activation_post_process`.
"""

from __future__ import annotations

from typing import Any, NoReturn

from facula.core.errors import fail
from facula.nn import Identity, Module
from facula.ops.table.registry import F
from facula.quantization import elementwise
from facula.quantization.state_parts import number_in

__all__ = ["FXFloatFunctional", "FloatFunctional", "QFunctional"]


def _called(name: str) -> NoReturn:
    hint = "use add, add_relu, mul, matmul or cat"
    fail(RuntimeError, name, "one of its methods was required", "a call", hint)


class FXFloatFunctional(Module):
    """Operations on numbers, as graphs have them."""

    def forward(self, x: Any) -> NoReturn:
        """Raises RuntimeError: its operations are methods."""
        _called(type(self).__name__)

    def _seen(self, x: Any) -> Any:
        return x

    def add(self, x: Any, y: Any) -> Any:
        """``x + y``."""
        return self._seen(F.add(x, y))

    def add_scalar(self, x: Any, y: float) -> Any:
        """``x + y`` for a number, which needs no observer."""
        return F.add(x, y)

    def mul(self, x: Any, y: Any) -> Any:
        """``x * y``."""
        return self._seen(F.mul(x, y))

    def mul_scalar(self, x: Any, y: float) -> Any:
        """``x * y`` for a number, which needs no observer."""
        return F.mul(x, y)

    def cat(self, x: Any, dim: int = 0) -> Any:
        """The tensors of a list, joined."""
        return self._seen(F.cat(x, dim))

    def add_relu(self, x: Any, y: Any) -> Any:
        """``relu(x + y)``."""
        return self._seen(F.relu(F.add(x, y)))

    def matmul(self, x: Any, y: Any) -> Any:
        """``x @ y``."""
        return self._seen(F.matmul(x, y))


class FloatFunctional(FXFloatFunctional):
    """Operations on numbers with a place for an observer."""

    def __init__(self) -> None:
        super().__init__()
        self.activation_post_process = Identity()

    def _seen(self, x: Any) -> Any:
        return self.activation_post_process(x)


class QFunctional(Module):
    """The same operations on integers."""

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.zero_point = 1.0, 0
        self.activation_post_process = Identity()

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        # lazily: it is asked for when a state is saved
        from facula import core

        destination[prefix + "scale"] = core.tensor(self.scale)
        destination[prefix + "zero_point"] = core.tensor(self.zero_point)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        self.scale = number_in(state_dict, prefix + "scale", float)
        self.zero_point = number_in(state_dict, prefix + "zero_point", int)
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def _get_name(self) -> str:
        return "QFunctional"

    def extra_repr(self) -> str:
        """The result's parameters."""
        return f"scale={self.scale}, zero_point={self.zero_point}"

    def forward(self, x: Any) -> NoReturn:
        """Raises RuntimeError: its operations are methods."""
        _called("QFunctional")

    def add(self, x: Any, y: Any) -> Any:
        """``x + y``."""
        made = elementwise.TABLE["add"](x, y, self.scale, self.zero_point)
        return self.activation_post_process(made)

    def add_scalar(self, x: Any, y: float) -> Any:
        """``x + y`` for a number."""
        return elementwise.TABLE["add_scalar"](x, y)

    def mul(self, x: Any, y: Any) -> Any:
        """``x * y``."""
        made = elementwise.TABLE["mul"](x, y, self.scale, self.zero_point)
        return self.activation_post_process(made)

    def mul_scalar(self, x: Any, y: float) -> Any:
        """``x * y`` for a number."""
        return elementwise.TABLE["mul_scalar"](x, y)

    def cat(self, x: Any, dim: int = 0) -> Any:
        """The tensors of a list, joined."""
        made = elementwise.cat(x, dim, self.scale, self.zero_point)
        return self.activation_post_process(made)

    def add_relu(self, x: Any, y: Any) -> Any:
        """``relu(x + y)``."""
        made = elementwise.TABLE["add_relu"](x, y, self.scale, self.zero_point)
        return self.activation_post_process(made)

    def matmul(self, x: Any, y: Any) -> Any:
        """``x @ y``."""
        made = elementwise.matmul(x, y, self.scale, self.zero_point)
        return self.activation_post_process(made)

    @classmethod
    def from_float(cls, mod: Module, use_precomputed_fake_quant: bool = False) -> Any:
        """In the place of operations that were observed."""
        scale, zero = mod.activation_post_process.calculate_qparams()
        made = cls()
        made.scale, made.zero_point = float(scale), int(zero)
        return made
