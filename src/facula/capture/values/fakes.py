"""Stand-ins for tensors while a program is captured: sizes, strides, dtype and device, no elements.

Takes: real tensors. Gives: fake tensors, and results of operators on them.
Keeps true: no kernel runs and no random number is drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula import core
from facula.fx.fake_tensor import FakeTensorMode


class Fakes:
    """The fake tensors of one capture."""

    def __init__(self) -> None:
        self.mode = FakeTensorMode(allow_non_fake_inputs=True)
        #: whether a result had a size that depends on elements
        self.counted = False

    def from_tensor(self, tensor: core.Tensor) -> Any:
        """A stand-in for a real tensor."""
        return self.mode.from_tensor(tensor)

    def resized(self, tensor: Any, shape: tuple[int, ...]) -> Any:
        """A stand-in of other sizes, dense in the order of the strides of `tensor`; these for its own."""
        order = sorted(range(len(shape)), key=lambda d: (tensor.stride(d), -d))
        strides, step = [0] * len(shape), 1
        for d in order:
            strides[d] = 0 if tensor.stride(d) == 0 and tensor.size(d) > 1 else step
            step *= max(shape[d], 1)
        if shape == tuple(tensor.shape):
            strides = list(tensor.stride())
        with self.mode:
            made = core.empty_strided(shape, strides, dtype=tensor.dtype, device=tensor.device)
        if tensor.requires_grad:
            made.requires_grad_(True)
            if not tensor.is_leaf:  # it may be written to
                recording = core.set_grad_enabled(True)
                try:
                    with self.mode:
                        made = core.adopt_history(made.detach(), made.clone())
                finally:
                    core.set_grad_enabled(recording)
        return made

    def run(
        self,
        function: Callable[..., Any],
        args: list[Any],
        kwargs: dict[str, Any],
        count: int | None = None,
    ) -> Any:
        """What an operator gives for stand-ins.

        Args:
            count: a size that depends on elements; None refuses operators with such ones.
        """
        self.mode.count = count
        try:
            with self.mode:
                return function(*args, **kwargs)
        finally:
            self.mode.count = None
