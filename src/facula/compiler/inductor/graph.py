"""The driver: a flat graph becomes kernels and a wrapper: lowered (`lowering`), or read from disk.

Takes: a flat graph and options. Gives: `compile_graph`: a `CompiledGraph`, callable on the graph's
inputs.
Keeps true: what is printed or traced is what runs; a graph that was lowered before, in whatever
process, imports nothing of what lowers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from facula import core
from facula.codegen.c.unit import Unit
from facula.compiler.inductor import config, metrics, stored, trace
from facula.compiler.inductor.wrapper import Wrapper, direct_launch, layout_of
from facula.core import logs
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
    # lazily: a graph that is read back from disk needs nothing of what lowers
    from facula.compiler.inductor.lowering import lowered

    return lowered(module)


def _start(unit: Unit) -> Callable[[], Any] | None:
    """Start compiling a unit, unless it is loaded; gives what waits for the library's path."""
    if not unit.drivers or unit.drivers[0] in core.KERNELS:
        return None
    flags = graph_flags()
    return begin_library(unit.text, flags=flags, fresh=config.get("force_disable_caches"))


def _drivers(unit: Unit, library: Callable[[], Any] | None) -> list[Any]:
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


def _finish(wrapper: Wrapper, unit: Unit) -> CompiledGraph:
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
