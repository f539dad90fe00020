"""Capturing one segment: attempts until its end is where capture can end, then compiling it.

Takes: a place, a function and a frame's state. Gives: an `Entry`.
Keeps true: an attempt that meets something impossible is thrown away, and the next one ends before it;
attempts see the same state, so they do the same.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from facula import core
from facula.autograd import autocast
from facula.capture import config, stances
from facula.capture.breaks import Break, Earlier, Respecialise, Unassuming
from facula.capture.errors import (
    InternalTorchDynamoError,
    TorchDynamoException,
    Unsupported,
    refusal,
)
from facula.capture.events import COUNTERS, Event, compiling, happened
from facula.capture.faults import fault, suppressed
from facula.capture.guards.by_sizes import compiled_by
from facula.capture.guards.constraints import check_marks
from facula.capture.guards.handed_on import Captured, compiled, note
from facula.capture.interpreter import narration
from facula.capture.interpreter.frames import UNBOUND, Frame, Returned
from facula.capture.interpreter.liveness import is_live
from facula.capture.interpreter.symbolic import Symbolic
from facula.capture.rules import table as rule_table  # noqa: F401  (fills the table of rules)
from facula.capture.rules.framework import Uninitialised
from facula.capture.segment_code import Ending, Entry, Point, SegmentCode
from facula.capture.values.hooks import check_hooks
from facula.capture.values.kinds import ArrayValue, Lazy, Raised, TensorValue
from facula.capture.values.sizes import is_argument
from facula.capture.values.sources import Line, slot
from facula.core import logs
from facula.core.stages import stage
from facula.fx import GraphModule
from facula.fx.experimental.symbolic_shapes import ConstraintViolationError
from facula.fx.one_memory import counts_places
from facula.nn.modules import module_hooks
from facula.nn.modules.module import Module

if TYPE_CHECKING:
    from facula.capture.values.kinds import Value


@functools.cache
def module_class() -> Any:
    """The base class of modules."""
    return Module


def plain_module(module: Any) -> bool:
    """Whether a call of a module is a call of its class's `forward`."""
    return core.module_is_plain(module, global_hooks())


_GLOBAL_HOOKS: tuple[Any, ...] = (
    module_hooks._global_forward_hooks,
    module_hooks._global_forward_pre_hooks,
    module_hooks._global_backward_hooks,
    module_hooks._global_backward_pre_hooks,
)


def global_hooks() -> tuple[Any, ...]:
    return _GLOBAL_HOOKS


plain_module.hooks = global_hooks  # type: ignore[attr-defined] # what guards hand to the core


def under_modes() -> bool:
    """Whether something watches operators, so that programs run as they stand."""
    return bool(core.FUNCTION_MODES or core.DISPATCH_MODES or core.interpreters())


def capture(place: Any, function: Callable[..., Any], values: list[Any]) -> Entry | None:
    """Capture and compile the segment that starts at a place for a state; None where that failed,
    and `suppress_errors` lets the program go on."""
    try:
        with compiling():
            return _captured(place, function, values)
    except (TorchDynamoException, ConstraintViolationError) as error:
        if not isinstance(error, InternalTorchDynamoError):
            raise
        found = error
    except Exception as error:
        found = fault(error, Line.of(place.code, place.code.co_firstlineno))
        found.__cause__ = error
    if place.session.fullgraph or not suppressed(
        found, place.code.co_qualname, "the function runs in eager"
    ):
        raise found
    return None


def _captured(place: Any, function: Callable[..., Any], values: list[Any]) -> Entry:
    """Attempts, until one is a segment."""
    log = logs.get_logger("dynamo")
    log.debug("capture of %s at instruction %s", place.code.co_qualname, _index(place))
    narration.code_of(place.code)
    stop: int | None = None
    reason: Break | None = None
    static, may_assume = False, True
    for _ in range(100):
        session = place.session
        world = Symbolic(
            place.history, session.dynamic, module_class(), plain_module, static_only=static,
            assume_static=config.automatic_dynamic_shapes, may_assume=may_assume, whole=session.fullgraph,
        )  # fmt: skip
        try:
            with _thread_state_kept():
                code, ending = _attempt(world, place, function, values, stop)
        except Earlier as error:
            stop, reason = _earlier(error, stop, reason)
            if place.session.fullgraph:
                raise refusal(reason) from error.__cause__
            # a reason outlives the attempt; its traceback would keep the program's tensors
            reason.__traceback__ = reason.__cause__ = reason.__context__ = None
            log.debug("break at %s: %s", stop, reason)
            continue
        except Respecialise:
            static = True
            continue
        except Unassuming:
            may_assume = False
            continue
        except Uninitialised as lazy:
            lazy.make()
            continue
        return _finished(place, world, code, reason if ending.kind == "suspend" else None)
    raise InternalTorchDynamoError(
        f"[compile] a segment of {place.code.co_qualname} was required: got none in 100 attempts"
    )


