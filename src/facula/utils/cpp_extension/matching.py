"""Whether a function of C++ fits the schema of the operator that it is registered for.

Takes a parsed schema, and the schema that follows from the types of the function's arguments and result.
Keeps true: what passes here never reads an argument as another type than the one that the operator was given.
"""

from __future__ import annotations

import re

from facula.core.errors import fail
from facula.ops.table.schema import Parameter, Schema

__all__ = ["check_signature"]

#: words of the table's schemas as PyTorch's say them
_WORDS = {
    "Number": "Scalar",
    "Operand": "Scalar",
    "device": "Device",
    "dtype": "ScalarType",
    "generator": "Generator",
    "layout": "Layout",
    "memory_format": "MemoryFormat",
}
#: what C++ may read as a number
_NUMBERS = {"ScalarType": "int", "Layout": "int", "MemoryFormat": "int", "SymInt": "int"}


def check_signature(schema: Schema, signature: str) -> None:
    """Raise RuntimeError where a function's types are not those of a schema.

    Args:
        schema: of the operator
        signature: of the function, such as `"(Tensor _0, int _1) -> Tensor"`

    Example:
        >>> from facula.ops.table.schema import parse
        >>> check_signature(parse("scale(Tensor x, float by) -> Tensor"), "(Tensor _0, float _1) -> Tensor")
    """
    given, _, results = signature.rpartition(" -> ")
    wanted = [_word(p) for p in schema.parameters]
    found = [_plain(part) for part in _parts(given)]
    reason = _difference("arguments", wanted, found) or _difference(
        "returns", [_plain(part) for part in _parts(schema.text.rpartition("->")[2])],
        [_plain(part) for part in _parts(results)],
    )  # fmt: skip
    if reason:
        fail(
            RuntimeError,
            schema.name,
            "a function with the types of the operator's schema was required (Inferred operator schema for a C++ "
            f"kernel function doesn't match the expected function schema {schema.text})",
            f"{signature}: {reason}",
            hint="int is int64_t in C++, float is double, int[] is at::IntArrayRef",
        )


def _difference(what: str, wanted: list[str], found: list[str]) -> str | None:
    if len(wanted) != len(found):
        return f"The number of {what} is different. {len(wanted)} vs {len(found)}."
    for i, (one, other) in enumerate(zip(wanted, found, strict=True)):
        if one != other and "any" not in one:
            return f"Type mismatch in {what[:-1]} {i + 1}: {one} vs {other}."
    return None


def _word(parameter: Parameter) -> str:
    """The type of an argument, without its length and name."""
    kind = _WORDS.get(parameter.type, parameter.type)
    kind = _NUMBERS.get(kind, kind)
    items = ("?" if parameter.optional_items else "") + "[]" if parameter.is_list else ""
    return kind + items + ("?" if parameter.optional else "")


def _parts(text: str) -> list[str]:
    """The items of a list in brackets, or the one item that there is."""
    text = text.strip()
    if text.startswith("(") and text.endswith(")"):
        text = text[1:-1]
    depth, parts = 0, [""]
    for letter in text:
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]


def _plain(text: str) -> str:
    """A type without name, aliases and length: `Tensor(a!) out` is `Tensor`."""
    kind = re.sub(r"\([a-z!|*> -]*\)", "", text).split()[0]
    kind = re.sub(r"\[\d+\]", "[]", kind)
    base, *rest = re.split(r"(?=[?\[])", kind, maxsplit=1)
    base = _WORDS.get(base, base)
    return _NUMBERS.get(base, base) + "".join(rest)
