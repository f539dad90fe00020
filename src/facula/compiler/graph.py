"""Compiled graphs: launches and calls in order, as something that is called with a graph's inputs.

Takes: a lowered graph, lowered just now or read from disk. Gives: `started` and `drivers_of`, its library on the
way and loaded, and `wrapped`, a `CompiledGraph`, or a `GraphForSizes` where sizes are symbols.
Keeps true: what is printed or traced is what runs; nothing of what lowers is imported here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from facula import core
from facula.codegen.c.loops.fused_unit import Unit
from facula.compiler import disk_cache, disk_format, metrics
from facula.compiler import options as config
from facula.compiler.wrapper import Wrapper, direct_launch, layout_of
from facula.core import logs
from facula.fx.size_functions import function_of
from facula.lower.at_sizes import AtSizes, graph_at, symbols_of
from facula.runtime.compile import begin_library, graph_flags

if TYPE_CHECKING:
    from facula.nn import Module


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


Lowering = Callable[[Any], disk_cache.Lowered]
#: who wants to see what was generated: functions of (wrapper text, C text)
OBSERVERS: list[Callable[[str, str], None]] = []


def wrapped(
    lowered: disk_cache.Lowered, drivers: Sequence[Any], module: Module, again: Lowering | None
) -> CompiledGraph | GraphForSizes:
    """What runs a lowered graph; of sizes that are symbols (`again` lowers for others), a function of them."""
    if again is not None:
        return GraphForSizes(module, lowered, drivers, again)
    compiled = _finish(_wrapper(lowered, drivers), lowered.unit)
    if len(drivers) == len(lowered.order) == 1:
        direct = _direct(lowered, drivers[0])
        compiled.call = compiled.call if direct is None else core.GraphLaunch(*direct)
    return compiled


def _direct(lowered: disk_cache.Lowered, driver: Any) -> tuple[Any, ...] | None:
    (launch,) = lowered.order
    assert isinstance(launch, disk_cache.Launch)
    (numbers,) = lowered.unit.numbers
    return direct_launch(lowered.program, lowered.plan, launch.slots, driver, numbers)


def started(unit: Unit) -> Callable[[], Any] | None:
    """Start compiling a unit, unless it is loaded; gives what waits for the library's path."""
    if not unit.drivers or unit.drivers[0] in core.KERNELS:
        return None
    flags = graph_flags()
    return begin_library(unit.text, flags=flags, fresh=config.get("force_disable_caches"))


def drivers_of(unit: Unit, library: Callable[[], Any] | None) -> list[Any]:
    """The drivers of a unit, loaded."""
    if library is not None:
        found = library()
        if unit.drivers[0] not in core.KERNELS:
            core.load_library(found.loadable())
            metrics.compiled_units += 1
        found.close()
    return [core.kernel(name) for name in unit.drivers]


def _wrapper(lowered: disk_cache.Lowered, drivers: Sequence[Any]) -> Wrapper:
    plan, numbers = lowered.plan, lowered.unit.numbers
    wrapper = Wrapper(lowered.program, plan, lowered.empties)
    number, launched = 0, 0
    for each in lowered.order:
        count = each.kernels if isinstance(each, disk_cache.Launch) else 1
        steps = range(number, number + count)
        number += count
        for step in steps:
            wrapper.allocate(plan.allocate[step])
        if isinstance(each, disk_cache.Launch):
            wrapper.run(drivers[launched], each.slots, numbers[launched])
            launched += 1
            metrics.generated_kernel_count += count
        else:
            wrapper.call(each)
            metrics.extern_call_count += 1
        for step in steps:
            wrapper.release(plan.release[step])
    return wrapper


class GraphForSizes:
    """A flat graph whose sizes are symbols: a function from their values to what runs."""

    def __init__(
        self, module: Module, lowered: disk_cache.Lowered, drivers: Sequence[Any], again: Lowering
    ) -> None:
        self.module, self.lowered, self.again = module, lowered, again
        names = list(symbols_of(module.graph).shape_env.hints)
        direct = _direct(lowered, drivers[0]) if len(drivers) == len(lowered.order) == 1 else None
        if direct is not None:
            given = function_of(direct, names)
            self.at: Callable[..., Any] = lambda *values: core.GraphLaunch(*given(*values))
        else:
            self.at = _wrapper(lowered, drivers).factory(_namespace(), names)

    def __call__(self, *values: int) -> Any:
        found = self.at(*values)
        if not isinstance(found, core.GraphLaunch):
            found._boxed_call = True
        return found

    def check(self, sizes: dict[str, int]) -> bool:
        """Whether lowering for given sizes gives what this gives for them; once, then the graph goes."""
        alone = self.again(graph_at(self.module, sizes))
        here = AtSizes(sizes).of(disk_format.described(self.lowered))
        self.module = self.lowered = None  # type: ignore[assignment]
        return bool(here == disk_format.described(alone))


def _namespace() -> dict[str, Any]:
    return {
        "empty_strided": core.empty_strided,
        "empty_bytes": _empty_bytes,
        "as_strided": core.Tensor.as_strided,
    }


def _empty_bytes(size: int) -> Any:
    return core.empty((size,), dtype=core.uint8)


def _finish(wrapper: Wrapper, unit: Unit) -> CompiledGraph:
    layouts: Any = core.InputLayouts
    expected = layouts([layout_of(b) for b in wrapper.program.inputs])
    namespace = {"expected": expected, **_namespace()}
    call = wrapper.function(namespace)
    source = wrapper.source()
    c_source = unit.text if unit.drivers else ""
    logs.artifact("output_code").debug("%s\n%s", c_source, source)
    logs.artifact("kernel_code").debug("%s", c_source or "no kernels: calls only")
    for observer in list(OBSERVERS):
        observer(source, c_source)
    return CompiledGraph(call, source, c_source)
