"""The C math library: which functions there are, and the text of those that a piece of C uses.

Takes: C text that calls `fm_<stem>_<dtype>`.
Gives: `functions_for(text)`, the definitions that it needs, in order; `GUARDED`, the stems with a fast form.
Keeps true: a translation unit holds only what it uses; every function is inlined, so a simd loop stays one loop.
"""

from __future__ import annotations

import re

from facula.codegen.c.math import exponential as math_exponential
from facula.codegen.c.math import integer as math_integer
from facula.codegen.c.math import scalar as math_scalar
from facula.codegen.c.math import special as math_special
from facula.codegen.c.math import trigonometric as math_trigonometric
from facula.codegen.c.math.text import Library

__all__ = ["GUARDED", "LIBRARY", "PREAMBLE", "SLOW", "SMOOTH", "calls", "functions_for"]

LIBRARY = Library()
for _module in (math_exponential, math_trigonometric, math_special, math_scalar, math_integer):
    _module.fill(LIBRARY)

#: stems with a form `fm_<stem>_fast_<dtype>` that vectorises and holds where `fm_<stem>_guard_<dtype>` is true
GUARDED = frozenset({"sin", "cos", "tan", "fmod", "remainder", "floor_divide", "pow"})

#: guarded stems whose full form vectorises too
SMOOTH = frozenset({"pow"})

#: stems that run one element at a time; a loop with one of them is not marked simd
SLOW = frozenset(
    "lgamma digamma polygamma zeta igamma igammac bessel_j0 bessel_j1 bessel_y0 bessel_y1 airy_ai airy_ai_derivative "
    "chebyshev_t chebyshev_u chebyshev_v chebyshev_w shifted_chebyshev_t shifted_chebyshev_u shifted_chebyshev_v "
    "shifted_chebyshev_w hermite_h hermite_he laguerre_l legendre_p gcd lcm truncated_divide truncated_remainder "
    "floored_remainder floored_divide integer_pow".split()
)

# jump threading turns selects into branches, which would keep loops scalar
PREAMBLE = """#include <stdint.h>
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize ("no-thread-jumps")
#endif
#define FM static inline __attribute__((always_inline, unused))
#define FM_CALL static __attribute__((noinline, unused))
"""

_CALL = re.compile(r"\bfm_\w+")


def calls(text: str) -> list[str]:
    """The library functions that a text names, as often as it does."""
    return _CALL.findall(text)


def functions_for(text: str) -> str:
    """The definitions of every library function that `text` calls, directly or through another, callees first."""
    found: dict[str, str] = {}
    _find_called(text, found, set())
    return "\n\n".join(found.values())


def _find_called(text: str, found: dict[str, str], visited: set[str]) -> None:
    for name in dict.fromkeys(_CALL.findall(text)):
        if name in visited:
            continue
        visited.add(name)
        if name not in LIBRARY.texts:
            raise KeyError(f"[math] a function of the C math library was required: got {name!r}")
        _find_called(LIBRARY.texts[name], found, visited)
        found[name] = LIBRARY.texts[name]
