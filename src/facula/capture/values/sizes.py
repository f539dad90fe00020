"""Sizes that may change: which dimensions are dynamic, and what was assumed about them.

Takes: what earlier captures of the same place saw. Gives: dynamic dimensions, and a check that the
assumptions about sizes inside of the graph hold for other sizes.
Keeps true: an assumption is either a guard on the inputs or a fact that `Facts.hold` replays for each
new combination of sizes; so a graph never runs for sizes for which it is wrong.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from facula import core
from facula.autograd import autocast
from facula.capture import config
from facula.capture.breaks import Break, Respecialise
from facula.capture.interpreter.domain import Part
from facula.capture.values.graph_names import is_named
from facula.capture.values.kinds import Known, NodeValue, NumberValue, TensorValue, follows_float
from facula.capture.values.sources import Source, Text, slot
from facula.core import logs
from facula.fx.node import Node, map_arg
from facula.ops.table.registry import TABLE

if TYPE_CHECKING:
    from facula.capture.interpreter.symbolic import Symbolic


log = logs.get_logger("dynamic")


#: what an operator (or a program's own one, by its `register_fake`) and arithmetic raise for sizes that
#: do not fit; anything else that comes of a replay is a fault of the compiler's
REFUSALS = (RuntimeError, ValueError, TypeError, IndexError, ArithmeticError, AssertionError)


class History:
    """What was seen at one place of the program, by source."""

    def __init__(self) -> None:
        self.shapes: dict[Source, tuple[int, ...]] = {}
        self.dynamic: dict[Source, set[int]] = {}
        self.integers: dict[Source, int] = {}
        self.dynamic_integers: set[Source] = set()
        self.floats: dict[Source, float] = {}
        self.dynamic_floats: set[Source] = set()

    def note(self, slots: list[str], values: list[Any]) -> None:
        """Note the sizes of a call that is not captured."""
        for name, value in zip(slots, values, strict=True):
            if isinstance(value, core.Tensor):
                self.shapes[slot(name)] = tuple(value.shape)
            elif type(value) is int:
                self.integers[slot(name)] = value


#: attributes of tensors whose sizes may change
_MARKS = (
    "_dynamo_dynamic_indices", "_dynamo_weak_dynamic_indices", "_dynamo_unbacked_indices",
)  # fmt: skip


class Sizes(Part):
    """The part of `Symbolic` that decides what is dynamic."""

    shadow: Any

    def dynamic_dimensions(self, source: Source, tensor: core.Tensor) -> frozenset[int]:
        """The dynamic dimensions of a tensor from outside."""
        named = self._is_named(source)
        if (self.dynamic_mode is False and not named) or self.static_only or source.kind == "held":
            return frozenset()
        if type(tensor) is not core.Tensor:
            return frozenset()
        shape = tuple(tensor.shape)
        own = getattr(tensor, "__dict__", None) or {}
        marked = {d for name in _MARKS for d in own.get(name, ())}
        static = own.get("_dynamo_static_indices", ())
        history = self.history
        before = history.shapes.get(source)
        if self.dynamic_mode or named:
            history.dynamic[source] = set(range(len(shape)))
        elif before is not None and len(before) == len(shape) and self.assume_static:
            seen = history.dynamic.setdefault(source, set())
            new = {d for d, n in enumerate(shape) if before[d] != n} - seen
            for d in sorted(new):
                log.info(
                    "size %d of %s is dynamic: it was %d, and is %d",
                    d, source.label(), before[d], shape[d],
                )  # fmt: skip
            seen |= new
        elif before is not None and len(before) != len(shape):
            history.dynamic.pop(source, None)
        history.shapes[source] = shape
        chosen = {
            d
            for d in marked | history.dynamic.get(source, set())
            if d < len(shape) and shape[d] >= 2 and d not in static and tensor.stride(d) != 0
        }
        if chosen:
            self.any_dynamic = True
        return frozenset(chosen)

    def _is_named(self, source: Source) -> bool:
        """Whether `dynamic_sources` names a source."""
        wanted = config.dynamic_sources
        return bool(wanted) and is_named(wanted, source, self.first_frame)

    def is_dynamic_int(self, source: Source | None, value: int) -> bool:
        """Whether an int from outside may change: it was another one before, or all sizes may."""
        if source is None or self.static_only:
            return False
        named = self._is_named(source)
        if not named and (self.dynamic_mode is False or not is_argument(source)):
            return False
        before = self.history.integers.get(source)
        if before is not None and before != value and self.assume_static:
            self.history.dynamic_integers.add(source)
        self.history.integers[source] = value
        dynamic = self.dynamic_mode or named or source in self.history.dynamic_integers
        chosen = bool(dynamic) and value >= 2
        if chosen:
            self.any_dynamic = True
        return chosen

    def is_dynamic_float(self, source: Source | None, value: float) -> bool:
        """Whether a float from outside may change: it was another one before."""
        if source is None or source.kind == "held" or self.dynamic_mode is False:
            return False
        if self.static_only or not self.assume_static:
            return False
        before = self.history.floats.setdefault(source, value)
        if before != value:
            self.history.dynamic_floats.add(source)
        # zeros have signs and NaN equals nothing: these stay what they are
        return source in self.history.dynamic_floats and value == value and value != 0.0

    def float_as_tensor(self, number: Any) -> Any:
        """A float that may change as a tensor without dimensions, which is part of the graph.

        Sums and products of such floats are computed by the graph, to the same bits.
        """
        if isinstance(number, Known):
            return number
        if not _is_float_arithmetic(number):
            return self.specialise(number)
        found = self.float_tensors.get(number)
        if found is None:
            if number.source is not None:
                made = _float_tensor(number.hint)
                found = self.wrap(made, number.source.apply(_float_tensor))
            else:
                args = [self.float_as_tensor(arg) for arg in number.args]
                found = self.graph_call(number.function, args)
            self.float_tensors[number] = found
        return found

    def note_marks(self, value: TensorValue) -> None:
        """What was said of a tensor's sizes: that they change, that nothing may depend on them, a range."""
        own = getattr(value.real, "__dict__", None) or {}
        if self.dynamic_mode is not False:
            static = own.get("_dynamo_static_indices", ())
            value.marked = frozenset(own.get("_dynamo_dynamic_indices", ())) - frozenset(static)
        value.unbacked = frozenset(own.get("_dynamo_unbacked_indices", ())) & value.dynamic
        for dim, (least, most) in own.get("_dynamo_dynamic_range", {}).items():
            if dim in value.dynamic:
                size = int(value.fake.shape[dim])
                number = self._dimension(value, dim, size)
                for bound, compare in ((least, operator.ge), (most, operator.le)):
                    if bound is not None and not compare(size, bound):
                        self.out_of_range.append((value, dim, (least, most)))
                    elif bound is not None:
                        self.assume(NumberValue(True, compare, (number, Known(bound))))

    # assumptions ----------------------------------------------------------------------------------
    def assume(self, number: NumberValue) -> bool:
        """The truth of a number that may change, as a guard."""
        if self.reads_in(number):
            known = self.known_truth(number)
            if known is None:
                raise Break("data-dependent-branch", number_label(number))
            return known
        _check_backed(number)
        _check_replayed(number)
        outcome = bool(number.hint)
        self.conditions.append((number, outcome))
        return outcome

    def specialise(self, number: NumberValue) -> Known:
        """The number as it is now, as a guard."""
        if self.reads_in(number):
            found = self.expression(number)
            low, high = (0, 1) if found is None else self.known.bounds(found)
            if low != high:
                raise Break(
                    "data-dependent-value", f"a known number was required: {number_label(number)}"
                )
            return Known(int(low))
        _check_backed(number)
        _check_replayed(number)
        if number.function is not None and follows_float(number):
            for arg in number.args:  # equal results may differ in the sign of zero
                if isinstance(arg, NumberValue):
                    self.specialise(arg)
            return Known(number.hint)
        self.conditions.append((NumberValue(True, operator.eq, (number, Known(number.hint))), True))
        return Known(number.hint)

    def assume_size(self, tensor: TensorValue, dim: int, size: int) -> None:
        """That an inner size does not depend on the sizes of the inputs."""
        number = NumberValue(size, args=(tensor, dim))
        self.conditions.append((NumberValue(True, operator.eq, (number, Known(size))), True))

    def assume_count(self, results: Any, node: Node) -> None:
        """That a node gives as many results for other sizes: `split` and its kin may not."""
        if not self._count_varies(node):
            return
        if self.enclosing:
            raise Respecialise  # what is inside of a transform is not replayed for other sizes
        number = NumberValue(len(results), len, (NodeValue(results, node),))
        expected = Known(len(results))
        self.conditions.append((NumberValue(True, operator.eq, (number, expected)), True))

    def _count_varies(self, node: Any) -> bool:
        """Whether other sizes may give more or fewer results: of operators that cut a dimension that
        changes, or into a number of parts that does."""
        found = TABLE.get(getattr(node.target, "name", node.target))
        if found is None:
            return True
        schema = found.definition.schema
        first, names = schema.parameters[0], [p.name for p in schema.parameters]
        if not schema.text.endswith("Tensor[]") or first.is_list:
            return False
        given = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
        whole = given.pop(first.name)
        if "dim" not in names or any(isinstance(arg, Node) for arg in given.values()):
            return True
        tensor, dim = self.by_fake.get(id(whole.meta["val"])), given.get("dim", 0)
        if tensor is None:
            return True
        dim %= tensor.fake.dim()
        return dim in tensor.dynamic if tensor.source is not None else self.varies(tensor, dim)

    def varies(self, tensor: TensorValue, dim: int) -> bool:
        """Whether an inner size is another one when the dynamic sizes are doubled."""
        try:
            other = self.doubled().value(tensor.node)
        except REFUSALS:  # the doubled sizes do not fit: it is an assumption
            return False
        return isinstance(other, core.Tensor) and int(other.shape[dim]) != int(
            tensor.fake.shape[dim]
        )

    def replay(self, factor: int = 1) -> Replay:
        """Something that runs the graph, with what is read from elements times a factor."""
        return Replay(self.fakes, self.attached, factor)

    def doubled(self) -> Replay:
        """The graph so far, on sizes and numbers twice as large."""
        if self.shadow is None:
            self.shadow = self.replay(2)
        for value in self.inputs:
            if value.node in self.shadow.values:
                continue
            if isinstance(value, NumberValue):
                self.shadow.values[value.node] = value.hint * 2
            else:
                shape = tuple(
                    n * 2 if d in value.dynamic else n for d, n in enumerate(value.real.shape)
                )
                self.shadow.values[value.node] = self.fakes.resized(value.real, shape)
        return self.shadow


