"""One CUDA device: its memory, its kernels, its streams, on the driver's functions.

Takes: a `Machine`'s loaded driver, a device's number. Gives: `CudaDriver`, `Machine`, `Block` (memory of the
device, given back to a pool when it is let go of), `Function` (a loaded kernel).
Keeps true: work is put on the current stream, in the order of the calls; memory that was freed is used again only
behind what was put on its stream before; an answer that is no success is an error.
"""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Sequence
from ctypes import POINTER, c_char_p, c_float, c_int, c_size_t, c_ubyte, c_uint, c_uint64, c_void_p
from typing import Any, ClassVar

from facula.core import OutOfMemoryError
from facula.core.errors import message
from facula.devices.cuda.driver import PROTOTYPES, Driver, DriverError

__all__ = ["Block", "CudaDriver", "Function", "Machine"]

_OUT_OF_MEMORY = 2
#: pieces that memory is asked for in: small ones, and from `_LARGE` on large ones
_SMALL_PIECE, _LARGE, _LARGE_PIECE = 512, 1 << 20, 2 << 20
_MAX_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_USUAL_SHARED = 48 << 10
_ATTRIBUTES = {"major": 75, "minor": 76, "multi_processor_count": 16, "warp_size": 10}


class CudaDriver(Driver):
    """The driver with what kernels need, too."""

    prototypes: ClassVar[dict[str, list[Any]]] = {
        **PROTOTYPES,
        "cuMemGetInfo_v2": [POINTER(c_size_t), POINTER(c_size_t)],
        "cuMemcpyHtoDAsync_v2": [c_uint64, c_void_p, c_size_t, c_void_p],
        "cuMemcpyDtoHAsync_v2": [c_void_p, c_uint64, c_size_t, c_void_p],
        "cuMemsetD8Async": [c_uint64, c_ubyte, c_size_t, c_void_p],
        "cuStreamSynchronize": [c_void_p],
        "cuCtxSynchronize": [],
        "cuEventSynchronize": [c_void_p],
        "cuEventQuery": [c_void_p],
        "cuEventElapsedTime": [POINTER(c_float), c_void_p, c_void_p],
        "cuModuleLoadData": [POINTER(c_void_p), c_char_p],
        "cuModuleGetFunction": [POINTER(c_void_p), c_void_p, c_char_p],
        "cuFuncSetAttribute": [c_void_p, c_int, c_int],
        "cuLaunchKernel": [c_void_p, *[c_uint] * 7, c_void_p, c_void_p, c_void_p],
        "cuDeviceGetName": [c_void_p, c_int, c_int],
        "cuDeviceGetAttribute": [POINTER(c_int), c_int, c_int],
        "cuDeviceTotalMem_v2": [POINTER(c_size_t), c_int],
    }


class Block:
    """Memory of a device; it goes back to the pool of its stream when nothing refers to it."""

    __slots__ = ("machine", "nbytes", "pointer", "stream")

    def __init__(self, machine: Machine, pointer: int, nbytes: int, stream: int) -> None:
        self.machine, self.pointer, self.nbytes, self.stream = machine, pointer, nbytes, stream

    def __del__(self) -> None:
        pointer, self.pointer = self.pointer, 0
        if pointer:
            self.machine.take_back(pointer, self.nbytes, self.stream)


class Function:
    """A kernel that is loaded: `layout` is the format of its arguments, as `struct` knows it."""

    def __init__(self, machine: Machine, handle: int, layout: str, warps: int, shared: int) -> None:
        self.machine, self.handle, self.warps, self.shared = machine, handle, warps, shared
        self._pack = struct.Struct("=" + layout)
        slots = self._pack.size // 8
        self._values = (c_uint64 * max(slots, 1))()
        start = ctypes.addressof(self._values)
        self._pointers = (c_void_p * max(slots, 1))(*[start + 8 * k for k in range(slots)])
        self._lock = threading.Lock()

    def launch(self, grid: Sequence[int], arguments: Sequence[Any]) -> None:
        """Put a run of the kernel on the current stream."""
        with self._lock:  # the driver reads the arguments before the call returns
            self._pack.pack_into(self._values, 0, *arguments)
            self.machine.call(
                "cuLaunchKernel", self.handle, *grid, self.warps * 32, 1, 1, self.shared,
                self.machine.stream, self._pointers, None,
            )  # fmt: skip


