"""The backend "inductor": captured graphs to compiled callables.

Takes: a captured graph and example inputs. Gives: `compile_fx`.
Keeps true: a graph runs, compiled or not: without a C compiler its operators are called one by one,
which is an event that `FACULA_JIT=error` forbids; a compiler that fails is an error with its
command, its first complaint and the file to look at.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from facula import core
from facula.capture import events
from facula.capture.guards.handed_on import handed_on
from facula.compiler import options as config
from facula.compiler import pipeline, tuning
from facula.compiler.graph import CompiledGraph
from facula.compiler.other_devices import device_of, on_device
from facula.compiler.pipeline import begin_graph
from facula.core import config as settings
from facula.core import logs
from facula.core.errors import fail, message
from facula.fx.graph_module import code_on_demand
from facula.lower.aot.api import aot_module_for_sizes, aot_module_simplified
from facula.lower.aot.for_sizes import NotSymbolic, with_symbols
from facula.lower.passes.epilogues import Choices
from facula.lower.passes.freezing import Frozen, Unfrozen, may_be_frozen, with_frozen
from facula.runtime.compile import find_compiler

if TYPE_CHECKING:
    from facula.fx import Node
    from facula.nn import Module


log = logs.get_logger("inductor")


class MissingCompilerWarning(UserWarning):
    """Compiled graphs run operator by operator, since there is no C compiler."""


def compile_fx(
    module: Module,
    example_inputs: Sequence[Any],
    inner_compile: Callable[..., Any] | None = None,
    config_patches: dict[str, Any] | None = None,
    *,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
) -> Callable[..., Any]:
    """A captured graph compiled, forward and backward.

    Args:
        module: the captured graph.
        example_inputs: its inputs; fake ones will do.
        inner_compile: compiles flat graphs instead of `compile_graph`.
        config_patches, options: option values by name; see `list_options`.
        mode: a set of options by name; see `list_mode_options`.
    """
    wanted = {**(config_patches or {}), **(options or {})}
    again: Callable[..., Any] = functools.partial(compile_fx, mode=mode, options=wanted)
    if inner_compile is not None:
        again = lambda m, x: compile_fx(m, x, inner_compile, mode=mode, options=wanted)  # noqa: E731
    whole = handed_on(again, module, list(example_inputs))
    if whole is not None:
        return whole
    chosen = config.chosen(mode, wanted)
    if getattr(module, "meta", {}).get("dynamic"):
        chosen["dynamic"] = True
    inner = inner_compile or _inner(chosen)
    with _collector_at_rest(), contextlib.nullcontext() if inner_compile else code_on_demand():
        # without a compiler the graphs themselves run
        passing = inner_compile is None and find_compiler() is not None
        return _compiled(module, example_inputs, inner, chosen, passing)


compile_fx.backend_name = "inductor"  # type: ignore[attr-defined]  # what errors call it


def compile_for_sizes(
    module: Module,
    example_inputs: Sequence[Any],
    dynamic: Sequence[Any],
    keys: Iterable[Any] = (),
    *,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
) -> Any:
    """A captured graph compiled for all sizes for which the same decisions are taken, or None.

    Args:
        module: the captured graph.
        example_inputs: its inputs.
        dynamic: for each input, the dimensions that may change; of an int, whether it may.
        keys: geometries of inputs that were seen before.
    """
    if find_compiler() is None:
        return None
    chosen = {**config.chosen(mode, dict(options or {})), "dynamic": True}
    inner = _inner(chosen)
    with _collector_at_rest(), code_on_demand():
        try:
            with config.patch(chosen):
                return aot_module_for_sizes(
                    pipeline.captured(module),
                    with_symbols(example_inputs, dynamic),
                    inner,
                    pipeline.partition,
                    passes=passes_of(chosen),
                    tracer=pipeline.to_joint,
                    keys=keys,
                )
        except NotSymbolic as reason:
            log.info("compiled for each combination of sizes: %s", reason)
            return None


compile_fx.for_sizes = compile_for_sizes  # type: ignore[attr-defined]


@contextlib.contextmanager
def _collector_at_rest() -> Iterator[None]:
    """A block without searches for cycles: graphs are many objects, all alive until the end."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _compiled(
    module: Module,
    example_inputs: Sequence[Any],
    inner: Callable[..., Any],
    chosen: dict[str, Any],
    passing: bool,
) -> Callable[..., Any]:
    with config.patch(chosen):
        rewritten = pipeline.captured(module)
        compiled = aot_module_simplified(
            rewritten,
            example_inputs,
            fw_compiler=inner,
            partition_fn=pipeline.partition,
            passes=passes_of(chosen),
            tracer=pipeline.to_joint,
            owned=_owned(module, example_inputs),
            passing=passing,
        )
    if rewritten is not module:
        rewritten.graph.take_apart()
    return compiled


def _owned(module: Module, example_inputs: Sequence[Any]) -> list[bool]:
    """For each input of a captured graph, whether what depends on it alone may be kept."""
    inputs = [n for n in module.graph.nodes if n.op == "placeholder"]
    pairs = zip(inputs, example_inputs, strict=True)
    return [_is_owned(n) and isinstance(x, core.Tensor) and may_be_frozen(x) for n, x in pairs]


def _is_owned(node: Node) -> bool:
    """Whether an input of a captured graph is a parameter or buffer of a module."""
    source = str(node.meta.get("source", ""))
    return "._parameters[" in source or "._buffers[" in source


