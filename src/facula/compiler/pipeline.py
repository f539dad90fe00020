"""The compiler on one page: every pass from a captured graph to a loaded library, in order.

Takes: captured graphs; what a pass is, stands in `passes`. Gives: the parts of the pipeline, each a function
that reads as its passes: `captured`, `joint`, `partition`, `part`, `lowered`, `begin_graph`.
Keeps true: each pass is a line with a name. `FACULA_TRACE=folder` shows these lines, with their times and what
they gave, and no others; `FACULA_PASSES=-layout,-fusion` leaves lines out; the option `debug` checks what each
gave. A pass that can be left out says what stands in for it (`instead`); `when` names the option that it needs.

    captured graph -- captured --> joint --> partition --> part --> lowered --> begin_graph --> CompiledGraph
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from facula.capture import events
from facula.compiler import disk_cache, metrics, options
from facula.compiler.graph import CompiledGraph, drivers_of, started, wrapped
from facula.compiler.passes import PASSES, GraphPass, ModulePass, Pass, nothing, same
from facula.core import logs
from facula.fx import Graph, GraphModule
from facula.lower.aot.min_cut import min_cut_rematerialization_partition
from facula.lower.aot.partition import default_partition
from facula.lower.aot.tracing import trace
from facula.lower.at_sizes import symbols_of
from facula.lower.passes.absorbing import absorb_followers, lower_by_operators
from facula.lower.passes.alone import leave_unread_results_out
from facula.lower.passes.attention import recognise_attention
from facula.lower.passes.canonical import canonical_arguments
from facula.lower.passes.common import join_common_calls
from facula.lower.passes.dead_code import remove_dead_code
from facula.lower.passes.epilogues import Choices, fold_batch_norm, fuse_epilogues
from facula.lower.passes.fold import fold_constants
from facula.lower.passes.freezing import Frozen, take_frozen_out
from facula.lower.passes.gathered_rows import join_gathers_with_scatters
from facula.lower.passes.layout import calls_on_images, follow_orders, prefer_channels_last
from facula.lower.passes.no_ops import merge_views, remove_no_ops
from facula.lower.passes.norms import write_norms_as_formulas
from facula.lower.passes.small_products import replace_small_products

if TYPE_CHECKING:
    from facula.nn import Module


__all__ = [
    "PASSES", "begin_graph", "captured", "compile_graph", "joint", "lowered", "optimise", "part", "partition",
    "to_joint",
]  # fmt: skip

log = logs.get_logger("inductor")


# --- a captured graph: what the user wrote
def _with_attention(module: Module) -> Any:
    """The graph with attention written by hand as one call."""
    if not any("softmax" in str(node.target) for node in module.graph.nodes):
        return module
    copied = Graph()
    copied.output(copied.graph_copy(module.graph, {}))
    found = recognise_attention(copied)
    if not found:
        copied.take_apart()
        return module
    events.COUNTERS["inductor"]["fuse_attention"] += found
    return GraphModule(module, copied)


def _new_code(given: tuple[Any, ...], found: Any) -> tuple[str, str] | None:
    return (found.code, "py") if found is not given[0] else None


ATTENTION = Pass(
    "attention", _with_attention, instead=same, when="pattern_matcher", shows=_new_code
)


def captured(module: Module) -> Any:
    """A captured graph, before it is differentiated, so that training has this too."""
    return ATTENTION(module)


# --- captured to flat: writes removed, composites decomposed, forward and backward traced as one graph
to_joint = Pass("joint graph", trace, shows=lambda given, traced: (traced.joint.code, "py"))

# --- a flat graph: forward and backward in one, or that of a program without gradients
OPTIMISING: tuple[GraphPass, ...] = (
    GraphPass("canonical arguments", canonical_arguments),
    ModulePass("fold constants", fold_constants, instead=nothing),
    GraphPass("merge views", merge_views, instead=nothing),
    GraphPass("remove no-ops", remove_no_ops, instead=nothing),
    GraphPass("write norms as formulas", write_norms_as_formulas, instead=nothing),
    GraphPass("join common calls", join_common_calls, instead=nothing),
    GraphPass("join gathers with scatters", join_gathers_with_scatters, instead=nothing),
    GraphPass("remove dead code", remove_dead_code, instead=nothing),
    GraphPass("leave unread results out", leave_unread_results_out, instead=nothing),
)
LAYOUT = GraphPass("layout", prefer_channels_last, instead=nothing, when="layout_optimization")


def optimise(module: GraphModule) -> GraphModule:
    """A flat graph, improved."""
    for each in OPTIMISING:
        each(module)
    module.renew()
    return module


def joint(module: GraphModule) -> GraphModule:
    """A flat graph, improved, with images channels last."""
    improved = optimise(module)
    return optimise(improved) if LAYOUT(improved) else improved


# --- forward and backward, and what the one saves for the other
def _both_codes(given: tuple[Any, ...], parts: Any) -> tuple[str, str]:
    return "\n\n".join(part.code for part in parts), "py"


partition = Pass(
    "partition",
    min_cut_rematerialization_partition,
    instead=default_partition,
    shows=_both_codes,
)

# --- one part, for its sizes
BY_OPERATORS = GraphPass("passes of operators", lower_by_operators, instead=nothing)
ABSORBING = GraphPass("what operators absorb", absorb_followers, instead=nothing)
BATCH_NORMS = GraphPass("fold batch norms", fold_batch_norm, instead=nothing)
IMAGES = GraphPass("layout of frozen parts", prefer_channels_last, instead=nothing)
EPILOGUES = GraphPass("epilogues", fuse_epilogues, instead=nothing)
FREEZING = Pass(
    "freezing",
    take_frozen_out,
    instead=lambda module: None,
    when="freezing",
    shows=lambda given, frozen: None if frozen is None else (frozen.module.code, "py"),
)
SMALL = GraphPass("small products", replace_small_products, instead=nothing)


def part(module: GraphModule, freezes: bool, choices: Choices) -> Frozen | None:
    """Products of one part in the form that suits their sizes; gives what was frozen.

    Small ones as sums keep a graph free of calls; one with convolutions calls anyway, and freezes
    all of its weights.
    """
    prepared = freezes and BY_OPERATORS(module) > 0
    if "part" not in module.meta and ABSORBING(module) + prepared:
        remove_dead_code(module.graph)
        follow_orders(module.graph)
        module.renew()
    if options.get("dynamic"):
        return None
    if prepared:
        return _freeze(module, choices, True)
    frozen = _freeze(module, choices) if freezes and calls_on_images(module.graph) else None
    SMALL(module)
    if module.meta.get("part") == "forward" and EPILOGUES(module, False, choices):
        module.renew()
    return _freeze(module, choices) if freezes and frozen is None else frozen


def _freeze(module: GraphModule, choices: Choices, prepared: bool = False) -> Frozen | None:
    """What depends on a module's own tensors alone, out of a graph without gradients."""
    BATCH_NORMS(module)
    IMAGES(module)
    frozen = None
    if EPILOGUES(module, True, choices) or prepared:
        remove_dead_code(module.graph)
        frozen = FREEZING(module)
    module.renew()
    return frozen


