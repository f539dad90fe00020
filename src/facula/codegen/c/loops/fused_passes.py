"""Passes over a block that are alike as one C function: a chain of the same function is compiled once.

Takes: the passes of a kernel in order, each the inside of a loop that reads and writes arrays of the
block. Gives: `Shared`: the statements of each pass, and the functions that some of them call.
Keeps true: passes share a function where they differ in their arrays only; a pass that reads anything
else (memory, sizes, what is computed before the loops) stays a loop, and so do the rare ones.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from facula.codegen.c.loops.text import indent

#: equal passes from which on they are a function
MANY = 3

_ARRAY = re.compile(r"\bh\d+_\d+\b")
_NUMBER = re.compile(r"\b0x[0-9a-f.]+p[+-]?\d+f?|\b\d[\w.]*")
_NAME = re.compile(r"\b[A-Za-z_]\w*\b")
_DECLARED = re.compile(r"\bconst \w+ (\w+) =")
#: what a pass may name besides its arrays and its own values: library functions and types
_KNOWN = re.compile(r"f[mk]_\w+|x\d+|const|float|double|u?int\d+_t|_Bool|far|at")


class Shared:
    """The passes of one kernel.

    Args:
        passes: the lines of each.
        types: the C types of arrays.
        lane: the loop's variable.
        loop: a loop over the block around some lines.
    """

    def __init__(
        self,
        passes: Sequence[list[str]],
        types: Mapping[str, str],
        lane: str,
        loop: Callable[[list[str]], list[str]],
    ) -> None:
        self.types, self.lane, self.loop = types, lane, loop
        self.functions: list[str] = []
        self._names: dict[str, str] = {}
        forms = [self._form(lines) for lines in passes]
        counts = Counter(text for text, _ in forms)
        self.statements = [
            [self._call(text, arrays)]
            if counts[text] >= MANY and self._is_closed(text)
            else loop(lines)
            for lines, (text, arrays) in zip(passes, forms, strict=True)
        ]

    def _form(self, lines: list[str]) -> tuple[str, tuple[str, ...]]:
        """A pass with its arrays named by their order, typed, and these arrays."""
        text = "\n".join(lines)
        arrays = tuple(dict.fromkeys(_ARRAY.findall(text)))
        places = {name: f"x{k}" for k, name in enumerate(arrays)}
        parameters = ", ".join(f"{self.types[name]} *restrict {places[name]}" for name in arrays)
        return f"{parameters}\n" + _ARRAY.sub(lambda m: places[m[0]], text), arrays

    def _is_closed(self, text: str) -> bool:
        """Whether a pass names nothing but its arrays and values."""
        body = _NUMBER.sub("0", text.partition("\n")[2])
        own = {self.lane, *_DECLARED.findall(body)}
        return all(name in own or _KNOWN.fullmatch(name) for name in _NAME.findall(body))

    def _call(self, text: str, arrays: Sequence[str]) -> str:
        name = self._names.get(text)
        if name is None:
            name = self._names[text] = f"@_pass{len(self._names)}"
            parameters, _, body = text.partition("\n")
            self.functions += [
                f"static __attribute__((noinline)) int {name}(",
                f"    int64_t at, int64_t until, {parameters})",
                "{",
                "    int far = 0;",
                *indent(self.loop(body.split("\n"))),
                "    return far;",
                "}",
                "",
            ]
        call = f"{name}(at, until, {', '.join(arrays)});"
        return f"far |= {call}" if "far |=" in text else call
