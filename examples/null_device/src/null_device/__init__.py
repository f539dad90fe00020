"""The device `null`: shapes, dtypes, views and histories, and no elements.

Takes tensors and operators. Gives results of the right shape and dtype that hold nothing.
Keeps true: memory use is nothing, whatever the sizes; reading an element is an error.

Programs run on it as on any device, so that their shapes, their gradients' shapes and what they would
allocate can be looked at without a computation. It is also the smallest package that adds a device.
"""

from __future__ import annotations

from typing import Any

from facula.backends import unset_results
from facula.core.errors import fail

__all__ = ["NullDevice"]


class NullDevice:
    """Everything that facula asks of a device."""

    #: printing shows shapes instead of elements
    has_data = False

    def __init__(self) -> None:
        self.operators: list[str] = []
        self.allocated = 0

    def allocate(self, nbytes: int, device: Any) -> bytes:
        """A buffer that stands for any number of bytes."""
        self.allocated += nbytes
        return b""

    def copy(self, target: Any, source: Any) -> None:
        """Elements that arrive are forgotten; none can leave."""
        if target.device.type != "null":
            hint = "compute on another device, such as cpu"
            required = "a tensor with elements was required"
            fail(NotImplementedError, "copy", required, "one of the device null", hint)

    def fill(self, tensor: Any, value: Any) -> None:
        """Nothing holds the value."""

    def run(self, operator: Any, arguments: tuple[Any, ...]) -> Any:
        """Gives results of the right shapes, and remembers what would have been computed."""
        self.operators.append(operator.name)
        return unset_results(operator, arguments)
