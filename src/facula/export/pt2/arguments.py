"""What nodes take, as the records of PyTorch's files.

Takes: an argument of a node. Gives: its record.
Keeps true: what the format has no record for is refused; a list without items gets the kind that the schema says.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from facula import core
from facula.export.pt2 import codes
from facula.export.pt2 import records as R
from facula.export.pt2.plain import refuse
from facula.fx import GraphModule, Node
from facula.fx.higher_order.operator import HigherOrderOperator
from facula.fx.symbols import SymBool, SymFloat, SymInt
from facula.ops.table.overloads import OpOverload

__all__ = ["Arguments"]

Argument = R.Argument
_KINDS = {
    "bool": "as_bools",
    "int": "as_ints",
    "SymInt": "as_ints",
    "float": "as_floats",
    "str": "as_strings",
}


def _is(kind: type) -> Callable[[Any], bool]:
    return lambda x: type(x) is kind


class Arguments:
    """Writes the arguments of one graph's nodes.

    Args:
        graph_of: the record of the graph of a function that an operator takes
    """

    def __init__(self, graph_of: Callable[[GraphModule], R.Graph]) -> None:
        self.graph_of = graph_of
        #: a node that reads one of several results -> the name under which that result is known
        self.same: dict[str, str] = {}

    def written(self, x: Any, schema_type: object = None) -> R.Argument:
        """The record of an argument; `schema_type`: its type in the operator's schema."""
        if isinstance(x, Node):
            return self._node(x)
        if isinstance(x, (list, tuple)):
            return self._list(x, schema_type)
        if isinstance(x, dict):
            if not all(type(key) is str for key in x):
                refuse("strings as keys of a dictionary (Dict keys must be strings)", list(x))
            return Argument.create(as_string_to_argument={k: self.written(v) for k, v in x.items()})
        if isinstance(x, SymInt):
            return Argument.create(as_sym_int=R.SymIntArgument.create(as_name=str(x)))
        if isinstance(x, (OpOverload, HigherOrderOperator)):
            return Argument.create(as_operator=codes.named(x))
        return self.plain(x)

    @staticmethod
    def plain(x: Any) -> R.Argument:
        """The record of a value without parts."""
        if x is None:
            return Argument.create(as_none=True)
        for kind, name in (
            (bool, "as_bool"),
            (str, "as_string"),
            (int, "as_int"),
            (float, "as_float"),
        ):
            if type(x) is kind:
                return Argument.create(**{name: x})
        if type(x) is complex:
            return Argument.create(as_complex=R.ComplexValue(x.real, x.imag))
        if isinstance(x, core.device):
            return Argument.create(as_device=codes.device_of(x))
        for known, name in (
            (codes.DTYPES, "as_scalar_type"), (codes.MEMORY_FORMATS, "as_memory_format"), (codes.LAYOUTS, "as_layout"),
        ):  # fmt: skip
            if isinstance(x, type(next(iter(known)))) and x in known:
                return Argument.create(**{name: known[x]})
        return refuse(
            "a number, string, dtype, device, layout or list (Unsupported argument type)", type(x)
        )

    def _node(self, x: Node) -> R.Argument:
        if x.op == "get_attr":
            found = getattr(x.graph.owning_module, str(x.target))
            if not isinstance(found, GraphModule):
                refuse(
                    "no attribute but graphs of functions (Unsupported getattr attribute)", x.target
                )
            return Argument.create(as_graph=R.GraphArgument(str(x.target), self.graph_of(found)))
        value = x.meta.get("val")
        if isinstance(value, (SymBool, bool)):
            return Argument.create(as_sym_bool=R.SymBoolArgument.create(as_name=x.name))
        if isinstance(value, int):
            return Argument.create(as_sym_int=R.SymIntArgument.create(as_name=x.name))
        if isinstance(value, float):
            return Argument.create(as_sym_float=R.SymFloatArgument.create(as_name=x.name))
        return Argument.create(as_tensor=self.tensor(x))

    def tensor(self, x: Node) -> R.TensorArgument:
        """The record of a node that is a tensor."""
        return R.TensorArgument(self.same.get(x.name, x.name))

    def _list(self, x: Any, schema_type: object) -> R.Argument:
        if not x:
            return Argument.create(**{_empty_kind(schema_type): []})
        for kind, name in (
            (bool, "as_bools"),
            (int, "as_ints"),
            (float, "as_floats"),
            (str, "as_strings"),
        ):
            if all(map(_is(kind), x)):
                return Argument.create(**{name: list(x)})
        for test, name, record, field in _SYMBOLIC:
            if all(map(test, x)):
                items = [_number(record, field, item) for item in x]
                return Argument.create(**{name: items})
        if all(isinstance(item, Node) for item in x):
            return Argument.create(as_tensors=list(map(self.tensor, x)))
        if all(isinstance(item, Node) or item is None for item in x):
            return Argument.create(as_optional_tensors=list(map(self._optional, x)))
        if all(isinstance(item, (list, tuple)) for item in x):
            return self._lists(x)
        return refuse("a list of values of one kind (Unsupported list/tuple argument type)",
                      [type(item).__name__ for item in x])  # fmt: skip

    def _lists(self, x: Any) -> R.Argument:
        for kind, name in ((int, "as_int_lists"), (float, "as_float_lists")):
            if all(type(i) is kind for item in x for i in item):
                return Argument.create(**{name: [list(item) for item in x]})
        if not all(isinstance(i, Node) for item in x for i in item):
            refuse("lists of tensors or of numbers (Unsupported list/tuple argument type)", x)
        return Argument.create(as_nested_tensors=[list(map(self.tensor, item)) for item in x])

    def _optional(self, x: Node | None) -> R.OptionalTensorArgument:
        if x is None:
            return R.OptionalTensorArgument.create(as_none=True)
        return R.OptionalTensorArgument.create(as_tensor=self.tensor(x))


def _value(x: Any) -> Any:
    return x.meta.get("val") if isinstance(x, Node) else x


def _is_int(x: object) -> bool:
    return isinstance(_value(x), int) and not isinstance(_value(x), (bool, SymBool))


def _number(record: Any, field: str, x: Any) -> Any:
    if isinstance(x, Node):
        return record.create(as_name=x.name)
    if isinstance(x, (SymInt, SymFloat, SymBool)):
        return record.create(as_name=str(x))
    return record.create(**{field: x})


_SYMBOLIC: tuple[Any, ...] = (
    (_is_int, "as_sym_ints", R.SymIntArgument, "as_int"),
    (lambda x: isinstance(_value(x), float), "as_sym_floats", R.SymFloatArgument, "as_float"),
    (
        lambda x: isinstance(_value(x), (bool, SymBool)),
        "as_sym_bools",
        R.SymBoolArgument,
        "as_bool",
    ),
)


def _empty_kind(schema_type: object) -> str:
    """The field for a list without items."""
    words = re.findall(r"\w+", str(schema_type))
    if words == ["Any"]:
        return "as_ints"
    return _KINDS.get(words[-1], "as_tensors") if words else "as_tensors"
