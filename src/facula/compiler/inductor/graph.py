"""The driver: a flat graph becomes kernels, a memory plan and a wrapper, step by step.

Takes: a flat graph and options. Gives: `compile_graph`: a `CompiledGraph`, callable on the graph's
inputs.
Keeps true: each pass is a line of `compile_graph`; what is printed or traced is what runs.
"""

from __future__ import annotations

import collections
import time
from collections.abc import Callable, Sequence
from typing import Any

from facula import core
from facula.codegen.c import fused
from facula.compiler.inductor import config, metrics, stored, trace
from facula.compiler.inductor.wrapper import Wrapper, direct_launch, layout_of
from facula.core import logs
from facula.lower.loops import fuse, ir, memory, nest, printing, streams, verify, whole
from facula.lower.loops.graph import lower_graph
from facula.runtime.compile import begin_library, graph_flags

log = logs.get_logger("inductor")


class CompiledGraph:
    """A compiled flat graph: call it with the list of its inputs.

    `source` is the wrapper's text, `c_source` the kernels'.
    """

    def __init__(self, call: Callable[[Any], Any], source: str, c_source: str) -> None:
        self.call, self.source, self.c_source = call, source, c_source

    def __call__(self, *args: Any) -> Any:
        return self.call(args)

    @property
    def boxed(self) -> Callable[[Any], Any]:
        """The same as a function of the list of inputs, without a call in between."""
        if not isinstance(self.call, core.GraphLaunch):
            self.call._boxed_call = True  # type: ignore[attr-defined]
        return self.call


#: who wants to see what was generated: functions of (wrapper text, C text)
OBSERVERS: list[Callable[[str, str], None]] = []


def compile_graph(module: Any, options: dict[str, Any] | None = None) -> CompiledGraph:
    """Compile a flat graph (`docs/compiler.md`)."""
    return begin_graph(module, options)()


def begin_graph(module: Any, options: dict[str, Any] | None = None) -> Callable[[], CompiledGraph]:
    """Compile a flat graph up to its C text, which a compiler then works on in the background; gives
    what waits for it. So the C of a backward graph is written while that of the forward is compiled."""
    with config.patch(options or {}):
        started = time.perf_counter()
        trace.graph("graph to compile", module)
        key = stored.key_of(module)
        lowered = known = stored.load(key, module)
        if lowered is None:
            lowered = _lowered(module)
        library = _start(lowered.unit)
        if known is None:
            stored.keep(key, lowered)
        metrics.ir_nodes_pre_fusion += lowered.steps

    def finish() -> CompiledGraph:
        drivers = _drivers(lowered.unit, library)
        compiled = _finish(_wrapper(lowered, drivers), lowered.unit)
        if len(drivers) == len(lowered.order) == 1:
            compiled.call = _direct(lowered, drivers[0]) or compiled.call
        took = 1e3 * (time.perf_counter() - started)
        log.info("%d calls and runs of kernels, %.1f ms", len(lowered.order), took)
        return compiled

    return finish


def _direct(lowered: stored.Lowered, driver: Any) -> Any:
    (launch,) = lowered.order
    assert isinstance(launch, stored.Launch)
    (numbers,) = lowered.unit.numbers
    return direct_launch(lowered.program, lowered.plan, launch.slots, driver, numbers)


def _lowered(module: Any) -> stored.Lowered:
    """The passes: a flat graph to launches and calls."""
    program = lower_graph(module, config.get("equal_rounding"))
    trace.text("loops", "steps", lambda: printing.steps_text(program.steps))
    log.debug("lowered: %d steps, %d inputs", len(program.steps), len(program.inputs))
    count = len(program.steps)
    order = fuse.fuse(program.steps)
    overwriting = _overwriting(program, module)
    dynamic = config.get("dynamic")

    def streams_much(kernel: Any, wanted: set[ir.Buffer]) -> bool:
        if dynamic or all(buffer.nbytes < streams.LARGE for buffer in wanted):
            return False
        layout = nest.lay_out(kernel, wanted.__contains__)
        return streams.streamed(streams.marked(layout, overwriting))

    order = whole.keep_whole(program, order, overwriting, streams_much)
    trace.text("loops", "kernels", lambda: printing.kernels_text(order))
    if config.get("debug"):
        verify.verify(program, order)
    layouts = _laid_out(order, program)
    if not dynamic:
        for layout in layouts:
            streams.marked(layout, overwriting)
    texts = [fused.kernel_text(x, dynamic) if x is not None else None for x in layouts]
    aliases = _overwritten(program, order, layouts, texts, module.meta.get("writes", {}))
    given = program.inputs if _keeps_inputs(module) else ()
    own = [buffer for buffer in given if buffer is not None]
    plan = memory.plan(_uses(order, texts), _outputs(program), aliases, own)
    runs, slots = _runs(order, texts, plan)
    log.debug("fused: %d kernels and calls in %d runs", len(order), len(runs))
    log.debug("planned: %d bytes of arena, %d aliases", plan.size, len(aliases))
    unit = fused.unit([run for run in runs if run is not None], dynamic)
    bare = ir.Program(program.inputs, program.constants, [], program.outputs)
    steps = _in_order(order, runs, slots)
    return stored.Lowered(bare, plan, steps, unit, count, _keeps_inputs(module))