_ARITHMETIC = (operator.add, operator.sub, operator.mul, operator.truediv, operator.neg)


def _is_float_arithmetic(value: Any) -> bool:
    """Whether a number is a float that may change, or sums and products of such floats."""
    if isinstance(value, Known):
        return type(value.obj) in (int, float)
    if type(value.hint) is not float or not follows_float(value):
        return False
    if value.source is not None or value.function is None:
        return True
    return value.function in _ARITHMETIC and all(_is_float_arithmetic(arg) for arg in value.args)


def _float_tensor(value: float) -> core.Tensor:
    return core.tensor(value, dtype=core.float64)


def look_ahead(generator: Any, count: int) -> float:
    """The last of the next floats that a generator gives, which it still has to give."""
    state = generator.getstate()
    for _ in range(count):
        found = generator.random()
    generator.setstate(state)
    return found


def move_on(generator: Any, count: int) -> None:
    """Draw what was looked up ahead."""
    for _ in range(count):
        generator.random()


def _check_replayed(number: Any) -> None:
    """Raise where a decision depends on a size of an operand of a function: no guard can be about it."""
    for arg in number.args:
        if isinstance(arg, NumberValue):
            _check_replayed(arg)
        elif isinstance(arg, TensorValue) and arg.source is None and arg.dynamic:
            raise Respecialise


