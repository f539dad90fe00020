"""Functions of the top level that are no operators: questions, defaults, switches.

Takes tensors and settings; gives PyTorch's answers. Keeps true: a switch that has no effect here
says so in its docstring.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from typing import Any

from facula import core
from facula.core.errors import fail, message

from . import legacy

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
            RuntimeError,
            "is_nonzero",
            "Boolean value of Tensor with one value was required (is ambiguous otherwise)",
            list(input.shape),
            hint="use input.any() or input.all()",
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
    return (
        f"{kind.__module__}.{kind.__qualname__}"
        if kind.__module__ != "builtins"
        else kind.__qualname__
    )


def broadcast_shapes(*shapes: Any) -> core.Size:
    """The shape to which all shapes broadcast."""
    for shape in shapes:
        if not isinstance(shape, int) and not hasattr(shape, "__iter__"):
            required = "ints or tuples of ints were required"
            hint = "pass tensor.shape, or sizes such as (2, 3)"
            fail(TypeError, "broadcast_shapes", required, type(shape).__name__, hint)
    lists = [(s,) if isinstance(s, int) else tuple(s) for s in shapes]
    rank = max((len(s) for s in lists), default=0)
    result = [1] * rank
    for shape in lists:
        for i, size in enumerate(shape, rank - len(shape)):
            if size < 0:
                fail(
                    RuntimeError,
                    "broadcast_shapes",
                    "non-negative sizes were required",
                    shape,
                    hint="sizes are tensor.shape, where -1 does not occur",
                )
            if size != 1 and size != result[i]:
                if result[i] != 1:
                    fail(
                        RuntimeError,
                        "broadcast_shapes",
                        "Shape mismatch: objects cannot be broadcast to a single shape",
                        list(shapes),
                        hint="sizes are equal or 1, from the last dimension on",
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
    "matmul_precision": "highest",
    "matmul_said": False,
    "deterministic": False,
    "warn_only": False,
    "fills": True,
    "warn_always": False,
    "interop": 1,
}


def set_float32_matmul_precision(precision: str) -> None:
    """`highest`, `high` or `medium`: what a float32 product may lose.

    The word is kept; products of float32 lose nothing at any of the three, which is said once.
    """
    if precision not in ("highest", "high", "medium"):
        fail(
            ValueError,
            "set_float32_matmul_precision",
            "'highest', 'high' or 'medium' was required",
            repr(precision),
            hint="'highest' is the default",
        )
    _SWITCHES["matmul_precision"] = precision
    if precision != "highest" and not _SWITCHES["matmul_said"]:
        _SWITCHES["matmul_said"] = True
        text = (
            f"float32 products are computed in float32 on every device: {precision!r} has no effect"
        )
        hint = "x.bfloat16() @ y.bfloat16() multiplies in bfloat16"
        warnings.warn(
            message("set_float32_matmul_precision", text, hint=hint), UserWarning, stacklevel=2
        )


def get_float32_matmul_precision() -> str:
    """The precision set for float32 products."""
    return _SWITCHES["matmul_precision"]


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Every algorithm here is deterministic; the flag is kept, and memory that `empty` and its like
    leave unset is filled (`utils.deterministic.fill_uninitialized_memory`).
    """
    for name, place, value in (("mode", " (position 1)", mode), ("warn_only", "", warn_only)):
        if not isinstance(value, bool):
            required = (
                "a bool was required (_set_deterministic_algorithms(): argument "
                f"'{name}'{place} must be bool, not {type(value).__name__})"
            )
            fail(TypeError, "use_deterministic_algorithms", required, value, "pass True or False")
    _SWITCHES["deterministic"], _SWITCHES["warn_only"] = bool(mode), bool(warn_only)
    core.UNSET[0] = _fill_unset if mode and _SWITCHES["fills"] else None


def fill_unset_memory(mode: bool | None = None) -> bool:
    """Whether unset memory is filled under `use_deterministic_algorithms`; sets it where a mode is
    given.
    """
    if mode is not None:
        if not isinstance(mode, bool):
            fail(
                RuntimeError,
                "fill_uninitialized_memory",
                f"a bool was required (expected a bool, but got {type(mode).__name__})",
                mode,
                hint="assign True or False",
            )
        _SWITCHES["fills"] = bool(mode)
        use_deterministic_algorithms(_SWITCHES["deterministic"], warn_only=_SWITCHES["warn_only"])
    return _SWITCHES["fills"]


