"""What operators take and give in TorchScript's types: the project's operator table, and the primitives.

Takes a name as graphs have it, `aten::add`. Gives the `Signature`s of that name, in the order in which a
call tries them.
Keeps true: operators on tensors come from the operator table with their schemas; `primitives` defines
only what has no tensor operator (numbers, text, containers, and methods of the core).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from facula import core
from facula.jit.packed_types import result_of
from facula.ops.table.overloads import ON_DEMAND
from facula.ops.table.registry import PLACES, TABLE
from facula.ops.table.schema import REQUIRED
from facula.ops.table.schema import Parameter as TableParameter
from facula.ops.table.schemas import types as T
from facula.ops.table.schemas.codes import dtype_of, layout_of, memory_format_of
from facula.ops.table.schemas.overloads import WORDS, wrapped

__all__ = ["Parameter", "Signature", "signatures", "with_out"]

_WORDS = {
    **WORDS, "Scalar": T.NUMBER, "Device": T.DEVICE, "None": T.NONE, "complex": T.COMPLEX, "QScheme": T.QSCHEME,
    "Generator": T.GENERATOR, "Operand": T.union_of([T.TENSOR, T.NUMBER]), "t": T.Type("$t"), "k": T.Type("$k"),
}  # fmt: skip
_CONVERTED = {"dtype": dtype_of, "layout": layout_of, "memory_format": memory_format_of}


class Parameter:
    """An argument of an operator."""

    __slots__ = ("convert", "default", "keyword_only", "length", "name", "type", "variadic")

    def __init__(
        self,
        name: str,
        type: T.Type,
        default: Any = REQUIRED,
        keyword_only: bool = False,
        length: int = 0,
        variadic: bool = False,
        convert: Callable[[Any], Any] | None = None,
    ) -> None:
        self.name, self.type, self.default, self.keyword_only = name, type, default, keyword_only
        self.length, self.variadic, self.convert = length, variadic, convert


class Signature:
    """One operator as calls see it; `run` takes the values of all parameters, in order."""

    __slots__ = ("name", "overload", "parameters", "results", "run", "source")

    def __init__(
        self,
        name: str,
        overload: str,
        parameters: list[Parameter],
        results: Any,
        run: Callable[..., Any],
        source: Any = None,
    ) -> None:
        self.name, self.overload, self.parameters = name, overload, parameters
        self.results, self.run, self.source = results, run, source

    def __str__(self) -> str:
        parts = [f"{p.type.str()} {p.name}" for p in self.parameters]
        dot = f".{self.overload}" if self.overload else ""
        given = self.results.str() if isinstance(self.results, T.Type) else "..."
        return f"{self.name}{dot}({', '.join(parts)}) -> {given}"


def type_of(text: str) -> tuple[T.Type, int]:
    """The type that a schema names, and the length of a list that one value may stand for."""
    text, length = text.strip(), 0
    if text.endswith("?"):
        inner, length = type_of(text[:-1])
        return T.optional_of(inner), length
    if text.endswith("]"):
        word, _, size = text[:-1].rpartition("[")
        return T.list_of(type_of(word)[0]), int(size or 0)
    if text.startswith("Dict("):
        key, _, value = text[5:-1].partition(", ")
        return T.dict_of(type_of(key)[0], type_of(value)[0]), 0
    if text.startswith("("):
        return T.tuple_of([type_of(part)[0] for part in _split(text[1:-1])]), 0
    if text.startswith("Future("):
        return T.future_of(type_of(text[7:-1])[0]), 0
    return _WORDS[text], 0


def _split(text: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "([") - (c in ")]")
        if c == "," and not depth:
            parts.append(text[start:i])
            start = i + 1
    return [p.strip() for p in (*parts, text[start:]) if p.strip()]


# ------------------------------------------------------------------ primitives

#: signatures that `primitives` adds: by name
PRIMITIVE: dict[str, list[Signature]] = {}


def declared(text: str) -> tuple[str, list[T.Type]]:
    """Name and argument types of a schema, as PyTorch writes it."""
    name, _, arguments = text.rpartition(" -> ")[0].partition("(")
    listed = [p.partition("=")[0] for p in _split(arguments[:-1]) if p != "*"]
    return name, [type_of(re.sub(r"\(\w+!?\)", "", p.rpartition(" ")[0]))[0] for p in listed]


def primitive(text: str, run: Callable[..., Any]) -> None:
    """Define an operator that has no place in the operator table: `aten::len.t(t[] a) -> int`."""
    head, _, tail = text.rpartition(" -> ")
    name, _, arguments = head.partition("(")
    name, _, overload = name.partition(".")
    parameters, keyword_only = [], False
    for part in _split(arguments[:-1]):
        if part == "*":
            keyword_only = True
            continue
        declared, equals, default = part.partition("=")
        word, _, own = declared.rpartition(" ")
        kind, length = type_of(word.removesuffix("..."))
        value = _DEFAULTS.get(default, default.strip("'")) if equals else REQUIRED
        if equals and default.lstrip("-").isdigit():
            value = int(default)
        variadic = word.endswith("...")
        parameters.append(Parameter(own, kind, value, keyword_only, length, variadic))
    results: Any = [] if tail == "()" else type_of(tail)[0]
    said = text.replace("]...", "]")
    PRIMITIVE.setdefault(name, []).append(Signature(name, overload, parameters, results, run, said))


_DEFAULTS: dict[str, Any] = {"None": None, "True": True, "False": False}

# ------------------------------------------------------------------ the operator table

_KNOWN: dict[str, list[Signature]] = {}


def operator_named(name: str) -> Any:
    """The operator, or its in-place form, that programs call by this name; None where there is none."""
    found = PLACES[""].get(name) or TABLE.get(name) or PLACES["Tensor"].get(name)
    found = core.operator_of(found)
    if found is None and name.endswith("_") and not name.endswith("__"):
        base = operator_named(name[:-1])
        found = getattr(base, "inplace", None) if base is not None else None
    return found if isinstance(found, (core.Op, core.InplaceOp)) else None


def signatures(name: str) -> list[Signature]:
    """The signatures of `aten::name`: primitives first, then the operator's."""
    known = _KNOWN.get(name)
    if known is None:
        known = list(PRIMITIVE.get(name, ()))
        space, _, own = name.partition("::")
        if space == "aten":
            found = operator_named(own)
        else:
            found = TABLE.get(name) or ON_DEMAND[0](space, own)
        if found is not None:
            known.append(_of_operator(name, found))
            known.extend(with_out(known[-1]))
        _KNOWN[name] = known
    return known


