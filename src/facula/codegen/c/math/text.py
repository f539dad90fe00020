"""How the C math library is written: one template for both float widths.

Takes: C templates with markers, tables of polynomial coefficients.
Gives: `Library` (function name -> C text) with `add` for templates, `polynomial`, `clenshaw`.
Keeps true: every function is `static inline`, branch-free unless said otherwise, and named `fm_<stem>_<dtype>`.

Markers: `@T` the C type, `@I` / `@U` the integer of its width, `@s` the dtype (`f32`, `f64`), `@f` the literal suffix,
`$poly(x, NAME)` a polynomial in Horner form, `$cheb(x, NAME)` a Chebyshev sum with `x` in [-1, 1], `$NAME` a constant.
Coefficients and constants are tables `NAME -> (f32 value, f64 value)`; one value serves both.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

_MARKS = {
    "f32": {"@T": "float", "@I": "int32_t", "@U": "uint32_t", "@s": "f32", "@f": "f"},
    "f64": {"@T": "double", "@I": "int64_t", "@U": "uint64_t", "@s": "f64", "@f": ""},
}
_NAME = re.compile(r"^FM(?:_CALL)? [\w ]*?\b(fm_\w+)\(", re.MULTILINE)


def literal(value: float, dtype: str) -> str:
    """A C literal with exactly this value in `dtype`."""
    return f"{float(value).hex()}{'f' if dtype == 'f32' else ''}"


def polynomial(x: str, coefficients: Sequence[float], dtype: str) -> str:
    """Horner form, lowest power first in `coefficients`."""
    text = literal(coefficients[-1], dtype)
    for value in reversed(coefficients[:-1]):
        text = f"({text} * {x} + {literal(value, dtype)})"
    return text


def _chebyshev_function(name: str, coefficients: Sequence[float], dtype: str) -> str:
    """Clenshaw's recurrence, unrolled; stable where the powers of x would not be."""
    kind, suffix = _MARKS[dtype]["@T"], _MARKS[dtype]["@f"]
    lines = [
        f"FM {kind} fm_cheb_{name}_{dtype}({kind} x) {{",
        f"    {kind} t = x + x, a = 0.0{suffix}, b = 0.0{suffix}, c;",
    ]
    for value in reversed(coefficients[1:]):
        lines.append(f"    c = a; a = t * a - b + {literal(value, dtype)}; b = c;")
    lines += [f"    return x * a - b + {literal(coefficients[0], dtype)};", "}"]
    return "\n".join(lines)


def _pick(table: Mapping[str, object], name: str, dtype: str) -> object:
    value = table[name]
    return value[dtype == "f64"] if isinstance(value, tuple) else value


class Library:
    """C functions by name, each with the text that defines it."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def add(
        self,
        template: str,
        table: Mapping[str, object] | None = None,
        dtypes: Sequence[str] = ("f32", "f64"),
    ) -> None:
        """Enter every function of a template, once for each dtype. Functions are separated by empty lines."""
        for dtype in dtypes:
            text = self._expand(template, table or {}, dtype)
            for function in re.split(r"\n\s*\n", text.strip()):
                found = _NAME.search(function)
                if not found:
                    raise ValueError(
                        f"[math] a function 'FM type fm_name(' was required: got {function[:60]!r}"
                    )
                self.texts[found.group(1)] = function

    def _expand(self, template: str, table: Mapping[str, object], dtype: str) -> str:
        def polynomial_text(match: re.Match[str]) -> str:
            return polynomial(match.group(1), _pick(table, match.group(2), dtype), dtype)  # type: ignore[arg-type]

        def chebyshev_text(match: re.Match[str]) -> str:
            name = f"fm_cheb_{match.group(2).lower()}_{dtype}"
            values = _pick(table, match.group(2), dtype)
            self.texts[name] = _chebyshev_function(match.group(2).lower(), values, dtype)  # type: ignore[arg-type]
            return f"{name}({match.group(1)})"

        def constant_text(match: re.Match[str]) -> str:
            value = _pick(table, match.group(1), dtype)
            return literal(value, dtype) if isinstance(value, float) else str(value)

        text = re.sub(r"\$poly\((\w+), (\w+)\)", polynomial_text, template)
        text = re.sub(r"\$cheb\(([^,]+), (\w+)\)", chebyshev_text, text)
        text = re.sub(r"\$(\w+)", constant_text, text)
        for mark, replacement in _MARKS[dtype].items():
            text = text.replace(mark, replacement)
        return text
