"""Schemas of the operator table's operators, overload by overload.

Takes an overload, or the name of an operator. Gives `FunctionSchema`s.
Keeps true: every schema follows from the operator's one definition: names, types and defaults from its schema, what
is written to from its form (in place, `out=`, `mutated`), what shares memory from its kind; the name of an overload
says which operands are numbers. Nothing is kept by hand.
"""

from __future__ import annotations

import itertools
from functools import cache
from typing import TYPE_CHECKING, Any

from facula import core
from facula.ops.table.overload_names import overload_name
from facula.ops.table.schemas import types as T
from facula.ops.table.schemas.function import REQUIRED, AliasInfo, Argument, FunctionSchema

if TYPE_CHECKING:
    from facula.ops.table.overloads import OpOverload
    from facula.ops.table.schema import Parameter

__all__ = ["WORDS", "names_of_overloads", "schema_of", "type_of", "wrapped"]

#: the types that the table's words for arguments stand for
WORDS: dict[str, T.Type] = {
    "Tensor": T.TENSOR, "Operand": T.TENSOR, "int": T.INT, "float": T.FLOAT, "bool": T.BOOL, "str": T.STR,
    "Number": T.NUMBER, "dtype": T.INT, "layout": T.INT, "memory_format": T.INT, "device": T.DEVICE,
    "generator": T.GENERATOR, "any": T.ANY,
}  # fmt: skip
_REAL = {"dtype": "ScalarType", "layout": "Layout", "memory_format": "MemoryFormat"}
_RESULTS: dict[str, T.Type] = {
    **WORDS, "Scalar": T.NUMBER, "SymInt": T.INT, "ScalarType": T.INT, "Device": T.DEVICE,
}  # fmt: skip


def type_of(p: Parameter, number: bool = False) -> tuple[T.Type, T.Type]:
    """The type of an argument of the table, and the type that texts name; `number`: an operand that is none tensor."""
    kind = T.NUMBER if number else WORDS[p.type]
    real = T.Type(_REAL[p.type]) if p.type in _REAL else kind
    return wrapped(p, kind), wrapped(p, real)


def wrapped(p: Parameter, kind: T.Type) -> T.Type:
    """A type, as a list or None of it where the argument may be that."""
    if p.is_list:
        kind = T.list_of(T.optional_of(kind) if p.optional_items else kind)
    return T.optional_of(kind) if p.optional else kind


def _numbers(overload: OpOverload, name: str) -> frozenset[str]:
    """The operands that are numbers in calls that go by the name of an overload."""
    by_name = numbers_by_overload(overload._op)
    stem = name.removesuffix("out").removesuffix("_")
    for known in (name, stem, *(("Tensor", "default") if not stem else ())):
        if known in by_name:
            return by_name[known]
    return _by_words(overload._table_schema.parameters, stem or name)


def _by_words(parameters: Any, name: str) -> frozenset[str]:
    """The same by the words of a name that no call takes, one for each operand: `Scalar_Tensor`."""
    operands = [p.name for p in parameters if p.type == "Operand"]
    words = name.split("_")
    last = zip(reversed(operands), reversed(words), strict=False)
    return frozenset(operand for operand, word in last if word == "Scalar")


def schema_of(overload: OpOverload) -> FunctionSchema:
    """The schema of an overload."""
    name = "" if overload._overloadname == "default" else overload._overloadname
    table, definition = overload._table_schema, overload._definition
    written = isinstance(overload._op, core.InplaceOp) or overload._opname.endswith("_")
    if overload._given_schema:
        return _as_given(overload._qualified_op_name, name, overload._given_schema)
    if table is None:
        self_ = Argument("self", T.TENSOR, alias_info=AliasInfo(True, ("a",)) if written else None)
        result = Argument("", T.TENSOR, alias_info=self_.alias_info)
        return FunctionSchema(overload._qualified_op_name, name, [self_], [result], True)
    views = (definition.kind == "view" or bool(definition.copied)) and not written
    results = _results(table, written, views)
    numbers = _numbers(overload, overload._overloadname)
    mutated = definition.mutated
    arguments = []
    for i, p in enumerate(table.parameters):
        kind, real = type_of(p, p.name in numbers)
        alias = None
        if i == 0 and written:
            alias = AliasInfo(True, ("a",))
        elif p.name in mutated:
            alias = AliasInfo(True, (f"a{i}",))
        elif i == 0 and views and kind.kind == "Tensor":
            alias = AliasInfo(False, ("a",), ("*",) if results[0].type.kind == "List" else None)
        length = p.length or None
        default = _default(p) if p.has_default else REQUIRED
        arguments.append(Argument(p.name, kind, default, p.keyword_only, alias, real, length))
    if name.endswith("out") and definition.out and not written:
        outs = _outs(table, results)
        arguments += outs
        results = [
            Argument(r.name, r.type, alias_info=o.alias_info)
            for r, o in zip(results, outs, strict=True)
        ]
    return FunctionSchema(overload._qualified_op_name, name, arguments, results)


