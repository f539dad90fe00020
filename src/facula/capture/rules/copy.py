"""Rules for `copy.copy` and `copy.deepcopy`.

Takes: values. Gives: new values of the same classes.
Keeps true: one object inside of what is copied is one object in the copy; where a class says itself how
it is copied, or holds what Python can not show, its own Python runs or the graph ends.
"""

from __future__ import annotations

import copy
import enum
import types
from typing import TYPE_CHECKING, Any

from facula import core
from facula.capture.breaks import Break
from facula.capture.guards.reading import DICTS
from facula.capture.numpy.arrays import translation
from facula.capture.rules.callables import rule
from facula.capture.values.kinds import (
    ArrayValue,
    DictValue,
    FunctionValue,
    Known,
    NumberValue,
    ObjectValue,
    SequenceValue,
    SetValue,
    TensorValue,
    Value,
)
from facula.ops.table.registry import PLACES

if TYPE_CHECKING:
    from facula.capture.interpreter.symbolic import Symbolic


#: what a class may have of its own to say how it is copied
_OWN = ("__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", "__getnewargs__",
        "__getnewargs_ex__")  # fmt: skip


@rule(copy.copy)
def _copy(d: Any, args: list, kwargs: dict) -> Any:
    value = d.force(args[0])
    if isinstance(value, SequenceValue):
        return d.made(SequenceValue(value.kind, list(value.items))) if value.mutable else value
    if isinstance(value, DictValue):
        return d.dict_method(value, "copy", [], {})
    if isinstance(value, ObjectValue) and not hasattr(value.kind, "__copy__"):
        made = d.made(ObjectValue(value.kind))
        attributes = d.instance_dict(value)
        made.attributes = d.dict_method(attributes, "copy", [], {})
        return made
    raise Break("unsupported-call", f"copy.copy of a {value.cls.__name__}")


@rule(core.tensor)
def _tensor(d: Symbolic, args: list, kwargs: dict) -> Any:
    """`tensor(data)`: of a tensor, a copy apart from the tape; of lists with tensors, their stack."""
    if args and isinstance(d.force(args[0]), ArrayValue):
        return translation("functions").tensor_of_array(d, args, kwargs)
    if len(args) == 1 and isinstance(d.force(args[0]), SequenceValue):
        return _tensor_of_list(d, d.force(args[0]), args, kwargs)
    if len(args) != 1 or type(d.force(args[0])) is not TensorValue:
        return d.graph_call(core.tensor, args, kwargs)
    wanted = dict(kwargs)
    tracked = wanted.pop("requires_grad", None)
    wanted.pop("pin_memory", None)
    if tracked is not None and d.constant_of(tracked):
        raise Break("unsupported-call", "tensor(requires_grad=True), which makes a leaf")
    made = d.graph_method("clone", d.graph_method("detach", d.force(args[0]), [], {}), [], {})
    return d.graph_method("to", made, [], wanted) if wanted else made


def _tensor_of_list(d: Symbolic, data: SequenceValue, args: list, kwargs: dict) -> Any:
    """`tensor([...])`, which reads numbers out of the tensors of the list: they stay in the program."""
    leaves = _leaves(d, data)
    tensors = [leaf for leaf in leaves if isinstance(leaf, TensorValue)]
    tracked = kwargs.get("requires_grad")
    if not tensors or not all(map(_is_number, leaves)) or (tracked and d.constant_of(tracked)):
        return d.graph_call(core.tensor, args, kwargs)
    words = {name: value for name, value in kwargs.items() if name in ("dtype", "device")}
    if "dtype" not in words or d.is_none(words["dtype"]):
        kinds = [
            core.empty((), dtype=leaf.fake.dtype).fill_(0)
            if isinstance(leaf, TensorValue)
            else leaf.obj
            for leaf in leaves
        ]
        words["dtype"] = Known(core.tensor(kinds).dtype)
    return _stacked(d, data, words)


