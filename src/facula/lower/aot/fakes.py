"""Fake inputs for tracing.

Takes the real inputs of a program (or fake ones).  Gives fake ones of the same kind: leaves, with
sizes, strides, dtypes, devices and `requires_grad` of the real ones, on memory of their own.
Keeps true: real tensors are not touched; numbers stay numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from facula import core
from facula.fx.fake_tensor import FakeTensor, FakeTensorMode

Tensor = core.Tensor


def fake_mode_of(inputs: Sequence[Any]) -> FakeTensorMode:
    """The mode that fake inputs belong to, or a new one."""
    for x in inputs:
        if isinstance(x, FakeTensor):
            return x.fake_mode
    return FakeTensorMode(allow_non_fake_inputs=True)


def fake_inputs(inputs: Sequence[Any]) -> list[Any]:
    """The inputs as fake tensors."""
    mode = fake_mode_of(inputs)
    return [_fake(x, mode) if isinstance(x, Tensor) else x for x in inputs]


def _fake(x: Tensor, mode: FakeTensorMode) -> Tensor:
    plain = x.detach()
    return as_leaf(plain if isinstance(plain, FakeTensor) else mode.from_tensor(plain), x)


def as_leaf(made: FakeTensor, x: Tensor) -> Any:
    """A fake tensor as a leaf of the trace, which wants a gradient where the input does."""
    made.requires_grad_(x.requires_grad)
    if x.requires_grad and not x.is_leaf:
        # a leaf of the trace, but none of the program: it may be written to
        made._inner = True
    return made