def _as_given(qualname: str, name: str, text: str) -> FunctionSchema:
    """The schema of a program's operator."""
    # lazily: few programs define operators by their text
    from facula.ops.table.schemas.reading import parse_schema

    read = parse_schema(f"{qualname}{text}")
    return FunctionSchema(
        qualname, name, read.arguments, read.returns, read.is_vararg, read.is_varret
    )


def _default(p: Parameter) -> Any:
    """What stands where an argument is left out: floats for floats, lists for lists."""
    value = p.default
    if p.type == "float" and type(value) is int:
        value = float(value)
    if isinstance(value, tuple):
        return list(value)
    alone = p.length and type(value) in (int, float, bool)
    return [value] * p.length if alone else value


def _outs(table: Any, results: list[Argument]) -> list[Argument]:
    """The arguments that take the results."""
    letters = "abcdefgh"
    names = ["out"] if len(results) == 1 else [r.name or f"out{i}" for i, r in enumerate(results)]
    taken = {p.name for p in table.parameters}
    return [
        Argument(n if n not in taken else f"out{i}", r.type, REQUIRED, True, AliasInfo(True, (letters[i % 8],)))
        for i, (n, r) in enumerate(zip(names, results, strict=True))
    ]  # fmt: skip


def _results(table: Any, written: bool, views: bool) -> list[Argument]:
    """What the operator gives."""
    tail = table.text.rpartition("->")[2].strip()
    if tail == "()":
        return []
    alias = AliasInfo(True, ("a",)) if written else AliasInfo(False, ("a",)) if views else None
    if not tail.startswith("("):
        kind = _result_type(tail.partition(" ")[0])
        return [Argument("", kind, alias_info=alias if _has_tensors(kind) else None)]
    kinds = [part.strip().partition(" ")[0] for part in tail[1:-1].split(",")]
    return [
        Argument(name, _result_type(kind), alias_info=alias)
        for name, kind in zip(table.results, kinds, strict=True)
    ]


def _result_type(text: str) -> T.Type:
    if text.endswith("?"):
        return T.optional_of(_result_type(text[:-1]))
    if text.endswith("]"):
        return T.list_of(_result_type(text.rpartition("[")[0]))
    return _RESULTS[text]


def _has_tensors(kind: T.Type) -> bool:
    return kind.kind == "Tensor" or any(map(_has_tensors, kind.inner))


@cache
def numbers_by_overload(operator: Any) -> dict[str, frozenset[str]]:
    """The names under which calls with tensors, with numbers, and with or without what may be left out, go: for each,
    the operands that are numbers in the first such call.
    """
    definition = operator.definition
    parameters = definition.schema.parameters
    tensor = core.empty(())
    rules = [
        part.partition("=")[0].partition(":")[0] for part in (definition.overload or "").split(", ")
    ]
    choices: list[tuple[Any, ...]] = []
    for p in parameters:
        if p.type == "Operand" and not p.is_list:
            choices.append((tensor, 1))
        elif p.name in rules or p.optional and p.name == "dim":
            choices.append((None, 0) if p.optional or p.default is None else (0,))
        else:
            choices.append((tensor if p.is_tensor else None,))
    found: dict[str, frozenset[str]] = {}
    for values in itertools.islice(itertools.product(*choices), 64):
        numbers = [
            p.name
            for p, v in zip(parameters, values, strict=True)
            if p.type == "Operand" and not p.is_list and v is not tensor
        ]
        if any(v is tensor for v in values) or not numbers:
            name = overload_name(operator, values, {})
            # calls with numbers go by the name of those with tensors, as PyTorch wraps numbers first
            name = "Scalar" if name == "Tensor" and len(numbers) == 1 and name in found else name
            found.setdefault(name, frozenset(numbers))
    return found


def names_of_overloads(operator: Any) -> list[str]:
    """The names of an operator's overloads, those with `out=` last."""
    names = list(numbers_by_overload(operator)) or ["default"]
    varies = operator.definition.schema.text.endswith("any")
    if isinstance(operator, core.InplaceOp) or varies or not operator.definition.out:
        return names
    outs = ["out" if n in ("default", "Tensor") else f"{n}_out" for n in names]
    return [*names, *dict.fromkeys(outs)]
