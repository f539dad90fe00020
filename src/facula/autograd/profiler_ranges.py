"""Ranges for outside profilers: operators and nodes as NVTX or ITT ranges.

Takes the tool's library, which has to be installed. Gives context managers.
Keeps true: every range that is pushed is popped; without the library the context cannot be entered.
"""

from __future__ import annotations

import ctypes
import ctypes.util
from collections.abc import Callable
from typing import Any

from facula import core
from facula.autograd.profiler_recorder import RawEvent, Recorder
from facula.core.errors import fail


class _Announcer(Recorder):
    """A recorder that keeps nothing and announces each range to a tool."""

    def __init__(
        self, push: Callable[[str], Any], pop: Callable[[], Any], record_shapes: bool
    ) -> None:
        super().__init__(record_shapes=record_shapes)
        self.push = push
        self.pop = pop

    def _open(self, event: RawEvent) -> RawEvent:
        text = event.name
        if event.sequence >= 0:
            text += f", seq = {event.sequence}"
        if event.shapes:
            text += f", sizes = {event.shapes}"
        self._stack().append(event)
        self.push(text)
        return event

    def _close(self, event: RawEvent, now: int) -> None:
        event.end = now
        self.pop()


class _Emit:
    """What `emit_nvtx` and `emit_itt` share."""

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        self.enabled = enabled
        self.record_shapes = record_shapes
        self.entered = False
        self._announcer: _Announcer | None = None

    def _tool(self) -> tuple[Callable[[str], Any], Callable[[], Any]]:
        raise NotImplementedError(type(self).__name__)

    def __enter__(self) -> Any:
        if not self.enabled:
            return None
        if self.entered:
            name = type(self).__name__
            fail(
                RuntimeError,
                name,
                f"{name} annotation context manager is not reentrant",
                hint=f"make another {name} for the inner range",
            )
        self._announcer = _Announcer(*self._tool(), self.record_shapes)
        self._announcer.begin()
        self.entered = True
        return self

    def __exit__(self, *exception: object) -> None:
        if self._announcer is not None:
            core.set_profiling(False)
            core.PROFILER[0] = None
            self._announcer = None


class emit_nvtx(_Emit):
    """Announces operators and backward nodes as NVTX ranges, for Nsight Systems."""

    def _tool(self) -> tuple[Callable[[str], Any], Callable[[], Any]]:
        found = ctypes.util.find_library("nvToolsExt")
        if found is None:
            fail(
                RuntimeError,
                "emit_nvtx",
                "NVIDIA's tools extension library was required: NVTX functions not installed",
                hint="install the CUDA toolkit, which has libnvToolsExt",
            )
        library = ctypes.CDLL(found)
        return lambda text: library.nvtxRangePushA(text.encode()), library.nvtxRangePop


class emit_itt(_Emit):
    """Announces operators and backward nodes as ITT tasks, for VTune."""

    def _tool(self) -> tuple[Callable[[str], Any], Callable[[], Any]]:
        try:
            import ittapi
        except ImportError:
            fail(
                RuntimeError,
                "emit_itt",
                "the package ittapi was required: ITT functions not installed",
                hint="pip install ittapi",
            )
        domain = ittapi.domain("facula")
        return (
            lambda text: ittapi.task_begin(domain, text),
            lambda: ittapi.task_end(domain),
        )