def _keeps_inputs(module: Any) -> bool:
    """Whether what a graph is given was kept for it alone, so that it may let go of it early."""
    return bool(module.meta.get("part") == "backward")


def _in_order(
    order: Sequence[Any],
    runs: Sequence[fused.Run | None],
    slots: Sequence[list[ir.Buffer | None]],
) -> list[ir.Extern | stored.Launch]:
    """Calls, and runs of kernels as launches."""
    found: list[ir.Extern | stored.Launch] = []
    number = 0
    for run, buffers in zip(runs, slots, strict=True):
        found.append(order[number] if run is None else stored.Launch(len(run.kernels), buffers))
        number += 1 if run is None else len(run.kernels)
    return found


def _overwriting(program: ir.Program, module: Any) -> set[ir.Buffer]:
    """Results that are the new elements of an input."""
    outputs = program.outputs if isinstance(program.outputs, tuple) else ()
    numbers = module.meta.get("writes", {})
    return {outputs[k].buffer for k in numbers if isinstance(outputs[k], ir.View)}


def _outputs(program: ir.Program) -> set[ir.Buffer]:
    return {view.buffer for view in ir.views_in(program.outputs)}


def _laid_out(order: Sequence[Any], program: ir.Program) -> list[Any]:
    """The loop nests of kernels, None for calls."""
    found: list[Any] = []
    for node, wanted in zip(order, whole.exported(program, order), strict=True):
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
        if current is None:
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
            current.places[buffer] = fused.Place(number, offset or 0)  # type: ignore[index]
    return runs, slots


def _start(unit: fused.Unit) -> Callable[[], Any] | None:
    """Start compiling a unit, unless it is loaded; gives what waits for the library's path."""
    if not unit.drivers or unit.drivers[0] in core.KERNELS:
        return None
    flags = graph_flags()
    return begin_library(unit.text, flags=flags, fresh=config.get("force_disable_caches"))


def _drivers(unit: fused.Unit, library: Callable[[], Any] | None) -> list[Any]:
    """The drivers of a unit, loaded."""
    if library is not None:
        path = library()
        if unit.drivers[0] not in core.KERNELS:
            core.load_library(path)
            metrics.compiled_units += 1
    return [core.kernel(name) for name in unit.drivers]


def _wrapper(lowered: stored.Lowered, drivers: Sequence[Any]) -> Wrapper:
    plan, numbers = lowered.plan, lowered.unit.numbers
    wrapper = Wrapper(lowered.program, plan, lowered.empties)
    number, launched = 0, 0
    for each in lowered.order:
        count = each.kernels if isinstance(each, stored.Launch) else 1
        steps = range(number, number + count)
        number += count
        for step in steps:
            wrapper.allocate(plan.allocate[step])
        if isinstance(each, stored.Launch):
            wrapper.run(drivers[launched], each.slots, numbers[launched])
            launched += 1
            metrics.generated_kernel_count += count
        else:
            wrapper.call(each)
            metrics.extern_call_count += 1
        for step in steps:
            wrapper.release(plan.release[step])
    return wrapper


def _empty_bytes(size: int) -> Any:
    return core.empty((size,), dtype=core.uint8)


def _finish(wrapper: Wrapper, unit: fused.Unit) -> CompiledGraph:
    layouts: Any = core.InputLayouts
    namespace = {
        "expected": layouts([layout_of(b) for b in wrapper.program.inputs]),
        "empty_strided": core.empty_strided,
        "empty_bytes": _empty_bytes,
        "as_strided": core.Tensor.as_strided,
    }
    call = wrapper.function(namespace)
    source = wrapper.source()
    c_source = unit.text if unit.drivers else ""
    logs.artifact("output_code").debug("%s\n%s", c_source, source)
    trace.text("code", "kernels", c_source, "c")
    trace.text("code", "wrapper", source, "py")
    for observer in list(OBSERVERS):
        observer(source, c_source)
    return CompiledGraph(call, source, c_source)