def primitives_of(name: str) -> list[Signature]:
    """The primitives of that name that sources of programs call: not those that files alone have."""
    return [s for s in signatures(name) if isinstance(s.source, str) and s.overload != "OF_FILES"]


def signature_of_operator(operator: Any) -> Signature:
    """The signature of an operator object."""
    written = "_" if isinstance(operator, core.InplaceOp) else ""
    name = operator.definition.name.removeprefix("quantization::") + written
    name = name if "::" in name else f"aten::{name}"
    key = f"{name} itself"
    if key not in _KNOWN:
        _KNOWN[key] = [_of_operator(name, operator)]
    return _KNOWN[key][0]


def _of_operator(name: str, operator: Any) -> Signature:
    schema = operator.definition.schema
    parameters = [_parameter(p) for p in schema.parameters]
    results = _results(schema)
    run = _runner(operator, parameters, results)
    return Signature(name, "", parameters, results, run, operator)


def with_out(signature: Signature) -> list[Signature]:
    """The form that writes its result to `out=`, of an operator that has one and gives one tensor."""
    operator, parameters = signature.source, [*signature.parameters]
    if not isinstance(operator, core.Op) or not operator.definition.out:
        return []
    if signature.results != T.TENSOR or any(p.name == "out" for p in parameters):
        return []
    run = signature.run
    parameters.append(Parameter("out", T.TENSOR, keyword_only=True))
    made = Signature(signature.name, "out", parameters, T.TENSOR, run, operator)
    made.run = _runner(operator, parameters, T.TENSOR)
    return [made]


