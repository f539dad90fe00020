"""What stands for a result that comes from one function or from another.

Takes: two stand-ins. Gives: one that fits both.
Keeps true: dtypes and devices are the same; sizes, and numbers, that differ become symbols without an example
where there
are symbols, and are an error elsewhere.
"""

from __future__ import annotations

import contextlib
from typing import Any

from facula import core
from facula.fx.fake_tensor import FakeTensorMode, detect_fake_mode
from facula.fx.higher_order.errors import refuse
from facula.fx.proxy_tensor import disable_proxy_modes_tracing

__all__ = ["merged"]

Tensor = core.Tensor


def merged(a: Any, b: Any) -> Any:
    """A stand-in for `a` or `b`.

    Raises:
        UncapturedHigherOrderOpError: there is none.
    """
    if a is None and b is None:
        return None
    if isinstance(a, int) and isinstance(b, int) and not isinstance(a, bool):
        return _number(a, b)
    if not isinstance(a, Tensor) or not isinstance(b, Tensor):
        _differ("results of one kind", type(a).__name__, type(b).__name__)
    if a.dtype is not b.dtype or a.device != b.device or a.dim() != b.dim():
        _differ(
            "results of one dtype, device and number of dimensions",
            (a.dtype, a.device, a.dim()),
            (b.dtype, b.device, b.dim()),
        )
    mode = detect_fake_mode([a, b])
    sizes = [
        x if _same(x, y) else _new_size(mode, x, y) for x, y in zip(a.shape, b.shape, strict=True)
    ]
    strides = [_same(x, y) for x, y in zip(a.stride(), b.stride(), strict=True)]
    same_sizes = all(_same(x, y) for x, y in zip(a.shape, b.shape, strict=True))
    with disable_proxy_modes_tracing():
        if same_sizes and all(strides):
            with mode if mode is not None else contextlib.nullcontext():
                return a.new_empty_strided(tuple(a.shape), tuple(a.stride()))
        if mode is None:
            return a.new_empty(tuple(sizes))
        with mode:
            return a.new_empty(tuple(sizes))


def _same(x: object, y: Any) -> bool:
    symbolic = getattr(x, "_is_symbolic", False) or getattr(y, "_is_symbolic", False)
    return str(x) == str(y) if symbolic else bool(x == y)


def _new_size(mode: Any, x: object, y: int) -> Any:
    """A size without an example; where there are no symbols, the number that stands for such ones."""
    env = getattr(mode, "shape_env", None)
    if env is not None:
        return env.create_unbacked_symint(0)
    if mode is None or mode.count is None:
        _differ("results of one shape", x, y)
    mode.counted = True
    return mode.count


def _number(a: object, b: object) -> Any:
    if _same(a, b):
        return a
    env: Any = environment()
    if env is None:
        _differ("the same number from both functions", a, b)
    if type(a) is int and type(b) is int:
        return env.create_unbacked_symint(min(a, b), max(a, b))
    return env.create_unbacked_symint()


def environment() -> Any:
    """The symbols of the trace that runs; None where it has none."""
    modes = [mode for mode in core.DISPATCH_MODES if isinstance(mode, FakeTensorMode)]
    return next((mode.shape_env for mode in modes if mode.shape_env is not None), None)


def _differ(wanted: str, a: object, b: object) -> Any:
    refuse(
        "cond",
        f"{wanted} were required of both functions (Expected both branches to return tensors with the same metadata: "
        "pair differ in 'shape', 'stride', 'dtype' or 'device')",
        f"{a} and {b}",
        "convert in the functions what they return",
    )
