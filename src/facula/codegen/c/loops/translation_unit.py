"""Translation units of the loop generators: kernels, the helpers they share, and the exported
table.

Takes: `Kernel` texts.
Gives: `translation_unit`, which assembles headers, math functions that the kernels use, kernels and
`facula_kernels[]`.
Keeps true: the text depends on the kernels alone, so the same table gives the same bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from facula.codegen.c.entries import table
from facula.codegen.c.loops import text as loops_text
from facula.codegen.c.math import library as math

_FUNCTION = re.compile(r"^static void (k_\w+)\(.*?^}\n", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Kernel:
    """One exported kernel: name, kind (`d` driver, `b` body, `m` map), C function, text, and what
    it says of its operands (`entries`)."""

    name: str
    kind: str
    function: str
    text: str
    operands: str


def driver(name: str, function: str, lines: Iterable[str], operands: str) -> Kernel:
    """A kernel that splits its work itself, from the lines of its text."""
    return Kernel(name, "d", function, "\n".join(lines), operands)


def identifier(name: str) -> str:
    """A C identifier for a kernel name."""
    return "k_" + re.sub(r"\W", "_", name)


def merge_equal(text: str) -> str:
    """Keep one of the static functions that differ in nothing but their name.

    Not only for size: gcc 12 merges such functions itself, and loses the body of loops that store
    through pointers of several types.
    """
    first: dict[str, str] = {}
    renamed: dict[str, str] = {}

    def keep(match: re.Match[str]) -> str:
        name = match.group(1)
        anonymous = match.group(0).replace(name, "?", 1)
        if anonymous in first:
            renamed[name] = first[anonymous]
            return ""
        first[anonymous] = name
        return match.group(0)

    text = _FUNCTION.sub(keep, text)
    if not renamed:
        return text
    names = re.compile(r"\b(" + "|".join(map(re.escape, renamed)) + r")\b")
    return names.sub(lambda match: renamed[match.group(1)], text)


def translation_unit(kernels: Sequence[Kernel], prelude: str = "") -> str:
    """The C text of a library with these kernels."""
    entries = table((k.name, k.kind, k.function, k.operands) for k in kernels)
    bodies = merge_equal("\n\n".join([*(kernel.text for kernel in kernels), entries]))
    helpers = loops_text.HALF_HELPERS if re.search(r"fk_(load|store)_", bodies) else ""
    return "\n".join(
        [
            '#include "facula_abi.h"',
            "#include <string.h>",
            math.PREAMBLE,
            math.functions_for(bodies),
            helpers,
            prelude,
            bodies,
        ]
    )
