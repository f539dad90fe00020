"""Checks of a fused program: what every pass must keep true.

Takes: a program and the order of its kernels and calls. Gives: `verify`, which raises at the first
thing that is wrong.
Keeps true: it knows nothing of how passes work: it reads the program alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from facula.core.errors import fail
from facula.lower.loops import ir
from facula.lower.loops.fuse import Kernel


def verify(program: ir.Program, order: Sequence[Any]) -> None:
    """Check a program.

    Raises:
        RuntimeError: a step is lost, a buffer is read before it is written, an element outside of a
            buffer is read or written, or a kernel reads of its own buffers what another iteration
            writes.
    """
    known = {b for b in program.inputs if b is not None} | {b for b, _ in program.constants}
    written: dict[ir.Buffer, int] = {}
    for node in order:
        for buffer in node.writes:
            written[buffer] = written.get(buffer, 0) + 1
    wanted: dict[ir.Buffer, int] = {}
    for step in program.steps:
        for buffer in step.writes:
            wanted[buffer] = wanted.get(buffer, 0) + 1
    if written != wanted:
        _wrong("every step in one kernel", "a step that is lost or there twice")
    done: dict[ir.Buffer, int] = {}
    for node in order:
        inside = set(node.writes) if isinstance(node, Kernel) else set()
        for buffer in node.reads - known - inside:
            if done.get(buffer, 0) < wanted.get(buffer, 1):
                _wrong("buffers that are written before they are read", f"a read of {buffer}")
        if isinstance(node, Kernel):
            _kernel(node, known)
        for buffer in node.writes:
            done[buffer] = done.get(buffer, 0) + 1
    for view in ir.views_in(program.outputs):
        if view.buffer not in known and not done.get(view.buffer):
            _wrong("results that are written", f"{view.buffer}")


def _kernel(kernel: Kernel, known: set[ir.Buffer]) -> None:
    available: set[tuple[ir.Buffer, Any]] = set()
    own = set(kernel.writes)
    for step in kernel.steps:
        for found in ir.loads_of(step.expressions):
            _within(found.buffer, found.index)
            if found.buffer in own and (found.buffer, found.index) not in available:
                _wrong("reads of what the same iteration wrote", f"{found!r} in a kernel")
        if isinstance(step, ir.Elementwise):
            for store in step.stores:
                for at, _ in store.parts():
                    _within(store.buffer, at)
                    available.add((store.buffer, at))
        else:
            available |= {(buffer, kernel.place) for buffer in step.results}


def _within(buffer: ir.Buffer, index: Any) -> None:
    low, high = index.bounds()
    extent = buffer.extent * (2 if buffer.code in ir.PART else 1)
    if low < 0 or (high >= extent and buffer.numel):
        _wrong(f"indices in [0, {extent})", f"{buffer.name}[{index!r}] in [{low}, {high}]")


def _wrong(required: str, got: str) -> None:
    fail(
        RuntimeError,
        "loops",
        f"{required} were required",
        got=got,
        hint="FACULA_TRACE writes every stage of the compiler",
    )
