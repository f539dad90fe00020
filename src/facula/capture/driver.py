"""The driver: finds the segment for a frame's state, captures it where there is none, goes on after breaks.

Takes: a Python function and a backend. Gives: a function of the same signature that runs captured
segments, and between them single instructions in Python.
Keeps true: a segment is found by its guards only; a break, a recompile or a limit is an event; what
can not be captured runs as Python would run it.
"""

from __future__ import annotations

import builtins
import functools
import keyword
import re
import time
import types
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from facula import core
from facula.capture import config, segment, stances
from facula.capture.breaks import Break
from facula.capture.errors import (
    FailOnRecompileLimitHit,
    InternalTorchDynamoError,
    RecompileError,
    Unsupported,
    user_frame,
)
from facula.capture.events import COUNTERS, Event, happened
from facula.capture.faults import suppressed
from facula.capture.guards.by_sizes import CAPTURING
from facula.capture.guards.hooks import GuardHooks
from facula.capture.guards.reading import is_trusted_name
from facula.capture.interpreter import narration
from facula.capture.interpreter.concrete import Concrete
from facula.capture.interpreter.frames import UNBOUND, Frame, Returned
from facula.capture.interpreter.instructions import program_of
from facula.capture.interpreter.liveness import is_live
from facula.capture.interpreter.machine import step
from facula.capture.marks import is_disabled, original_of, set_original
from facula.capture.segment_code import MISS, Entry, Point, Suspended
from facula.capture.stances import Stance
from facula.capture.values.sizes import History
from facula.capture.values.sources import Line
from facula.core.errors import fail, message, own_name
from facula.fx._symbolic_trace import is_fx_tracing

_GENERATOR = 0x20 | 0x80 | 0x200
_RESERVED = re.compile(
    r"(v|K|n|o|CHECK)[\d_]*|F|MISS|LOOKUP|GRAPH|entry|super|slice|getattr|type|len|list|repr"
)
#: the framework's code that is worth capturing when a native call reaches it
_CAPTURED = ("facula.nn.modules", "facula.optim", "facula.nn.utils")


def slot_name(name: str) -> str:
    """The parameter of generated functions that holds a local."""
    plain = name if name.isidentifier() else f"local_{''.join(c for c in name if c.isalnum())}"
    clash = keyword.iskeyword(plain) or _RESERVED.fullmatch(plain) or hasattr(builtins, plain)
    return plain + "_" if clash else plain


#: slot: session -> a block in which backward runs are compiled (`compiler.compiled_autograd`)
COMPILED_BACKWARD: list[Any] = [None]


class Place:
    """A position in a code object at which segments start, and the segments that start there."""

    def __init__(self, session: Session, code: types.CodeType, point: Point | None) -> None:
        self.session = session
        self.code = code
        self.point = point
        self.entries: list[Entry] = []
        #: the segments of other shelves of stances
        self.aside: dict[Any, list[Entry]] = {}
        #: whether a call has run that only looked at sizes
        self.begun = False
        self.history = History()
        self.limited = False
        #: whether capture failed here, and `suppress_errors` was on
        self.failed = False
        if point is None:
            self.names = list(code.co_varnames[: parameter_count(code)])
            self.cells: list[str] = []
            self.depth = 0
        else:
            self.names = list(point.locals)
            self.cells = list(point.cells)
            self.depth = -1
        self.slots: list[str] = []

    def name_slots(self, depth: int) -> None:
        """Name the values of the state: locals, cells, the handled exception, the stack."""
        self.depth = depth
        self.slots = [slot_name(name) for name in self.names]
        self.slots += [f"cell_{slot_name(name)}" for name in self.cells]
        if self.point is not None:
            self.slots += ["handling", *(f"stack{n}" for n in range(depth))]

    def find(self, function: Callable[..., Any], values: list[Any]) -> Any:
        """What the segment for this state gives; captures it where there is none."""
        for entry in self.entries:
            result = entry.function(function, *values)
            if result is not MISS:
                return result
        return self.session.missed(self, function, values)


