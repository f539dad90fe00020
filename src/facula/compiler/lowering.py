"""What the passes between loops and C text are, where they are no module of their own.

Takes: programs of loops, kernels in order, loop nests. Gives: the functions that `pipeline.lowered` names.
Keeps true: nothing of the program outlives what they give.
"""

from __future__ import annotations

import collections
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from facula.codegen.c.loops import fused
from facula.compiler import disk_cache
from facula.core import logs
from facula.lower.loops import fuse, ir, memory, nest, non_temporal, printing, unfused

if TYPE_CHECKING:
    from facula.nn import Module


log = logs.get_logger("inductor")

#: pointers that kernels of one launch take together; a launch takes 8192
RUN_POINTERS = 4096  # speed only


class Chosen(NamedTuple):
    """What is decided when C is written: kernels and calls in order, their text, and the memory plan."""

    program: ir.Program
    order: Sequence[Any]
    texts: Sequence[Any]
    plan: memory.Plan
    #: how many steps there were before fusion
    steps: int


def apart(steps: Sequence[Any]) -> list[Any]:
    """Each step a kernel of its own, where nothing is fused."""
    return [step if isinstance(step, ir.Extern) else fuse.Kernel(step) for step in steps]


def with_unfused_calls(
    program: ir.Program, order: Sequence[Any], over_inputs: set[ir.Buffer], past_caches: bool
) -> list[Any]:
    """The order with calls instead of kernels that are one call, unless the kernel stores past the caches."""

    def stores_past_caches(kernel: Any, wanted: set[ir.Buffer]) -> bool:
        if not past_caches or all(buffer.nbytes < non_temporal.LARGE for buffer in wanted):
            return False
        layout = nest.lay_out(kernel, wanted.__contains__)
        return non_temporal.stored(non_temporal.marked(layout, over_inputs))

    return unfused.keep_unfused(program, order, over_inputs, stores_past_caches)


def as_fused(program: ir.Program, order: Sequence[Any], *rest: object) -> list[Any]:
    """The order as it is, where no kernel becomes a call again."""
    return list(order)


def tell_of_fusion(steps: int, order: Sequence[Any]) -> None:
    """What was fused, for the log."""
    if logs.is_on("fusion"):
        shown = printing.kernels_text(order)
        logs.artifact("fusion").debug("%d steps as kernels and calls:\n%s", steps, shown)


def mark_non_temporal(layouts: Sequence[Any], over_inputs: set[ir.Buffer]) -> list[str]:
    """Large results of kernels that wait for memory are stored past the caches; gives their names."""
    marked = [non_temporal.marked(layout, over_inputs) for layout in layouts]
    return sorted(b.name for layout in marked for b in getattr(layout, "non_temporal", ()))


def kernel_texts(layouts: Sequence[Any], dynamic: bool) -> list[Any]:
    """The C of each kernel, None for calls."""
    return [fused.kernel_text(x, dynamic) if x is not None else None for x in layouts]


def lifetimes(
    module: Module,
    program: ir.Program,
    order: Sequence[Any],
    layouts: Sequence[Any],
    texts: Sequence[Any],
) -> tuple[Any, ...]:
    """What a memory plan is made of: uses, results, what may be written over, and inputs that are ours."""
    aliases = _overwritten(program, order, layouts, texts, module.meta.get("writes", {}))
    given = program.inputs if keeps_inputs(module) else ()
    own = [buffer for buffer in given if buffer is not None]
    return _uses(order, texts), _outputs(program), aliases, own


def unit_of(chosen: Chosen, empties: bool, dynamic: bool) -> disk_cache.Lowered:
    """The C of all kernels, and launches and calls in order."""
    program, order, texts, plan, count = chosen
    runs, slots = _runs(order, texts, plan)
    log.debug("fused: %d kernels and calls in %d runs", len(order), len(runs))
    log.debug("planned: %d bytes of arena, %d aliases", plan.size, len(plan.aliases))
    unit = fused.unit([run for run in runs if run is not None], dynamic)
    bare = ir.Program(program.inputs, program.constants, [], program.outputs)
    steps = _in_order(order, runs, slots)
    if logs.is_on("schedule"):
        shown = printing.schedule_text(steps)
        logs.artifact("schedule").debug("%d bytes of arena, in this order:\n%s", plan.size, shown)
    return disk_cache.Lowered(bare, plan, steps, unit, count, empties)


def keeps_inputs(module: Module) -> bool:
    """Whether what a graph is given was kept for it alone, so that it may let go of it early."""
    return bool(module.meta.get("part") == "backward")