def _fill_unset(tensor: Tensor, before: int = 0) -> None:
    """Set what lies behind so many bytes of a tensor's storage: NaN, True or the largest integer."""
    dtype = tensor.dtype
    if tensor.is_meta or not tensor.untyped_storage().nbytes():
        return
    if dtype.is_floating_point or dtype.is_complex:
        value: Any = float("nan")
    else:
        value = True if dtype is core.bool_ else core.iinfo(dtype).max
    count = tensor.untyped_storage().nbytes() // dtype.itemsize
    whole = tensor.detach().as_strided((count,), (1,), 0)
    whole[-(-before // dtype.itemsize) :].fill_(value)


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
        fail(
            RuntimeError,
            "set_deterministic_debug_mode",
            "0, 1, 2, 'default', 'warn' or 'error' was required",
            debug_mode,
            hint="'default' switches it off, 'warn' warns, 'error' raises",
        )
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
        fail(
            RuntimeError,
            "set_num_interop_threads",
            "a positive number was required",
            n,
            hint="1 runs everything in one thread",
        )
    _SWITCHES["interop"] = n


def set_flush_denormal(mode: bool) -> bool:
    """False: denormal numbers are never flushed here."""
    return False


def _sharing(obj: Any, dtype: Any) -> Tensor | None:
    """A tensor on the memory of an object; None where it has none that can be shared."""
    if isinstance(obj, Tensor):
        return obj
    if isinstance(obj, core.UntypedStorage):
        return obj.as_tensor(dtype)
    if hasattr(obj, "__array_interface__"):
        return core.as_tensor(obj) if getattr(obj, "ndim", 1) == 0 else core.from_numpy(obj)
    if hasattr(obj, "__dlpack__") or type(obj).__name__ == "PyCapsule":
        return core.from_dlpack(obj)
    if isinstance(obj, (bytes, bytearray, memoryview)):
        return core.frombuffer(obj, dtype=core.get_default_dtype() if dtype is None else dtype)
    return None


def asarray(
    obj: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    copy: bool | None = None,
    requires_grad: bool | None = None,
) -> Tensor:
    """A tensor of anything: tensors, arrays, storages, buffers, DLPack, sequences; shares memory
    unless it cannot. requires_grad: None takes that of `obj`.
    """
    shared = _sharing(obj, dtype)
    if shared is None:
        if copy is False:
            fail(
                ValueError,
                "asarray",
                "an object whose memory can be shared was required with copy=False",
                type(obj).__name__,
                hint="leave copy out to have the values copied",
            )
        shared = core.tensor(obj, dtype=dtype, device=device)
        copy = None
    result = shared.to(
        dtype=shared.dtype if dtype is None else dtype,
        device=shared.device if device is None else device,
        copy=bool(copy),
    )
    if copy is False and result is not shared:
        fail(
            ValueError,
            "asarray",
            "no copy was required: can't alias a tensor of another dtype or device",
            f"{shared.dtype}",
            hint="leave copy out to have the values copied where they must be",
        )
    if requires_grad is None and result.requires_grad:
        warnings.warn(
            "asarray: unspecified requires_grad now defaults to obj.requires_grad instead of "
            "False. Pass requires_grad=False explicitly to get the old behavior and silence this "
            "warning.",
            UserWarning,
            stacklevel=2,
        )
    elif result.requires_grad and not requires_grad:
        result = result.detach()
    return result.requires_grad_() if requires_grad and not result.requires_grad else result


def _tensor_required(op: str, value: Any) -> Tensor:
    if not isinstance(value, Tensor):
        fail(
            TypeError,
            op,
            "a tensor was required",
            type(value).__name__,
            hint="facula.as_tensor(value) makes one of numbers",
        )
    return value


def clone(input: Tensor, *, memory_format: Any = core.preserve_format) -> Tensor:
    """A copy; gradients flow through it."""
    return _tensor_required("clone", input).clone(memory_format=memory_format)


def detach(input: Tensor) -> Tensor:
    """The same elements without their history."""
    return _tensor_required("detach", input).detach()


def detach_(input: Tensor) -> Tensor:
    """Cut the tensor off its history, in place."""
    return _tensor_required("detach_", input).detach_()


def fill(input: Tensor, value: Any) -> Tensor:
    """A tensor of that shape and dtype filled with `value`."""
    return _tensor_required("fill", input).clone().fill_(value)


def fill_(input: Tensor, value: Any) -> Tensor:
    """Overwrite every element with `value`."""
    return _tensor_required("fill_", input).fill_(value)


def zero_(input: Tensor) -> Tensor:
    """Overwrite every element with zero."""
    return _tensor_required("zero_", input).zero_()


def resize_as_(input: Tensor, the_template: Tensor, *, memory_format: Any = None) -> Tensor:
    """Give the tensor the shape of another, growing its memory when needed."""
    return _tensor_required("resize_as_", input).resize_as_(
        the_template, memory_format=memory_format
    )


def is_signed(input: Tensor) -> bool:
    """Whether the dtype has negative numbers."""
    return _tensor_required("is_signed", input).is_signed()


def is_conj(input: Tensor) -> bool:
    """Whether the tensor is a lazy conjugate: never, conjugates are computed."""
    return _tensor_required("is_conj", input).is_conj()


def is_neg(input: Tensor) -> bool:
    """Whether the tensor is a lazy negative: never, negatives are computed."""
    return _tensor_required("is_neg", input).is_neg()


def is_inference(input: Tensor) -> bool:
    """Whether the tensor was made in inference mode."""
    return _tensor_required("is_inference", input).is_inference()


def is_distributed(input: Tensor) -> bool:
    """Always False."""
    return _tensor_required("is_distributed", input).is_distributed()


def get_device(input: Tensor) -> int:
    """The number of the device, -1 for the CPU."""
    return _tensor_required("get_device", input).get_device()


def set_default_tensor_type(t: Any) -> None:
    """The default dtype by a tensor type or its name (deprecated in PyTorch)."""
    text = (
        "facula.set_default_tensor_type() is deprecated as of PyTorch 2.1, please use "
        "facula.set_default_dtype() and facula.set_default_device() as alternatives."
    )
    warnings.warn(core.spoken(text), stacklevel=2)
    if isinstance(t, str):
        found = getattr(legacy, t.rpartition(".")[2], None)
    else:
        found = t
    dtype = getattr(found, "dtype", None)
    if not isinstance(dtype, core.dtype) or not dtype.is_floating_point:
        fail(
            TypeError,
            "set_default_tensor_type",
            "a floating-point tensor type was required",
            t,
            hint="facula.set_default_dtype(facula.float64) is the newer form",
        )
    core.set_default_dtype(dtype)


def set_anomaly_enabled(enabled: bool, check_nan: bool = True) -> None:
    """Switch anomaly detection on or off; see `autograd.detect_anomaly`."""
    core.set_anomaly(enabled, check_nan)


def init_num_threads() -> None:
    """Set the number of threads to what the machine offers to this process."""
    core.set_num_threads(len(os.sched_getaffinity(0)))


def from_file(
    filename: str,
    shared: bool | None = None,
    size: int | None = 0,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """A vector of `size` elements over a file's memory; with `shared` writes reach the file, which
    is made or grown as needed.
    """
    dtype = core.get_default_dtype() if dtype is None else dtype
    count = int(size or 0)
    length = count * dtype.itemsize
    if count == 0:
        return core.empty((0,), dtype=dtype, device=device)
    present = os.path.getsize(filename) if os.path.exists(filename) or not shared else 0
    if present < length and not shared:
        fail(
            RuntimeError,
            "from_file",
            f"a file of at least {length} bytes was required",
            f"{present} bytes",
            hint="shared=True makes the file as large as needed",
        )
    memory = core.UntypedStorage.from_file(filename, bool(shared), length)
    result = core.empty((0,), dtype=dtype, device="cpu").set_(memory)
    return result if device is None else result.to(device)


def _shape_of_ints(shape: Any) -> tuple[int, ...]:
    """The sizes that `unravel_index` is given, checked."""
    if hasattr(shape, "__index__") and not isinstance(shape, Tensor):
        return (shape.__index__(),)
    if isinstance(shape, str) or not isinstance(shape, Sequence):
        kind = type(shape).__name__
        required = f"expected 'shape' to be int or sequence of ints, but got {kind}"
        fail(TypeError, "unravel_index", required, hint="shape is that of the indexed tensor")
    for n in shape:
        if not hasattr(n, "__index__"):
            required = f"expected 'shape' sequence to only contain ints, but got {type(n).__name__}"
            fail(TypeError, "unravel_index", required, hint="int(size) converts a number")
    return tuple(n.__index__() for n in shape)


def unravel_index(indices: Tensor, shape: Any) -> tuple[Tensor, ...]:
    """Flat positions as one tensor of coordinates per dimension."""
    _tensor_required("unravel_index", indices)
    if indices.is_floating_point() or indices.is_complex() or indices.dtype is core.bool_:
        fail(
            TypeError,
            "unravel_index",
            f"integer positions were required: expected 'indices' to be integer dtype, but got {indices.dtype}",
            hint="convert them with .long()",
        )
    sizes = _shape_of_ints(shape)
    if any(n < 0 for n in sizes):
        fail(
            ValueError,
            "unravel_index",
            f"sizes were required: 'shape' cannot have negative values, but got {sizes}",
            hint="shape is that of the indexed tensor, x.shape",
        )
    places, rest = [], indices
    for size in reversed(sizes):
        places.append(rest % size if size else rest)
        rest = rest.div(size, rounding_mode="floor") if size else rest
    return tuple(reversed(places))
