"""What a segment leaves behind, as Python text: guards, the call of the graph, effects, and the result.

Takes: a finished capture. Gives: an `Entry`, whose function returns MISS or does the segment's work.
Keeps true: everything is read before anything is changed; objects that were one object are one object
again; a value that can not be made again moves the end of the segment before its making.
"""

from __future__ import annotations

import collections
import functools
import re
import types
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

from facula import core
from facula.capture.breaks import Break, Earlier
from facula.capture.guards.conditions import Guard
from facula.capture.guards.reading import DEFAULT_FACTORY, base_of_c, is_of_python
from facula.capture.guards.watching import Watched
from facula.capture.interpreter.frames import NULL, UNBOUND
from facula.capture.numpy.arrays import to_array, to_scalar
from facula.capture.values.kinds import (
    ArrayValue,
    CellValue,
    DictValue,
    FunctionValue,
    GeneratorValue,
    IteratorValue,
    Known,
    Lazy,
    MethodValue,
    NodeValue,
    NumberValue,
    ObjectValue,
    PartialValue,
    Raised,
    ReplayIterator,
    SequenceValue,
    SetValue,
    SliceValue,
    SuperValue,
    TensorValue,
    ViewValue,
    advance,
)
from facula.capture.values.sizes import (
    Facts,
    compared_from_outside,
    move_on,
    number_label,
    number_text,
)
from facula.capture.values.sources import Text
from facula.capture.values.subclasses import SubclassValue, as_class
from facula.capture.values.wrappers import WrapperValue

#: what the guards have read, in the text of a segment
_READ = re.compile(r"\bv0_(\d+)\b")


class _Miss:
    def __repr__(self) -> str:
        return "MISS"


MISS = _Miss()


class Point(NamedTuple):
    """Where a frame waits: the instruction, and what the values of its state are."""

    index: int  # type: ignore[assignment] # a field, not the method of tuples
    locals: tuple[str, ...]
    cells: tuple[str, ...]
    reason: Any


class Suspended:
    """A frame that waits before an instruction that is not captured; who goes on takes the values."""

    __slots__ = ("point", "values")

    def __init__(self, point: Point, values: list[Any]) -> None:
        self.point = point
        self.values = values


class Entry:
    """One captured segment."""

    def __init__(self, function: Callable, guards: list[Guard], text: str) -> None:
        self.function = function
        self.guards = guards
        self.conditions: list[str] = []
        self.text = text
        self.break_reason: Any = None
        self.watched = Watched()

    def reasons(self, slots: dict[str, Any], keys: int, expected_keys: int) -> list[str]:
        """Why the entry does not serve a frame's state."""
        if keys != expected_keys:
            return [f"the thread's modes (grad mode, autocast, ...) are others: {keys:#x}"]
        renamed = self.watched.reason()
        if renamed is not None:
            return [renamed]
        for guard in self.guards:
            reason = guard.reason(slots)
            if reason is not None:
                where = f" [{guard.line.file}:{guard.line.line}]" if guard.line else ""
                return [reason + where]
        return [f"size condition {text} does not hold" for text in self.conditions] or [
            "two captured tensors are one tensor now, or the default dtype is another"
        ]


def make_cell() -> types.CellType:
    """An empty closure cell."""
    return types.CellType()


def make_function(
    code: types.CodeType, names: dict, name: str, defaults: Any, cells: tuple, more: dict
) -> types.FunctionType:
    """A function that was made in the segment."""
    made = types.FunctionType(code, names, name, defaults or None, cells)
    made.__kwdefaults__ = more.get("kwdefaults") or None
    made.__dict__.update(more.get("attributes") or {})
    made.__module__ = names.get("__name__")  # type: ignore[assignment]
    for special, value in more["special"].items():
        setattr(made, special, value)
    return made


