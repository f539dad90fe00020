"""Autocast: running operators in the precision that their definitions ask for.

Policies: `lower` casts floating-point arguments to the lower dtype, `float32` to float32, `widest` to
the widest among them; `unchanged` casts nothing, and what the operator calls is not cast either.

Takes: which device types autocast is on for, and the dtype to which it lowers.
Gives: the state of this thread (what `amp.autocast` changes), and the handler that the core calls for
operators whose definition has an `autocast` policy.
Keeps true: where autocast is off nothing is called; an operator runs with autocast off inside, so that
what it calls is not cast twice; a lowered copy of a parameter is used as long as the parameter has
not changed.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Iterator
from typing import Any

from facula import core
from facula.core.errors import fail

__all__ = [
    "autocast_decrement_nesting",
    "autocast_increment_nesting",
    "clear_autocast_cache",
    "get_autocast_cpu_dtype",
    "get_autocast_dtype",
    "get_autocast_gpu_dtype",
    "is_autocast_available",
    "is_autocast_cache_enabled",
    "is_autocast_cpu_enabled",
    "is_autocast_enabled",
    "set_autocast_cache_enabled",
    "set_autocast_cpu_dtype",
    "set_autocast_cpu_enabled",
    "set_autocast_dtype",
    "set_autocast_enabled",
    "set_autocast_gpu_dtype",
]

#: the dtype to which autocast lowers, until told otherwise; a backend adds its device type
DEFAULT_DTYPES: dict[str, Any] = {
    "cpu": core.bfloat16,
    "cuda": core.float16,
    "mps": core.float16,
    "xpu": core.float16,
}
LOWER = (core.float16, core.bfloat16)


class _State(threading.local):
    """What autocast does in this thread."""

    def __init__(self) -> None:
        self.enabled: set[str] = set()
        self.dtypes: dict[str, Any] = {}
        self.nesting = 0
        self.cache_enabled = True
        #: id of a parameter -> (weak reference, version, dtype, lowered copy)
        self.cache: dict[int, tuple[Any, int, Any, Any]] = {}


_STATE = _State()


def all_settings() -> tuple[Any, ...]:
    """What autocast does in this thread, for `restore`."""
    return set(_STATE.enabled), dict(_STATE.dtypes), _STATE.nesting, _STATE.cache_enabled


def restore(settings: tuple[Any, ...]) -> None:
    """Let autocast do again what it did when `all_settings` was asked."""
    enabled, dtypes, _STATE.nesting, _STATE.cache_enabled = settings
    _STATE.enabled, _STATE.dtypes = set(enabled), dict(dtypes)
    core.set_autocast(bool(enabled))


@contextlib.contextmanager
def restored() -> Iterator[None]:
    """Behind it autocast is what it was before, though what runs in it stops half-way."""
    settings = all_settings()
    try:
        yield
    finally:
        restore(settings)


def _is_device(device_type: str) -> bool:
    """Whether the text names a kind of device."""
    try:
        core.device(device_type)
    except RuntimeError:
        return False
    return True


def _device_type(op: str, device_type: str) -> str:
    if not isinstance(device_type, str):
        fail(
            TypeError,
            op,
            "a device type as a string was required",
            type(device_type).__name__,
            hint="for example 'cpu'; device.type is the string of a device",
        )
    if device_type not in DEFAULT_DTYPES:
        fail(
            RuntimeError,
            op,
            "a device type that autocast knows was required "
            f"(User specified an unsupported autocast device_type '{device_type}'"
            f"{'' if _is_device(device_type) else f'. Invalid device string: {device_type!r}'})",
            repr(device_type),
            f"one of {sorted(DEFAULT_DTYPES)}",
        )
    return device_type


def is_autocast_available(device_type: str) -> bool:
    """Whether autocast knows a device type.

    Args:
        device_type: such as 'cpu'

    Raises:
        TypeError: something else than a text was given.
        RuntimeError: the text names no device.

    Example:
        >>> facula.amp.is_autocast_available("cpu")
        True
    """
    if not isinstance(device_type, str):
        fail(
            TypeError,
            "is_autocast_available",
            "a string was required",
            type(device_type).__name__,
            hint="for example 'cpu'; device.type is the string of a device",
        )
    if device_type in DEFAULT_DTYPES:
        return True
    if not _is_device(device_type):
        fail(
            RuntimeError,
            "is_autocast_available",
            f"Invalid device string: {device_type!r}",
            hint=f"autocast knows {sorted(DEFAULT_DTYPES)}",
        )
    return core.device(device_type).type in DEFAULT_DTYPES


def is_autocast_enabled(device_type: str | None = None) -> bool:
    """Whether autocast is on for a device type in this thread.

    Args:
        device_type: None for 'cuda'

    Example:
        >>> with facula.autocast("cpu"):
        ...     facula.is_autocast_enabled("cpu")
        True
    """
    return (
        _device_type("is_autocast_enabled", "cuda" if device_type is None else device_type)
        in _STATE.enabled
    )


def set_autocast_enabled(device_type: Any, enabled: bool | None = None) -> None:
    """Switches autocast of a device type on or off in this thread.

    Args:
        device_type: such as 'cpu'; a bool alone is for 'cuda'
        enabled: whether it is on

    Example:
        >>> facula.set_autocast_enabled("cpu", False)
    """
    if enabled is None:
        device_type, enabled = "cuda", device_type
    device_type = _device_type("set_autocast_enabled", device_type)
    _STATE.enabled.discard(device_type)
    if enabled:
        _STATE.enabled.add(device_type)
    core.AUTOCAST[0] = _run
    core.set_autocast(bool(_STATE.enabled))


def get_autocast_dtype(device_type: str) -> core.dtype:
    """The dtype to which autocast lowers on a device type.

    Args:
        device_type: such as 'cpu'

    Example:
        >>> facula.get_autocast_dtype("cpu")
        facula.bfloat16
    """
    device_type = _device_type("get_autocast_dtype", device_type)
    return _STATE.dtypes.get(device_type, DEFAULT_DTYPES[device_type])


def set_autocast_dtype(device_type: str, dtype: core.dtype) -> None:
    """Sets the dtype to which autocast lowers on a device type.

    Args:
        device_type: such as 'cpu'
        dtype: the dtype

    Example:
        >>> facula.set_autocast_dtype("cpu", facula.bfloat16)
    """
    device_type = _device_type("set_autocast_dtype", device_type)
    if not isinstance(dtype, core.dtype):
        fail(
            TypeError,
            "set_autocast_dtype",
            "a dtype was required",
            type(dtype).__name__,
            hint="for example facula.bfloat16",
        )
    _STATE.dtypes[device_type] = dtype


def is_autocast_cpu_enabled() -> bool:
    """``is_autocast_enabled('cpu')``.

    Example:
        >>> facula.is_autocast_cpu_enabled()
        False
    """
    return is_autocast_enabled("cpu")


def set_autocast_cpu_enabled(enabled: bool) -> None:
    """``set_autocast_enabled('cpu', enabled)``.

    Args:
        enabled: whether it is on

    Example:
        >>> facula.set_autocast_cpu_enabled(False)
    """
    set_autocast_enabled("cpu", enabled)


def get_autocast_cpu_dtype() -> core.dtype:
    """``get_autocast_dtype('cpu')``.

    Example:
        >>> facula.get_autocast_cpu_dtype()
        facula.bfloat16
    """
    return get_autocast_dtype("cpu")


def set_autocast_cpu_dtype(dtype: core.dtype) -> None:
    """``set_autocast_dtype('cpu', dtype)``.

    Args:
        dtype: the dtype

    Example:
        >>> facula.set_autocast_cpu_dtype(facula.get_autocast_cpu_dtype())
    """
    set_autocast_dtype("cpu", dtype)


def get_autocast_gpu_dtype() -> core.dtype:
    """``get_autocast_dtype('cuda')``.

    Example:
        >>> facula.get_autocast_gpu_dtype()
        facula.float16
    """
    return get_autocast_dtype("cuda")


def set_autocast_gpu_dtype(dtype: core.dtype) -> None:
    """``set_autocast_dtype('cuda', dtype)``.

    Args:
        dtype: the dtype

    Example:
        >>> facula.set_autocast_gpu_dtype(facula.get_autocast_gpu_dtype())
    """
    set_autocast_dtype("cuda", dtype)


def is_autocast_cache_enabled() -> bool:
    """Whether lowered parameters are kept while autocast is on.

    Example:
        >>> facula.is_autocast_cache_enabled()
        True
    """
    return _STATE.cache_enabled


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Whether lowered parameters are kept while autocast is on.

    Args:
        enabled: whether they are

    Example:
        >>> facula.set_autocast_cache_enabled(True)
    """
    _STATE.cache_enabled = bool(enabled)


