"""The docstrings of operators, as `help` and the type stubs show them, out of their definitions.

Takes a definition. Gives `documentation`: signature, what the operator does, arguments with types, defaults
and meanings, the result with its dtype, further forms, derivatives, the errors, and an example.
Keeps true: nothing is said that the definition does not say; a section that the definition's own docstring
has is not derived; a text is made when somebody asks for it, and nothing is computed for it. Examples were
computed when the package was built (`tools/gen_api.py examples`).
"""

from __future__ import annotations

import inspect
import json
import os
import re
import textwrap
from functools import cache
from typing import TYPE_CHECKING, Any

from facula.ops.table.argument_words import words_for
from facula.ops.table.schema import Parameter

if TYPE_CHECKING:
    from facula.ops.table.definition import Definition

__all__ = ["documentation"]

#: a type of a schema -> what users write
_TYPES = {
    "Operand": "Tensor or number",
    "Number": "number",
    "dtype": "facula.dtype",
    "device": "facula.device",
    "layout": "facula.layout",
    "memory_format": "facula.memory_format",
    "generator": "facula.Generator",
}
_WIDTH = 96


def documentation(definition: Definition) -> str:
    """The whole docstring of an operator."""
    own = inspect.cleandoc(definition.body.__doc__ or "")
    if definition.shown()[:1] and definition.shown()[0][0] == "input":
        own = re.sub(r"\bself\b", "input", own)  # as the signature calls it
    summary, *titled = re.split(rf"^({'|'.join(_SECTIONS)}):$", own, flags=re.MULTILINE)
    written = dict(zip(titled[::2], titled[1::2], strict=True))
    sections = [_signature(definition), summary.rstrip()]
    for title, derive in _SECTIONS.items():
        text = written[title].strip("\n") if title in written else _indented(derive(definition))
        if text:
            sections.append(f"{title}:\n{text.rstrip()}")
    return "\n\n".join(section for section in sections if section)


def _indented(lines: list[str]) -> str:
    return "\n".join(f"    {line}" for line in lines)


def _signature(definition: Definition) -> str:
    result = definition.schema.text.rpartition("->")[2].strip()
    shown, keywords = [], False
    for name, parameter in definition.shown():
        if parameter.keyword_only and not keywords:
            shown.append("*")
            keywords = True
        shown.append(f"{name}={parameter.default!r}" if parameter.has_default else name)
    if definition.out:
        shown += ["out=None"] if keywords else ["*", "out=None"]
    return f"{definition.public_name}({', '.join(shown)}) -> {result}"


def _type(parameter: Parameter) -> str:
    """A parameter's type in users' words."""
    kind = _TYPES.get(parameter.type, parameter.type)
    if parameter.is_list:
        kind = {"int": "int or tuple of ints" if parameter.length else "tuple of ints"}.get(
            kind, f"sequence of {kind}s"
        )
    return "object" if kind == "any" else kind


def _wrapped(text: str) -> list[str]:
    """A paragraph, its further lines indented."""
    return textwrap.wrap(text, _WIDTH, subsequent_indent="    ", break_long_words=False)


def _arguments(definition: Definition) -> list[str]:
    lines = []
    for name, parameter in definition.shown():
        kind = _type(parameter) + (", optional" if parameter.has_default else "")
        words = words_for(parameter.name, parameter.type + "[]" * parameter.is_list)
        text = f"{name} ({kind}): {words}"
        if parameter.has_default and parameter.default is not None:
            text += f". Default: {parameter.default!r}"
        lines += _wrapped(text)
    if definition.out:
        lines += _wrapped("out (Tensor, optional): where the result is written")
    return lines


def _returns(definition: Definition) -> list[str]:
    given = definition.schema.text.rpartition("->")[2].strip()
    words = definition.result_words()
    return _wrapped(f"{given}: {words}") if words else [given]


def _notes(definition: Definition) -> list[str]:
    """What is true of the operator beside its values, a sentence each."""
    notes = definition.restrictions()
    if definition.inplace:
        notes.append(f"``{definition.public_name}_`` writes the result over the first argument.")
    if definition.convention:
        notes.append(f"Gradient: {definition.convention}.")
    if definition.random:
        notes.append("Random: `facula.manual_seed` makes it repeatable.")
    others = [f"``facula.{name}``" for name in definition.names[1:]]
    if others:
        notes.append(f"Also {listed(others)}.")
    return [line for note in notes for line in textwrap.wrap(note, _WIDTH)]


def listed(words: list[str]) -> str:
    """Words with commas and an "and"."""
    return " and ".join([*([", ".join(words[:-1])] if words[1:] else []), words[-1]])


class _Anything:
    """Stands for every tensor in the calls that must raise, of which only the errors are read."""

    def _itself(self, *_: object, **__: Any) -> _Anything:
        return self

    __call__ = __getattr__ = __getitem__ = _itself
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __neg__ = _itself


def _errors(definition: Definition) -> list[str]:
    if definition.errors is None:
        return []
    found = {f"{kind.__name__}: {text}" for *_, kind, text in definition.errors(_Anything())}
    return [line for text in sorted(found) for line in _wrapped(text)]


@cache
def _examples() -> dict[str, list[str]]:
    """What the build computed; a checkout that was never built has none."""
    stored = os.path.join(os.path.dirname(os.path.dirname(__file__)), "_examples.json")
    if not os.path.isfile(stored):
        return {}
    with open(stored, encoding="utf-8") as stream:
        found: dict[str, list[str]] = json.load(stream)
    return found


def _example(definition: Definition) -> list[str]:
    return _examples().get(definition.name, [])


#: the sections in their order, and what derives each
_SECTIONS = {
    "Args": _arguments,
    "Returns": _returns,
    "Note": _notes,
    "Raises": _errors,
    "Example": _example,
}