def _check_backed(number: object) -> None:
    """Break where a decision depends on a size that no decision may depend on, or on chance."""
    if not isinstance(number, NumberValue):
        return
    if number.source is not None:
        if number.source.kind == "apply" and number.source.key[0].value is look_ahead:
            raise Break("data-dependent-branch", "a random number of Python's")
        return
    if number.function is not None or not number.args:
        for arg in number.args:
            _check_backed(arg)
        return
    tensor, dim = number.args
    if dim in tensor.unbacked:
        raise Break("unbacked-size", f"{tensor.source.label()}.size()[{dim}]")


def is_argument(source: Source) -> bool:
    """Whether a source starts at the frame's own values and is no attribute of an object."""
    while source.base is not None:
        if source.kind == "attr" and source.key in ("__closure__", "__dict__"):
            return False
        source = source.base
    return source.kind == "slot"


class Replay:
    """Runs a graph's nodes on stand-ins, each when it is asked for; modes that nodes set are its own."""

    def __init__(self, fakes: Any, attached: dict[str, Any], factor: int = 1) -> None:
        self.fakes = fakes
        #: what stands for numbers that are read from elements is multiplied by it
        self.factor = factor
        self.attached = attached
        self.values: dict[Any, Any] = {}
        #: tensors from outside that need not be in the graph, by the id of their value
        self.inputs: dict[int, Any] = {}
        #: what the nodes so far have set: whether gradients are recorded, and autocast
        self.modes: tuple[bool, tuple[Any, ...]] | None = None

    def value(self, node: Any) -> Any:
        """What the node gives."""
        if node not in self.values:
            with self._own_modes():
                for other in node.graph.nodes:
                    if other not in self.values and other.op != "placeholder":
                        self._run(other)
                    if other is node:
                        break
        return self.values[node]

    @contextlib.contextmanager
    def _own_modes(self) -> Iterator[None]:
        """The thread has the modes of the nodes only while they run, which they do some at a time."""
        keys = core.thread_keys()
        with autocast.restored():
            try:
                if self.modes is not None:
                    core.set_grad_enabled(self.modes[0])
                    autocast.restore(self.modes[1])
                yield
                self.modes = core.is_grad_enabled(), autocast.all_settings()
            finally:
                core.set_thread_keys(keys)

    def _run(self, node: Any) -> None:
        if node.op == "get_attr":
            self.values[node] = self.attached[node.target]
            return
        if node.meta.get("check"):
            self.values[node] = None
            return
        if node.meta.get("read"):
            value = node.meta["val"]
            self.values[node] = value if isinstance(value, bool) else value * self.factor
            return
        args = map_arg(node.args, lambda n: self.values[n])
        kwargs = map_arg(node.kwargs, lambda n: self.values[n])
        if node.op == "call_method":
            function: Callable = lambda owner, *more, **words: getattr(owner, node.target)(  # noqa: E731
                *more, **words
            )
        else:
            function = node.target
        count = node.meta.get("count")
        known = node.meta.get("known_count")
        count = known or (None if count is None else count * self.factor)
        self.values[node] = self.fakes.run(function, list(args), dict(kwargs), count)


