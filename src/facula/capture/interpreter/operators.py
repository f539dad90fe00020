"""Operators of Python on symbolic values: arithmetic, comparison, truth, formatting, identity.

Takes: operands. Gives: results; tensors become nodes, known operands are computed, everything else
follows Python's protocol of special methods.
Keeps true: the truth of a tensor is a break; the truth of a size is a guard.
"""

from __future__ import annotations

import collections
import copy
import enum
import operator
import types
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from facula import core
from facula.capture.breaks import Break
from facula.capture.guards.reading import is_annotation, is_array_class
from facula.capture.interpreter.concrete import BINARY, COMPARE, UNARY
from facula.capture.interpreter.domain import Part
from facula.capture.values.kinds import (
    ArrayValue,
    DictValue,
    FunctionValue,
    Known,
    MethodValue,
    NumberValue,
    ObjectValue,
    PartialValue,
    SequenceValue,
    SetValue,
    SliceValue,
    TensorValue,
    ViewValue,
    follows_float,
)
from facula.capture.values.subclasses import overrides

if TYPE_CHECKING:
    from facula.capture.values.kinds import Value


_NAMES = {
    "+": "add", "-": "sub", "*": "mul", "/": "truediv", "//": "floordiv", "%": "mod", "**": "pow",
    "@": "matmul", "&": "and", "|": "or", "^": "xor", "<<": "lshift", ">>": "rshift",
}  # fmt: skip
_COMPARED = {
    "<": ("__lt__", "__gt__"), "<=": ("__le__", "__ge__"), "==": ("__eq__", "__eq__"),
    "!=": ("__ne__", "__ne__"), ">": ("__gt__", "__lt__"), ">=": ("__ge__", "__le__"),
}  # fmt: skip
_UNARY_NAMES = {"+": "__pos__", "-": "__neg__", "~": "__invert__"}
_NUMBERS = (int, float, complex, bool)


