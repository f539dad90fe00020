"""Schemas of users' operators: from PyTorch's spelling, and from annotations.

Takes PyTorch's schema text or an annotated Python function. Gives the text that `ops.table.schema` parses,
and which arguments are written to.
Keeps true: what cannot be told is an error that names the argument; nothing is guessed.
"""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.table.schema import TYPES

__all__ = ["infer_schema", "translate"]

#: PyTorch's type names that are spelled differently here
_SPELLING = {
    "SymInt": "int",
    "Scalar": "Number",
    "ScalarType": "dtype",
    "Device": "device",
    "Layout": "layout",
    "MemoryFormat": "memory_format",
    "Generator": "generator",
    "SymBool": "bool",
    "SymFloat": "float",
}
_TYPE = re.compile(rf"\b({'|'.join(_SPELLING)})\b")
_ALIAS = re.compile(
    r"\((?P<set>[a-z]\d*(?:\s*\|\s*[a-z]\d*)*)(?P<written>!?)(?:\s*->\s*[a-z\d*|\s]+)?\)"
)
_WRITTEN = re.compile(r"\([a-z]\d*(?:\s*\|\s*[a-z]\d*)*!\)[\[\]?]*\s+(?P<name>\w+)")
#: the first word of an argument or result
_TYPED = re.compile(r"(?:^|,)\s*([A-Za-z_]\w*)(?![\w.]*\s*[=)])(?=[\s\[?(,]|$)")
#: types of C++ that schemas spell otherwise
_C_TYPES = {"int64_t": "Use `SymInt` or `int`", "double": "Use `float`"}
_CONSTANTS = {"contiguous_format": "None", "strided": "None", "Mean": "1"}


def translate(qualname: str, schema: str) -> tuple[str, tuple[str, ...]]:
    """A schema in the spelling of `ops.table.schema`, and the names of the arguments that are written to.

    Args:
        qualname: `namespace::name`.
        schema: `(Tensor(a!) x, SymInt n=1) -> Tensor`, with or without a name before it.
    """
    arguments = schema[schema.index("(") :] if "(" in schema else fail_schema(qualname, schema)
    head, arrow, tail = arguments.rpartition("->")
    if not arrow:
        fail_schema(qualname, schema)
    tail = " ()" if tail.strip() == "None" else tail
    mutated = tuple(match["name"] for match in _WRITTEN.finditer(head))
    _check_types(qualname, head, tail)
    plain = _TYPE.sub(lambda match: _SPELLING[match[1]], _ALIAS.sub("", head))
    for name, value in _CONSTANTS.items():
        plain = plain.replace(f"={name}", f"={value}")
    results = _TYPE.sub(lambda match: _SPELLING[match[1]], _ALIAS.sub("", tail))
    return f"{qualname}{plain.strip()} -> {results.strip()}", mutated


def _check_types(qualname: str, arguments: str, results: str) -> None:
    """That the words of a schema that stand where types stand are types."""
    for text in (_ALIAS.sub("", arguments).strip()[1:-1], _ALIAS.sub("", results).strip("() ")):
        for match in _TYPED.finditer(text):
            word = match[1]
            if word in TYPES or word in _SPELLING:
                continue
            hint = _C_TYPES.get(word, f"the types are {', '.join(sorted(TYPES | set(_SPELLING)))}")
            required = "types of schemas were required (unknown type specifier)"
            fail(RuntimeError, qualname, required, repr(word), hint)


def fail_schema(qualname: str, schema: str) -> typing.NoReturn:
    """Say what a schema looks like."""
    required = "a schema '(Tensor x, int n=1) -> Tensor' was required"
    fail(
        RuntimeError,
        qualname,
        required,
        repr(schema),
        hint="for example '(Tensor x, int n=1) -> Tensor'",
    )


_SCALARS: dict[Any, str] = {
    core.Tensor: "Tensor",
    int: "SymInt",
    float: "float",
    bool: "bool",
    str: "str",
    complex: "Scalar",
    core.dtype: "ScalarType",
    core.device: "Device",
    core.layout: "Layout",
    core.memory_format: "MemoryFormat",
    core.Generator: "Generator",
}
_UNIONS = (typing.Union, types.UnionType)


def _type_text(annotation: Callable[..., Any]) -> str | None:
    """The schema's name of an annotation, None for one that has none."""
    if annotation in _SCALARS:
        return _SCALARS[annotation]
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in _UNIONS:
        rest = [a for a in arguments if a is not type(None)]
        if set(rest) <= {int, float, bool, complex} and len(rest) > 1:
            return "Scalar?" if len(rest) < len(arguments) else "Scalar"
        inner = _type_text(rest[0]) if len(rest) == 1 else None
        return None if inner is None or inner.endswith("?") else inner + "?"
    if origin in (list, Sequence) and len(arguments) == 1:
        inner = _type_text(arguments[0])
        if inner is None or inner.endswith("]") or (inner.endswith("?") and inner != "Tensor?"):
            return None
        return inner + "[]"
    return None


