"""The CUDA driver as a library of C: memory of devices, streams, events, by ctypes alone.

Takes: where the library lies, or nothing. Gives: `Driver`, `DeviceMemory`, `DriverError`.
Keeps true: it imports the standard library only; a call runs in the primary context of its device, the one
that CUDA's runtime and all other packages use; an answer that is no success is a `DriverError`.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_char_p, c_int, c_size_t, c_ubyte, c_uint, c_uint64, c_void_p
from typing import Any, ClassVar

__all__ = ["PROTOTYPES", "DeviceMemory", "Driver", "DriverError", "find"]

SUCCESS, NOT_READY = 0, 600
_NON_BLOCKING, _NO_TIMING = 1, 2
_MEMORY_TYPE, _DEVICE_ORDINAL = 2, 9
_HOST_MEMORY = 1
_DEFAULT_STREAM = 1

PROTOTYPES: dict[str, list[Any]] = {
    "cuInit": [c_uint],
    "cuDriverGetVersion": [POINTER(c_int)],
    "cuDeviceGetCount": [POINTER(c_int)],
    "cuDeviceGet": [POINTER(c_int), c_int],
    "cuDevicePrimaryCtxRetain": [POINTER(c_void_p), c_int],
    "cuCtxSetCurrent": [c_void_p],
    "cuCtxGetCurrent": [POINTER(c_void_p)],
    "cuMemAlloc_v2": [POINTER(c_uint64), c_size_t],
    "cuMemFree_v2": [c_uint64],
    "cuMemcpyHtoD_v2": [c_uint64, c_void_p, c_size_t],
    "cuMemcpyDtoH_v2": [c_void_p, c_uint64, c_size_t],
    "cuMemcpyDtoDAsync_v2": [c_uint64, c_uint64, c_size_t, c_void_p],
    "cuMemsetD8_v2": [c_uint64, c_ubyte, c_size_t],
    "cuPointerGetAttribute": [c_void_p, c_int, c_uint64],
    "cuStreamCreate": [POINTER(c_void_p), c_uint],
    "cuStreamDestroy_v2": [c_void_p],
    "cuStreamQuery": [c_void_p],
    "cuStreamWaitEvent": [c_void_p, c_void_p, c_uint],
    "cuEventCreate": [POINTER(c_void_p), c_uint],
    "cuEventDestroy_v2": [c_void_p],
    "cuEventRecord": [c_void_p, c_void_p],
    "cuGetErrorName": [c_int, POINTER(c_char_p)],
}


class DriverError(RuntimeError):
    """The CUDA driver did not do what it was asked.

    Args:
        call: the function of the driver
        code: its answer
        name: the driver's name of it
    """

    def __init__(self, call: str, code: int, name: str) -> None:
        self.call, self.code, self.name = call, code, name
        super().__init__(f"{call}: {name or code}")


def find(path: str | None = None) -> Any:
    """The loaded library of the driver.

    Args:
        path: where it lies; None is where the system looks

    Raises:
        OSError: there is none.
    """
    return ctypes.CDLL(path or "libcuda.so.1")


class Driver:
    """The functions of the driver; a subclass may ask for more.

    Args:
        handle: what has the functions as attributes; a loaded library

    Raises:
        OSError: a function is missing.
        DriverError: there is no device.
    """

    #: the functions that are asked for, with their arguments
    prototypes: ClassVar[dict[str, list[Any]]] = PROTOTYPES

    def __init__(self, handle: Any) -> None:
        self._functions: dict[str, Any] = {}
        for name, arguments in self.prototypes.items():
            try:
                function = getattr(handle, name)
            except AttributeError:
                raise OSError(
                    f"[cuda] the function {name} was required of the driver: got none\n"
                    "hint: install a newer driver"
                ) from None
            function.argtypes, function.restype = arguments, c_int
            self._functions[name] = function
        self._contexts: dict[int, c_void_p] = {}
        self.call("cuInit", 0)

    def call(self, name: str, *args: Any) -> None:
        """Call a function."""
        code = self._functions[name](*args)
        if code != SUCCESS:
            raise self._error(name, code)

    def _error(self, name: str, code: int) -> DriverError:
        text = c_char_p()
        self._functions["cuGetErrorName"](code, ctypes.byref(text))
        return DriverError(name, code, (text.value or b"").decode(errors="replace"))

    def version(self) -> int:
        """The newest version of CUDA that the driver serves, as 13000."""
        found = c_int()
        self.call("cuDriverGetVersion", ctypes.byref(found))
        return found.value

    def count(self) -> int:
        """How many devices there are."""
        found = c_int()
        self.call("cuDeviceGetCount", ctypes.byref(found))
        return found.value

    def use(self, device: int) -> None:
        """Have this thread work on a device."""
        known = self._contexts.get(device)
        if known is None:
            handle, known = c_int(), c_void_p()
            self.call("cuDeviceGet", ctypes.byref(handle), device)
            self.call("cuDevicePrimaryCtxRetain", ctypes.byref(known), handle)
            self._contexts[device] = known
        self.call("cuCtxSetCurrent", known)

    def device_of(self, pointer: int) -> int | None:
        """The device that memory lies on; None for memory of the processor."""
        found = c_int()
        where = ctypes.addressof(found)
        code = self._functions["cuPointerGetAttribute"](where, _MEMORY_TYPE, pointer)
        if code != SUCCESS or found.value == _HOST_MEMORY:
            return None
        self.call("cuPointerGetAttribute", where, _DEVICE_ORDINAL, pointer)
        return found.value

    # ---------------------------------------------------------------- streams

    def stream(self) -> c_void_p:
        """A stream that waits for no other."""
        made = c_void_p()
        self.call("cuStreamCreate", ctypes.byref(made), _NON_BLOCKING)
        return made

    def is_done(self, stream: c_void_p) -> bool:
        """Whether all of a stream has run."""
        return self.answered("cuStreamQuery", stream)

    def answered(self, name: str, *args: Any) -> bool:
        """Call a function that says whether something is done."""
        code = self._functions[name](*args)
        if code not in (SUCCESS, NOT_READY):
            raise self._error(name, code)
        return code == SUCCESS

    def behind(self, stream: c_void_p, other: int) -> None:
        """What a stream gets from now on waits for what another one has got."""
        event = c_void_p()
        self.call("cuEventCreate", ctypes.byref(event), _NO_TIMING)
        try:
            self.call("cuEventRecord", event, other)
            self.call("cuStreamWaitEvent", stream, event, 0)
        finally:
            self.call("cuEventDestroy_v2", event)


class DeviceMemory:
    """Elements in the memory of a device, which other packages see by `__cuda_array_interface__`.

    Args:
        driver: of the device
        device: its number
        count: how many elements
        typestr: their kind, as NumPy writes it
    """

    def __init__(self, driver: Driver, device: int, count: int, typestr: str) -> None:
        self.driver, self.device, self.count, self.typestr = driver, device, count, typestr
        self.nbytes = count * int(typestr[2:])
        pointer = c_uint64()
        driver.use(device)
        driver.call("cuMemAlloc_v2", ctypes.byref(pointer), max(self.nbytes, 1))
        self.pointer = pointer.value

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """What other packages learn of it: `write` is done behind the default stream."""
        return {
            "shape": (self.count,), "typestr": self.typestr, "data": (self.pointer, False),
            "version": 3, "stream": _DEFAULT_STREAM,
        }  # fmt: skip

    def write(self, data: bytes) -> None:
        """Set the elements."""
        self.driver.use(self.device)
        self.driver.call("cuMemcpyHtoD_v2", self.pointer, data, min(len(data), self.nbytes))

    def read(self) -> bytes:
        """The elements as bytes."""
        found = ctypes.create_string_buffer(max(self.nbytes, 1))
        self.driver.use(self.device)
        self.driver.call("cuMemcpyDtoH_v2", found, self.pointer, self.nbytes)
        return found.raw[: self.nbytes]

    def free(self) -> None:
        """Give the memory back."""
        pointer, self.pointer = self.pointer, 0
        if pointer:
            self.driver.use(self.device)
            self.driver.call("cuMemFree_v2", pointer)
