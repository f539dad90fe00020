"""What PyTorch's module of CUDA devices has beside the daily questions: memory, streams, the state of the hardware.

Takes: nothing. Gives: the functions by name (`FUNCTIONS`), types that look like PyTorch's first tensors of the
device, and blocks. Keeps true: a backend package answers where it has the function; without a device what asks
gets PyTorch's answer of a machine without one, and what needs a device raises AssertionError.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from facula import core
from facula.devices.questions import Questions

from ..legacy import typed_tensors
from . import Event as Event
from . import Stream, _NeedsDevice, device

_QUESTIONS = Questions("cuda")

#: what raises without a device
_NEEDING = {
    "caching_allocator_alloc": "Takes bytes from the allocator",
    "caching_allocator_delete": "Gives bytes back to the allocator",
    "can_device_access_peer": "Whether one device reads another's memory",
    "change_current_allocator": "Has another allocator make memory",
    "check_error": "Raises for a code of the driver that is none of success",
    "clock_rate": "The clock of the device in MHz",
    "cudart": "The run time of the driver",
    "current_blas_handle": "The handle of the products' library",
    "current_solver_handle": "The handle of the solvers' library",
    "default_stream": "The stream that a device has from the beginning",
    "device_memory_used": "Bytes in use on the device",
    "get_allocator_backend": "The name of the allocator",
    "get_per_process_memory_fraction": "The part of the memory that the process may use",
    "get_stream_from_external": "A stream that another library made",
    "get_sync_debug_mode": "Whether waits for the device are told",
    "graph_pool_handle": "A pool of memory for captured graphs",
    "host_fallbacks": "How often the processor computed each operator that the device has no kernel for",
    "ipc_collect": "Gives memory back that other processes no longer use",
    "make_graphed_callables": "Captured forms of functions",
    "mem_get_info": "(free bytes, all bytes) of the device",
    "memory_snapshot": "The state of the allocator",
    "memory_summary": "A table of the allocator's state",
    "memory_usage": "How busy the memory was, in percent",
    "power_draw": "The power that the device takes, in mW",
    "set_host_fallback": "Says what happens where there is no kernel: 'warn' (once), 'allow' or 'error'",
    "set_per_process_memory_fraction": "Sets the part of the memory that the process may use",
    "set_stream": "Sets the stream that work is put on",
    "set_sync_debug_mode": "Has waits for the device told",
    "temperature": "The temperature of the device in degrees Celsius",
    "utilization": "How busy the device was, in percent",
}
#: what has an answer on a machine without a device
_ANSWERING: dict[str, tuple[Callable[[], Any], str]] = {
    "caching_allocator_enable": (lambda: None, "Switches the cache of memory"),
    "get_arch_list": (list, "The architectures that there is code for"),
    "get_gencode_flags": (str, "The compiler's flags for them"),
    "host_memory_stats": (OrderedDict, "Numbers about pinned memory"),
    "host_memory_stats_as_nested_dict": (dict, "Numbers about pinned memory, nested"),
    "is_tf32_supported": (bool, "Whether products may be computed in tf32"),
    "list_gpu_processes": (lambda: "no processes are running", "The processes on the device"),
    "max_memory_cached": (int, "The most bytes held from the device"),
    "memory_cached": (int, "Bytes held from the device"),
    "memory_stats": (OrderedDict, "Numbers about the allocator"),
    "memory_stats_as_nested_dict": (dict, "Numbers about the allocator, nested"),
    "reset_accumulated_host_memory_stats": (lambda: None, "Starts sums about pinned memory anew"),
    "reset_accumulated_memory_stats": (lambda: None, "Starts the sums of the allocator anew"),
    "reset_max_memory_allocated": (lambda: None, "Starts the peak of tensors anew"),
    "reset_max_memory_cached": (lambda: None, "Starts the peak of held memory anew"),
    "reset_peak_host_memory_stats": (lambda: None, "Starts peaks of pinned memory anew"),
}

FUNCTIONS: dict[str, Any] = {
    **{name: _QUESTIONS.needing(name, does) for name, does in _NEEDING.items()},
    **{name: _QUESTIONS.answering(name, *how) for name, how in _ANSWERING.items()},
}


class device_of(device):  # noqa: N801 - PyTorch's name
    """A block in which the device of a tensor is used by default; one of another kind changes nothing."""

    def __init__(self, obj: core.Tensor) -> None:
        super().__init__(obj.device.index if obj.is_cuda else None)


class ExternalStream(Stream):
    """A stream that another library made."""


class MemPool(_NeedsDevice):
    """Memory that a program keeps apart."""


class CUDAPluggableAllocator(_NeedsDevice):
    """An allocator out of a compiled library."""


class GreenContext(_NeedsDevice):
    """A part of the device's processors."""


class CudaError(RuntimeError):
    """What the driver reports."""


class DeferredCudaCallError(Exception):
    """What went wrong in a call that waited for the device to be used."""


@contextmanager
def use_mem_pool(pool: Any, device: core.device | str | int | None = None) -> Iterator[None]:
    """A block whose tensors lie in a pool."""
    FUNCTIONS["mem_get_info"](device)
    with pool:
        yield


@contextmanager
def caching_allocator_disabled() -> Iterator[None]:
    """A block in which memory goes back to the driver at once."""
    FUNCTIONS["caching_allocator_enable"](False)
    try:
        yield
    finally:
        FUNCTIONS["caching_allocator_enable"](True)


FUNCTIONS.update(
    {f.__name__: f for f in (
        device_of, ExternalStream, MemPool, CUDAPluggableAllocator, GreenContext, CudaError,
        DeferredCudaCallError, use_mem_pool, caching_allocator_disabled,
    )},
    has_half=True,
    has_magma=False,
    **typed_tensors("cuda"),
)  # fmt: skip