# --- one part to loops, and loops to C. What does it is imported when it is wanted: a graph that is read
# back from disk needs nothing of what lowers.
_OF = "facula.compiler.lowering"
LOOPS = Pass(
    "loops", "facula.lower.loops.graph:lower_graph", shows=lambda g, p: _text("steps_text", p.steps)
)
FUSION = Pass(
    "fusion",
    "facula.lower.loops.fuse:fuse",
    instead=f"{_OF}:apart",
    shows=lambda given, order: _text("kernels_text", order),
)
UNFUSED = Pass(
    "unfused calls",
    f"{_OF}:with_unfused_calls",
    instead=f"{_OF}:as_fused",
    shows=lambda given, order: _text("kernels_text", order),
    checks=lambda given, order: _verified(given[0], order),
)
NESTS = Pass("loop nests", f"{_OF}:laid_out")
NON_TEMPORAL = Pass(
    "non-temporal stores",
    f"{_OF}:mark_non_temporal",
    instead=nothing,
    shows=lambda given, names: ("\n".join(names) + "\n", "txt") if names else None,
)
TEXT = Pass("kernel text", f"{_OF}:kernel_texts")
MEMORY = Pass(
    "memory plan",
    "facula.lower.loops.memory:plan",
    shows=lambda given, plan: (f"{plan.size} bytes of arena, {len(plan.aliases)} aliases\n", "txt"),
)
UNIT = Pass("C text", f"{_OF}:unit_of", shows=lambda given, lowered: (lowered.unit.text, "c"))


