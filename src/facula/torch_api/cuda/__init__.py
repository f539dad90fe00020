"""PyTorch's names about CUDA devices, answered by whether a backend package offers them.

Takes devices. Gives `is_available`, `device_count` and the other questions, and what programs put
around CUDA work (`synchronize`, `empty_cache`, seeds, streams as types).
Keeps true: without a device the questions have PyTorch's answers of a machine without one, what is
harmless does nothing, and what needs a device raises the same error everywhere.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, NoReturn

from facula import core
from facula.core import OutOfMemoryError as OutOfMemoryError
from facula.core.errors import fail
from facula.core.errors import no_attribute as _no_attribute
from facula.devices import load, registered

__all__ = [
    "amp", "CUDAGraph", "Event", "OutOfMemoryError", "Stream", "StreamContext", "current_device",
    "current_stream", "default_generators", "device", "device_count", "empty_cache",
    "get_device_capability", "get_device_name", "get_device_properties", "graph", "init",
    "initial_seed", "is_available", "is_bf16_supported", "is_current_stream_capturing",
    "is_initialized", "manual_seed", "manual_seed_all", "max_memory_allocated",
    "max_memory_reserved", "memory_allocated", "memory_reserved", "reset_peak_memory_stats", "seed",
    "seed_all", "set_device", "stream", "synchronize",
]  # fmt: skip

default_generators: tuple[Any, ...] = ()


def is_available() -> bool:
    """Whether tensors can be put on a CUDA device."""
    return "cuda" in registered() or load("cuda")


# asked once where a program is captured
is_available._facula_constant_result = True  # type: ignore[attr-defined]


def device_count() -> int:
    """How many CUDA devices there are."""
    if not is_available():
        return 0
    counted = getattr(core.BACKENDS["cuda"], "device_count", None)
    return counted() if counted is not None else 1


def _lazy_call(callable: Any, **options: object) -> None:
    """Call a function once CUDA is in use: now, or never on a machine without a device."""
    if is_available():
        callable()


def is_initialized() -> bool:
    """Whether CUDA is in use."""
    return "cuda" in registered()


def _ask(name: str, *args: object, **options: object) -> Any:
    """Has the backend answer; without one, says so."""
    if is_available():
        answer = getattr(core.BACKENDS["cuda"], name, None)
        if answer is not None:
            return answer(*args, **options)
    return _absent(name)


def _absent(name: str) -> NoReturn:
    hint = "use the device cpu, or install a backend package for CUDA"
    required = "a CUDA device was required (facula not compiled with CUDA enabled)"
    fail(AssertionError, f"cuda.{name}", required, "none", hint)


def init() -> None:
    """Starts CUDA."""
    _ask("init")


def current_device() -> int:
    """The index of the device that is used by default."""
    return _ask("current_device")


def set_device(device: Any) -> None:
    """Sets the device that is used by default; a negative index does nothing."""
    if not isinstance(device, int) or device >= 0:
        _ask("set_device", device)


def get_device_name(device: core.device | str | int | None = None) -> str:
    """The name of a device."""
    return _ask("get_device_name", device)


def get_device_capability(device: core.device | str | int | None = None) -> tuple[int, int]:
    """The compute capability of a device."""
    return _ask("get_device_capability", device)


def get_device_properties(device: core.device | str | int | None = None) -> Any:
    """The properties of a device."""
    return _ask("get_device_properties", device)


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether the device computes in bfloat16."""
    return is_available() and bool(_ask("is_bf16_supported"))


def synchronize(device: core.device | str | int | None = None) -> None:
    """Waits for the device."""
    _ask("synchronize", device)


def current_stream(device: core.device | str | int | None = None) -> Any:
    """The stream that work is put on."""
    return _ask("current_stream", device)


def is_current_stream_capturing() -> bool:
    """Whether a graph is being captured."""
    return is_initialized() and bool(_ask("is_current_stream_capturing"))


def empty_cache() -> None:
    """Gives cached memory back; nothing to do without a device."""
    if is_initialized():
        _ask("empty_cache")


def _memory(name: str, device: Any) -> int:
    return _ask(name, device) if is_initialized() else 0


def memory_allocated(device: core.device | str | int | None = None) -> int:
    """Bytes of tensors on the device."""
    return _memory("memory_allocated", device)


def max_memory_allocated(device: core.device | str | int | None = None) -> int:
    """The most bytes that tensors took."""
    return _memory("max_memory_allocated", device)


def memory_reserved(device: core.device | str | int | None = None) -> int:
    """Bytes held from the device."""
    return _memory("memory_reserved", device)


def max_memory_reserved(device: core.device | str | int | None = None) -> int:
    """The most bytes held from the device."""
    return _memory("max_memory_reserved", device)


def reset_peak_memory_stats(device: core.device | str | int | None = None) -> None:
    """Starts the peaks anew."""
    if is_initialized():
        _ask("reset_peak_memory_stats", device)


class device:
    """A block in which another device is used by default; None or a negative index changes nothing."""

    def __init__(self, device: Any) -> None:
        self.index = getattr(device, "index", device)

    def __enter__(self) -> None:
        if self.index is not None and self.index >= 0:
            self.before = current_device()
            set_device(self.index)

    def __exit__(self, *exception: object) -> None:
        if self.index is not None and self.index >= 0:
            set_device(self.before)


class _NeedsDevice:
    """What cannot be made without a device."""

    def __new__(cls, *args: object, **options: object) -> Any:
        return _ask(cls.__name__, *args, **options)


class Stream(_NeedsDevice):
    """A queue of work of the device."""


class Event(_NeedsDevice):
    """A mark in a stream."""


class CUDAGraph(_NeedsDevice):
    """Captured work."""


class graph(_NeedsDevice):
    """A block that is captured."""


class StreamContext:
    """A block whose work goes to a stream; None changes nothing."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is not None:
            _ask("enter_stream", self.stream)

    def __exit__(self, *exception: object) -> None:
        if self.stream is not None:
            _ask("exit_stream", self.stream)


def stream(stream: Any) -> StreamContext:
    """A block whose work goes to a stream; None changes nothing."""
    return StreamContext(stream)


_RANDOM = (
    "get_rng_state", "get_rng_state_all", "initial_seed", "manual_seed", "manual_seed_all", "seed",
    "seed_all", "set_rng_state", "set_rng_state_all",
)  # fmt: skip


#: modules in this folder that are imported when they are asked for
_BESIDE = ("amp", "nvtx", "profiler", "random")
#: modules of PyTorch whose names all stand here
_HERE = ("graphs", "memory", "streams")


def __getattr__(name: str) -> Any:
    if name in (*_BESIDE, *_HERE):
        return import_module(f"facula.cuda.{name}")
    if name in _RANDOM:
        return getattr(import_module("facula.cuda.random"), name)
    found = (
        None
        if name.startswith("__")
        else import_module("facula.cuda.questions").FUNCTIONS.get(name)
    )
    if found is None:
        raise _no_attribute(__name__, name)
    return found


def __dir__() -> list[str]:
    more = import_module("facula.cuda.questions").FUNCTIONS
    return sorted({*globals(), *_RANDOM, *_BESIDE, *_HERE, *more} - {"annotations"})