def _finished(place: Any, world: Symbolic, code: SegmentCode, at_break: Break | None) -> Entry:
    """The segment of an attempt that went well, which may end at a break."""
    if at_break is not None:
        _report(place, at_break)
    entry = _compile(place, world, code)
    entry.break_reason = at_break
    COUNTERS["frames"]["ok"] += 1
    return entry


@contextlib.contextmanager
def _thread_state_kept() -> Iterator[None]:
    """Modes and the random state of the thread are behind it what they were before."""
    keys, generator = core.thread_keys(), core.default_generator.get_state()
    dtype = core.get_default_dtype()
    try:
        with autocast.restored():
            yield
    finally:
        core.set_default_dtype(dtype)
        core.set_thread_keys(keys)
        core.default_generator.set_state(generator)


def _attempt(
    world: Symbolic, place: Any, function: Callable[..., Any], values: list[Any], stop: int | None
) -> tuple[SegmentCode, Ending]:
    """One run of the interpreter up to `stop`, or to where the segment ends by itself."""
    frame = _symbolic_frame(world, place, function, values)
    ending = _run(world, frame, stop, place)
    with stage("checks of what was captured"):
        check_marks(world)
        check_hooks(world)
        _check_assumptions(world)
        world.check_arrays()
    if place.session.hooks is not None:
        slots = dict(zip(place.slots, values, strict=True))
        place.session.hooks.of_segment(world.guards, {"F": function, **slots})
    again = functools.partial(place.session.after_wrong_assumption, place)
    with stage("what is left to Python"):
        return SegmentCode(world, place.slots, ending, again), ending


def _check_assumptions(world: Symbolic) -> None:
    """A segment that turns out to be wrong runs again in Python, so it may not write to its inputs."""
    if world.assumed and world.writes_inputs():
        raise Unassuming


def _index(place: Any) -> int:
    return 0 if place.point is None else place.point.index


def _earlier(error: Earlier, stop: int | None, reason: Break | None) -> tuple[int, Break]:
    if error.tick < 0 or (stop is not None and error.tick >= stop):
        raise InternalTorchDynamoError(
            f"[compile] an end of the segment before {error.tick} was required: {error.reason}"
        ) from error
    return error.tick, error.reason


def _run(world: Symbolic, frame: Frame, stop: int | None, place: Any) -> Ending:
    try:
        outcome = world.run_segment(frame, stop)
    except (Earlier, Respecialise, Unsupported, Uninitialised):
        raise
    except Exception as error:
        reason = Break("internal", f"{type(error).__name__}: {error}")
        world.locate(reason)
        found = fault(error, reason.line)
        function = place.code.co_qualname
        if place.session.fullgraph or not suppressed(found, function, "the call runs in eager"):
            raise found from error
        raise Earlier(world.tick, reason) from error
    if isinstance(outcome, Returned):
        return Ending("return", [outcome.value], None)
    if isinstance(outcome, Raised):
        return Ending("raise", [outcome.value], None)
    return _suspended(world, frame, place)


def _suspended(world: Symbolic, frame: Frame, place: Any) -> Ending:
    code = frame.code
    locals_ = tuple(
        n
        for n in code.co_varnames
        if (value := frame.locals.get(n, UNBOUND)) is not UNBOUND
        and not (_is_elements(world, value) and not is_live(code, frame.index, n))
    )
    cells = tuple(n for n in code.co_cellvars if n in frame.cells)
    values = [frame.locals[n] for n in locals_] + [frame.cells[n] for n in cells]
    handling = world.constant(None) if frame.handling is None else frame.handling
    point = Point(frame.index, locals_, cells, None)
    return Ending("suspend", [*values, handling, *frame.stack], point)


def _is_elements(world: Symbolic, value: Value) -> bool:
    """Whether a value is a tensor, which nobody misses who does not read it."""
    if type(value) is Lazy and value.value is None:
        return isinstance(value.obj, core.Tensor)
    return isinstance(world.force(value), (TensorValue, ArrayValue))


def _forced(world: Symbolic, value: Value) -> Any:
    """A value on the stack; one that no graph can hold breaks where an instruction takes it."""
    try:
        return world.force(value)
    except Break:
        return value