def lowered(module: GraphModule) -> disk_cache.Lowered:
    """One part as launches of kernels and calls of operators: what is kept on disk."""
    # lazily: see above
    from facula.compiler import lowering as of

    dynamic = options.get("dynamic")
    program = LOOPS(module, options.get("equal_rounding"))
    steps = len(program.steps)
    over_inputs = of.overwriting(program, module)
    order = FUSION(program.steps)
    order = UNFUSED(program, order, over_inputs, not dynamic and NON_TEMPORAL.is_on())
    of.tell_of_fusion(steps, order)
    nests = NESTS(order, program)
    if not dynamic:
        NON_TEMPORAL(nests, over_inputs)
    texts = TEXT(nests, dynamic)
    plan = MEMORY(*of.lifetimes(module, program, order, nests, texts))
    return UNIT(of.Chosen(program, order, texts, plan, steps), of.keeps_inputs(module), dynamic)


def _text(name: str, shown: Any) -> tuple[str, str]:
    # lazily: for traces only
    from facula.lower.loops import printing

    return getattr(printing, name)(shown), "txt"


def _verified(program: Any, order: list[Any]) -> None:
    # lazily: for the option `debug` only
    from facula.lower.loops.verify import verify

    verify(program, order)


# --- C to a library, and a wrapper around its kernels
C_COMPILER = Pass("C compiler", drivers_of)
WRAPPER = Pass(
    "wrapper",
    wrapped,
    shows=lambda given, made: (made.source, "py") if isinstance(made, CompiledGraph) else None,
)


def begin_graph(module: Module, chosen: dict[str, Any] | None = None) -> Callable[[], Any]:
    """Compile one part up to its C text, which a compiler then works on in the background; gives
    what waits for it: for a `CompiledGraph`, or a `GraphForSizes` where sizes are symbols. So the C of a
    backward graph is written while that of the forward is compiled."""
    symbols = symbols_of(module.graph)
    with options.patch(chosen or {}):
        begun = time.perf_counter()
        key = disk_cache.key_of(module)
        told = any(map(logs.is_on, ("fusion", "schedule", "perf_hints")))
        module.meta["function_compiler"] = compile_function
        found = known = None if told else disk_cache.load(key, module)
        if found is None:
            found = lowered(module)
        library = started(found.unit)
        if known is None:
            disk_cache.keep(key, found)
        metrics.ir_nodes_pre_fusion += found.steps

    def finish() -> Any:
        drivers = C_COMPILER(found.unit, library)
        again = None if symbols is None else partial(_lowered_with, chosen)
        made = WRAPPER(found, drivers, module, again)
        took = 1e3 * (time.perf_counter() - begun)
        log.info("%d calls and runs of kernels, %.1f ms", len(found.order), took)
        return made

    return finish


def _lowered_with(chosen: dict[str, Any] | None, module: GraphModule) -> disk_cache.Lowered:
    with options.patch(chosen or {}):
        return lowered(module)


def compile_function(module: GraphModule) -> Callable[..., Any]:
    """Compile the flat graph of a function that an operator takes, as of a program without gradients."""
    return compile_graph(joint(module))


def compile_graph(module: Module, chosen: dict[str, Any] | None = None) -> CompiledGraph:
    """Compile a flat graph (`docs/compiler.md`)."""
    made: CompiledGraph = begin_graph(module, chosen)()
    return made