def parameter_count(code: types.CodeType) -> int:
    """How many locals are parameters."""
    count = code.co_argcount + code.co_kwonlyargcount
    return count + bool(code.co_flags & 4) + bool(code.co_flags & 8)


SESSIONS: weakref.WeakSet[Session] = weakref.WeakSet()


class Session:
    """One use of the compiler: a backend and its options, and all that was captured for it."""

    def __init__(
        self,
        backend: Callable[..., Any],
        *,
        fullgraph: bool = False,
        dynamic: bool | None = None,
        name: str = "",
        specialises: bool = False,
        hooks: GuardHooks | None = None,
    ) -> None:
        self.specialises, self.hooks = specialises, hooks
        self.backend, self.fullgraph, self.dynamic, self.name = backend, fullgraph, dynamic, name
        self.places: dict[tuple, Place] = {}
        self.wrappers: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
        self.concrete = Concrete(self.compiled_callee)
        self.break_reasons: list[Break] = []
        SESSIONS.add(self)

    def again(self) -> Session:
        """A session of the same kind that has captured nothing."""
        return Session(
            self.backend,
            fullgraph=self.fullgraph,
            dynamic=self.dynamic,
            name=self.name,
            specialises=self.specialises,
            hooks=self.hooks,
        )

    def reset(self) -> None:
        """Forget everything that was captured."""
        for place in self.places.values():
            place.entries.clear()
            place.aside.clear()
            place.history = History()
            place.limited = place.begun = place.failed = False

    # calling --------------------------------------------------------------------------------------
    def wrap(self, function: Any) -> Callable[..., Any]:
        """The compiled version of a function."""
        known = self.wrappers.get(function)
        if known is None:
            known = self.wrappers[function] = make_caller(self, function)
        return known

    def compiled_callee(self, callee: Any) -> Any:
        """What a native call calls: the compiled version, where there is something to compile."""
        if isinstance(callee, types.MethodType):
            if self._is_captured(callee.__func__):
                return types.MethodType(self.wrap(callee.__func__), callee.__self__)
            return callee
        if isinstance(callee, types.FunctionType):
            return self.wrap(callee) if self._is_captured(callee) else callee
        if isinstance(callee, segment.module_class()) and not is_disabled(callee.forward):
            call = type(callee).__call__
            if not is_trusted_name(getattr(call, "__module__", None)):
                return callee
            implementation = type(callee)._call_impl
            if callee._compiled_call_impl is None and isinstance(
                implementation, types.FunctionType
            ):
                return types.MethodType(self.wrap(implementation), callee)
        return callee

    @staticmethod
    def _is_captured(function: Callable[..., Any]) -> bool:
        if not isinstance(function, types.FunctionType) or is_disabled(function):
            return False
        if function.__code__.co_flags & _GENERATOR or original_of(function) is not None:
            return False
        module = own_name(function.__module__)
        return not is_trusted_name(module) or module.startswith(_CAPTURED)

    def place(
        self, function: Callable[..., Any], code: types.CodeType, point: Point | None
    ) -> Place:
        """The place of a function's start, or of a point."""
        key = (code, id(function.__globals__), point and point[:3])
        found = self.places.get(key)
        if found is None:
            found = self.places[key] = Place(self, code, point)
        return found

    def go_on(self, function: Callable[..., Any], waiting: Suspended) -> Any:
        """Run a waiting frame to its end: an instruction in Python, then the segment behind it."""
        point, values = waiting.point, waiting.values
        while True:
            frame = self._frame_of(function, point, values)
            values.clear()  # what the program drops from here on is gone
            try:
                if config.compiled_autograd:
                    with COMPILED_BACKWARD[0](self):
                        signal = step(self.concrete, frame)
                else:
                    signal = step(self.concrete, frame)
            except BaseException as error:
                user_frame(error, frame)
                raise
            if isinstance(signal, Returned):
                return signal.value
            result = self._segment_behind(function, frame)
            if type(result) is not Suspended:
                return result
            point, values = result.point, result.values

    def _frame_of(self, function: Callable[..., Any], point: Point, values: list[Any]) -> Frame:
        frame = Frame(function.__code__, function, function.__globals__)
        frame.index = point.index
        at = len(point.locals)
        for name, value in zip(point.locals, values, strict=False):
            if value is not UNBOUND:
                frame.locals[name] = value
        for name, cell in zip(point.cells, values[at:], strict=False):
            if cell is not UNBOUND:
                frame.cells[name] = cell
        at += len(point.cells)
        code = function.__code__
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            frame.cells[name] = cell
        frame.handling = values[at]
        frame.stack = list(values[at + 1 :])
        return frame

    def _segment_behind(self, function: Callable[..., Any], frame: Frame) -> Any:
        code = frame.code
        locals_ = tuple(
            name
            for name in code.co_varnames
            if name in frame.locals
            and (
                not isinstance(frame.locals[name], core.Tensor) or is_live(code, frame.index, name)
            )
        )
        cells = tuple(name for name in code.co_cellvars if name in frame.cells)
        point = Point(frame.index, locals_, cells, None)
        values = [frame.locals[name] for name in locals_]
        values += [frame.cells[name] for name in cells]
        values += [frame.handling, *frame.stack]
        frame.locals.clear()
        frame.stack.clear()
        place = self.place(function, code, point)
        if place.depth < 0:
            place.name_slots(len(values) - len(locals_) - len(cells) - 1)
        return place.find(function, values)

    # missing --------------------------------------------------------------------------------------
    def missed(self, place: Place, function: Callable[..., Any], values: list[Any]) -> Any:
        """No segment serves the state: capture one, or run in Python where the limit is reached."""
        if place.failed and not config.suppress_errors:
            place.failed = False
        outside = config.disable or segment.under_modes() or stances.is_native(place, values)
        if outside or place.failed or self._is_traced():
            return self.natively(place, function, values)
        cause = self._recompile(place, function, values) if place.entries else ""
        stances.check_recompile(place, cause)
        limit = config.recompile_limit
        if len(place.entries) >= limit:
            self._limit(place, function, limit)
            return self.natively(place, function, values)
        with CAPTURING:
            entry = segment.capture(place, function, values)
        if entry is None:  # a fault, which the settings suppress
            place.failed = True
            return self.natively(place, function, values)
        place.entries.append(entry)
        result = entry.function(function, *values)
        if result is MISS:
            self._own_guards_fail(entry, place, function, values)
            return self.natively(place, function, values)
        return result

    @staticmethod
    def _is_traced() -> bool:
        """Whether a symbolic trace has reached compiled code, which then runs in Python, if that is allowed."""
        if is_fx_tracing() and config.error_on_nested_fx_trace:
            fail(
                RuntimeError,
                "compile",
                "code that is not compiled was required (Detected that you are using FX to symbolically "
                "trace a dynamo-optimized function. This is not supported at the moment.)",
                hint="trace the function itself, or set facula._dynamo.config.error_on_nested_fx_trace = False",
            )
        return is_fx_tracing()

    def _own_guards_fail(
        self, entry: Entry, place: Place, function: Callable[..., Any], values: list[Any]
    ) -> None:
        """A fault of the compiler: a segment does not serve the state that it was captured for."""
        reasons = "; ".join(self.reasons(entry, place, function, values))
        error = AssertionError(f"guards fail for the state that they were made of: {reasons}")
        where = Line.of(place.code, place.code.co_firstlineno)
        found = InternalTorchDynamoError.of(error, "guards", where)
        if not suppressed(found, place.code.co_qualname, "the function runs in eager"):
            raise found

    def natively(self, place: Place, function: Any, values: list[Any]) -> Any:
        """Run the rest of a frame in Python."""
        if place.point is None:
            return call_with(function, values)
        frame = self._frame_of(function, place.point, values)
        plain = Concrete()
        while True:
            try:
                signal = step(plain, frame)
            except BaseException as error:
                user_frame(error, frame)
                raise
            if isinstance(signal, Returned):
                return signal.value

    def after_wrong_assumption(
        self,
        place: Place,
        state: Any,
        error: Exception | None,
        function: Callable[..., Any],
        values: list[Any],
    ) -> Any:
        """Run in Python what was captured for another truth of a tensor, or whose graph failed.

        Takes: the state of the random numbers that the graph began with; the graph's error, which
        stands where Python has none.
        """
        core.default_generator.graphsafe_set_state(state)
        cause = "the graph was captured for another truth of a tensor"
        where = Line.of(place.code, place.code.co_firstlineno)
        if error is not None:
            cause = f"the graph, captured for one truth of a tensor, failed: {error}"
        happened(Event("assumption", "assumption", place.code.co_qualname, where, cause))
        result = self.natively(place, function, values)
        if error is not None:
            raise error
        return result

    def reasons(
        self, entry: Entry, place: Place, function: Callable[..., Any], values: list[Any]
    ) -> list[str]:
        """Why an entry does not serve a state."""
        slots = dict(zip(place.slots, values, strict=True))
        slots["F"] = function
        return entry.reasons(slots, core.thread_keys(), entry.keys)  # type: ignore[attr-defined]

    def _recompile(self, place: Place, function: Callable[..., Any], values: list[Any]) -> str:
        """Tell that no segment serves a state, and why."""
        failed = [self.reasons(e, place, function, values) for e in reversed(place.entries)]
        reasons = [reason for one in failed for reason in one]
        narration.misses(place.code.co_qualname, failed)
        if self.hooks is not None:
            self.hooks.of_miss("\n".join(reasons), place.code)
        line = place.code.co_firstlineno
        where = Line.of(place.code, line)
        event = Event(
            "recompile", "guard-failed", place.code.co_qualname, where, "; ".join(reasons)
        )
        happened(event)
        COUNTERS["recompiles"][reasons[0] if reasons else "unknown"] += 1
        if config.error_on_recompile:
            fail(
                RecompileError,
                "compile",
                (
                    f"no recompile of {place.code.co_qualname} was required (error_on_recompile): "
                    f"{event.cause}"
                ),
                hint="mark changing sizes as dynamic, or leave error_on_recompile out",
            )
        return event.cause

    def _limit(self, place: Place, function: Callable[..., Any], limit: int) -> None:
        text = f"{limit} segments start here already; those stay in use, other states run in Python"
        if config.fail_on_recompile_limit_hit or self.fullgraph:
            raise FailOnRecompileLimitHit(
                message(
                    "compile",
                    f"at most {limit} captured segments of {place.code.co_qualname} were required: {text}",
                    hint="see FACULA_LOGS=recompiles, mark sizes as dynamic, or raise "
                    "facula._dynamo.config.recompile_limit",
                )
            )
        if not place.limited:
            place.limited = True
            COUNTERS["limits"][place.code.co_qualname] += 1
            happened(
                Event(
                    "recompile limit",
                    "recompile-limit",
                    place.code.co_qualname,
                    Line.of(place.code, place.code.co_firstlineno),
                    text,
                    "see FACULA_LOGS=recompiles for the guards that failed; mark sizes as dynamic, "
                    "pass values as tensors, or raise _dynamo.config.recompile_limit",
                )
            )