def _of_c(kind: type, name: str) -> Any:
    """The method that the classes of C have below those of Python."""
    found = (base.__dict__[name] for base in kind.__mro__ if name in base.__dict__)
    return next((m for m in found if not isinstance(m, types.FunctionType)), None)


class Builder:
    """Writes expressions that make values again."""

    def __init__(self, world: Any, out: Text, leaves: bool) -> None:
        self.world = world
        self.out = out
        #: whether the frame is left, so that no segment behind this one goes on with its iterators
        self.leaves = leaves
        self.names: dict[int, str] = {}
        self.outputs: dict[Any, str] = {}
        self.after: list[str] = []
        #: whether something was looked at only now, which the guards do not know yet
        self.late = False

    def impossible(self, value: Any, what: str) -> Earlier:
        """The segment must end before the value is made."""
        return Earlier(value.birth, Break("unsupported-value", what))

    def output(self, node: Any) -> str:
        """The name of an output of the graph."""
        name = self.outputs.get(node)
        if name is None:
            name = self.outputs[node] = f"o{len(self.outputs)}"
        return name

    def emit(self, value: Any) -> str:
        """An expression for a value; new objects get names, so that they stay one object."""
        if value is NULL or value is UNBOUND:
            return self.out.hold(value)
        if isinstance(value, Lazy):
            if value.value is None:
                return self.out.source(value.source)
            value = value.value
        if isinstance(value, Known):
            # a ragged size is that of the tensor of this very call
            ragged = (
                value.source is not None
                and getattr(type(value.obj), "is_nested_int", None) is not None
            )
            return self.out.source(value.source) if ragged else self.out.literal(value.obj)
        if isinstance(value, FunctionValue) and value.real is not None:
            base = value.source.base
            if value.source.kind == "held" or (base is not None and base.kind == "held"):
                return self.out.hold(value.real)
        if value.source is not None:
            return self.out.source(value.source)
        known = self.names.get(id(value))
        if known is None:
            known = _MAKERS[type(value)](self, value)
            self.names[id(value)] = known
        return known

    def name(self, value: object, text: str) -> str:
        """Bind an expression to a new name, before the parts of the value are written."""
        name = self.out.fresh("n")
        self.out.lines.append(f"{name} = {text}")
        self.names[id(value)] = name
        return name

    # makers ---------------------------------------------------------------------------------------
    def tensor(self, value: TensorValue) -> str:
        return self.output(value.node)

    def array(self, value: ArrayValue) -> str:
        if value.view_of is not None:
            function, owner, more = value.view_of
            given = "".join([f", {self.emit(part)}" for part in more])
            return self.name(value, f"{self.out.hold(function)}({self.emit(owner)}{given})")
        if value.content is not None and not isinstance(value.tensor, TensorValue):
            return self.name(value, f"{self.out.hold(value.content)}.copy()")
        made = self.out.hold(to_scalar if value.scalar else to_array)
        return self.name(value, f"{made}({self.emit(value.inner)})")

    def number(self, value: NumberValue) -> str:
        text = number_text(value, self.out)
        return text if text is not None else self.output(self.world.number_node(value))

    def sequence(self, value: SequenceValue) -> str:
        if value.mutable:
            return self._mutable_sequence(value)
        items = "".join([f"{self.emit(item)}, " for item in value.items])
        if value.kind is tuple:
            return self.name(value, f"({items})")
        if base_of_c(value.kind) is tuple and is_of_python(value.kind):
            hold = self.out.hold
            name = self.name(value, f"{hold(tuple.__new__)}({hold(value.kind)}, ({items}))")
            self._attributes(value, name)
            return name
        return self.name(value, f"{self.out.hold(value.kind)}(({items}))")

    def _mutable_sequence(self, value: SequenceValue) -> str:
        kind, hold, extend = "[]", self.out.hold, "{}.extend(({},))"
        if issubclass(value.kind, collections.deque):
            kind = f"{hold(value.kind)}((), {value.maxlen!r})"
        elif value.kind is not list:
            kind = f"{hold(list.__new__)}({hold(value.kind)})"
            extend = f"{hold(list.extend)}({{}}, ({{}},))"
        name = self.name(value, kind)
        if value.items:
            items = ", ".join([self.emit(item) for item in value.items])
            self.out.lines.append(extend.format(name, items))
        self._attributes(value, name)
        return name

    def _attributes(self, value: SequenceValue | DictValue, name: str) -> None:
        """What an instance of a class of containers has of its own."""
        if value.attributes is not None:
            for own, (_, item) in value.attributes.items.items():
                self.out.lines.append(f"{name}.__dict__[{own!r}] = {self.emit(item)}")

    def dictionary(self, value: DictValue) -> str:
        kind, hold = "{}", self.out.hold
        if value.kind is not dict:
            kind = f"{hold(base_of_c(value.kind).__new__)}({hold(value.kind)})"  # its own __init__ has run already
        name = self.name(value, kind)
        if value.factory is not None:
            put = hold(DEFAULT_FACTORY.__set__)
            self.out.lines.append(f"{put}({name}, {self.emit(value.factory)})")
        for key, item in value.items.values():
            self.out.lines.append(self._put_item(value, name, self.emit(key), self.emit(item)))
        self._attributes(value, name)
        return name

    def _put_item(self, value: DictValue, name: str, key: str, item: str) -> str:
        """The line that puts an item into a dictionary, whatever its class does in between."""
        if isinstance(getattr(value.kind, "__setitem__", None), types.FunctionType):
            return f"{self.out.hold(_of_c(value.kind, '__setitem__'))}({name}, {key}, {item})"
        return f"{name}[{key}] = {item}"

    def set_(self, value: SetValue) -> str:
        items = ", ".join([self.emit(item) for item in value.items.values()])
        return self.name(value, f"{self.out.hold(value.kind)}(({items}{',' if items else ''}))")

    def slice_(self, value: SliceValue) -> str:
        return f"slice({', '.join([self.emit(part) for part in value.parts])})"

    def cell(self, value: CellValue) -> str:
        name = self.name(value, f"{self.out.hold(make_cell)}()")
        self._fill(value)
        return name

    def _fill(self, value: CellValue) -> None:
        if value.content is not UNBOUND:
            content = self.emit(value.content)
            self.out.lines.append(f"{self.names[id(value)]}.cell_contents = {content}")

    def function(self, value: FunctionValue) -> str:
        empty = [c for c in value.cells if c.source is None and id(c) not in self.names]
        for cell in empty:
            self.name(cell, f"{self.out.hold(make_cell)}()")
        defaults = "".join([f"{self.emit(v)}, " for v in value.defaults])
        cells = "".join([f"{self.emit(c)}, " for c in value.cells])
        words = ", ".join([f"{n!r}: {self.emit(v)}" for n, v in value.kwdefaults.items()])
        own = self.emit(value.attributes) if value.attributes is not None else "None"
        special = ", ".join([f"{n!r}: {self.emit(v)}" for n, v in value.special.items()])
        hold = self.out.hold
        name = self.name(
            value,
            f"{hold(make_function)}({hold(value.code)}, {hold(value.globals)}, {value.name!r}, "
            f"({defaults}), ({cells}), {{'kwdefaults': {{{words}}}, 'attributes': {own}, "
            f"'special': {{{special}}}}})",
        )
        for cell in empty:  # filled now: a function may be in its own cell
            self._fill(cell)
        return name

    def method(self, value: MethodValue) -> str:
        owner = self.emit(value.owner)
        if isinstance(value.function, str):
            if "." in value.function:
                raise self.impossible(value, f"the method {value.function}")
            if isinstance(getattr(value.owner.cls, value.function, None), types.FunctionType):
                found = _of_c(value.owner.cls, value.function)  # not what its class has in place
                if found is not None:
                    return f"{self.out.hold(found.__get__)}({owner})"
            return f"getattr({owner}, {value.function!r})"
        return f"{self.out.hold(types.MethodType)}({self.emit(value.function)}, {owner})"

    def object_(self, value: ObjectValue) -> str:
        kind = self.out.hold(value.kind)
        if value.kind is weakref.ReferenceType and value.args is not None:
            return self.name(value, f"{kind}({self.emit(value.args.items[0])})")
        if issubclass(value.kind, BaseException):
            args = "".join([f", {self.emit(a)}" for a in value.args.items]) if value.args else ""
            name = self.name(value, f"{kind}.__new__({kind}{args})")
            self.out.lines.append(f"{name}.args = ({args[2:]}{',' if args else ''})")
        else:
            name = self.name(value, f"{self.out.hold(object.__new__)}({kind})")
        if value.attributes is not None:
            for key, (_, item) in value.attributes.items.items():
                self.out.lines.append(f"{name}.__dict__[{key!r}] = {self.emit(item)}")
        for descriptor, item in value.slots.values():
            hold = self.out.hold(descriptor.__set__)
            self.out.lines.append(f"{hold}({name}, {self.emit(item)})")
        return name

    def iterator(self, value: IteratorValue) -> str:
        lazy = id(value) in self.world.lazy_iterators
        if value.recipe is not None and self.leaves:
            function, args = value.recipe()
            given = ", ".join([self.emit(arg) for arg in args])
            return self.name(value, f"{self.out.hold(function)}({given})")
        if lazy:
            raise self.impossible(value, "an iterator whose values are computed")
        world = self.world
        before = (len(world.guards.guards), len(world.inputs), len(world.conditions))
        try:
            rest = list(value.pull)
        except Raised:
            raise self.impossible(value, "an iterator over what was changed") from None
        value.pull = iter(rest)
        self.late |= before != (len(world.guards.guards), len(world.inputs), len(world.conditions))
        items = ", ".join([self.emit(item) for item in rest])
        return self.name(value, f"{self.out.hold(ReplayIterator)}([{items}])")

    def generator(self, value: GeneratorValue) -> str:
        if value.started or value.recipe is None:
            raise self.impossible(value, "a generator")
        function, args, words = value.recipe
        given = [self.emit(arg) for arg in args]
        given += [f"{name}={self.emit(word)}" for name, word in words.items()]
        return self.name(value, f"{self.emit(function)}({', '.join(given)})")

    def of_subclass(self, value: SubclassValue) -> str:
        made = f"{self.out.hold(as_class)}({self.emit(value.inner)}, {self.out.hold(value.kind)})"
        return self.name(value, made)

    def of_wrapper(self, value: WrapperValue) -> str:
        form, parts = self.world.taken_apart(value)
        given = ", ".join([self.emit(part) for part in parts])
        akin = self.world.akin_to(value)
        behind = "" if akin is None else f"._akin({self.emit(akin)})"
        return self.name(value, f"{self.out.hold(form)}({given}){behind}")

    def of_node(self, value: NodeValue) -> str:
        raise self.impossible(value, "a function that a transform gave")

    def partial(self, value: PartialValue) -> str:
        args = "".join([f", {self.emit(a)}" for a in value.args])
        words = "".join([f", {n}={self.emit(v)}" for n, v in value.kwargs.items()])
        partial = self.out.hold(functools.partial)
        return self.name(value, f"{partial}({self.emit(value.function)}{args}{words})")

    def super_(self, value: SuperValue) -> str:
        return f"super({self.out.hold(value.after)}, {self.emit(value.owner)})"

    def view(self, value: ViewValue) -> str:
        return f"{self.emit(value.owner)}.{value.part}()"

    # effects --------------------------------------------------------------------------------------
    def effects(self) -> None:
        """Write the changes of objects from outside, to stand behind everything that is read."""
        done: set[int] = set()
        while len(done) < len(self.world.effects):
            for key, value in list(self.world.effects.items()):
                if key not in done:
                    done.add(key)
                    self.after.extend(self._effect(value))
        for function, args in self.world.said:
            shown = ", ".join([self.out.literal(arg) for arg in args])
            self.after.append(f"{self.out.hold(function)}({shown})")
        for owner, count in self.world.draws.values():
            self.after.append(f"{self.out.hold(move_on)}({self.emit(owner)}, {count})")
        for owner, name, value in self.world.attribute_writes.values():
            self.after.append(f"{self.emit(owner)}.{name} = {self.emit(value)}")

    def _effect(self, value: Any) -> list[str]:
        name = self.out.source(value.source)
        if isinstance(value, SequenceValue):
            items = "".join([f"{self.emit(item)}, " for item in value.items])
            if value.kind is collections.deque:
                return [f"{name}.clear()", f"{name}.extend(({items}))"]
            return [f"{name}[:] = ({items})"]
        if isinstance(value, DictValue):
            return self._dict_effect(value, name)
        if isinstance(value, SetValue):
            items = "".join([f"{self.emit(item)}, " for item in value.items.values()])
            return [f"{name}.clear()", f"{name}.update(({items}))"]
        if isinstance(value, CellValue):
            return [f"{name}.cell_contents = {self.emit(value.content)}"]
        if isinstance(value, IteratorValue):
            if isinstance(value.real, ReplayIterator):
                return [f"{name}.rest = {name}.rest[{value.consumed}:]"]
            return [f"{self.out.hold(advance)}({name}, {value.consumed})"]
        if isinstance(value, ObjectValue):
            return [
                f"{self.out.hold(descriptor.__set__)}({name}, {self.emit(item)})"
                for descriptor, item in value.slots.values()
            ]
        raise self.impossible(value, f"a change of a {value.cls.__name__}")

    def _dict_effect(self, value: DictValue, name: str) -> list[str]:
        lines = []
        drop = self.out.hold(_of_c(value.kind, "__delitem__"))
        for key in value.dropped:
            real = self.world.real_key(key)
            if real is not UNBOUND and real in value.real:
                lines.append(f"{drop}({name}, {self.out.literal(real)})")
        for key, (key_value, item) in value.items.items():
            if key in value.overwritten:
                lines.append(self._put_item(value, name, self.emit(key_value), self.emit(item)))
        return lines

    def modes(self) -> None:
        """The thread's modes as the segment leaves them."""
        if core.thread_keys() != self.world.start_keys:
            for function, args in self.world.mode_changes:
                shown = ", ".join([self.out.literal(arg) for arg in args])
                self.after.append(f"{self.out.hold(function)}({shown})")


