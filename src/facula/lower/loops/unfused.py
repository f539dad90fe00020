"""Calls that fusion gained nothing for stay what they were: one call of the operator.

Takes: a program, its calls (`ir.Program.calls`) and the fused order. Gives: `keep_unfused`, the order
with calls where a kernel computes the results of one operator from tensors in memory.
Keeps true: a kernel is replaced only where everything that others read of it is the results of one
call, all of them, and the call's arguments are in memory before; small kernels stay, since a call
costs more than they do; results that may be written over an input stay, since a call can not, and
so do kernels that the caller finds better.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from facula.lower.loops import ir
from facula.lower.loops.fuse import Kernel
from facula.lower.loops.gathers import check_within
from facula.lower.loops.targets import name_of

#: iterations of a kernel from which on a call's own cost is lost in its work
WORTH_A_CALL = 1 << 16


def exported(program: ir.Program, order: Sequence[Any]) -> list[set[ir.Buffer]]:
    """For each kernel or call, the buffers that others, or the caller, read of it."""
    outputs = {view.buffer for view in ir.views_in(program.outputs)}
    readers: dict[ir.Buffer, set[int]] = {}
    for number, node in enumerate(order):
        for buffer in node.reads:
            readers.setdefault(buffer, set()).add(number)
    return [
        {
            b
            for b in node.writes
            if b in outputs or b.role == "input" or readers.get(b, set()) - {number}
        }
        for number, node in enumerate(order)
    ]


def keep_unfused(
    program: ir.Program,
    order: Sequence[Any],
    overwriting: Iterable[ir.Buffer] = (),
    better: Callable[[Kernel, set[ir.Buffer]], bool] = lambda kernel, wanted: False,
) -> list[Any]:
    """The order with calls instead of kernels that are one call; the program's steps follow.

    Args:
        program: the program; its `steps` are replaced.
        order: kernels and calls.
        overwriting: results that may be written over an input.
        better: whether a kernel, of which these results are read, is more than the call.
    """
    excluded = set(overwriting)
    by_results = {frozenset(call.results): call for call in program.calls}
    if not by_results:
        return list(order)
    writers: dict[ir.Buffer, int] = {}
    for node in order:
        for buffer in set(node.writes):
            writers[buffer] = writers.get(buffer, 0) + 1
    found: list[Any] = []
    dropped: set[int] = set()
    for node, wanted in zip(order, exported(program, order), strict=True):
        call = by_results.get(frozenset(wanted)) if isinstance(node, Kernel) else None
        checks = _checks(order, call) if call is not None else []
        if (
            call is None
            or (node.numel < WORTH_A_CALL and not checks)
            or wanted & excluded
            or call.reads & set(node.writes)
            or any(writers[b] > 1 for b in wanted)
            or better(node, wanted)
        ):
            found.append(node)
            continue
        found.append(call)
        gone = set(node.writes)
        program.steps = [s for s in program.steps if not gone & set(s.writes)] + [call]
        for check in checks:  # the operator checks by itself
            dropped.add(id(check))
    if dropped:
        found = [node for node in found if id(node) not in dropped]
        program.steps = [step for step in program.steps if id(step) not in dropped]
    return found


def _checks(order: Sequence[Any], call: ir.Extern) -> list[ir.Extern]:
    """The checks of indices that belong to a call."""
    return [
        node
        for node in order
        if isinstance(node, ir.Extern)
        and node.target is check_within
        and node.args[3] == name_of(call.target)
        and node.args[4 : 4 + len(call.args)] == call.args
    ]