def _leaves(d: Symbolic, data: SequenceValue) -> list[Any]:
    """The items of nested lists, in their order."""
    items = map(d.force, data.items)
    parts = (_leaves(d, x) if isinstance(x, SequenceValue) else [x] for x in items)
    return [leaf for part in parts for leaf in part]


def _is_number(value: Value) -> bool:
    if isinstance(value, TensorValue):
        return type(value) is TensorValue and not value.fake.dim()
    return isinstance(value, Known) and isinstance(value.obj, (bool, int, float, complex))


def _stacked(d: Symbolic, value: Any, words: dict) -> Any:
    """Nested lists of numbers and of tensors without dimensions as one tensor."""
    if isinstance(value, SequenceValue):
        items = [_stacked(d, d.force(item), words) for item in value.items]
        return d.graph_call(
            core.operator_of(PLACES[""]["stack"]), [d.made(SequenceValue(list, items))], {}
        )
    if isinstance(value, TensorValue):
        return d.graph_method("to", d.graph_method("detach", value, [], {}), [], words)
    return d.graph_call(core.tensor, [value], words)


@rule(copy.deepcopy)
def _deepcopy(d: Symbolic, args: list, kwargs: dict) -> Any:
    if len(args) != 1 or kwargs:
        raise Break("unsupported-call", "copy.deepcopy with a memo")
    return _deep(d, args[0], {})


def _deep(d: Symbolic, value: Value, memo: dict[int, Any]) -> Any:
    """A copy of a value and of all that it holds; `memo` has those that were made."""
    value = d.force(value)
    if isinstance(value, (Known, NumberValue, FunctionValue)):
        return value
    known = memo.get(id(value))
    if known is None:
        known = memo[id(value)] = _deep_of(d, value, memo)
    return known


def _deep_of(d: Symbolic, value: Value, memo: dict[int, Any]) -> Any:
    if isinstance(value, TensorValue):
        if value.cls is not core.Tensor or value.fake.requires_grad:
            raise Break("unsupported-call", "copy.deepcopy of a tensor with history")
        return d.graph_method("clone", value, [], {})
    if isinstance(value, SequenceValue):
        return _deep_sequence(d, value, memo)
    if isinstance(value, SetValue):
        return d.build_set([_deep(d, item, memo) for item in value.items.values()], value.kind)
    if isinstance(value, DictValue) and value.kind in DICTS:
        made = memo[id(value)] = d.made(DictValue(value.kind))
        made.factory = value.factory
        for key, item in d.pairs(value):
            d.dict_set(made, _deep(d, key, memo), _deep(d, item, memo))
        return made
    if isinstance(value, ObjectValue):
        return _deep_object(d, value, memo)
    raise Break("unsupported-call", f"copy.deepcopy of a {value.cls.__name__}")


def _deep_sequence(d: Symbolic, value: SequenceValue, memo: dict[int, Any]) -> Any:
    if not value.mutable:
        items = [_deep(d, item, memo) for item in value.items]
        same = all(d.force(a) is b for a, b in zip(value.items, items, strict=True))
        return value if same else d.made(SequenceValue(value.kind, items))
    made = memo[id(value)] = d.made(SequenceValue(value.kind, []))
    made.maxlen = value.maxlen
    made.items.extend(_deep(d, item, memo) for item in value.items)
    return made


def _deep_object(d: Any, value: ObjectValue, memo: dict[int, Any]) -> Any:
    kind = value.kind
    if issubclass(kind, enum.Enum):
        return value
    if isinstance(d.type_lookup(kind, "__deepcopy__"), types.FunctionType):
        return d.call_special(value, "__deepcopy__", [d.build_dict([], [])])
    own = [name for name in _OWN if isinstance(d.type_lookup(kind, name), types.FunctionType)]
    attributes = d.instance_dict(value)
    if own or attributes is None or value.slots or issubclass(kind, BaseException):
        raise Break("unsupported-call", f"copy.deepcopy of a {kind.__name__}")
    made = memo[id(value)] = d.bare_instance(kind, [])
    copied = d.instance_dict(made)
    for key, item in d.pairs(attributes):
        d.dict_set(copied, key, _deep(d, item, memo))
    return made
