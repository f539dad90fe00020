"""The domain of symbolic values: one capture of one segment.

Takes: the state of a frame, and the place's history. Gives: the graph, guards, effects and the frame's
state behind the segment.
Keeps true: nothing of the outside is changed while a program is captured, but for the thread's modes,
which are put back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula import core
from facula.capture.breaks import Break, Earlier
from facula.capture.guards.conditions import GuardSet, autocast_state, state_of_thread
from facula.capture.guards.layouts import Layouts
from facula.capture.guards.reading import Reading
from facula.capture.guards.reads import Reads
from facula.capture.guards.watching import Watched
from facula.capture.interpreter import narration
from facula.capture.interpreter.attributes import Attributes
from facula.capture.interpreter.calls import Calls
from facula.capture.interpreter.exceptions import Exceptions
from facula.capture.interpreter.frames import ACTIONS, Frame, Returned
from facula.capture.interpreter.identity import Identities
from facula.capture.interpreter.machine import throw
from facula.capture.interpreter.operators import Operators
from facula.capture.numpy.arrays import Arrays
from facula.capture.values.containers import Containers
from facula.capture.values.dictionaries import Dictionaries
from facula.capture.values.fakes import Fakes
from facula.capture.values.graph_ops import GraphOps
from facula.capture.values.kinds import NumberValue, Raised, TensorValue
from facula.capture.values.sizes import History, Replay, Sizes
from facula.capture.values.sources import Line
from facula.capture.values.subclasses import Subclasses
from facula.capture.values.wrappers import Wrappers
from facula.core import logs
from facula.core.errors import is_own
from facula.fx import Graph
from facula.fx.unbacked import Unbacked


class Symbolic(
    Reading, Containers, Dictionaries, Attributes, Operators, Exceptions, Calls, GraphOps, Sizes,
    Subclasses, Wrappers, Arrays, Reads, Identities, Layouts,
):  # fmt: skip
    """The operations of the interpreter on symbolic values, and what they leave behind."""

    def __init__(
        self,
        history: History,
        dynamic: bool | None,
        module_class: type,
        plain_module: Callable[..., Any],
        static_only: bool = False,
        assume_static: bool = True,
        may_assume: bool = True,
        whole: bool = False,
    ) -> None:
        self.history, self.dynamic_mode, self.static_only = history, dynamic, static_only
        self.assume_static = assume_static
        self.module_class, self.plain_module = module_class, plain_module
        #: the truth of tensors that the segment is captured for
        self.may_assume = may_assume
        #: whether the program is to be one graph, which then has what is read from elements, too
        self.whole = whole
        self._begin_graph()
        self._begin_numbers()
        self.frames: list[Frame] = []
        self.watch = narration.lines_of_frames()
        if logs.is_on("verbose_guards"):
            self.guards.where = lambda: self.user_line() if self.frames else None
        self.tick = 0
        self.start_keys = core.thread_keys()
        self.start_state = state_of_thread()
        self.start_autocast = autocast_state()
        self.start_dtype = core.get_default_dtype()

    def _begin_graph(self) -> None:
        """An empty graph, and nothing yet that Python has to do beside it."""
        self.fakes = Fakes()
        self.graph = Graph()
        self.guards = GuardSet()
        self.watched = Watched()
        self.tracked: dict[int, Any] = {}
        self.kept: list[Any] = []
        #: tensors that were used as keys: arguments of the frame, and objects that are held
        self.tensor_keys: tuple[dict[int, Any], dict[int, Any]] = ({}, {})
        self.by_fake: dict[int, TensorValue] = {}
        self.inputs: list[Any] = []
        self.last_placeholder: Any = None
        #: the frame that the segment is of
        self.first_frame: Any = None
        self.placeholder_names: dict[Any, set[Any]] = {}
        self.effects: dict[int, Any] = {}
        self.attribute_writes: dict[tuple[int, str], tuple[Any, str, Any]] = {}
        self.mode_changes: list[tuple[Any, tuple]] = []
        self.operator_count = 0
        self.assumed: list[tuple[Any, bool]] = []
        self.enclosing: list[tuple[list, list]] = []
        self.attached: dict[str, Any] = {}
        self.lazy_iterators: set[int] = set()
        #: tensors with a dimension that is outside of the range that it was marked with
        self.out_of_range: list[tuple[TensorValue, int, tuple[Any, Any]]] = []
        #: what the program says, to be said behind the graph: functions and arguments
        self.said: list[tuple[Any, tuple]] = []
        #: generators of Python's random numbers, and how many the segment draws
        self.draws: dict[int, tuple[Any, int]] = {}
        #: for each hook of the graph its node's value, and the cells that it was captured with
        self.hooked: list[tuple[Any, list[tuple[Any, Any]]]] = []
        self.stopped: Any = None
        self.overrides_off = False
        self.function_modes = ()
        self.in_class = {}
        self.array_inputs, self.known_arrays = [], []
        self.uses_arrays, self.arrays_written, self.arrays_copied = False, False, []

    def _begin_numbers(self) -> None:
        """No number yet that stands for others: sizes, Python's numbers, and elements that were read."""
        self.conditions: list[tuple[NumberValue, bool]] = []
        self.dimensions: dict[tuple[int, int], NumberValue] = {}
        self.dynamic_ints: dict[Any, NumberValue] = {}
        self.dynamic_floats: dict[Any, NumberValue] = {}
        self.float_tensors: dict[Any, Any] = {}
        self.any_dynamic = False
        self.shadow: Replay | None = None
        #: numbers that were read from elements, what is known of them, and the graph for other such numbers
        self.reads: list[Any] = []
        self.known = Unbacked({})
        self.symbols: dict[Any, Any] = {}
        self.sizes_read: dict[tuple[int, int], bool] = {}
        self.beside: Replay | None = None

    def stack_trace(self) -> str:
        """The user's lines that are interpreted now, outermost first."""
        lines = []
        for frame in self.frames:
            if frame.instruction is not None:
                lines.append(str(Line.of(frame.code, frame.instruction.line)))
        return "\n".join(lines)

    def user_line(self) -> Line:
        """The innermost line that is not the framework's."""
        chosen = self.frames[0]
        for frame in self.frames:
            if not is_own(frame.globals.get("__name__")):
                chosen = frame
        line = chosen.instruction.line if chosen.instruction is not None else 0
        return Line.of(chosen.code, line)

    def locate(self, reason: Break) -> None:
        """Note where a break is, at the innermost place that it passes."""
        if reason.line is None:
            reason.line = self.user_line()
            reason.trace = self.stack_trace()

    # the root frame -------------------------------------------------------------------------------
    def writes_inputs(self) -> bool:
        """Whether the segment has written to the memory of a tensor from outside."""
        return any(isinstance(v, TensorValue) and core.writes(v.fake) for v in self.inputs)

    def run_segment(self, frame: Frame, stop: int | None) -> Any:
        """Interpret the root frame up to its end, or up to the instruction number `stop`.

        Gives `Returned`, the `Raised` that left the frame, or None where it stopped.
        """
        self.frames.append(frame)
        while True:
            if self.tick == stop:
                self.check_modes_left()
                return None
            instruction = frame.program.instructions[frame.index]
            frame.instruction = instruction
            frame.index += 1
            if self.watch is not None:
                self.watch(frame)
            action = ACTIONS.get(instruction.name)
            try:
                if action is None:
                    self.unknown_instruction(frame, instruction)
                signal = action(self, frame, instruction)  # type: ignore[misc]
            except Raised as error:
                if not throw(self, frame, self.caught(error, frame)):
                    self.check_modes_left()
                    return error
                signal = None
            except Break as reason:
                self.locate(reason)
                raise Earlier(self.tick, reason) from reason
            if isinstance(signal, Returned):
                self.check_modes_left()
                return signal
            if signal is not None:
                raise Earlier(self.tick, Break("unsupported-instruction", "a generator"))
            self.tick += 1