def _symbolic_frame(world: Symbolic, place: Any, function: Any, values: list[Any]) -> Frame:
    code = place.code
    frame = world.first_frame = Frame(code, function, function.__globals__)
    state = [Lazy(v, slot(s)) for v, s in zip(values, place.slots, strict=True)]
    count = len(place.names)
    for name, value in zip(place.names, state, strict=False):
        frame.locals[name] = value
    closure = slot("F").attr("__closure__")
    for n, name in enumerate(code.co_freevars):
        frame.cells[name] = world.wrap_cell(function.__closure__[n], closure.item(n))
    if place.point is not None:
        frame.index = place.point.index
        for n, name in enumerate(place.cells, count):
            frame.cells[name] = world.force(state[n])
        count += len(place.cells)
        if values[count] is not None:
            frame.handling = state[count]
        frame.stack = [_forced(world, value) for value in state[count + 1 :]]
    return frame


def _report(place: Any, reason: Break) -> None:
    COUNTERS["graph_break"][str(reason)] += 1
    place.session.break_reasons.append(reason)
    happened(
        Event(
            "graph break",
            reason.code,
            place.code.co_qualname,
            reason.line,
            str(reason),
            reason.rewrite,
        )
    )


def _compile(place: Any, world: Symbolic, code: SegmentCode) -> Entry:
    with stage("what is left to Python"):
        text = code.text()
        space = code.namespace()
    graph_module = None
    nodes = code.output_nodes()
    if nodes or world.operator_count:
        world.graph.output(tuple(nodes))
        _drop_unused_numbers(world)
        _drop_covered_modes(world)
        graph_module = GraphModule(world.attached, world.graph)
        space["GRAPH"] = _call_backend(place, world, graph_module)
    name = f"<facula segment {place.code.co_qualname}:{_index(place)}>"
    with stage("guards"):
        exec(compile(text, name, "exec"), space)  # noqa: S102 - text that this package wrote
        function = code.direct(space.get("GRAPH")) or space["entry"]
    entry = Entry(function, list(world.guards.guards.values()), text)
    entry.conditions = code.conditions
    entry.watched = world.watched
    entry.keys = world.start_keys  # type: ignore[attr-defined]
    narration.guards_of(place.code.co_qualname, entry.guards)
    logs.get_logger("dynamo").debug("segment of %s:\n%s", place.code.co_qualname, text)
    return entry


def _drop_unused_numbers(world: Symbolic) -> None:
    """Take arithmetic on sizes out of the graph that nothing uses; assumptions keep their own."""
    if code_needs_sizes(world):
        return
    for node in reversed(list(world.graph.nodes)):
        if node.op in ("call_function", "call_method") and not node.users:
            if isinstance(node.meta.get("val"), (int, float, bool)):
                world.graph.erase_node(node)


def _drop_covered_modes(world: Symbolic) -> None:
    """Take a switch of recording and the one back out of the graph, where nothing stands between them."""
    open_: list[Any] = []
    for node in list(world.graph.nodes):
        if node.target is not core.set_grad_enabled:
            open_ = []
        elif open_ and _leads_back(open_[-1], node):
            world.graph.erase_node(open_.pop())
            world.graph.erase_node(node)
        else:
            open_.append(node)


def _leads_back(switch: Any, other: Any) -> bool:
    before = switch.meta["recording_before"]
    return switch.args[0] != before and other.args[0] == before


def code_needs_sizes(world: Symbolic) -> bool:
    """Whether assumptions refer to nodes of the graph."""
    return any(number.node is not None for number, _ in world.conditions)


def _call_backend(place: Any, world: Symbolic, graph_module: GraphModule) -> Any:
    if not world.operator_count:
        return graph_module.forward
    COUNTERS["stats"]["unique_graphs"] += 1
    COUNTERS["stats"]["calls_captured"] += world.operator_count
    name = place.code.co_qualname
    narration.graph_of(name, graph_module)
    inputs = [value.hint if hasattr(value, "hint") else value.real for value in world.inputs]
    backend, specialises = stances.backend_of(place.session, place)

    dynamic = [getattr(value, "dynamic", True) for value in world.inputs]
    # what objects hold, as an optimizer's state, lies where it lay; arguments come from anywhere
    argued = any(v.source is not None and is_argument(v.source) for v in world.inputs)
    known = Captured(
        name, dynamic if world.any_dynamic else None, bool(world.has_reads),
        argued and len(inputs) > 1 and bool(world.writes_inputs()), counts_places(graph_module),
    )  # fmt: skip
    if specialises:
        return compiled(backend, graph_module, inputs, known)
    note(graph_module, known)
    return compiled_by(backend, graph_module, inputs, name)


__all__ = ["Line", "capture", "module_class", "plain_module", "under_modes"]
