"""Functions of the top level that are no operators: questions, defaults, switches.

Takes tensors and settings; gives PyTorch's answers. Keeps true: a switch that has no effect here says so in its docstring.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.core.errors import fail

Tensor = core.Tensor


def is_tensor(obj: Any) -> bool:
    """Whether the object is a tensor."""
    return isinstance(obj, Tensor)


def is_storage(obj: Any) -> bool:
    """Whether the object is a storage."""
    return isinstance(obj, core.UntypedStorage)


def is_floating_point(input: Tensor) -> bool:
    """Whether the dtype is a floating-point one."""
    return input.is_floating_point()


def is_complex(input: Tensor) -> bool:
    """Whether the dtype is a complex one."""
    return input.is_complex()


def is_nonzero(input: Tensor) -> bool:
    """Whether the only element is not zero."""
    if input.numel() != 1:
        fail(
            RuntimeError, "is_nonzero", "Boolean value of Tensor with one value was required (is ambiguous otherwise)",
            list(input.shape),
        )
    return bool(input.item() != 0)


def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether both shapes are equal."""
    return input.shape == other.shape


def numel(input: Tensor) -> int:
    """The number of elements."""
    return input.numel()


def typename(obj: Any) -> str:
    """The name of the object's type, of a tensor with its dtype."""
    if isinstance(obj, Tensor):
        return obj.type()
    kind = obj if isinstance(obj, type) else type(obj)
    return f"{kind.__module__}.{kind.__qualname__}" if kind.__module__ != "builtins" else kind.__qualname__


def broadcast_shapes(*shapes: Any) -> core.Size:
    """The shape to which all shapes broadcast."""
    lists = [(s,) if isinstance(s, int) else tuple(s) for s in shapes]
    rank = max((len(s) for s in lists), default=0)
    result = [1] * rank
    for shape in lists:
        for i, size in enumerate(shape, rank - len(shape)):
            if size < 0:
                fail(RuntimeError, "broadcast_shapes", "non-negative sizes were required", shape)
            if size != 1 and size != result[i]:
                if result[i] != 1:
                    fail(
                        RuntimeError, "broadcast_shapes",
                        "Shape mismatch: objects cannot be broadcast to a single shape", list(shapes),
                    )
                result[i] = size
    return core.Size(result)


def set_default_device(device: Any) -> None:
    """Where factory functions put new tensors; None for the CPU."""
    del core.DEVICE_STACK[:]
    if device is not None:
        core.DEVICE_STACK.append(core.device(device))


def get_default_device() -> core.device:
    """Where factory functions put new tensors."""
    return core.DEVICE_STACK[-1] if core.DEVICE_STACK else core.device("cpu")


_SWITCHES: dict[str, Any] = {
    "matmul_precision": "highest", "deterministic": False, "warn_only": False, "warn_always": False, "interop": 1,
}


def set_float32_matmul_precision(precision: str) -> None:
    """`highest`, `high` or `medium`: what a float32 product may lose (kept; kernels compute `highest`)."""
    if precision not in ("highest", "high", "medium"):
        fail(ValueError, "set_float32_matmul_precision", "'highest', 'high' or 'medium' was required", repr(precision))
    _SWITCHES["matmul_precision"] = precision


def get_float32_matmul_precision() -> str:
    """The precision set for float32 products."""
    return _SWITCHES["matmul_precision"]


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Every algorithm here is deterministic; the flag is kept."""
    _SWITCHES["deterministic"], _SWITCHES["warn_only"] = bool(mode), bool(warn_only)


def are_deterministic_algorithms_enabled() -> bool:
    """The flag of `use_deterministic_algorithms`."""
    return _SWITCHES["deterministic"]


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """The `warn_only` flag of `use_deterministic_algorithms`."""
    return _SWITCHES["warn_only"]


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """0/"default", 1/"warn" or 2/"error": see `use_deterministic_algorithms`."""
    names = {"default": 0, "warn": 1, "error": 2}
    mode = names.get(debug_mode, debug_mode) if isinstance(debug_mode, str) else debug_mode
    if mode not in (0, 1, 2):
        fail(RuntimeError, "set_deterministic_debug_mode", "0, 1, 2, 'default', 'warn' or 'error' was required", debug_mode)
    use_deterministic_algorithms(mode != 0, warn_only=mode == 1)


def get_deterministic_debug_mode() -> int:
    """0, 1 or 2: see `set_deterministic_debug_mode`."""
    if not _SWITCHES["deterministic"]:
        return 0
    return 1 if _SWITCHES["warn_only"] else 2


def set_warn_always(b: bool, /) -> None:
    """Whether warnings that appear once appear always."""
    _SWITCHES["warn_always"] = bool(b)


def is_warn_always_enabled() -> bool:
    """The flag of `set_warn_always`."""
    return _SWITCHES["warn_always"]


def get_num_interop_threads() -> int:
    """Kept for PyTorch's API: operators run one after another."""
    return _SWITCHES["interop"]


def set_num_interop_threads(n: int) -> None:
    """Kept for PyTorch's API: operators run one after another."""
    if n < 1:
        fail(RuntimeError, "set_num_interop_threads", "a positive number was required", n)
    _SWITCHES["interop"] = n


def set_flush_denormal(mode: bool) -> bool:
    """False: denormal numbers are never flushed here."""
    return False


def asarray(
    obj: Any, *, dtype: Any = None, device: Any = None, copy: bool | None = None, requires_grad: bool = False
) -> Tensor:
    """A tensor of anything: tensors, arrays, storages, buffers, DLPack, sequences; shares memory unless it cannot."""
    if isinstance(obj, Tensor):
        shared = obj
    elif isinstance(obj, core.UntypedStorage):
        shared = obj.as_tensor(dtype)
    elif hasattr(obj, "__array_interface__"):
        shared = core.from_numpy(obj)
    elif hasattr(obj, "__dlpack__"):
        shared = core.from_dlpack(obj)
    elif isinstance(obj, (bytes, bytearray, memoryview)):
        shared = core.frombuffer(obj, dtype=core.get_default_dtype() if dtype is None else dtype)
    else:
        if copy is False:
            fail(ValueError, "asarray", "an object whose memory can be shared was required with copy=False", type(obj).__name__)
        shared = core.tensor(obj, dtype=dtype, device=device)
        copy = None
    result = shared.to(
        dtype=shared.dtype if dtype is None else dtype, device=shared.device if device is None else device, copy=bool(copy)
    )
    if copy is False and result is not shared:
        fail(ValueError, "asarray", "no copy was required: can't alias a tensor of another dtype or device", f"{shared.dtype}")
    if result.requires_grad and not requires_grad:
        result = result.detach()
    return result.requires_grad_() if requires_grad and not result.requires_grad else result