def _parameter(p: TableParameter) -> Parameter:
    kind = wrapped(p, _WORDS[p.type])
    default = list(p.default) if isinstance(p.default, tuple) else p.default
    return Parameter(
        p.name, kind, default, p.keyword_only, p.length, p.variadic, _CONVERTED.get(p.type)
    )


def _results(schema: Any) -> Any:
    tail = schema.text.rpartition("->")[2].strip()
    if tail == "any" and schema.name.startswith("quantized::"):
        return lambda given: result_of(schema.name, given) or T.TENSOR
    if tail == "any":
        first = schema.parameters[0].name
        return _RESULTS_BY_CALL.get(schema.name, lambda given: _as_given(given, first))
    if tail == "Tensor" and any(p.name == "return_indices" for p in schema.parameters):
        return _with_indices
    if schema.name == "_where":
        return _where
    if schema.name == "nonzero":
        return lambda given: T.list_of(T.TENSOR) if given("as_tuple") is True else T.TENSOR
    if not tail.startswith("("):
        return type_of(tail.partition(" ")[0])[0]
    items = [type_of(part.partition(" ")[0])[0] for part in _split(tail[1:-1])]
    if all(schema.results):
        return T.NamedTupleType(schema.name, tuple(schema.results), tuple(items))
    return T.tuple_of(items)


def _pair(*fields: str) -> T.Type:
    return T.NamedTupleType("values", fields, (T.TENSOR,) * len(fields))


def _extreme(given: Callable[[str], Any]) -> T.Type:
    """max and min give positions where a dimension is given."""
    dim = given("dim")
    whole = dim is None or getattr(dim, "kind", "") == "Tensor"
    return T.TENSOR if whole else _pair("values", "indices")


def _with_indices(given: Callable[[str], Any]) -> T.Type:
    return T.tuple_of([T.TENSOR] * 2) if given("return_indices") is True else T.TENSOR


def _where(given: Callable[[str], Any]) -> T.Type:
    """The positions of what is true, where nothing is said to choose from."""
    return T.list_of(T.TENSOR) if given("self") is None else T.TENSOR


def _unique(given: Callable[[str], Any]) -> T.Type:
    count = 1 + (given("return_inverse") is True) + (given("return_counts") is True)
    return T.TENSOR if count == 1 else T.tuple_of([T.TENSOR] * count)


def _as_given(given: Callable[[str], Any], first: str) -> T.Type:
    """Several tensors for several, one for one: `dequantize`, `broadcast_tensors`."""
    many = getattr(given(first), "kind", "") == "List"
    return T.list_of(T.TENSOR) if many else T.TENSOR


#: the results of operators that depend on how they are called: a function of `given(name)`, the
#: constant that an argument has, or its type
_RESULTS_BY_CALL: dict[str, Any] = {
    "max": _extreme, "min": _extreme, "unique": _unique, "unique_consecutive": _unique,
    "result_type": T.INT, "lu": T.tuple_of([T.TENSOR] * 2),
}  # fmt: skip


def _runner(operator: Any, parameters: list[Parameter], results: Any) -> Callable[..., Any]:
    """A function of all arguments in order that calls the operator."""
    converts = [_convert(p) for p in parameters]
    positional = sum(not p.keyword_only for p in parameters)
    names = [p.name for p in parameters[positional:]]
    variadic = parameters[0].variadic if parameters else False
    plain = not any(converts) and not names and not variadic
    listed = results.kind == "List" if isinstance(results, T.Type) else callable(results)

    def run(*values: Any) -> Any:
        if plain:
            made = operator(*values)
        else:
            given = [v if c is None else c(v) for c, v in zip(converts, values, strict=True)]
            made = operator(
                *given[:positional], **dict(zip(names, given[positional:], strict=True))
            )
        return list(made) if listed and type(made) is tuple else made

    return run


def _convert(p: Parameter) -> Callable[[Any], Any] | None:
    if p.convert is not None:
        convert = p.convert
        return lambda value: None if value is None else convert(value)
    if p.type.kind == "Optional" and p.type.item.kind == "List" and p.length:
        # PyTorch's files say [] where the definition says None
        return lambda value: None if value == [] else value
    return None