_MAKERS: dict[type, Callable[[Builder, Any], str]] = {
    TensorValue: Builder.tensor,
    ArrayValue: Builder.array,
    NumberValue: Builder.number,
    SequenceValue: Builder.sequence,
    DictValue: Builder.dictionary,
    SetValue: Builder.set_,
    SliceValue: Builder.slice_,
    CellValue: Builder.cell,
    FunctionValue: Builder.function,
    MethodValue: Builder.method,
    ObjectValue: Builder.object_,
    IteratorValue: Builder.iterator,
    PartialValue: Builder.partial,
    SuperValue: Builder.super_,
    ViewValue: Builder.view,
    SubclassValue: Builder.of_subclass,
    WrapperValue: Builder.of_wrapper,
    NodeValue: Builder.of_node,
    GeneratorValue: Builder.generator,
}


class Ending(NamedTuple):
    """How a segment ends: `kind` is return, raise or suspend."""

    kind: str
    values: list[Any]
    point: Point | None


def _is_plain_tuple(value: Any) -> bool:
    return type(value) is SequenceValue and value.kind is tuple and not value.mutable


class SegmentCode:
    """The text of one segment."""

    def __init__(
        self, world: Any, slots: list[str], ending: Ending, again: Callable[..., Any]
    ) -> None:
        self.world, self.again = world, again
        self.slots = slots
        self.ending = ending
        self._write()
        if self.builder.late:
            self._write()  # what the first time has looked at is read before the graph now

    def _write(self) -> None:
        """Write guards and body."""
        world = self.world
        self.out = Text()
        self.steps = world.guards.steps(self.slots)
        for source, register in self.steps.registers.items():
            if source.kind not in ("slot", "held"):
                self.out.names[source] = f"v0_{register}"
        world.guards.write(self.out, world.start_autocast)
        self.facts: list[tuple[Any, bool]] = []
        self.compared: list[tuple[Any, str]] = []
        self.conditions: list[str] = []
        self._conditions()
        for value in world.inputs:
            if value.source is not None and value.source.kind != "slot":
                self.out.source(value.source)  # read before the graph is called
        self.guard_count = len(self.out.lines)
        self.builder = Builder(world, self.out, self.ending.kind == "return")
        self._body(self.ending)

    def _conditions(self) -> None:
        for number, outcome in self.world.conditions:
            self.conditions.append(f"{number_label(number)} is {outcome}")
            text = number_text(number, self.out)
            if text is None:
                self.facts.append((number, outcome))
                self._beside(number)
            else:
                sign = "not " if outcome else ""
                self.out.lines.append(f"if {sign}({text}): return MISS")
        for left, right in self.world.array_conditions():
            self.conditions.append(f"{left.label()} and {right.label()} have no memory in common")
            pair = f"{self.out.source(left)}, {self.out.source(right)}"
            self.out.lines.append(f"if {self.out.hold(core.overlapping)}({pair}): return MISS")

    def _beside(self, number: NumberValue) -> None:
        """Read what an assumption about inner sizes compares with and the graph may not have."""
        for value in compared_from_outside(number):
            if all(value is not known for known, _ in self.compared):
                tensor = isinstance(value, TensorValue)
                source = value.source.attr("shape") if tensor else value.source
                self.compared.append((value, self.out.source(source)))

    def _body(self, ending: Ending) -> None:
        builder = self.builder
        self.assumed = [(builder.emit(value), outcome) for value, outcome in self.world.assumed]
        results = [builder.emit(value) for value in ending.values]
        builder.effects()
        builder.modes()
        if ending.kind == "return":
            builder.after.append(f"return {results[0]}")
        elif ending.kind == "raise":
            builder.after.append(f"raise {results[0]}")
        else:
            point, made = self.out.hold(ending.point), self.out.hold(Suspended)
            builder.after.append(f"return {made}({point}, [{', '.join(results)}])")

    def text(self) -> str:
        """The whole function."""
        out, world = self.out, self.world
        head = out.lines[: self.guard_count]
        body = out.lines[self.guard_count :]
        call: list[str] = []
        grouped: list[int] = []
        needs_graph = bool(self.builder.outputs) or world.operator_count
        if needs_graph:
            given, grouped = self._inputs(body)
            if self.facts:
                read = ", ".join(filter(None, [given, *(text for _, text in self._outside())]))
                head.append(f"if not {out.hold(self.check_facts)}({read}): return MISS")
            call.append(f"o = GRAPH({given})")
            call += [f"{name} = o[{n}]" for n, name in enumerate(self.builder.outputs.values())]
            if self.assumed or self.world.repeats_in_python():
                call = self._with_assumptions(call)
        lines: list[str] = []
        if head:
            lines += ["    try:", *(f"        {line}" for line in head)]
            lines += ["    except LOOKUP: return MISS"]
        lines += [f"    {line}" for line in (*call, *body, *self.builder.after)]
        checks = [f"    {line}" for line in self._checks(lines, grouped)]
        signature = f"def entry(F{''.join(', ' + s for s in self.slots)}):\n"
        return signature + "\n".join([*checks, *lines]) + "\n"

    def _with_assumptions(self, call: list[str]) -> list[str]:
        """The call of the graph, and what happens where a tensor's truth is not as assumed, or where
        the graph fails."""
        state = self.out.hold(core.default_generator.clone_state)
        again = f"{self.out.hold(self.again)}(n_0, %s, F, [{', '.join(self.slots)}])"
        held = " and ".join(name if outcome else f"not {name}" for name, outcome in self.assumed)
        return [
            f"n_0 = {state}()",
            "try:",
            *(f"    {line}" for line in call),
            f"    n_1 = {held or 'True'}",
            f"except Exception as n_2: return {again % 'n_2'}",
            f"if not n_1: return {again % 'None'}",
        ]

    def _checks(self, lines: list[str], grouped: list[int]) -> list[str]:
        """The call that checks all guards, and the names of what it read that the text needs."""
        used = sorted({int(n) for line in lines for n in _READ.findall(line)})
        watch = self.world.watched.program()
        program = self.steps.program(self.world.start_state, used, grouped, watch)
        check = self.out.hold(program.run, "CHECK")
        names = "".join(f"v0_{n}, " for n in used)
        found = [f"n0 = {check}({', '.join(('F', *self.slots))})", "if n0 is None: return MISS"]
        return [*found, f"{names}n0, = n0"] if used or grouped else found

    def _inputs(self, body: list[str]) -> tuple[str, list[int]]:
        """The graph's arguments as text; many that guards have read come as one group."""
        sources = [value.source for value in self.world.inputs]
        registers = [self.steps.registers.get(source) for source in sources]
        if len(sources) > 8 and None not in registers:
            return "*n0", [n for n in registers if n is not None]
        inputs = [self.out.step(s) if s.kind == "slot" else None for s in sources]
        names = [n or self._input(v, body) for n, v in zip(inputs, self.world.inputs, strict=True)]
        return ", ".join(names), []

    def _input(self, value: Any, body: list[str]) -> str:
        name = self.out.names.get(value.source)
        return name if name is not None else self.out.source(value.source)

    def direct(self, graph: Any) -> Any:
        """The same as the text in one call of the core, where all that a segment does is to call
        its graph and to give results of it; else None."""
        if graph is None or self.guard_count or self.facts or self.assumed:
            return None
        if self.world.repeats_in_python():
            return None
        if self.ending.kind != "return":
            return None
        (result,) = self.ending.values
        items = result.items if _is_plain_tuple(result) else [result]
        names = list(self.builder.outputs)
        if not items or not all(type(item) is TensorValue for item in items):
            return None
        registers = [self.steps.registers.get(value.source) for value in self.world.inputs]
        made = 1 if _is_plain_tuple(result) else 0  # the line that makes the tuple
        if None in registers or any(item.source is not None for item in items):
            return None
        if len(self.builder.after) != 1 or len(self.out.lines) != made:
            return None
        places = tuple(names.index(item.node) for item in items)
        watch = self.world.watched.program()
        program = self.steps.program(self.world.start_state, [], registers, watch)
        make: Any = core.SegmentCall
        return make(program, graph, MISS, places if made else places[0])

    def check_facts(self, *values: object) -> bool:
        """Whether what was assumed about inner sizes holds for these inputs."""
        if self._facts is None:
            outside = [value for value, _ in self._outside()]
            self._facts = Facts(self.world, self.facts, outside)
        return self._facts.hold(*values)

    def _outside(self) -> list[tuple[Any, str]]:
        """What is compared and is no input of the graph, and its text."""
        inputs = self.world.inputs
        return [pair for pair in self.compared if all(pair[0] is not value for value in inputs)]

    _facts: Facts | None = None

    def output_nodes(self) -> list[Any]:
        """The nodes that the graph has to give."""
        return list(self.builder.outputs)

    def namespace(self) -> dict[str, Any]:
        """What the text refers to."""
        lookup = (KeyError, AttributeError, IndexError, TypeError)
        return {**self.out.held, "MISS": MISS, "LOOKUP": lookup}