def clear_autocast_cache() -> None:
    """Forgets the lowered copies of parameters.

    Example:
        >>> facula.clear_autocast_cache()
    """
    _STATE.cache.clear()


def autocast_increment_nesting() -> int:
    """Enters one autocast region; gives how many are open.

    Example:
        >>> facula.autocast_increment_nesting(), facula.autocast_decrement_nesting()
        (1, 0)
    """
    _STATE.nesting += 1
    return _STATE.nesting


def autocast_decrement_nesting() -> int:
    """Leaves one autocast region; gives how many remain open.

    Example:
        >>> facula.autocast_increment_nesting(), facula.autocast_decrement_nesting()
        (1, 0)
    """
    _STATE.nesting -= 1
    return _STATE.nesting


def enter_region(
    device_type: str, enabled: bool, dtype: core.dtype, cache: bool
) -> tuple[Any, ...]:
    """Begin a region with these settings; gives what `leave_region` restores."""
    before = (
        device_type,
        is_autocast_enabled(device_type),
        get_autocast_dtype(device_type),
        is_autocast_cache_enabled(),
    )
    set_autocast_dtype(device_type, dtype)
    set_autocast_enabled(device_type, enabled)
    set_autocast_cache_enabled(cache)
    autocast_increment_nesting()
    return before


