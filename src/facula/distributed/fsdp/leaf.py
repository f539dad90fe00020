"""A parameter in its whole form: memory that comes and goes.

Takes: a shape, a dtype, and the places of modules where the parameter stands. Gives: `Leaf`.
Keeps true: while the memory is away nothing may compute with the tensor; tensors that share its storage, as those
kept for a backward pass, find the same elements when it is back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from facula import core, nn
from facula.distributed.buffers import give_back

__all__ = ["Leaf", "Place"]

#: a module, and the name of a parameter of it
Place = tuple[nn.Module, str]


class Leaf:
    """The whole form of one parameter."""

    def __init__(
        self, places: list[Place], shape: Sequence[int], dtype: core.dtype, requires_grad: bool,
        wrap: Callable[[Any], Any] = lambda tensor: tensor, device: core.device | str | int = "cpu",
    ) -> None:  # fmt: skip
        self.places, self.shape, self.dtype = places, tuple(shape), dtype
        self.tensor = core.empty(self.shape, dtype=dtype, device=device)
        self.bytes = self.tensor.numel() * self.tensor.element_size()
        #: the elements, to be written: that is no change that a backward pass would refuse
        self.flat = self.tensor.data.view(-1)
        self.parameter = nn.Parameter(wrap(self.tensor), requires_grad)
        self.free()

    def take(self) -> Any:
        """Memory for the elements; gives the tensor, to be written at once."""
        storage = self.tensor.untyped_storage()
        if not self.tensor.is_meta and storage.nbytes() != self.bytes:
            storage.resize_(self.bytes)
        return self.tensor

    def free(self) -> None:
        """Give the memory back."""
        if not self.tensor.is_meta:
            give_back(self.tensor)

    def install(self, parameter: Any) -> None:
        """Put a parameter where this one stands."""
        for module, name in self.places:
            module._parameters[name] = parameter
