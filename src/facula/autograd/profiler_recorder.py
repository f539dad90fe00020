"""What happens while a profiler runs: the recorder that the core and `record_function` report to.

Takes the core's reports (`core.PROFILER`) of calls and backward nodes, and the user's ranges.
Gives raw events in the order in which they began.
Keeps true: an event ends no earlier than what it holds; every thread has its own nesting; nothing
here calls an operator; only one recorder runs at a time.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from facula import core
from facula.core.errors import fail, is_own

#: what an event is about, with PyTorch's numbers
FUNCTION, BACKWARD, USER = 0, 1, 7
MEMORY_EVENT_NAME = "[memory]"
_NODE = "autograd::engine::evaluate_function: "
_LEAF = "AccumulateGrad"
_STACK_DEPTH = 64


class RawEvent:
    """One call, node, range or change of memory, as it was seen."""

    __slots__ = (
        "concrete",
        "dtypes",
        "end",
        "flops",
        "is_async",
        "memory",
        "name",
        "node_id",
        "parent",
        "scope",
        "sequence",
        "shapes",
        "stack",
        "start",
        "thread",
    )

    def __init__(self, name: str, scope: int, sequence: int, thread: int) -> None:
        self.name = name
        self.scope = scope
        self.sequence = sequence
        self.thread = thread
        self.start = self.end = 0
        self.parent: RawEvent | None = None
        self.shapes: Sequence[Any] = ()
        self.dtypes: Sequence[str] = ()
        self.concrete: Sequence[Any] = ()
        self.stack: tuple[str, ...] = ()
        self.memory = 0
        self.flops = 0
        self.node_id = -1
        self.is_async = False


class Recorder:
    """Collects events while it is in `core.PROFILER`."""

    def __init__(
        self,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        operators: bool = True,
    ) -> None:
        self.record_shapes = record_shapes
        self.profile_memory = profile_memory
        self.with_stack = with_stack
        self.with_flops = with_flops
        self.operators = operators
        self.events: list[RawEvent] = []
        self.start = self.end = 0
        self.start_wall = 0
        self._local = threading.local()
        self._memory = 0
        self._names: dict[Any, str] = {}

    def begin(self) -> None:
        """Hear from this thread, from now on."""
        if core.PROFILER[0] is not None:
            fail(
                RuntimeError,
                "profiler",
                "one profiler at a time was required",
                "a profiler while another one runs (Profiler is already enabled on this thread)",
                "stop the first one before starting the second",
            )
        core.PROFILER[0] = self
        self.restart()
        core.set_profiling(self.operators)

    def restart(self) -> None:
        """Forget what was recorded so far."""
        self.events = []
        self._local = threading.local()
        self._memory = _allocated() if self.profile_memory else 0
        self.start_wall = time.time_ns()
        self.start = time.perf_counter_ns()

    def finish(self) -> None:
        """Hear nothing any more; what has not ended ends now."""
        core.set_profiling(False)
        self.end = time.perf_counter_ns()
        if core.PROFILER[0] is self:
            core.PROFILER[0] = None
        for event in self.events:
            if event.end == 0:
                self._close(event, self.end)

    def enter_call(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> RawEvent:
        """An operator or a method is about to run."""
        sequence = core.next_sequence_number() if core.is_grad_enabled() else -1
        name = self._names.get(function)
        if name is None:
            name = self._names[function] = operator_name(function)
        event = RawEvent(name, FUNCTION, sequence, threading.get_ident())
        if self.record_shapes or self.with_flops:
            self._describe(event, function, args, kwargs)
        return self._open(event)

    def enter_node(self, node: Any) -> RawEvent:
        """A node of a backward run is about to run."""
        name = node.name()
        leaf = name == _LEAF
        name = "torch::autograd::" + name if leaf else name
        sequence = -1 if leaf else node._sequence_nr()
        thread = threading.get_ident()
        self._open(RawEvent(_NODE + name, BACKWARD, sequence, thread))
        return self._open(RawEvent(name, BACKWARD, sequence, thread))

    def enter_range(self, name: str, argument: str | None = None, scope: int = USER) -> RawEvent:
        """A range begins: the user's, or (FUNCTION) a function that records a node of its own."""
        sequence = core.next_sequence_number() if scope == FUNCTION else -1
        event = RawEvent(name, scope, sequence, threading.get_ident())
        if argument is not None:
            event.concrete = [argument]
        return self._open(event)

    def leave(self, event: RawEvent) -> None:
        """What `enter_...` returned is over; the user's ranges that began in it go on until their own end."""
        now = time.perf_counter_ns()
        if event.end:
            return
        stack = self._stack()
        if event not in stack:
            self._close(event, now)
            return
        kept = []
        while (last := stack.pop()) is not event:
            if last.scope == USER:
                kept.append(last)
            else:
                self._close(last, now)
        self._close(event, now)
        stack.extend(reversed(kept))
        if event.scope == BACKWARD and stack and stack[-1].name == _NODE + event.name:
            self._close(stack.pop(), now)
        if self.profile_memory and not stack:
            self._memory = _allocated()

    def detach(self, event: RawEvent) -> None:
        """Let a range outlive what encloses it: it ends when `leave` is called, from any thread."""
        stack = self._stack()
        if event in stack:
            stack.remove(event)
        event.is_async = True

    def _stack(self) -> list[RawEvent]:
        try:
            return self._local.stack
        except AttributeError:
            self._local.stack = []
            return self._local.stack

    def _open(self, event: RawEvent) -> RawEvent:
        stack = self._stack()
        event.parent = stack[-1] if stack else None
        if self.with_stack:
            event.stack = python_stack()
        if self.profile_memory:
            allocated = _allocated()
            if not stack and allocated != self._memory:
                self._note_memory(allocated - self._memory)
            event.memory = -allocated
        stack.append(event)
        self.events.append(event)
        event.start = time.perf_counter_ns()
        return event

    def _close(self, event: RawEvent, now: int) -> None:
        event.end = max(now, event.start)
        if self.profile_memory:
            event.memory += _allocated()

    def _note_memory(self, change: int) -> None:
        """Bytes came or went between the events."""
        event = RawEvent(MEMORY_EVENT_NAME, FUNCTION, -1, threading.get_ident())
        event.start = event.end = time.perf_counter_ns()
        event.memory = change
        self.events.append(event)

    def _describe(
        self,
        event: RawEvent,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        definition = getattr(function, "definition", None)
        bound: tuple[Any, ...] = (*args, *kwargs.values())
        if definition is not None:
            # arguments that do not fit the schema are reported by the call itself
            with contextlib.suppress(TypeError, RuntimeError, ValueError):
                bound = core.bind_arguments(getattr(function, "op", function), args, kwargs)[0]
                if self.with_flops and definition.flops is not None:
                    event.flops = definition.flops(*bound)
        if self.record_shapes:
            event.shapes = [_shape(x) for x in bound]
            event.dtypes = [_type_name(x) for x in bound]
            event.concrete = [_concrete(x) for x in bound]


def _allocated() -> int:
    return core.memory_stats()["allocated"]


def operator_name(function: Callable[..., Any]) -> str:
    """The name of an operator as PyTorch's traces show it: `aten::add`, `aten::add_`, `mine::op`."""
    operator = getattr(function, "op", function)
    name = getattr(operator, "name", None)
    if name is None:
        name = function.__name__
    elif operator is not function:
        name += "_"
    return name if "::" in name else "aten::" + name


def _shape(value: object) -> list[Any]:
    if isinstance(value, core.Tensor):
        return list(value.shape)
    if isinstance(value, tuple) and value and all(isinstance(x, core.Tensor) for x in value):
        return [list(x.shape) for x in value]
    return []


def _type_name(value: object) -> str:
    if isinstance(value, core.Tensor):
        return value.dtype.name
    if isinstance(value, tuple):
        return "TensorList" if _shape(value) else "ScalarList"
    return "" if value is None else "Scalar"


def _concrete(value: object) -> Any:
    """Numbers, texts and lists of them as they are; nothing of tensors; anything else as text."""
    if isinstance(value, core.Tensor) or value is None or _shape(value):
        return ""
    if isinstance(value, (list, tuple)):
        return [_concrete(v) for v in value]
    return value if isinstance(value, (bool, int, float, str)) else str(value)


def python_stack() -> tuple[str, ...]:
    """The frames of the calling program, the innermost first, without those of the framework."""
    frame: Any = sys._getframe(1)
    frames: list[str] = []
    while frame is not None and len(frames) < _STACK_DEPTH:
        if not is_own(frame.f_globals.get("__name__")):
            code = frame.f_code
            frames.append(f"{code.co_filename}({frame.f_lineno}): {code.co_name}")
        frame = frame.f_back
    return tuple(frames)


def current() -> Recorder | None:
    """The recorder that hears from this thread."""
    return core.PROFILER[0] if core.is_profiling() else None


@contextlib.contextmanager
def recorded_range(name: str, scope: int = USER) -> Iterator[None]:
    """A range of the framework's own, such as an optimizer's step."""
    recorder = current()
    if recorder is None:
        yield
        return
    event = recorder.enter_range(name, scope=scope)
    try:
        yield
    finally:
        recorder.leave(event)


def is_recording() -> bool:
    """Whether a profiler hears of this process's calls."""
    return core.PROFILER[0] is not None


def stop_recording() -> None:
    """End a profiler that was not ended by its owner: what it recorded stays with it."""
    recorder = core.PROFILER[0]
    if recorder is None:
        fail(RuntimeError, "autograd._disable_profiler", "Can't disable Kineto profiler when it's not running",
             "none", hint="torch.autograd._profiler_enabled() asks")  # fmt: skip
    if hasattr(recorder, "finish"):
        recorder.finish()
    core.PROFILER[0] = None
