"""Settings of the top level: defaults, determinism, precision, warnings, threads.

Takes settings; keeps them, and gives them back. Keeps true: a switch that has no effect here says so in
its docstring.
"""

from __future__ import annotations

import os
import warnings
from typing import Any

from facula import core
from facula.core.errors import fail, message

from . import legacy

Tensor = core.Tensor


def set_default_device(device: core.device | str | int | None) -> None:
    """Where functions that make tensors put them.

    Args:
        device: None for the CPU

    Example:
        >>> facula.set_default_device("meta")
        >>> facula.ones(2).device
        device(type='meta')
        >>> facula.set_default_device(None)
    """
    del core.DEVICE_STACK[:]
    if device is not None:
        core.DEVICE_STACK.append(core.device(device))


def get_default_device() -> core.device:
    """Where functions that make tensors put them.

    Example:
        >>> facula.get_default_device()
        device(type='cpu')
    """
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
    """What products of float32 may lose. The word is kept: they lose nothing at any of the three.

    Args:
        precision: 'highest', 'high' or 'medium'

    Raises:
        ValueError: the word is another.

    Example:
        >>> facula.set_float32_matmul_precision("highest")
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
    """The word of `set_float32_matmul_precision`.

    Example:
        >>> facula.get_float32_matmul_precision()
        'highest'
    """
    return _SWITCHES["matmul_precision"]


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Every algorithm here is deterministic: the flag is kept, and memory that `empty` leaves unset is
    filled.

    Args:
        mode: the flag
        warn_only: kept as in PyTorch

    Example:
        >>> facula.use_deterministic_algorithms(False)
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
    """The flag of `use_deterministic_algorithms`.

    Example:
        >>> isinstance(facula.are_deterministic_algorithms_enabled(), bool)
        True
    """
    return _SWITCHES["deterministic"]


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """The ``warn_only`` of `use_deterministic_algorithms`.

    Example:
        >>> facula.is_deterministic_algorithms_warn_only_enabled()
        False
    """
    return _SWITCHES["warn_only"]


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """The flag of `use_deterministic_algorithms`, by number.

    Args:
        debug_mode: 0 or 'default', 1 or 'warn', 2 or 'error'

    Example:
        >>> facula.set_deterministic_debug_mode(0)
    """
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
    """0, 1 or 2: see `set_deterministic_debug_mode`.

    Example:
        >>> facula.get_deterministic_debug_mode()
        0
    """
    if not _SWITCHES["deterministic"]:
        return 0
    return 1 if _SWITCHES["warn_only"] else 2


def set_warn_always(b: bool, /) -> None:
    """Whether warnings that appear once appear always.

    Args:
        b: whether they do

    Example:
        >>> facula.set_warn_always(False)
    """
    _SWITCHES["warn_always"] = bool(b)


def is_warn_always_enabled() -> bool:
    """The flag of `set_warn_always`.

    Example:
        >>> facula.is_warn_always_enabled()
        False
    """
    return _SWITCHES["warn_always"]


def get_num_interop_threads() -> int:
    """1 or more: operators run one after another; kept for PyTorch's API.

    Example:
        >>> facula.get_num_interop_threads() >= 1
        True
    """
    return _SWITCHES["interop"]


def set_num_interop_threads(n: int) -> None:
    """Kept for PyTorch's API: operators run one after another.

    Args:
        n: no effect

    Example:
        >>> facula.set_num_interop_threads(1)
    """
    if not 0 < n < 2**31:
        fail(
            RuntimeError,
            "set_num_interop_threads",
            "a positive number of 31 bits was required",
            n,
            hint="1 runs everything in one thread",
        )
    _SWITCHES["interop"] = n


def set_flush_denormal(mode: bool) -> bool:
    """False: denormal numbers are never flushed here.

    Args:
        mode: no effect

    Example:
        >>> facula.set_flush_denormal(False)
        False
    """
    return False


def set_default_tensor_type(t: Any) -> None:
    """The default dtype, by a tensor type or its name (deprecated; `set_default_dtype`).

    Args:
        t: such as ``facula.FloatTensor``

    Example:
        >>> import warnings
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")
        ...     facula.set_default_tensor_type(facula.FloatTensor)
    """
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
    """Switches the search for NaN in backward passes on or off; see `autograd.detect_anomaly`.

    Args:
        enabled: whether it is on
        check_nan: whether NaN is an error

    Example:
        >>> facula.set_anomaly_enabled(False)
    """
    core.set_anomaly(enabled, check_nan)


def init_num_threads() -> None:
    """Sets the number of threads to what the machine offers to this process.

    Example:
        >>> threads = facula.get_num_threads()
        >>> facula.init_num_threads()
        >>> facula.set_num_threads(threads)
    """
    core.set_num_threads(len(os.sched_getaffinity(0)))


#: what components said of themselves: (component, name) -> value
_vitals: dict[tuple[str, str], str] = {}


def vitals_enabled() -> bool:
    """Whether `set_vital` keeps what it is told: the environment's ``TORCH_VITAL`` is ``ON``.

    Example:
        >>> facula.vitals_enabled()
        False
    """
    return os.environ.get("TORCH_VITAL", "").upper() == "ON"


def set_vital(component: str, name: str, value: str) -> bool:
    """Keep one fact of a component, such as that a loader was used, for `read_vitals`.

    Args:
        component: whose fact it is
        name: of the fact
        value: a text

    Returns:
        whether it was kept (`vitals_enabled`)

    Example:
        >>> facula.set_vital("Dataloader", "enabled", "True")
        False
    """
    if vitals_enabled():
        _vitals[component, name] = value
    return vitals_enabled()


def read_vitals() -> str:
    """The facts that `set_vital` kept, one a line.

    Example:
        >>> facula.read_vitals()
        ''
    """
    return "".join(f"[TORCH_VITAL] {c}.{n}\t\t {value}\n" for (c, n), value in _vitals.items())