def call_with(function: types.FunctionType, values: list[Any]) -> Any:
    """Call a function with the values of its parameters, in the order of its locals."""
    code = function.__code__
    count, words = code.co_argcount, code.co_kwonlyargcount
    args, rest = list(values[:count]), values[count:]
    kwargs = dict(zip(code.co_varnames[count : count + words], rest[:words], strict=True))
    rest = rest[words:]
    if code.co_flags & 4:
        args.extend(rest[0])
        rest = rest[1:]
    if code.co_flags & 8:
        kwargs.update(rest[0])
    return function(*args, **kwargs)


def set_stance(stance: Stance) -> Stance:
    """What compiled functions do; gives what they did before."""
    before, stances.CURRENT[0] = stances.CURRENT[0], stance
    if before.shelf != stance.shelf:
        for session in list(SESSIONS):
            for place in session.places.values():
                place.aside[before.shelf] = list(place.entries)
                place.entries[:] = place.aside.pop(stance.shelf, [])
    return before


def _parameters(code: types.CodeType, names: Sequence[str]) -> str:
    """The parameters of a function as its `def` has them, under other names."""
    count, keyword_count = code.co_argcount, code.co_kwonlyargcount
    parts = list(names[:count])
    if code.co_posonlyargcount:
        parts.insert(code.co_posonlyargcount, "/")
    at = count + keyword_count
    if code.co_flags & 4:
        parts.append("*" + names[at])
        at += 1
    elif keyword_count:
        parts.append("*")
    parts += names[count : count + keyword_count]
    if code.co_flags & 8:
        parts.append("**" + names[at])
    return ", ".join(parts)