def passes_of(chosen: dict[str, Any]) -> Callable[[Any], Any]:
    def run(module: Module) -> Any:
        with config.patch(chosen):
            return pipeline.joint(module)

    return run


def _inner(chosen: dict[str, Any]) -> Callable[[Any, Sequence[Any]], Any]:
    """The compiler of flat graphs; what it gives takes a list of inputs."""

    def begin(module: Module, example_inputs: Sequence[Any]) -> Callable[[], Any]:
        device = device_of(module)
        if device is not None:
            made = on_device(module, device)  # now: the graph is taken apart once all have begun
            return lambda: made
        if find_compiler() is None:
            return lambda: _by_operators(module)
        asked = tuning.ASKED[0]
        with config.patch(chosen):
            unfrozen = Unfrozen(module, plainly) if _freezes(module) else None
            frozen = specialised(module)
        finish = begin_graph(module, chosen)

        def finished() -> Any:
            compiled = finish()
            if not isinstance(compiled, CompiledGraph):
                return compiled  # of sizes that are symbols: a function of their values
            tell_of_modes(compiled, chosen, tuning.ASKED[0] - asked)
            boxed = compiled.boxed
            if frozen is None or unfrozen is None:
                return boxed
            return with_frozen(boxed, frozen, unfrozen)

        return finished

    def plainly(module: Module) -> Any:
        """The graph with nothing frozen."""
        events.COUNTERS["inductor"]["weights_not_frozen"] += 1
        logs.artifact("perf_hints").debug(_NOT_FROZEN)
        with config.patch({**chosen, "freezing": False}):
            specialised(module)
        return begin_graph(module, chosen)().boxed

    def compiled(module: Module, example_inputs: Sequence[Any]) -> Any:
        return begin(module, example_inputs)()

    compiled.begin = begin  # type: ignore[attr-defined]
    return compiled


def specialised(module: Module) -> Frozen | None:
    """Products in the form that suits their sizes; gives what was frozen."""
    frozen = pipeline.part(module, _freezes(module), _choices())
    if frozen is not None:
        frozen.told = _packed
    return frozen


def _packed(count: int) -> None:
    events.COUNTERS["inductor"]["weights_prepacked"] += count


def prepack_count() -> int:
    """How many weights were packed so far."""
    return int(events.COUNTERS["inductor"]["weights_prepacked"])


def _choices() -> Choices:
    """What the options leave open about products."""
    measured = config.get("max_autotune")
    return Choices(
        epilogues=config.get("epilogue_fusion"),
        convolution=tuning.fastest if measured else None,
        product=tuning.fastest if measured or config.get("max_autotune_gemm") else None,
    )


_NOT_FROZEN = (
    "weights are read where they lie, nothing is packed ahead: an address of one was handed out "
    "(data_ptr, numpy, DLPack) or its memory is not facula's own; clone() of it has none"
)


def tell_of_modes(compiled: CompiledGraph, chosen: dict[str, Any], measured: int) -> None:
    """Events for what `mode=` asked for and a graph has no more of."""
    if chosen.get("triton.cudagraphs") and not isinstance(compiled.call, core.GraphLaunch):
        cause = (
            "reduce-overhead has no further effect on a graph that calls operators between kernels"
        )
        hint = (
            "FACULA_LOGS=fusion names the calls; a graph of kernels alone is one call of the core"
        )
        _no_effect("reduce-overhead", cause, hint)
    if chosen.get("max_autotune") and not measured:
        cause = "max-autotune has no effect on a graph without products of frozen weights"
        hint = "it chooses among kernels of convolutions and linear layers, where no gradients are recorded"
        _no_effect("max-autotune", cause, hint)


def _no_effect(mode: str, cause: str, hint: str) -> None:
    events.COUNTERS["inductor"][f"{mode}_without_effect"] += 1
    events.happened(events.Event("no effect", mode, "inductor", None, cause, hint))
    logs.artifact("perf_hints").debug("%s\n  hint: %s", cause, hint)


def _freezes(module: Module) -> bool:
    """Whether parts of a graph may be computed ahead: of one without gradients, with weights."""
    owned = (n.meta.get("owned") for n in module.graph.nodes if n.op == "placeholder")
    wanted = pipeline.FREEZING.is_on() and not config.get("dynamic")
    return bool(wanted and "part" not in module.meta and any(owned))


def _by_operators(module: Module) -> Any:
    """Run the graph as it is, and say so."""
    required, got = "a C compiler is needed to compile graphs", "none on PATH, and CC is not set"
    hint = "pip install ziglang, or install gcc or clang; eager goes on"
    if settings.get("jit") == "error":
        fail(RuntimeError, "compile", required, got=got, hint=hint)
    text = message("compile", required, got, hint)
    events.happened(events.Event("no compiler", "no-compiler", "inductor", None, got, hint))
    warnings.warn(text, MissingCompilerWarning, stacklevel=2)

    def run(args: list[Any]) -> Any:
        return module(*args)

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def list_mode_options(mode: str | None = None, dynamic: bool | None = None) -> dict[str, Any]:
    """The options that each mode sets, or one mode's."""
    if mode is None:
        return {name: dict(values) for name, values in config.MODES.items()}
    return dict(config.MODES[mode])


def list_options() -> list[str]:
    """The names of all options."""
    return sorted(config.OPTIONS)