class Operators(Part):
    """The part of `Symbolic` that knows operators."""

    def constant_or_none(self, value: object) -> tuple[Any] | None:
        """The real object that a value is, in a tuple; None where it is not known."""
        value = self.force(value)
        if isinstance(value, Known):
            return (value.obj,)
        if isinstance(value, SequenceValue):
            if value.real is not None and hasattr(value.kind, "n_sequence_fields"):
                return (value.real,)  # of a class that nobody may make instances of
            items = [self.constant_or_none(item) for item in value.items]
            if any(item is None for item in items):
                return None
            plain = [item[0] for item in items]  # type: ignore[index]
            kind = value.kind
            return (kind(*plain) if hasattr(kind, "_fields") else kind(plain),)
        if isinstance(value, SetValue):
            items = [self.constant_or_none(item) for item in value.items.values()]
            there = [item[0] for item in items if item is not None]
            return (value.kind(there),) if len(there) == len(items) else None
        if isinstance(value, DictValue) and value.kind in (dict,):
            self.complete(value)
            pairs = [
                (self.constant_or_none(k), self.constant_or_none(v))
                for k, v in value.items.values()
            ]
            if any(k is None or v is None for k, v in pairs):
                return None
            return ({k[0]: v[0] for k, v in pairs},)  # type: ignore[index]
        if isinstance(value, NumberValue):
            return (self.specialise(value).obj,)
        if isinstance(value, SliceValue):
            parts = [self.constant_or_none(part) for part in value.parts]
            there = [part[0] for part in parts if part is not None]
            return (slice(*there),) if len(there) == len(parts) else None
        if isinstance(value, FunctionValue) or (
            isinstance(value, ObjectValue) and _is_frozen(value.kind)
        ):
            if value.real is not None:
                self.keep_identity(value, value.real)
                return (value.real,)
        return None

    def constant_of(self, value: Any) -> Any:
        """The real object that a value is."""
        found = self.constant_or_none(value)
        if found is None:
            value = self.force(value)
            if isinstance(value, (TensorValue, ArrayValue)):
                raise Break("data-dependent-value", "a number was required here")
            raise Break("unsupported-value", f"a known {value.cls.__name__} was required here")
        return found[0]

    def fold(
        self, function: Callable, args: list[Any], kwargs: dict[str, Any] | None = None
    ) -> Any:
        """A function of known arguments, computed; its exceptions are the program's."""
        plain = [self.constant_of(arg) for arg in args]
        words = {name: self.constant_of(arg) for name, arg in (kwargs or {}).items()}
        before = [(arg, copy.copy(arg)) for arg in plain if isinstance(arg, _MUTABLE)]
        try:
            result = function(*plain, **words)
        except Break:
            raise
        except Exception as error:  # noqa: BLE001 - it is the program's exception
            self.raise_host(error)
        if any(
            arg != copied for arg, copied in before
        ):  # what was written to is no object of the program
            name = getattr(function, "__name__", repr(function))
            raise Break("unsupported-call", f"{name}, which writes to its arguments")
        return self.lift(result)

    def lift(self, result: Any) -> Any:
        """The symbolic value of a result that was computed."""
        if type(result) in (list, tuple) or hasattr(type(result), "_fields"):
            return self.made(SequenceValue(type(result), [self.lift(item) for item in result]))
        if type(result) is dict:
            return self.build_dict(
                [self.lift(k) for k in result], [self.lift(v) for v in result.values()]
            )
        if type(result) in (set, frozenset):
            return self.build_set([self.lift(item) for item in result], type(result))
        if is_array_class(type(result)):
            return self.known_array(result)
        return self.trusted(result)

    # arithmetic -----------------------------------------------------------------------------------
    def binary(self, symbol: str, left: object, right: object) -> Any:
        left, right = self.force(left), self.force(right)
        if isinstance(left, TensorValue) or isinstance(right, TensorValue):
            return self._tensor_binary(symbol, left, right)
        if isinstance(left, ArrayValue) or isinstance(right, ArrayValue):
            return self.array_binary(symbol, left, right)
        plain = symbol.rstrip("=") if symbol not in ("==", "<=", ">=", "!=") else symbol
        if isinstance(left, NumberValue) or isinstance(right, NumberValue):
            if _is_number(left) and _is_number(right):
                return self._number_binary(BINARY[plain], left, right)
        if isinstance(left, Known) and isinstance(right, Known):
            return self.fold(BINARY[plain], [left, right])
        if isinstance(left, SequenceValue) and not self._has_own(left, plain):
            made = self._sequence_binary(symbol, plain, left, right)
            if made is not None:
                return made
        if isinstance(right, SequenceValue) and plain == "*":
            return self.binary("*", right, left)
        if isinstance(left, (SetValue, DictValue, ViewValue)) and not self._has_own(left, plain):
            return self._set_binary(symbol, plain, left, right)
        if isinstance(left, Known) and isinstance(left.obj, str) and plain == "%":
            return self.fold(operator.mod, [left, right])
        return self._protocol_binary(symbol, plain, left, right)

    def plain_number(self, value: Any) -> Any:
        """A member of an enumeration that is a number, as that number."""
        real = getattr(value, "real", None)
        if isinstance(value, ObjectValue) and isinstance(real, enum.Enum):
            if isinstance(real, (int, float)):
                self.guards.add("is", value.source, real)
                return Known(real.value)
        return value

    def _tensor_binary(self, symbol: str, left: Any, right: Any) -> Any:
        left, right = self.plain_number(left), self.plain_number(right)
        for one, other, prefix in ((left, right, "__"), (right, left, "__r")):
            if isinstance(one, ObjectValue) and not isinstance(other, ObjectValue):
                if one is right and overrides(one.kind):
                    continue  # the tensor's own method asks the class first
                name = f"{prefix}{_NAMES[symbol.rstrip('=')]}__"
                if self.type_lookup(one.kind, name) is not None:
                    return self.call_special(one, name, [other])
        if symbol.endswith("=") and not isinstance(left, TensorValue):
            symbol = symbol[:-1]
        if symbol.rstrip("=") in ("+", "-", "*", "/"):
            left, right = self._float_operand(left, right), self._float_operand(right, left)
        return self.graph_call(symbol, [left, right])

    def _float_operand(self, value: Value, other: object) -> Any:
        """A float that may change as a tensor, where that gives what the number gives."""
        if not follows_float(value) or not isinstance(other, TensorValue):
            return value
        fake = other.fake
        if fake.dtype not in (core.float32, core.float64) or fake.device.type != "cpu":
            return value
        if self.enclosing or core.DISPATCH_MODES or core.interpreters():
            return value
        tensor = self.float_as_tensor(value)
        if fake.dim() == 0 and isinstance(tensor, TensorValue):
            # a number takes the tensor's dtype, a tensor of its rank would not
            tensor = self.graph_method("to", tensor, [Known(fake.dtype)], {})
        return tensor

    def float_operands(self, name: str, owner: TensorValue, args: list[Any]) -> list[Any]:
        """The arguments of `x.mul(f)` and the like, as those of `x * f`."""
        if len(args) == 1 and name.removesuffix("_") in ("add", "sub", "mul", "div"):
            return [self._float_operand(self.force(args[0]), owner)]
        return args

    def _number_binary(self, function: Callable, left: object, right: object) -> Any:
        if follows_float(left) or follows_float(right):
            return self._float_binary(function, left, right)
        return self._changing_binary(function, left, right)

    def _float_binary(self, function: Callable, left: object, right: object) -> Any:
        """With a float that may change: what can not fail for other values stays open."""
        known = isinstance(right, Known) and right.obj != 0
        total = function in _TOTAL or (function is operator.truediv and known)
        parts = [
            value
            if isinstance(value, Known) or (total and follows_float(value))
            else self.specialise(value)
            for value in (left, right)
        ]
        if all(isinstance(part, Known) for part in parts):
            return self.fold(function, parts)
        return self._changing_binary(function, *parts)

    def _changing_binary(self, function: Callable, left: Any, right: Any) -> Any:
        a = left.hint if isinstance(left, NumberValue) else left.obj
        b = right.hint if isinstance(right, NumberValue) else right.obj
        self._assume_defined(function, left, right)
        try:
            hint = function(a, b)
        except (ZeroDivisionError, TypeError, ValueError) as error:
            self.raise_host(error)
        return self.made(NumberValue(hint, function, (left, right)))

    def _assume_defined(self, function: Callable, left: Any, right: Any) -> None:
        """Guard what decides whether there is a result, and of which type, where it may change."""
        if not isinstance(right, NumberValue) or right.function is None or self.reads_in(right):
            return  # sizes and arguments that change are at least 2
        zero = Known(0)
        if function in _DIVISIONS:
            self.assume(self.made(NumberValue(right.hint != 0, operator.ne, (right, zero))))
        elif function in _NOT_NEGATIVE:
            natural = self.made(NumberValue(right.hint >= 0, operator.ge, (right, zero)))
            if not self.assume(natural) and isinstance(left, NumberValue):
                self.specialise(left)

    def _sequence_binary(self, symbol: str, plain: str, left: SequenceValue, right: Any) -> Any:
        if plain == "+":
            if symbol == "+=" and left.mutable:
                left.items.extend(self.unpack_all(right))
                self.change(left)
                return left
            if isinstance(right, SequenceValue) and issubclass(
                right.kind, list if issubclass(left.kind, list) else tuple
            ):
                kind = core.Size if left.kind is core.Size else left.basic
                return self.made(SequenceValue(kind, left.items + right.items))
        if plain == "*" and (isinstance(right, NumberValue) or isinstance(right, Known)):
            count = self.constant_of(right)
            if not isinstance(count, int):
                found = type(count).__name__
                self.fail(TypeError, f"can't multiply sequence by non-int of type '{found}'")
            items = left.items * count
            if symbol == "*=" and left.mutable:
                left.items[:] = items
                self.change(left)
                return left
            kind = core.Size if left.kind is core.Size else left.basic
            return self.made(SequenceValue(kind, items))
        return None

    def _set_binary(self, symbol: str, plain: str, left: object, right: object) -> Any:
        if isinstance(left, DictValue):
            if plain != "|":
                self.fail(TypeError, f"unsupported operand type(s) for {symbol}")
            target = left if symbol == "|=" else self.dict_method(left, "copy", [], {})
            self.dict_update(target, right)
            return target
        names = {"|": "union", "&": "intersection", "-": "difference", "^": "symmetric_difference"}
        if isinstance(left, ViewValue):
            left = self.build_set(self.unpack_all(left))
        if symbol.endswith("="):
            name = names[plain] + "_update" if plain != "|" else "update"
            self.set_method(left, name, [right])
            return left
        return self.set_method(left, names[plain], [right])

    def _has_own(self, value: object, symbol: str) -> bool:
        """Whether a class of containers has an operator of its own."""
        name = f"__{_NAMES[symbol]}__"
        containers = (DictValue, SequenceValue)
        return isinstance(value, containers) and self.own_method(value, name) is not None

    def _protocol_binary(self, symbol: str, plain: str, left: Any, right: Any) -> Any:
        name = _NAMES[plain]
        attempts = [(left, f"__{name}__", right), (right, f"__r{name}__", left)]
        if symbol.endswith("="):
            attempts.insert(0, (left, f"__i{name}__", right))
        elif right.cls is not left.cls and issubclass(right.cls, left.cls):
            attempts.reverse()
        for owner, method, other in attempts:
            if isinstance(owner, SequenceValue) and self.own_method(owner, method) is None:
                continue
            kinds = (ObjectValue, DictValue, SequenceValue)
            if isinstance(owner, kinds) and self.type_lookup(owner.kind, method):
                result = self.call_special(owner, method, [other])
                if not (isinstance(result, Known) and result.obj is NotImplemented):
                    return result
        if all(isinstance(v, (Known, SequenceValue, NumberValue)) for v in (left, right)):
            return self.fold(BINARY[plain], [left, right])
        self.fail(
            TypeError,
            f"unsupported operand type(s) for {symbol}: '{left.cls.__name__}' and "
            f"'{right.cls.__name__}'",
        )

    def unary(self, symbol: str, value: object) -> Any:
        value = self.force(value)
        if isinstance(value, TensorValue):
            return self.graph_call(UNARY[symbol], [value])
        if isinstance(value, ArrayValue):
            return self.array_unary(symbol, value)
        if follows_float(value) and symbol != "-":
            value = self.specialise(value)
        if isinstance(value, NumberValue):
            return self.made(NumberValue(UNARY[symbol](value.hint), UNARY[symbol], (value,)))
        if isinstance(value, ObjectValue):
            return self.call_special(value, _UNARY_NAMES[symbol], [])
        return self.fold(UNARY[symbol], [value])

    # comparison -----------------------------------------------------------------------------------
    def compare(self, symbol: str, left: Any, right: Any) -> Any:
        left, right = self.force(left), self.force(right)
        if isinstance(left, TensorValue) or isinstance(right, TensorValue):
            other = right if isinstance(left, TensorValue) else left
            if symbol in ("==", "!=") and not _is_operand(other):
                return Known(symbol == "!=")
            return self.graph_call(COMPARE[symbol], [left, right])
        if isinstance(left, ArrayValue) or isinstance(right, ArrayValue):
            return self.array_binary(symbol, left, right)
        if isinstance(left, NumberValue) or isinstance(right, NumberValue):
            if _is_number(left) and _is_number(right):
                return self._number_binary(COMPARE[symbol], left, right)
        if isinstance(left, Known) and isinstance(right, Known):
            return self.fold(COMPARE[symbol], [left, right])
        if isinstance(left, SequenceValue) and isinstance(right, SequenceValue):
            return self._compare_sequences(symbol, left, right)
        if any(isinstance(value, (ObjectValue, DictValue)) for value in (left, right)):
            found = self._compare_objects(symbol, left, right)
            if found is not None:
                return found
        if symbol in ("==", "!=") and isinstance(left, FunctionValue):
            return Known(self.is_same(left, right) == (symbol == "=="))
        a, b = self.constant_or_none(left), self.constant_or_none(right)
        if a is not None and b is not None:
            return self.fold(COMPARE[symbol], [left, right])
        if isinstance(left, DictValue) and isinstance(right, DictValue) and symbol in ("==", "!="):
            return Known(self.equal_dicts(left, right) == (symbol == "=="))
        if isinstance(left, (SetValue, ViewValue)) and isinstance(right, (SetValue, ViewValue)):
            keys = [set(self.build_set(self.unpack_all(v)).items) for v in (left, right)]
            return Known(COMPARE[symbol](*keys))
        if symbol in ("==", "!="):
            methods = isinstance(left, MethodValue) and isinstance(right, MethodValue)
            same = self.is_same_method if methods else self.is_same
            return Known(same(left, right) == (symbol == "=="))
        self.fail(
            TypeError,
            f"'{symbol}' not supported between instances of '{left.cls.__name__}' and "
            f"'{right.cls.__name__}'",
        )

    def _compare_sequences(self, symbol: str, left: SequenceValue, right: SequenceValue) -> Any:
        if issubclass(left.kind, tuple) != issubclass(right.kind, tuple):
            return Known(symbol == "!=")
        for a, b in zip(left.items, right.items, strict=False):
            if self.is_same(a, b) or self.truth(self.compare("==", a, b)):
                continue
            return Known(symbol == "!=") if symbol in ("==", "!=") else self.compare(symbol, a, b)
        return Known(COMPARE[symbol](len(left.items), len(right.items)))

    def equal_dicts(self, left: DictValue, right: DictValue) -> bool:
        self.complete(left)
        self.complete(right)
        if set(left.items) != set(right.items):
            return False
        return all(
            self.is_same(item, right.items[key][1])
            or self.truth(self.compare("==", item, right.items[key][1]))
            for key, (_, item) in left.items.items()
        )

    def _compare_objects(self, symbol: str, left: object, right: object) -> Any:
        names = _COMPARED[symbol]
        for owner, name, other in ((left, names[0], right), (right, names[1], left)):
            if not isinstance(owner, (ObjectValue, DictValue)):
                continue
            found = self.type_lookup(owner.kind, name)
            if isinstance(found, types.FunctionType):
                result = self.call(self.trusted(found), [owner, other], {})
                if not (isinstance(result, Known) and result.obj is NotImplemented):
                    return result
            elif symbol == "!=" and isinstance(
                self.type_lookup(owner.kind, "__eq__"), types.FunctionType
            ):
                return self.logical_not(self.compare("==", left, right))
        return None

    def is_none(self, value: object) -> bool:
        value = self.force(value)
        return isinstance(value, Known) and value.obj is None

    # truth ----------------------------------------------------------------------------------------
    def branch(self, value: Any, frame: Any, jump: Any) -> bool:
        """The truth that decides about a jump.

        Of a tensor, or a number that was read from one, it is assumed, where one way does nothing but
        to raise: the segment checks it when its graph has run, and runs in Python where it was wrong.
        """
        value = self.force(value)
        if isinstance(value, ArrayValue) and value.content is None and value.scalar:
            value = value.inner
        read = self.reads_in(value) and self.known_truth(value) is None
        assumes = isinstance(value, TensorValue) and self.may_assume
        if not (assumes or read) or self.enclosing:
            return self.truth(value)
        raises = frame.program.only_raises
        jumping, following = raises(jump.target), raises(frame.index)
        if jumping == following:
            return self.truth(value)
        outcome = following == (jump.name == "POP_JUMP_IF_TRUE")
        if read:
            self.learn(value, outcome)
        else:
            self.assumed.append((value, outcome))
        return outcome

    def truth(self, value: object) -> bool:
        value = self.force(value)
        if isinstance(value, Known):
            return bool(value.obj)
        if isinstance(value, TensorValue):
            raise Break("data-dependent-branch", "the truth of a tensor")
        if isinstance(value, ArrayValue):
            if value.content is not None and value.content.size == 1:
                return bool(value.content)
            raise Break("data-dependent-branch", "the truth of an array")
        if isinstance(value, NumberValue):
            return self.assume(value)
        if isinstance(value, DictValue) and self.own_method(value, "__bool__"):
            return self.truth(self.call_special(value, "__bool__", []))
        if isinstance(value, (SequenceValue, DictValue, SetValue, ViewValue)):
            return bool(self.length(value).obj)
        if isinstance(value, ObjectValue):
            if self.type_lookup(value.kind, "__bool__") is not None:
                answer = self.force(self.call_special(value, "__bool__", []))
                if answer.cls is not bool:
                    self.fail(
                        TypeError, f"__bool__ should return bool, returned {answer.cls.__name__}"
                    )
                return self.truth(answer)
            if self.type_lookup(value.kind, "__len__") is not None:
                return self.truth(self.call_special(value, "__len__", []))
        return True

    def to_bool(self, value: Value) -> Any:
        return Known(self.truth(value))

    def logical_not(self, value: Value) -> Any:
        return Known(not self.truth(value))

    # text -----------------------------------------------------------------------------------------
    def format(self, value: Value, conversion: Any, spec: object) -> Any:
        text = self.force(value)
        if conversion is not None:
            text = self.call(Known(conversion), [text], {})
        if isinstance(text, ObjectValue):
            return self.call_special(text, "__format__", [spec])
        if isinstance(text, TensorValue):
            raise Break("data-dependent-value", "the text of a tensor")
        return self.fold(format, [text, spec])

    def build_string(self, parts: list[Any]) -> Any:
        return Known("".join(self.constant_of(part) for part in parts))

    def is_mapping(self, value: Value) -> bool:
        return issubclass(self.force(value).cls, Mapping)

    def is_sequence(self, value: Value) -> bool:
        cls = self.force(value).cls
        return issubclass(cls, Sequence) and not issubclass(cls, (str, bytes, bytearray))


#: what gives a number for any two floats
_TOTAL = frozenset(
    (
        operator.add, operator.sub, operator.mul,
        operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne,
    )
)  # fmt: skip


def _is_number(value: object) -> bool:
    return isinstance(value, NumberValue) or (
        isinstance(value, Known) and isinstance(value.obj, _NUMBERS)
    )


_MUTABLE = (list, dict, set, collections.deque, bytearray)
#: what is not defined for 0 on the right, and what is not (or gives another type) for less than 0
_DIVISIONS = (operator.floordiv, operator.mod, operator.truediv)
_NOT_NEGATIVE = (operator.pow, operator.lshift, operator.rshift)


def _is_operand(value: object) -> bool:
    if isinstance(value, Known):
        return isinstance(value.obj, _NUMBERS)
    return isinstance(value, (TensorValue, NumberValue))


def _is_frozen(kind: type) -> bool:
    return issubclass(kind, enum.Enum) or is_annotation(kind)


__all__ = ["Operators", "PartialValue"]