def make_caller(session: Session, function: types.FunctionType) -> Callable[..., Any]:
    """A function of the same signature that looks segments up."""
    code = function.__code__
    place = session.place(function, code, None)
    if place.depth < 0 or not place.slots:
        place.name_slots(0)
    names = place.slots
    arguments = "".join(f", {name}" for name in names)
    text = (
        f"def caller({_parameters(code, names)}):\n"
        "    for segment__ in ENTRIES__:\n"
        f"        result__ = segment__.function(F__{arguments})\n"
        "        if result__ is not MISS__: break\n"
        "    else:\n"
        f"        result__ = MISSED__(PLACE__, F__, [{arguments[2:]}])\n"
        "    if TYPE__(result__) is not SUSPENDED__: return result__\n"
        + (f"    del {arguments[2:]}\n" if names else "")
        + "    return GO_ON__(F__, result__)\n"
    )
    space = {
        "ENTRIES__": place.entries, "F__": function, "MISS__": MISS, "MISSED__": session.missed,
        "PLACE__": place, "TYPE__": type, "SUSPENDED__": Suspended, "GO_ON__": session.go_on,
    }  # fmt: skip
    exec(compile(text, f"<facula call of {code.co_qualname}>", "exec"), space)  # noqa: S102
    caller: Any = space["caller"]
    renamed = dict(zip(names, place.names, strict=True))
    caller.__defaults__ = function.__defaults__
    if function.__kwdefaults__:
        back = {old: new for new, old in renamed.items()}
        caller.__kwdefaults__ = {back[k]: v for k, v in function.__kwdefaults__.items()}
    functools.update_wrapper(caller, function)
    set_original(caller, function)
    if any(new != old for new, old in renamed.items()):
        return _by_original_names(caller, {old: new for new, old in renamed.items()}, function)
    return caller


def _by_original_names(
    caller: Callable[..., Any], names: dict[str, str], function: Callable[..., Any]
) -> Callable[..., Any]:
    """A caller whose parameters had to be renamed, callable by the names that they had."""

    @functools.wraps(function)
    def renamed(*args: object, **kwargs: object) -> Any:
        return caller(*args, **{names.get(name, name): value for name, value in kwargs.items()})

    set_original(renamed, function)
    return renamed


def reset() -> None:
    """Forget everything that was captured, everywhere."""
    for session in list(SESSIONS):
        session.reset()
    COUNTERS.clear()


__all__ = ["Place", "Session", "Unsupported", "make_caller", "program_of", "reset", "time"]