def tuple_to_list(annotation: object) -> Any:
    """The list that may stand where an annotation asks for a tuple; None where there is none."""
    items = [a for a in typing.get_args(annotation) if a is not Ellipsis]
    kinds = set(items)
    if not kinds:
        return list
    if len(kinds) == 1:
        return list[items[0]]  # type: ignore[valid-type]
    if len(kinds) == 2 and type(None) in kinds:
        (item,) = kinds - {type(None)}
        return list[typing.Optional[item]]  # type: ignore[valid-type] # noqa: UP045 - a value
    any_of: Any = typing.Union  # noqa: UP007 - a value
    listed: Any = list
    return listed[any_of[tuple(items)]]


def _default_text(value: object) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, core.device):
        return f'"{value}"'
    return value.name if isinstance(value, core.dtype) else str(value)


def _argument_text(name: str, parameter: Any, annotation: Any, written: bool, position: int) -> str:
    if annotation is inspect.Parameter.empty:
        fail(
            ValueError,
            "infer_schema",
            f"Parameter {name} must have a type annotation",
            "none",
            hint="for example x: Tensor, n: int, or factor: float",
        )
    kind = _type_text(annotation)
    if kind is None:
        hint = "Tensor, int, float, bool, str, dtype, device, and lists and optionals of them are"
        required = f"Parameter {name} must have a supported annotation (unsupported type)"
        if typing.get_origin(annotation) is tuple and _type_text(tuple_to_list(annotation)):
            hint = f"For example, {tuple_to_list(annotation)}; {hint}"
        fail(ValueError, "infer_schema", required, annotation, f"{hint} supported")
    if written:
        if not kind.startswith("Tensor"):
            required = f"Parameter {name} is in mutable_args but only Tensors can be mutated"
            fail(
                ValueError, "infer_schema", required, kind, hint=f"leave {name} out of mutates_args"
            )
        kind = f"Tensor(a{position}!)" + kind[len("Tensor") :]
    default = parameter.default
    return f"{kind} {name}" + (
        "" if default is inspect.Parameter.empty else f"={_default_text(default)}"
    )


def _result_text(annotation: Any) -> str:
    if annotation in (None, type(None)):
        return "()"
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is tuple and Ellipsis not in arguments:
        found = [_type_text(argument) for argument in arguments]
        text = None if None in found else f"({', '.join(typing.cast('list[str]', found))})"
    else:
        text = _type_text(annotation)
    if text is None or annotation is inspect.Signature.empty:
        required = (
            "Return has a supported annotation: Tensor, a tuple or list of them, or None (unsupported "
            "return type)"
        )
        fail(ValueError, "infer_schema", required, annotation, hint="for example -> Tensor")
    return text


def infer_schema(
    prototype_function: Callable[..., Any],
    /,
    *,
    mutates_args: str | Iterable[str],
    op_name: str | None = None,
) -> str:
    """The schema of a function with annotations.

    Args:
        prototype_function: annotates each parameter and the result
        mutates_args: names of the tensors that it writes to, or 'unknown' for all
        op_name: what the schema begins with

    Raises:
        ValueError: an annotation is missing, or of a kind that schemas do not have.

    Example:
        >>> def f(x: facula.Tensor, n: int = 2) -> facula.Tensor:
        ...     return x * n
        >>> facula.library.infer_schema(f, mutates_args=())
        '(Tensor x, SymInt n=2) -> Tensor'
    """
    signature = inspect.signature(prototype_function)
    hints = typing.get_type_hints(prototype_function)
    every = mutates_args == "unknown"
    written = set(signature.parameters) if every else set(mutates_args)
    unknown = written - set(signature.parameters)
    if unknown:
        required = (
            f"mutates_args must name parameters among {list(signature.parameters)} "
            f"({unknown} in mutates_args were not found in the custom op's signature)"
        )
        fail(
            ValueError,
            "infer_schema",
            required,
            sorted(unknown),
            hint="mutates_args=() says that nothing is written to",
        )
    parts, keyword_only = [], False
    for position, (name, parameter) in enumerate(signature.parameters.items()):
        if parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
            fail(
                ValueError,
                "infer_schema",
                "no *args and **kwargs were required (varargs and varkwargs are not supported)",
                f"{parameter}",
                hint="write the parameters out",
            )
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and not keyword_only:
            parts.append("*")
            keyword_only = True
        annotation = hints.get(name, inspect.Parameter.empty)
        is_tensor = (_type_text(annotation) or "").startswith("Tensor")
        changed = name in written and (is_tensor or not every)
        parts.append(_argument_text(name, parameter, annotation, changed, position))
    result = _result_text(hints.get("return", inspect.Signature.empty))
    return f"{op_name or ''}({', '.join(parts)}) -> {result}"
