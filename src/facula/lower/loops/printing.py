"""Loop programs as text, for people.

Takes: steps, kernels. Gives: `steps_text`, `kernels_text`.
Keeps true: one line says what a step reads, writes and runs over.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from facula.lower.loops import ir
from facula.lower.loops.fuse import Kernel


def step_text(step: Any) -> str:
    """One step."""
    writes = ", ".join(map(repr, step.writes))
    if isinstance(step, ir.Extern):
        reads = ", ".join(sorted(b.name for b in step.reads))
        return f"{writes} = {step.origin}({reads})"
    if isinstance(step, ir.Elementwise):
        body = "; ".join(f"{s.buffer.name}[{s.index!r}] = {s.expression!r}" for s in step.stores)
        return f"for {step.variable!r}: {body}"
    folds = "; ".join(f"{f.leaf!r} = {f.operation} of {f.expression!r}" for f in step.folds)
    return f"{writes} = {step.origin} over {step.geometry}: {folds}"


def steps_text(steps: Sequence[Any]) -> str:
    """All steps, a line each."""
    return "\n".join(step_text(step) for step in steps) + "\n"


def schedule_text(steps: Sequence[Any]) -> str:
    """Calls and launches of consecutive kernels, in their order."""
    lines = []
    for step in steps:
        if isinstance(step, ir.Extern):
            lines.append(f"call of {step_text(step)}")
        else:
            buffers = ", ".join("arena" if b is None else b.name for b in step.slots)
            lines.append(f"launch of {step.kernels} kernels on {buffers}")
    return "\n".join(lines) + "\n"


def kernels_text(order: Sequence[Any]) -> str:
    """Kernels with the steps that they hold, and calls."""
    lines = []
    for number, node in enumerate(order):
        if isinstance(node, Kernel):
            space = node.geometry or f"{node.numel} places"
            lines.append(f"kernel {number} over {space}")
            lines += ["    " + step_text(step) for step in node.steps]
        else:
            lines.append(step_text(node))
    return "\n".join(lines) + "\n"
