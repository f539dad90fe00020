"""Numbers that a captured program reads from elements, and sizes that depend on elements.

Takes: `item()` and its kin, and operators like `nonzero`, where `config.capture_scalar_outputs` and
`config.capture_dynamic_output_shape_ops` allow them. Gives: numbers that may change with every call.
Keeps true: no decision depends on such a number, unless checks in front of it decide it: then they are
checked behind the graph; what stands for the number (`hint`) is one that the checks allow.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from facula import core
from facula.capture import config
from facula.capture.breaks import Break
from facula.capture.interpreter.domain import Part
from facula.capture.values.kinds import Known, NumberValue, SequenceValue, TensorValue
from facula.capture.values.sizes import number_label
from facula.fx.symbols import Expr, floordiv, maximum, minimum, mod, negated, number
from facula.fx.unbacked import HOLDS, Unbacked
from facula.ops.table.registry import TABLE

#: what stands for a whole number, and for a number of elements
FIRST = 4
_RELATIONS: dict[Any, str] = {function: relation for relation, function in HOLDS.items()}
_RULES: dict[Any, Callable[..., Expr]] = {
    operator.add: lambda a, b: a + b, operator.sub: lambda a, b: a - b,
    operator.mul: lambda a, b: a * b, operator.floordiv: floordiv, operator.mod: mod,
    operator.neg: lambda a: -a, max: maximum, min: minimum,
}  # fmt: skip


class Reads(Part):
    """The part of `Symbolic` that reads numbers from elements."""

    known: Unbacked
    reads: list[NumberValue]
    shadow: Any
    beside: Any

    def read(self, tensor: TensorValue, name: str) -> Any:
        """The number in a tensor of one element.

        Raises:
            Break: reading is not allowed here.
        """
        fake = tensor.fake
        if not self.may_read(tensor):
            raise Break("data-dependent-value", f"Tensor.{name}()")
        known = getattr(fake, "constant", None)
        if known is not None:
            return Known(known.item())
        for found in self.reads:
            if found.tensor is tensor and found.node.meta["version"] == fake._version:
                return found
        kind = bool if fake.dtype is core.bool_ else float if fake.is_floating_point() else int
        found = self.made(NumberValue(kind(FIRST + len(self.reads))))
        found.tensor = tensor
        found.node = self._new_node("call_method", "item", (self.node_of(tensor),), {}, found.hint)
        found.node.meta["read"], found.node.meta["version"] = True, fake._version
        if kind is float:
            self.float_tensors[found] = self._float_of(tensor)
        self.reads.append(found)
        self.any_dynamic = True
        return found

    def _float_of(self, tensor: TensorValue) -> Any:
        """A float that was read, as a tensor of its own without dimensions and history."""
        double, copied = Known(core.float64), {"copy": Known(True)}
        found = self.graph_method(
            "to", self.graph_method("detach", tensor, [], {}), [double], copied
        )
        return self.graph_method("squeeze", found, [], {}) if tensor.fake.dim() else found

    def may_read(self, tensor: TensorValue) -> bool:
        """Whether the number in a tensor can be part of the graph."""
        allowed = config.capture_scalar_outputs or self.whole
        fake = tensor.fake
        return allowed and not self.enclosing and fake.numel() == 1 and not fake.dtype.is_complex

    def read_all(self, tensor: TensorValue) -> Any:
        """`tensor.tolist()`."""
        if not (config.capture_scalar_outputs or self.whole):
            raise Break("data-dependent-value", "Tensor.tolist()")
        if tensor.fake.dim() == 0:
            return self.read(tensor, "tolist")
        parts = self.unpack_all(self.graph_method("unbind", tensor, [Known(0)], {}))
        return self.build_list([self.read_all(part) for part in parts])

    def at_places_read(self, key: Any, call: Callable[[], Any]) -> Any:
        """An item at places that may have been read: what stands for them has to exist."""
        parts = [self.force(k) for k in (key.items if isinstance(key, SequenceValue) else [key])]
        places = [part for part in parts if self.reads_in(part)]
        chosen = [r for r in self.reads if any(_holds(place, r) for place in places)]
        for hint in (2, 1, 0) if chosen else ():
            try:
                return call()
            except Break as reason:
                if reason.code != "fake-error":
                    raise
            for found in chosen:
                found.hint = found.node.meta["val"] = hint
            for place in places:
                self.renewed(place)
            self.shadow = self.beside = None
        return call()

    # what is known ----------------------------------------------------------------------------------
    def reads_in(self, value: Any) -> bool:
        """Whether a number depends on one that was read, or on a size that depends on elements."""
        if not isinstance(value, NumberValue) or not self.has_reads:
            return False
        if value.tensor is not None:
            return True
        if value.source is not None:
            return False
        if value.function is not None:
            return any(self.reads_in(arg) for arg in value.args)
        tensor, dim = value.args
        return tensor.source is None and self._size_is_read(tensor, dim)

    @property
    def has_reads(self) -> bool:
        """Whether anything of the graph was read from elements."""
        return bool(self.reads) or self.fakes.counted

    def _size_is_read(self, tensor: TensorValue, dim: int) -> bool:
        """Whether an inner size is another one when only numbers that were read change."""
        key = (id(tensor), dim)
        if key not in self.sizes_read:
            other = self.moved().value(tensor.node)
            self.sizes_read[key] = int(other.shape[dim]) != int(tensor.fake.shape[dim])
        return self.sizes_read[key]

    def expression(self, value: object) -> Expr | None:
        """A whole number over symbols: of what was read, of sizes, of arguments."""
        if isinstance(value, Known):
            return number(value.obj) if type(value.obj) is int else None
        if not isinstance(value, NumberValue) or type(value.hint) is not int:
            return None
        rule = _RULES.get(value.function)
        if rule is not None:
            parts = [self.expression(arg) for arg in value.args]
            return None if None in parts else rule(*parts)
        key = value if value.args == () else (id(value.args[0]), *value.args[1:])
        found = self.symbols.get(key)
        if found is None:
            low = -(2**63) if value.tensor is not None or value.source is not None else 0
            found = self.symbols[key] = self.known.new(low)
        return found

    def condition(self, value: NumberValue) -> Any:
        """A condition over symbols; None for another number."""
        if value.function in (operator.and_, operator.or_):
            both = [v.obj if isinstance(v, Known) else self.condition(v) for v in value.args]
            word = "and" if value.function is operator.and_ else "or"
            return None if None in both or True in both or False in both else (word, *both)
        relation = _RELATIONS.get(value.function)
        parts = [self.expression(arg) for arg in value.args] if relation else []
        return None if not parts or None in parts else (parts[0], relation, parts[1])

    def known_truth(self, value: NumberValue) -> bool | None:
        """The truth of a number that depends on what was read, where checks decide it."""
        condition = self.condition(value)
        return None if condition is None else self.known.truth(condition)

    def learn(self, value: NumberValue, outcome: bool) -> None:
        """Take from now on that a number is true, or is not: the segment checks it."""
        condition = self.condition(value)
        if condition is not None:
            self.known.learn(condition if outcome else negated(condition))
        if self.may_assume:
            self.assumed.append((value, outcome))
        else:  # the segment writes to its inputs, so that it can not run again
            self._check_in_graph(value, outcome)
        if bool(self.renewed(value)) == outcome:
            return
        wanted = {c + d for c in (*_constants(value), FIRST) for d in (0, -1, 1, 2)}
        for found in [r for r in self.reads if type(r.hint) is int and _holds(value, r)]:
            before = found.hint
            for found.hint in sorted(wanted, key=lambda n: (n < 2, n)):
                if bool(self.renewed(value)) == outcome:
                    found.node.meta["val"] = found.hint
                    self.shadow = self.beside = None
                    return
            found.hint = before
            self.renewed(value)

    def _check_in_graph(self, value: NumberValue, outcome: bool) -> None:
        node = self.number_node(value)
        if not outcome:
            node = self._new_node("call_function", operator.not_, (node,), {}, True)
        said = f"Runtime assertion failed for expression {number_label(value)} on node '{node}'"
        made = self._new_node("call_function", TABLE["_assert_scalar"], (node, said), {}, None)
        made.meta["read"] = made.meta["check"] = True

    def renewed(self, value: Any) -> Any:
        """The hint of a number, for what stands for the numbers that were read now."""
        if isinstance(value, Known):
            return value.obj
        if value.function is not None and self.reads_in(value):
            value.hint = value.function(*[self.renewed(arg) for arg in value.args])
        return value.hint

    def moved(self) -> Any:
        """The graph so far, for other numbers that are read, and sizes as they are."""
        if self.beside is None:
            self.beside = self.replay(2)
        for value in self.inputs:
            if value.node not in self.beside.values:
                stand_in = value.hint if isinstance(value, NumberValue) else value.fake
                self.beside.values[value.node] = stand_in
        return self.beside


def _holds(value: object, read: NumberValue) -> bool:
    return value is read or any(_holds(v, read) for v in getattr(value, "args", ()))


def _constants(value: Any) -> list[int]:
    if isinstance(value, Known):
        return [value.obj] if type(value.obj) is int else []
    own = [value.hint] if type(value.hint) is int else []
    parts = value.args if isinstance(value, NumberValue) and value.function is not None else ()
    return own + [c for part in parts for c in _constants(part)]
