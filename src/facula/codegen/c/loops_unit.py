"""Translation units of the loop generators: kernels, the helpers they share, and the exported
table.

Takes: `Kernel` texts.
Gives: `translation_unit`, which assembles headers, math functions that the kernels use, kernels and
`facula_kernels[]`.
Keeps true: the text depends on the kernels alone, so the same table gives the same bytes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from facula.codegen.c import loops_text, math


@dataclass(frozen=True, slots=True)
class Kernel:
    """One exported kernel: name, kind (`d` driver, `b` body, `m` map), C function and text."""

    name: str
    kind: str
    function: str
    text: str


def identifier(name: str) -> str:
    """A C identifier for a kernel name."""
    return "k_" + re.sub(r"\W", "_", name)


def translation_unit(kernels: Sequence[Kernel], prelude: str = "") -> str:
    """The C text of a library with these kernels."""
    bodies = "\n\n".join(kernel.text for kernel in kernels)
    entries = "\n".join(f"    {{\"{k.name}\", '{k.kind}', (void *){k.function}}}," for k in kernels)
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
            "const int facula_abi = FACULA_ABI;",
            "const fk_entry facula_kernels[] = {",
            entries,
            "    {0, 0, 0},",
            "};",
            "",
        ]
    )