def _in_order(
    order: Sequence[Any],
    runs: Sequence[fused.Run | None],
    slots: Sequence[list[ir.Buffer | None]],
) -> list[ir.Extern | disk_cache.Launch]:
    """Calls, and runs of kernels as launches."""
    found: list[ir.Extern | disk_cache.Launch] = []
    number = 0
    for run, buffers in zip(runs, slots, strict=True):
        found.append(order[number] if run is None else disk_cache.Launch(len(run.kernels), buffers))
        number += 1 if run is None else len(run.kernels)
    return found


def overwriting(program: ir.Program, module: Module) -> set[ir.Buffer]:
    """Results that are the new elements of an input."""
    outputs = program.outputs if isinstance(program.outputs, tuple) else ()
    numbers = module.meta.get("writes", {})
    return {outputs[k].buffer for k in numbers if isinstance(outputs[k], ir.View)}


def _outputs(program: ir.Program) -> set[ir.Buffer]:
    return {view.buffer for view in ir.views_in(program.outputs)}


def laid_out(order: Sequence[Any], program: ir.Program) -> list[Any]:
    """The loop nests of kernels, None for calls."""
    found: list[Any] = []
    for node, wanted in zip(order, unfused.exported(program, order), strict=True):
        is_call = isinstance(node, ir.Extern)
        found.append(None if is_call else nest.lay_out(node, wanted.__contains__))
    return found


def _uses(order: Sequence[Any], texts: Sequence[Any]) -> list[memory.Use]:
    uses = []
    for node, text in zip(order, texts, strict=True):
        if text is None:
            uses.append(memory.Use(node.reads, node.writes, True))
            continue
        held = set(text.buffers)
        writes = [b for b in node.writes if b in held]
        uses.append(memory.Use(held - set(writes), writes, False))
    return uses


def _overwritten(
    program: ir.Program,
    order: Sequence[Any],
    layouts: Sequence[Any],
    texts: Sequence[Any],
    writes: dict[int, int],
) -> dict[ir.Buffer, ir.Buffer]:
    """Results that may be written over the inputs whose new elements they are: where the kernel
    that writes a result is the only one that reads the input, each element in the same iteration."""
    found: dict[ir.Buffer, ir.Buffer] = {}
    taken: set[ir.Buffer] = set()
    outputs = program.outputs if isinstance(program.outputs, tuple) else ()
    times = collections.Counter(view.buffer for view in ir.views_in(outputs))
    writers_of, readers_of = _by_buffer(order)
    for value, number in writes.items():
        view: Any
        view, target = outputs[value], program.inputs[number]
        if not isinstance(view, ir.View) or not view.whole or target is None:
            continue
        result = view.buffer
        same = (result.shape, result.strides, result.code) == (
            target.shape, target.strides, target.code,
        )  # fmt: skip
        if not same or times[result] > 1 or target in times or target in taken:
            continue
        writers, readers = writers_of.get(result, []), readers_of.get(target, [])
        if len(writers) != 1 or readers != writers:
            continue
        layout, text = layouts[writers[0]], texts[writers[0]]
        if isinstance(layout, nest.Flat) and text.in_place and layout.shares(target, result):
            found[result] = target
            taken.add(target)
    return found


def _by_buffer(order: Sequence[Any]) -> tuple[dict[ir.Buffer, list[int]], ...]:
    """For each buffer, the kernels and calls that write it, and those that read it."""
    writers: dict[ir.Buffer, list[int]] = {}
    readers: dict[ir.Buffer, list[int]] = {}
    for number, node in enumerate(order):
        for buffer in set(node.writes):
            writers.setdefault(buffer, []).append(number)
        for buffer in node.reads:
            readers.setdefault(buffer, []).append(number)
    return writers, readers


def _runs(
    order: Sequence[Any], texts: Sequence[Any], plan: memory.Plan
) -> tuple[list[fused.Run | None], list[list[ir.Buffer | None]]]:
    """Consecutive kernels together, and what stands at each place of a run; None for calls."""
    runs: list[fused.Run | None] = []
    slots: list[list[ir.Buffer | None]] = []
    current: fused.Run | None = None
    for text in texts:
        if text is None:
            runs.append(None)
            slots.append([])
            current = None
            continue
        if current is None or len(slots[-1]) + len(text.buffers) > RUN_POINTERS:
            current = fused.Run([], {})
            runs.append(current)
            slots.append([])
        current.kernels.append(text)
        for buffer in text.buffers:
            if buffer in current.places:
                continue
            offset = plan.offsets.get(buffer)
            own = plan.aliases.get(buffer, buffer) if offset is None else None
            if own not in slots[-1]:
                slots[-1].append(own)
            number = slots[-1].index(own)
            current.places[buffer] = fused.Place(number, offset or 0, own is None)  # type: ignore[index]
    return runs, slots
