"""Handling operators below differentiation: `__torch_dispatch__`, on subclasses and in modes.

Takes classes of tensors that define `__torch_dispatch__`, and `TorchDispatchMode`s. Gives PyTorch's
helpers around them.
Keeps true: a mode is not asked about what it calls itself; composites have been taken apart before,
and nothing that happens here is recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.fx.dispatch_mode import TorchDispatchMode

__all__ = [
    "BaseTorchDispatchMode", "TorchDispatchMode", "is_traceable_wrapper_subclass",
    "is_traceable_wrapper_subclass_type", "return_and_correct_aliasing", "transform_subclass",
]  # fmt: skip


class BaseTorchDispatchMode(TorchDispatchMode):
    """A mode that changes nothing."""

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        return func(*args, **(kwargs or {}))


def _get_current_dispatch_mode() -> TorchDispatchMode | None:
    """The innermost active mode."""
    return core.DISPATCH_MODES[-1] if core.DISPATCH_MODES else None


def _get_current_dispatch_mode_stack() -> list[TorchDispatchMode]:
    """The active modes, the innermost last."""
    return list(core.DISPATCH_MODES)


@contextmanager
def _disable_current_modes() -> Iterator[list[TorchDispatchMode]]:
    """A block without dispatch modes."""
    modes = [core.pop_dispatch_mode() for _ in range(len(core.DISPATCH_MODES))][::-1]
    try:
        yield modes
    finally:
        for mode in modes:
            core.push_dispatch_mode(mode)


@contextmanager
def _pop_mode_temporarily(key: object = None) -> Iterator[TorchDispatchMode]:
    """A block without the innermost dispatch mode."""
    mode = core.pop_dispatch_mode()
    try:
        yield mode
    finally:
        core.push_dispatch_mode(mode)


def is_traceable_wrapper_subclass(t: Any) -> bool:
    """Whether a tensor is of a class that can be taken apart into tensors and put together again."""
    return isinstance(t, core.Tensor) and is_traceable_wrapper_subclass_type(type(t))


def is_traceable_wrapper_subclass_type(t: type) -> bool:
    """Whether objects of a class can be taken apart into tensors and put together again."""
    methods = ("__tensor_flatten__", "__tensor_unflatten__")
    return t is not core.Tensor and all(hasattr(t, method) for method in methods)


def transform_subclass(
    t: Any, callback: Callable[[str, Any], Any], outer_size: Any = None, outer_stride: Any = None
) -> Any:
    """A wrapper like another, around `callback(name, tensor)` of its inner tensors.

    Raises:
        RuntimeError: what the class put together has another shape or other strides.
    """
    size = t.size() if outer_size is None else outer_size
    stride = t.stride() if outer_stride is None else outer_stride
    names, context = t.__tensor_flatten__()
    inner = {name: callback(name, getattr(t, name)) for name in names}
    made = type(t).__tensor_unflatten__(inner, context, size, stride)
    if tuple(made.shape) != tuple(size) or tuple(made.stride()) != tuple(stride):
        required = (
            f"a {type(t).__name__} of shape {tuple(size)} and strides {tuple(stride)} was required"
        )
        got = f"{tuple(made.shape)} and {tuple(made.stride())}"
        fail(
            RuntimeError,
            "transform_subclass",
            required,
            got,
            hint="__tensor_unflatten__ makes a tensor of outer_size and outer_stride",
        )
    return made


def return_and_correct_aliasing(
    func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], out: object
) -> Any:
    """What `__torch_dispatch__` of a wrapper should return: of in-place operators, their argument.

    Args:
        func: the operator, with its `args` and `kwargs`.
        out: what the wrapper computed.
    """
    given = (kwargs or {}).get("out")
    if given is not None:
        return given
    return args[0] if writes_to_first_argument(func) else out


def writes_to_first_argument(func: Callable[..., Any]) -> bool:
    """Whether an operator or method is an in-place one."""
    function = getattr(func, "_op", func)
    if isinstance(function, core.InplaceOp):
        return True
    name = getattr(function, "__name__", "")
    return name.endswith("_") and not name.endswith("__")
