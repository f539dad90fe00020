"""The CUDA driver without a device: memory of the process, kernels that run in NumPy.

Takes: how much memory the device has. Gives: `Fake`, whose attributes are functions of C's calling convention;
`compiled`, what stands in the place of machine code; `backend`, a backend on both.
Keeps true: arguments of a launch are read as the driver reads them, from the pointers that it is given; memory that
was not given out is never touched.
"""

from __future__ import annotations

import ctypes
import itertools
import pickle
from typing import Any

import fake_triton

from facula.devices.cuda import Cuda
from facula.devices.cuda.images import Image, Request
from facula.devices.cuda.machine import CudaDriver

SIZES = {"i32": ctypes.c_int32, "i64": ctypes.c_int64, "fp64": ctypes.c_double}
TEXT = ctypes.create_string_buffer(b"what the fake says")


def compiled(request: Request) -> Image:
    """The request itself, as the bytes of a module."""
    return Image(pickle.dumps(request).hex().encode(), "kernel", 60000, 2)


class Fake:
    """The library."""

    def __init__(self, devices: int = 1, limit: int = 1 << 30) -> None:
        self.devices, self.limit, self.used = devices, limit, 0
        self.calls: list[str] = []
        self.memory: dict[int, Any] = {}
        self.modules: dict[int, Request] = {}
        self.handles = itertools.count(0x1000, 0x10)
        self._kept = []
        for name, arguments in CudaDriver.prototypes.items():
            function = ctypes.CFUNCTYPE(ctypes.c_int, *arguments)(self._recorded(name))
            self._kept.append(function)
            setattr(self, name, function)

    def _recorded(self, name: str) -> Any:
        body = getattr(self, f"_{name}", lambda *args: 0)

        def run(*args: Any) -> int:
            self.calls.append(name)
            return body(*args) or 0

        return run

    def _cuGetErrorName(self, code: int, found: Any) -> None:
        found[0] = ctypes.addressof(TEXT)

    def _cuDeviceGetCount(self, found: Any) -> None:
        found[0] = self.devices

    def _cuDeviceGet(self, found: Any, number: int) -> None:
        found[0] = number

    def _cuDevicePrimaryCtxRetain(self, found: Any, device: int) -> None:
        found[0] = 0x100 + device

    def _cuDeviceGetAttribute(self, found: Any, what: int, device: int) -> None:
        found[0] = {75: 9, 76: 0, 16: 132, 10: 32}[what]

    def _cuDeviceGetName(self, text: Any, size: int, device: int) -> None:
        ctypes.memmove(text, b"a fake device\0", 14)

    def _cuDeviceTotalMem_v2(self, found: Any, device: int) -> None:
        found[0] = self.limit

    def _cuMemGetInfo_v2(self, free: Any, total: Any) -> None:
        free[0], total[0] = self.limit - self.used, self.limit

    # --- memory
    def _cuMemAlloc_v2(self, found: Any, size: int) -> int:
        if self.used + size > self.limit:
            return 2
        held = ctypes.create_string_buffer(b"\xcb" * (size + 256), size + 256)
        found[0] = -(-ctypes.addressof(held) // 256) * 256
        self.memory[found[0]] = (held, size)
        self.used += size
        return 0

    def _cuMemFree_v2(self, pointer: int) -> int:
        self.used -= self.memory.pop(pointer)[1]
        return 0

    def block(self, first: int, behind: int) -> tuple[int, int]:
        """The block that holds bytes."""
        for start, (_, size) in self.memory.items():
            if start <= first < start + size:
                assert behind <= start + size, f"{behind - start - size} bytes behind a block"
                return start, size
        raise AssertionError(f"an address in no block: {first:#x}")

    def _cuMemcpyHtoDAsync_v2(self, to: int, source: int, size: int, stream: int) -> None:
        self.block(to, to + size)
        ctypes.memmove(to, source, size)

    def _cuMemcpyDtoHAsync_v2(self, to: int, source: int, size: int, stream: int) -> None:
        self.block(source, source + size)
        ctypes.memmove(to, source, size)

    def _cuMemcpyDtoDAsync_v2(self, to: int, source: int, size: int, stream: int) -> None:
        self.block(to, to + size), self.block(source, source + size)
        ctypes.memmove(to, source, size)

    def _cuMemsetD8Async(self, to: int, value: int, size: int, stream: int) -> None:
        self.block(to, to + size)
        ctypes.memset(to, value, size)

    # --- streams
    def _cuStreamCreate(self, found: Any, flags: int) -> None:
        found[0] = next(self.handles)

    def _cuEventCreate(self, found: Any, flags: int) -> None:
        found[0] = next(self.handles)

    def _cuEventElapsedTime(self, found: Any, start: int, end: int) -> None:
        found[0] = 1.5

    # --- kernels
    def _cuModuleLoadData(self, found: Any, image: bytes) -> None:
        found[0] = next(self.handles)
        self.modules[found[0]] = pickle.loads(bytes.fromhex(image.decode()))

    def _cuModuleGetFunction(self, found: Any, module: int, name: bytes) -> int:
        found[0] = module
        return 0 if name == b"kernel" else 500

    def _cuLaunchKernel(self, function: int, *rest: Any) -> int:
        grid, parameters = rest[:3], rest[8]
        request = self.modules[function]
        places = ctypes.cast(parameters, ctypes.POINTER(ctypes.c_void_p))
        arguments: dict[str, Any] = dict(request.constants)
        kinds = [(n, kind) for n, kind in request.signature if kind != "constexpr"]
        for number, (name, kind) in enumerate(kinds):
            if kind[0] == "*":
                address = ctypes.c_uint64.from_address(places[number]).value
                assert name not in request.divisible or address % 16 == 0
                arguments[name] = (address, kind[1:])
            else:
                arguments[name] = SIZES[kind].from_address(places[number]).value
                assert name not in request.divisible or arguments[name] % 16 == 0
        for extra in (len(kinds), len(kinds) + 1):  # Triton's own memory: none
            assert ctypes.c_uint64.from_address(places[extra]).value == 0
        try:
            fake_triton.run(request.text, arguments, grid, self.block)
        except Exception as error:
            error.add_note(request.text)
            self.failed = error
            return 700
        return 0


def backend(**options: Any) -> tuple[Cuda, Fake]:
    """A backend on a fake."""
    fake = Fake(**options)
    return Cuda(CudaDriver(fake), compiled), fake