class _Sized(NamedTuple):
    """What stands for a tensor of which only sizes are asked."""

    shape: tuple[int, ...]


class Facts:
    """What was assumed about sizes inside of a graph, replayed for each new combination of sizes.

    outside: the tensors and numbers that were compared and are no inputs of the graph.
    """

    def __init__(self, world: Symbolic, facts: list[tuple], outside: Sequence[Any] = ()) -> None:
        self.fakes, self.attached = world.fakes, world.attached
        self.placeholders = [value.node for value in world.inputs]
        self.facts = facts
        self.outside = outside
        self.seen: dict[tuple, bool] = {}

    def hold(self, *values: object) -> bool:
        """Whether the graph is right for these inputs, and behind them the shapes and numbers that
        are compared beside them."""
        key = tuple(
            (tuple(v.shape), v.stride()) if isinstance(v, core.Tensor) else v for v in values
        )
        known = self.seen.get(key)
        if known is None:
            known = self.seen[key] = self._replay(values)
        return known

    def _replay(self, values: tuple) -> bool:
        replay = Replay(self.fakes, self.attached)
        count = len(self.placeholders)
        for node, value in zip(self.placeholders, values[:count], strict=True):
            if isinstance(value, core.Tensor):
                value = self.fakes.resized(value, tuple(value.shape))
            replay.values[node] = value
        for own, value in zip(self.outside, values[count:], strict=True):
            replay.inputs[id(own)] = _Sized(value) if isinstance(value, tuple) else value
        try:
            return all(
                bool(value_of_number(number, replay)) == outcome for number, outcome in self.facts
            )
        except REFUSALS:  # an operator that refuses the sizes: they are not those of the graph
            return False


