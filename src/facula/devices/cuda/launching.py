"""Kernels of a device, ready to be launched.

Takes: a `Machine`, kernels of `codegen.triton`. Gives: `Launcher`, which has the code of each kernel loaded once and
launches it on pointers and numbers.
Keeps true: code that counts on aligned memory runs on aligned memory only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from facula.core import logs
from facula.devices.cuda import images
from facula.devices.cuda.images import Image, Request
from facula.devices.cuda.machine import Function, Machine

__all__ = ["Launcher", "Ready"]

log = logs.get_logger("inductor")
_FORMATS = {"i32": "i4x", "i64": "q", "fp64": "d", "fp32": "f4x"}


class Ready:
    """A kernel with its sizes: what remains are pointers and the numbers of a call."""

    __slots__ = ("aligned", "grid", "kernel", "launcher", "rest", "unaligned")

    def __init__(self, launcher: Launcher, kernel: Any) -> None:
        self.launcher, self.kernel = launcher, kernel
        self.grid = kernel.grid
        self.rest = [*kernel.numbers], [*kernel.extents]
        self.aligned: Function | None = None
        self.unaligned: Function | None = None

    def launch(self, pointers: Sequence[int], scalars: Sequence[Any]) -> None:
        """Put a run on the current stream."""
        bits = 0
        for pointer in pointers:
            bits |= pointer
        if bits & 15:
            function = self.unaligned
            if function is None:
                function = self.unaligned = self.launcher.function(self.kernel, False)
        else:
            function = self.aligned
            if function is None:
                function = self.aligned = self.launcher.function(self.kernel, True)
        numbers, extents = self.rest
        own = (0,) * self.launcher.trailing[function.handle]
        function.launch(self.grid, (*pointers, *numbers, *scalars, *extents, *own))


class Launcher:
    """The kernels of one device.

    Args:
        machine: the device
        compile: gives the code of a kernel
    """

    def __init__(
        self, machine: Machine, compile: Callable[[Request], Image] = images.image
    ) -> None:
        self.machine, self.compile = machine, compile
        self._functions: dict[Request, Function] = {}
        self.trailing: dict[int, int] = {}
        major, minor = machine.attribute("major"), machine.attribute("minor")
        self.capability = major * 10 + minor

    def function(self, kernel: Any, aligned: bool) -> Function:
        """The code of a kernel, for pointers that are all aligned or not."""
        signature = kernel.signature()
        divisible = [name for name in signature if aligned and name.startswith("b")]
        sizes = {f"n{k}": value for k, value in enumerate(kernel.numbers)}
        sizes |= {f"e{k}": value for k, value in enumerate(kernel.extents)}
        divisible += [name for name, value in sizes.items() if value % 16 == 0]
        request = Request(
            kernel.text, tuple(signature.items()), tuple(kernel.constants.items()),
            kernel.warps, kernel.stages, tuple(divisible), self.capability,
        )  # fmt: skip
        found = self._functions.get(request)
        if found is None:
            found = self._functions[request] = self._load(request)
        return found

    def _load(self, request: Request) -> Function:
        log.debug("[cuda] a kernel for sm_%d:\n%s", request.capability, request.text)
        made = self.compile(request)
        kinds = [kind for _, kind in request.signature if kind != "constexpr"]
        layout = "".join("Q" if kind[0] == "*" else _FORMATS[kind] for kind in kinds)
        layout += "Q" * made.trailing
        function = self.machine.load(made.code, made.name, layout, request.warps, made.shared)
        self.trailing[function.handle] = made.trailing
        return function
