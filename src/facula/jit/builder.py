"""Emission of nodes: constants, calls of operators matched against their signatures, conversions.

Takes values and names of operators. Gives new values at the end of the current block.
Keeps true: a node of an operator has all of its arguments, defaults as constants; a call that no signature
takes is an error that names the types found, and each signature with the reason why not.
"""

from __future__ import annotations

from typing import Any

from facula.core.errors import fail
from facula.jit.ir import Block, Graph, Node, Value
from facula.jit.ir_editing import CONSTANT_TYPE
from facula.jit.signatures import Parameter, Signature, signatures
from facula.jit.source import Place, Source, refuse
from facula.ops.table.schema import REQUIRED
from facula.ops.table.schemas import types as T
from facula.quantization.tensor import qscheme

__all__ = ["Builder", "constant_of"]


class _Unfit(Exception):
    """A signature does not take the arguments."""


def constant_of(value: Any) -> tuple[bool, Any]:
    """Whether a value is a constant, and which."""
    if isinstance(value, Value) and value.node.kind_ == "prim::Constant":
        return True, value.node.attributes.get("value")
    return False, None


class Builder:
    """Appends to the current block of a graph."""

    def __init__(self, graph: Graph, source: Source) -> None:
        self.graph, self.source = graph, source
        self.block: Block = graph
        self.place: Place | None = None
        #: values of arguments without an annotation, which are tensors
        self.inferred: set[Value] = set()

    # ---- nodes
    def emit(
        self,
        kind: str,
        inputs: list[Value],
        types: list[T.Type],
        run: object = None,
        **attributes: object,
    ) -> Node:
        """A new node at the end of the block."""
        node = Node(self.block, kind, inputs, types, attributes, self.place, run)
        self.block.nodes_.append(node)
        return node

    def value(
        self, kind: str, inputs: list[Value], type: T.Type, run: object = None, **attributes: object
    ) -> Value:
        """A new node with one result."""
        return self.emit(kind, inputs, [type], run, **attributes).outputs_[0]

    def constant(self, value: object, type: T.Type | None = None) -> Value:
        """A constant of a plain Python value."""
        return self.value("prim::Constant", [], type or type_of_constant(value), value=value)

    def uninitialized(self, type: T.Type) -> Value:
        """What stands where control never comes."""
        return self.value("prim::Uninitialized", [], type)

    def refuse(self, required: str, got: Any = None, **more: Any) -> Any:
        """An error at the current place."""
        refuse(self.place, required, got, **more)

    # ---- containers
    def make_tuple(self, items: list[Value], type: T.Type | None = None) -> Value:
        kind = type or T.tuple_of([i.type for i in items])
        return self.value("prim::TupleConstruct", items, kind)

    def make_list(self, items: list[Value], item: T.Type) -> Value:
        return self.value("prim::ListConstruct", items, T.list_of(item))

    def unpack(self, value: Value) -> list[Value]:
        """The items of a tuple."""
        if value.node.kind_ == "prim::TupleConstruct":
            return list(value.node.inputs_)
        return self.emit("prim::TupleUnpack", [value], list(value.type.inner)).outputs_

    def cast(self, value: Value, type: T.Type) -> Value:
        """The same value, known to have a narrower type."""
        return self.value("prim::unchecked_cast", [value], type)

    # ---- operators
    def call(
        self,
        name: str,
        args: list[Value],
        kwargs: dict[str, Value] | None = None,
        found: list[Signature] | None = None,
    ) -> Value:
        """A call of an operator by name; the one result, or a tuple of several."""
        candidates = signatures(name) if found is None else found
        if not candidates:
            return self.missing(name, args)
        kwargs = kwargs or {}
        reasons: list[str] = []
        for convert in (False, True):
            for signature in candidates:
                mark = len(self.block.nodes_)
                try:
                    inputs, bound = self._bind(signature, args, kwargs, convert)
                except _Unfit as reason:
                    del self.block.nodes_[mark:]
                    if convert:
                        reasons.append(f"  {signature}: {reason}")
                    continue
                return self._apply(signature, inputs, bound)
        shown = ", ".join(
            [str(a.type) for a in args] + [f"{k}: {v.type}" for k, v in kwargs.items()]
        )
        listed = "\n".join(reasons[:12])
        return self.refuse(f"arguments that {name} takes were required (Arguments for call are not valid)",
                           f"({shown})\n{listed}")  # fmt: skip

    def missing(self, name: str, args: list[Value]) -> Value:
        """An operator that does not exist."""
        return self.refuse("an operator that exists was required", name)

    def _apply(self, signature: Signature, inputs: list[Value], bound: dict[str, T.Type]) -> Value:
        signature, inputs = self._plain(signature, inputs)
        results = signature.results
        if callable(results) and not isinstance(results, T.Type):
            names = [p.name for p in signature.parameters]

            def given(name: str) -> Any:
                value = inputs[names.index(name)]
                known, constant = constant_of(value)
                return constant if known else value.type

            results = results(given)
        if isinstance(results, list):
            self.emit(signature.name, inputs, [], signature.run).signature = signature
            return self.constant(None)
        several = results.kind == "Tuple"  # not a tuple that an item happens to be
        results = substitute(results, bound)
        if several:
            node = self.emit(signature.name, inputs, list(results.inner), signature.run)
            node.signature = signature
            return self.make_tuple(node.outputs_, results)
        node = self.emit(signature.name, inputs, [results], signature.run)
        node.signature = signature
        return node.outputs_[0]

    def _plain(self, signature: Signature, inputs: list[Value]) -> tuple[Signature, list[Value]]:
        """`F.relu(x, inplace=False)` is `relu(x)`, and with True `relu_(x)`, as PyTorch's graphs have it."""
        if not signature.name.startswith("aten::_functional_"):
            return signature, inputs
        values = {p.name: v for p, v in zip(signature.parameters, inputs, strict=True)}
        known, in_place = constant_of(values.pop("inplace", None))
        if not known:
            return signature, inputs
        first = next(iter(values))
        name = signature.name.removeprefix("aten::_functional_") + ("_" if in_place else "")
        for other in signatures(f"aten::{name}"):
            names = [p.name for p in other.parameters]
            named = {names[0] if k == first else k: v for k, v in values.items()}
            fits = set(named) <= set(names) and all(
                p.name in named or p.default is not REQUIRED for p in other.parameters
            )
            if fits:
                made = [
                    named[p.name] if p.name in named else self._default(p) for p in other.parameters
                ]
                return other, made
        return signature, inputs

    def _bind(
        self, signature: Signature, args: list[Value], kwargs: dict[str, Value], convert: bool
    ) -> tuple[list[Value], dict[str, T.Type]]:
        """The values of all parameters in order."""
        bound: dict[str, T.Type] = {}
        inputs: list[Value] = []
        rest, left = list(args), dict(kwargs)
        if (
            "input" in left
            and signature.parameters
            and "input" not in [p.name for p in signature.parameters]
        ):
            left["self"] = left.pop("input")
        for p in signature.parameters:
            if rest and not p.keyword_only:
                if p.variadic and (len(rest) > 1 or not _is_list(rest[0].type)):
                    inputs.append(self._collect(rest, p, bound, convert))
                    rest = []
                    continue
                given = rest.pop(0)
                if p.name in left:
                    raise _Unfit(f"two values for {p.name}")
            elif p.name in left:
                given = left.pop(p.name)
            elif p.default is not REQUIRED:
                inputs.append(self._default(p))
                continue
            else:
                raise _Unfit(f"Argument {p.name} not provided")
            inputs.append(self._fit(given, p, bound, convert))
        if rest or left:
            raise _Unfit("too many arguments" if rest else f"no argument named {next(iter(left))}")
        self._needs_tensor(signature, inputs)
        return inputs, bound

    def _collect(
        self, rest: list[Value], p: Parameter, bound: dict[str, T.Type], convert: bool
    ) -> Value:
        """Separate arguments as one list."""
        kind = p.type if p.type.kind == "List" else T.list_of(rest[0].type)
        made = [self._fit(v, Parameter(p.name, kind.item), bound, convert) for v in rest]
        return self.make_list(made, kind.item)

    def _default(self, p: Parameter) -> Value:
        if isinstance(p.default, list):
            wanted = T.without_none(p.type)
            item = wanted.item if wanted.kind == "List" else type_of_constant(p.default).item
            return self.make_list([self.constant(v) for v in p.default], item)
        return self.constant(p.default)

    def _needs_tensor(self, signature: Signature, inputs: list[Value]) -> None:
        """An operator of the table is for tensors, unless it makes one: numbers have primitives."""
        if signature.source is None or isinstance(signature.source, str):
            return
        if any(p.name == "layout" for p in signature.parameters):
            return
        operands = [
            v for p, v in zip(signature.parameters, inputs, strict=True) if p.type.kind == "Union"
        ]
        takes = any(p.type.kind == "Tensor" for p in signature.parameters)
        if operands and not takes and not any(v.type.kind == "Tensor" for v in operands):
            raise _Unfit("one of the operands has to be a tensor")

    def _fit(self, given: Value, p: Parameter, bound: dict[str, T.Type], convert: bool) -> Value:
        """The value as a parameter takes it."""
        made = self.fitted(given, p.type, bound, convert, p.length)
        if made is None:
            raise _Unfit(self.unfit(given, p.name, p.type, bound))
        return made

    def unfit(
        self, given: Value, name: str, wanted: T.Type, bound: dict[str, T.Type] | None = None
    ) -> str:
        """What an argument should have been, and what it is."""
        known = [f"{v[1:]} was previously matched to type {t.annotation_str}" for v, t in (bound or {}).items()
                 if _has_variables(wanted)]  # fmt: skip
        shown = substitute(wanted, bound or {}).annotation_str.replace("$", "")
        have = given.type.annotation_str
        text = f"Expected a value of type '{shown}' for argument '{name}' but instead found type {have!r}"
        if given in self.inferred:
            text += (f" (Inferred the value for argument '{given.hint}' to be of type 'Tensor' because it was "
                     "not annotated with an explicit type)")  # fmt: skip
        if not known:
            return text
        matched = f"Could not match type {given.type.annotation_str} to {shown}"
        return f"{text} ({'; '.join([*known, matched])})"

    def fitted(
        self,
        given: Value,
        wanted: T.Type,
        bound: dict[str, T.Type] | None = None,
        convert: bool = True,
        length: int = 0,
    ) -> Value | None:
        """The value where a type is wanted, converted where TorchScript does that; None if it does not fit."""
        bound = {} if bound is None else bound
        have = given.type
        if matches(wanted, have, bound):
            return given
        inner = T.without_none(wanted)
        made_here, empty = given.node.kind_, not given.node.inputs_
        if inner.kind == "List" and have.kind == "Tuple":
            return self._tuple_as_list(given, inner, bound, convert)
        written = inner.kind == have.kind == "List" and made_here == "prim::ListConstruct"
        empty = empty and not given.uses()  # what is filled later keeps its type
        if written and empty:
            return self.make_list([], substitute(inner.item, bound))
        if inner.kind == "Dict" and made_here == "prim::DictConstruct" and empty:
            return self.value("prim::DictConstruct", [], substitute(inner, bound))
        if inner.kind == "List" and length and matches(inner.item, have, bound):
            return self.make_list([given] * length, inner.item)
        if inner.kind == "Tuple" and have.kind == "Tuple" and len(inner.inner) == len(have.inner):
            items = zip(self.unpack(given), inner.inner, strict=True)
            made = [self.fitted(v, t, bound, convert) for v, t in items]
            good = [m for m in made if m is not None]
            return self.make_tuple(good, inner) if len(good) == len(made) else None
        if inner.kind == "Device" and have.kind == "str":
            return self.call("aten::device", [given])
        if have.kind == "bool" and {T.TENSOR, T.NUMBER} <= set(T.members(wanted)):
            return given  # an operand, as Python has it
        if convert and have.kind == "Tensor" and inner.kind in ("int", "float", "Scalar"):
            return self.call(f"aten::{inner.kind.capitalize()}Implicit", [given])
        return self._list_as_list(given, inner, bound, convert) if written else None

    def _list_as_list(
        self, given: Value, wanted: T.Type, bound: dict[str, T.Type], convert: bool
    ) -> Value | None:
        """A list that was just written, with items of another type."""
        parts = [self.fitted(v, wanted.item, bound, convert) for v in given.node.inputs_]
        good = [m for m in parts if m is not None]
        if len(good) < len(parts):
            return None
        return self.make_list(good, substitute(wanted.item, bound))

    def _tuple_as_list(
        self, given: Value, wanted: T.Type, bound: dict[str, T.Type], convert: bool
    ) -> Value | None:
        if not all(matches(wanted.item, t, bound) for t in given.type.inner):
            return None
        return self.make_list(self.unpack(given), substitute(wanted.item, bound))


