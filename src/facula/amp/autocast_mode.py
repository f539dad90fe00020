"""`autocast`, the region in which operators run in mixed precision, and what
`autograd.Function` needs to take part.

Takes: a device type, a dtype, and whether it is on. Gives: context managers and decorators.
Keeps true: leaving a region restores what held before, also after an exception; the kept copies of
parameters are dropped when the outermost region ends.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from facula import core
from facula.autograd import autocast as state
from facula.autograd.autocast import is_autocast_available
from facula.core.errors import fail

__all__ = ["autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]


def warn_of_older_name(kind: str, name: str, newer: str) -> None:
    """Say that `kind`.amp.`name` goes by another name now."""
    text = f"`facula.{kind}.amp.{name}(args...)` is deprecated. Please use `facula.amp.{newer}` instead."
    warnings.warn(core.spoken(text), FutureWarning, stacklevel=3)


def _check_dtype(device_type: str, dtype: core.dtype) -> bool:
    """Whether autocast can lower to this dtype on the device; warns where it cannot."""
    if device_type == "cpu" and dtype not in (*state.LOWER, core.float32):
        warnings.warn(
            "In CPU autocast, but the target dtype is not supported. Disabling autocast. "
            f"CPU autocast supports float16, bfloat16 and float32: got {dtype}",
            stacklevel=4,
        )
        return False
    return True


class autocast:  # noqa: N801 - PyTorch's name
    """A block, or a decorator, in which operators choose their precision. [Micikevicius et al. 2018]

    Matrix products, convolutions and attention run in ``dtype``; losses, norms and sums in float32;
    what takes several dtypes in the widest. Parameters keep theirs: the lowered copies live until
    the block ends.

    Args:
        device_type: 'cpu', or that of another device
        dtype: None for bfloat16 on the CPU and float16 on others
        enabled: whether it does anything
        cache_enabled: whether lowered parameters are kept while the block lasts; None for the
            present setting

    Example:
        >>> layer, x = facula.nn.Linear(2, 2), facula.ones(1, 2)
        >>> with facula.autocast("cpu"):
        ...     y = layer(x)
        >>> y.dtype, layer.weight.dtype
        (facula.bfloat16, facula.float32)
    """

    def __init__(
        self,
        device_type: str,
        dtype: core.dtype | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        if not isinstance(device_type, str):
            fail(
                ValueError,
                "autocast",
                "a device type as a string was required (Expected `device_type` of type `str`, got: "
                f"`{type(device_type)}`)",
                device_type,
                hint="for example 'cpu'; device.type is the string of a device",
            )
        default = state.get_autocast_dtype(device_type)
        self.device = device_type
        self.fast_dtype = default if dtype is None else dtype
        self._enabled = bool(enabled) and _check_dtype(device_type, self.fast_dtype)
        self._cache_enabled = (
            state.is_autocast_cache_enabled() if cache_enabled is None else cache_enabled
        )
        self._before: list[tuple[Any, ...]] = []

    def __enter__(self) -> autocast:
        settings = (self._enabled, self.fast_dtype, self._cache_enabled)
        self._before.append(state.enter_region(self.device, *settings))
        return self

    def __exit__(self, kind: object, value: object, trace: Any) -> None:
        state.leave_region(self._before.pop())

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        if not callable(func):
            fail(
                TypeError,
                "autocast",
                f"a function was required (autocast()(func) requires a callable, but got {type(func).__name__})",
                type(func).__name__,
                hint="with autocast(device_type): runs a block in lower precision",
            )

        @functools.wraps(func)
        def within(*args: object, **kwargs: object) -> Any:
            with self:
                return func(*args, **kwargs)

        return within


def _cast_arguments(value: object, device_type: str, dtype: core.dtype) -> Any:
    """Floating-point tensors of the device (but doubles) in `dtype`, through containers."""
    if isinstance(value, core.Tensor):
        castable = (
            value.is_floating_point()
            and value.device.type == device_type
            and value.dtype is not core.float64
        )
        return value.to(dtype) if castable else value
    if isinstance(value, (str, bytes)) or type(value).__module__ == "numpy":
        return value
    if isinstance(value, Mapping):
        return {
            _cast_arguments(k, device_type, dtype): _cast_arguments(v, device_type, dtype)
            for k, v in value.items()
        }
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_cast_arguments(v, device_type, dtype) for v in value))
    if isinstance(value, (list, tuple)):
        return type(value)([_cast_arguments(v, device_type, dtype) for v in value])
    return value


def custom_fwd(
    fwd: Callable[..., Any] | None = None,
    *,
    device_type: str,
    cast_inputs: Any = None,
) -> Callable[..., Any]:
    """A decorator of ``forward`` of an `autograd.Function` under autocast.

    Args:
        fwd: the method; None for a decorator with settings
        device_type: of autocast
        cast_inputs: the dtype to which floating tensors are cast, with autocast off inside; None
            for the caller's autocast

    Example:
        >>> class Square(facula.autograd.Function):
        ...     @staticmethod
        ...     @facula.amp.custom_fwd(device_type="cpu", cast_inputs=facula.float32)
        ...     def forward(ctx, x):
        ...         return x * x
        >>> with facula.autocast("cpu"):
        ...     Square.apply(facula.ones(1, dtype=facula.bfloat16)).dtype
        facula.float32
    """
    if not isinstance(device_type, str):
        fail(
            ValueError,
            "custom_fwd",
            "a device type as a string was required",
            type(device_type).__name__,
            hint="for example 'cpu'; device.type is the string of a device",
        )
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        ctx = args[0]
        ctx._dtype = state.get_autocast_dtype(device_type)
        enabled = state.is_autocast_enabled(device_type)
        if cast_inputs is None:
            ctx._fwd_used_autocast = enabled
            return fwd(*args, **kwargs)
        ctx._fwd_used_autocast = False
        if not enabled:
            return fwd(*args, **kwargs)
        with autocast(device_type=device_type, enabled=False):
            return fwd(
                *_cast_arguments(args, device_type, cast_inputs),
                **_cast_arguments(kwargs, device_type, cast_inputs),
            )

    return decorated


def custom_bwd(bwd: Callable[..., Any] | None = None, *, device_type: str) -> Callable[..., Any]:
    """A decorator of ``backward`` of an `autograd.Function`: autocast as in its forward.

    Args:
        bwd: the method; None for a decorator with settings
        device_type: of autocast

    Example:
        >>> class Same(facula.autograd.Function):
        ...     @staticmethod
        ...     @facula.amp.custom_fwd(device_type="cpu")
        ...     def forward(ctx, x):
        ...         return x.clone()
        ...     @staticmethod
        ...     @facula.amp.custom_bwd(device_type="cpu")
        ...     def backward(ctx, grad):
        ...         return grad
        >>> x = facula.ones(1, requires_grad=True)
        >>> Same.apply(x).backward()
        >>> x.grad
        tensor([1.])
    """
    if not isinstance(device_type, str):
        fail(
            ValueError,
            "custom_bwd",
            "a device type as a string was required",
            type(device_type).__name__,
            hint="for example 'cpu'; device.type is the string of a device",
        )
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        ctx = args[0]
        with autocast(device_type=device_type, enabled=ctx._fwd_used_autocast, dtype=ctx._dtype):
            return bwd(*args, **kwargs)

    return decorated


def _cast(value: Any, device_type: str, dtype: core.dtype) -> Any:
    """Floating-point tensors of a device, float64 aside, in a dtype; mappings and lists entry by entry."""
    if isinstance(value, core.Tensor):
        casts = (
            value.is_floating_point()
            and value.device.type == device_type
            and value.dtype != core.float64
        )
        return value.to(dtype) if casts else value
    if isinstance(value, (str, bytes)) or type(value).__module__ == "numpy":
        return value
    if isinstance(value, Mapping):
        return {
            _cast(k, device_type, dtype): _cast(v, device_type, dtype) for k, v in value.items()
        }
    if isinstance(value, Iterable):
        parts = (_cast(part, device_type, dtype) for part in value)
        return type(value)(parts) if isinstance(value, (list, tuple)) else parts
    return value