def value_of_number(value: Any, replay: Replay) -> Any:
    """A number that may change, for the sizes of a replay."""
    if isinstance(value, Known):
        return value.obj
    if isinstance(value, NodeValue):
        return replay.value(value.node)
    if value.node is not None and value.node in replay.values:
        return replay.values[value.node]
    if id(value) in replay.inputs:
        return replay.inputs[id(value)]
    if value.function is not None:
        return value.function(*(value_of_number(arg, replay) for arg in value.args))
    if not value.args:
        return value.hint
    tensor, dim = value.args
    known = replay.inputs.get(id(tensor))
    return int((replay.value(tensor.node) if known is None else known).shape[dim])


def compared_from_outside(value: Any) -> Iterator[Any]:
    """The tensors and numbers with a source of which a number is made."""
    if isinstance(value, (Known, NodeValue)):
        return
    if value.source is not None:
        yield value
    elif value.function is not None:
        for arg in value.args:
            yield from compared_from_outside(arg)
    elif value.args and value.args[0].source is not None:
        yield value.args[0]


_SYMBOLS = {
    operator.add: "+", operator.sub: "-", operator.mul: "*", operator.floordiv: "//",
    operator.truediv: "/", operator.mod: "%", operator.pow: "**", operator.lt: "<", operator.le: "<=",
    operator.eq: "==", operator.ne: "!=", operator.gt: ">", operator.ge: ">=",
}  # fmt: skip


def number_text(value: Any, out: Text) -> str | None:
    """A number as Python over the inputs' sources; None where it depends on an inner tensor."""
    if isinstance(value, Known):
        return out.literal(value.obj)
    if isinstance(value, NodeValue):
        return None
    if value.source is not None:
        return out.source(value.source)
    if value.function is None:
        if not value.args:
            return None
        tensor, dim = value.args
        if tensor.source is None:
            return None
        return f"{out.source(tensor.source.attr('shape'))}[{dim}]"
    parts = [number_text(arg, out) for arg in value.args]
    if any(part is None for part in parts):
        return None
    symbol = _SYMBOLS.get(value.function)
    if symbol is not None and len(parts) == 2:
        return f"({parts[0]} {symbol} {parts[1]})"
    return f"{out.hold(value.function)}({', '.join(parts)})"  # type: ignore[arg-type]


def number_label(value: Any) -> str:
    """A number as a user reads it."""
    if isinstance(value, Known):
        return repr(value.obj)
    if isinstance(value, NodeValue):
        return str(value.node)
    if value.source is not None:
        return value.source.label()
    if value.function is None:
        if not value.args:
            return str(value.node)
        tensor, dim = value.args
        name = tensor.source.label() if tensor.source is not None else str(tensor.node)
        return f"{name}.shape[{dim}]"
    symbol = _SYMBOLS.get(value.function)
    if symbol is not None and len(value.args) == 2:
        return f"({number_label(value.args[0])} {symbol} {number_label(value.args[1])})"
    inner = ", ".join(number_label(arg) for arg in value.args)
    return f"{value.function.__name__}({inner})"