def _is_list(type: T.Type) -> bool:
    inner = T.without_none(type)
    return inner.kind in ("List", "Tuple")


def type_of_constant(value: object) -> T.Type:
    """The type of a plain Python value."""
    known = _CONSTANTS.get(type(value))
    if known is not None:
        return known
    if isinstance(value, (tuple, list)):
        items = [type_of_constant(v) for v in value]
        return (
            T.tuple_of(items)
            if isinstance(value, tuple)
            else T.list_of(items[0] if items else T.TENSOR)
        )
    if hasattr(value, "untyped_storage"):
        return T.TENSOR
    if isinstance(value, qscheme):
        return T.QSCHEME
    if hasattr(value, "index") and hasattr(value, "type"):
        return T.DEVICE
    return fail(TypeError, "jit", "a plain value was required", type(value).__name__,
                hint="pass it as an argument")  # fmt: skip


_CONSTANTS = {
    int: T.INT, float: T.FLOAT, bool: T.BOOL, str: T.STR, type(None): T.NONE, complex: T.COMPLEX,
}  # fmt: skip


def matches(wanted: T.Type, have: T.Type, bound: dict[str, T.Type]) -> bool:
    """Whether a type is the wanted one, binding the type variables in that."""
    if wanted.kind.startswith("$"):
        known = bound.get(wanted.kind)
        if known is None:
            bound[wanted.kind] = have
            return True
        return T.is_subtype(have, known)
    if not _has_variables(wanted):
        return T.is_subtype(have, wanted)
    if wanted.kind == "Optional":
        return have == T.NONE or matches(wanted.item, T.without_none(have), bound)
    if wanted.kind != have.kind or len(wanted.inner) != len(have.inner):
        return False
    return all(matches(w, h, bound) for w, h in zip(wanted.inner, have.inner, strict=True))


def _has_variables(type: T.Type) -> bool:
    return type.kind.startswith("$") or any(map(_has_variables, type.inner))


def substitute(type: T.Type, bound: dict[str, T.Type]) -> T.Type:
    """The type with its variables replaced by what they stand for."""
    if type.kind.startswith("$"):
        return bound.get(type.kind, type)
    if not _has_variables(type):
        return type
    made = tuple(substitute(t, bound) for t in type.inner)
    return T.optional_of(made[0]) if type.kind == "Optional" else T.Type(type.kind, made)


CONSTANT_TYPE.append(type_of_constant)