class Machine:
    """A device.

    Args:
        driver: the loaded driver
        index: the device's number
    """

    def __init__(self, driver: CudaDriver, index: int) -> None:
        self.driver, self.index = driver, index
        self._pool: dict[tuple[int, int], list[int]] = {}
        self._lock = threading.RLock()
        self._local = threading.local()
        self.counts = {"allocated": 0, "reserved": 0, "most_allocated": 0, "most_reserved": 0}

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function of the driver in this device's context."""
        self.driver.use(self.index)
        self.driver.call(name, *arguments)

    def ask(self, name: str, *arguments: Any) -> bool:
        """Call a function whose answer is that something is done, or not yet."""
        self.driver.use(self.index)
        return self.driver.answered(name, *arguments)

    # --- streams
    def driver_stream(self) -> int:
        """A new stream, which waits for no other."""
        self.driver.use(self.index)
        return self.driver.stream().value or 0

    @property
    def stream(self) -> int:
        """The stream on which this thread's work goes; 0 is the default one."""
        return getattr(self._local, "stream", 0)

    def set_stream(self, handle: int) -> None:
        """Have this thread's work go to another stream."""
        self._local.stream = handle

    def synchronize(self) -> None:
        """Wait until all that was asked of the device is done."""
        self.call("cuCtxSynchronize")

    # --- memory
    def allocate(self, nbytes: int) -> Block:
        """Memory for so many bytes, with unset elements.

        Raises:
            OutOfMemoryError: there is not so much, even after all that is kept was given back.
        """
        if nbytes <= 0:
            return Block(self, 0, 0, 0)
        piece = _SMALL_PIECE if nbytes < _LARGE else _LARGE_PIECE
        size, stream = -(-nbytes // piece) * piece, self.stream
        with self._lock:
            kept = self._pool.get((stream, size))
            pointer = kept.pop() if kept else self._ask(size)
            counts = self.counts
            counts["allocated"] += size
            counts["most_allocated"] = max(counts["most_allocated"], counts["allocated"])
        return Block(self, pointer, size, stream)

    def _ask(self, size: int) -> int:
        found = c_uint64()
        try:
            self.call("cuMemAlloc_v2", ctypes.byref(found), size)
        except DriverError as error:
            if error.code != _OUT_OF_MEMORY:
                raise
            self.empty_cache()
            try:
                self.call("cuMemAlloc_v2", ctypes.byref(found), size)
            except DriverError as again:
                if again.code != _OUT_OF_MEMORY:
                    raise
                raise self._no_memory(size) from None
        self.counts["reserved"] += size
        self.counts["most_reserved"] = max(self.counts["most_reserved"], self.counts["reserved"])
        return int(found.value)

    def _no_memory(self, size: int) -> OutOfMemoryError:
        free, total = self.memory()
        required = f"CUDA out of memory: {size} bytes on cuda:{self.index} were required"
        got = f"{free} free of {total}, of which tensors of this process have {self.counts['allocated']}"
        hint = "take smaller batches, or let go of tensors that are not needed any more"
        return OutOfMemoryError(message("cuda", required, got, hint))

    def take_back(self, pointer: int, size: int, stream: int) -> None:
        """Keep memory that is not used any more for what its stream does next."""
        with self._lock:
            self.counts["allocated"] -= size
            self._pool.setdefault((stream, size), []).append(pointer)

    def empty_cache(self) -> None:
        """Give memory that no tensor uses back to the device."""
        with self._lock:
            kept, self._pool = self._pool, {}
            if any(kept.values()):
                self.synchronize()
            for (_, size), pointers in kept.items():
                for pointer in pointers:
                    self.call("cuMemFree_v2", pointer)
                    self.counts["reserved"] -= size

    def memory(self) -> tuple[int, int]:
        """Free and whole memory in bytes."""
        free, total = c_size_t(), c_size_t()
        self.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value

    # --- copies
    def upload(self, pointer: int, address: int, nbytes: int) -> None:
        """Bytes of the host onto the device; they may be changed once this returns."""
        self.call("cuMemcpyHtoDAsync_v2", pointer, address, nbytes, self.stream)
        self.call("cuStreamSynchronize", self.stream)

    def download(self, address: int, pointer: int, nbytes: int) -> None:
        """Bytes of the device into memory of the host, once what was asked before is done."""
        self.call("cuMemcpyDtoHAsync_v2", address, pointer, nbytes, self.stream)
        self.call("cuStreamSynchronize", self.stream)

    def move(self, target: int, source: int, nbytes: int) -> None:
        """Bytes within the device."""
        self.call("cuMemcpyDtoDAsync_v2", target, source, nbytes, self.stream)

    def zero(self, pointer: int, nbytes: int) -> None:
        """Sets bytes to zero."""
        self.call("cuMemsetD8Async", pointer, 0, nbytes, self.stream)

    # --- kernels
    def load(self, image: bytes, name: str, layout: str, warps: int, shared: int) -> Function:
        """A kernel of a compiled module."""
        module, function = c_void_p(), c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), image)
        self.call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
        if shared > _USUAL_SHARED:
            self.call("cuFuncSetAttribute", function, _MAX_SHARED, shared)
        return Function(self, function.value or 0, layout, warps, shared)

    # --- what it is
    def attribute(self, name: str) -> int:
        """A property of the device by its name."""
        found = c_int()
        number = _ATTRIBUTES[name]
        self.driver.call("cuDeviceGetAttribute", ctypes.byref(found), number, self.index)
        return found.value

    def name(self) -> str:
        """The device's name."""
        text = ctypes.create_string_buffer(256)
        self.driver.call("cuDeviceGetName", text, len(text), self.index)
        return text.value.decode(errors="replace")

    def total_memory(self) -> int:
        """All of its memory in bytes."""
        found = c_size_t()
        self.driver.call("cuDeviceTotalMem_v2", ctypes.byref(found), self.index)
        return found.value