def leave_region(before: tuple[Any, ...]) -> None:
    """End the region that began last; the outermost one drops the kept copies of parameters."""
    device_type, enabled, dtype, cache = before
    if autocast_decrement_nesting() == 0:
        clear_autocast_cache()
    set_autocast_enabled(device_type, enabled)
    set_autocast_dtype(device_type, dtype)
    set_autocast_cache_enabled(cache)


def _castable(value: object, device_type: str) -> bool:
    """Whether autocast may change the dtype: floating point, not double, on the device."""
    return (
        isinstance(value, core.Tensor)
        and value.dtype.is_floating_point
        and value.dtype is not core.float64
        and (value.device.type == device_type or value.is_meta)
    )


def _cast(value: core.Tensor, dtype: core.dtype, device_type: str) -> Any:
    """The argument with its tensors in another dtype."""
    if isinstance(value, (list, tuple)):
        if not any(isinstance(x, core.Tensor) for x in value):
            return value
        return type(value)([_cast(x, dtype, device_type) for x in value])
    if not _castable(value, device_type) or value.dtype is dtype:
        return value
    if not (_STATE.cache_enabled and dtype in LOWER and value.is_leaf and value.requires_grad):
        return value.to(dtype)
    return _lowered_parameter(value, dtype)


def _lowered_parameter(value: core.Tensor, dtype: core.dtype) -> Any:
    """The kept copy of a parameter, or a new one that is kept: weights are lowered once a region."""
    known = _STATE.cache.get(id(value))
    recording = core.is_grad_enabled()
    if known is not None:
        owner, version, kind, copy = known
        same = owner() is value and version == value._version and kind is dtype
        # a copy made without recording cannot carry gradients
        if same and copy.requires_grad == recording:
            return copy
    copy = value.to(dtype)
    _STATE.cache[id(value)] = (weakref.ref(value), value._version, dtype, copy)
    return copy


def _widest(values: list[Any], lower: Any, device_type: str) -> Any:
    """float32 where there is one among the arguments, else the dtype to which autocast lowers."""
    for value in values:
        if isinstance(value, (list, tuple)):
            if _widest(list(value), lower, device_type) is core.float32:
                return core.float32
        elif _castable(value, device_type) and value.dtype is core.float32:
            return core.float32
    return lower


def _device_of(values: Any) -> str:
    """The device type of the first tensor; that of a tensor without data is where autocast is on."""
    for value in values:
        if isinstance(value, core.Tensor):
            if value.is_meta:
                return "cpu" if "cpu" in _STATE.enabled else next(iter(_STATE.enabled), "meta")
            return value.device.type
        if isinstance(value, (list, tuple)):
            found = _device_of(value)
            if found:
                return found
    return ""


def policy_on(text: str, device_type: str) -> str | None:
    """The policy on a device type out of a definition's field: one word, or several parts such as
    `"accelerator lower, cpu unchanged"`; None where it says nothing about the device.
    """
    kind = "cpu" if device_type == "cpu" else "accelerator"
    for part in text.split(","):
        where, _, policy = part.strip().rpartition(" ")
        if where in ("", kind):
            return policy
    return None


def _run(operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Cast the arguments by the operator's policy and call it with autocast off."""
    device_type = _device_of((*args, *kwargs.values()))
    if device_type not in _STATE.enabled or kwargs.get("out") is not None:
        return NotImplemented
    policy = policy_on(operator.definition.autocast, device_type)
    if not policy:
        return NotImplemented
    dtype = None
    if policy == "lower":
        dtype = get_autocast_dtype(device_type)
    elif policy == "float32" and kwargs.get("dtype") is None:
        dtype = core.float32
    elif policy == "widest":
        dtype = _widest([*args, *kwargs.values()], get_autocast_dtype(device_type), device_type)
    elif policy not in ("float32", "unchanged"):
        dtype = getattr(core, policy)  # the dtype that was registered for an operator of the user's
    before = core.set_autocast(False)
    try:
        if dtype is not None:
            args = tuple([_cast(value, dtype, device_type) for value in args])
            kwargs = {name: _cast(value, dtype, device_type) for name, value in kwargs.items()}
        return operator(*args, **kwargs)
    finally:
        core.set_autocast(before)
