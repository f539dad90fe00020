"""Why capture can stop: one entry for each code, with its cause and what to write instead.

Takes: the place in capture that can not go on. Gives: `Break`, which the driver turns into a graph
break or, under `fullgraph=True`, into `Unsupported`.
Keeps true: every break that is raised has a code of `CATALOGUE`; `page` is its documentation.
"""

from __future__ import annotations

import os
import sys
from typing import NamedTuple

from facula.capture.values.sources import Line
from facula.core.errors import fail, spoken


class Entry(NamedTuple):
    """What stands in the catalogue."""

    title: str
    cause: str
    rewrite: str


CATALOGUE: dict[str, Entry] = {
    "data-dependent-branch": Entry(
        "data-dependent control flow",
        "a branch or a loop asks for the truth of a tensor, whose elements are not known while the "
        "program is captured (`assert`, and branches that do nothing but to raise, are no breaks: "
        "they are checked behind the graph)",
        "use facula.where(condition, a, b), or facula.cond(condition, f, g, operands)",
    ),
    "data-dependent-value": Entry(
        "a Python number out of a tensor",
        "`.item()`, `.tolist()`, `int()`, `float()`, or an index asks for elements, which are not "
        "known while the program is captured",
        "keep the value in a tensor; do reductions and comparisons with tensor operators",
    ),
    "data-dependent-shape": Entry(
        "a result whose shape depends on data",
        "the operator's result has a shape that only its elements decide (`nonzero`, `unique`, "
        "boolean indexing)",
        "use facula.where with three arguments, or masks that keep the shape",
    ),
    "unbacked-size": Entry(
        "a decision on a size that was marked as unbacked",
        "control flow, or an operator's checks, asks for a size of which `mark_unbacked` says that "
        "nothing may depend on it",
        "mark it with mark_dynamic, which allows guards, or write the code without the question",
    ),
    "explicit": Entry(
        "an explicit break",
        "the program asked for it with `graph_break()`",
        "remove the call",
    ),
    "disabled": Entry(
        "a call of a disabled function",
        "the callee was marked with `compiler.disable`",
        "call it outside of the compiled function, or remove the mark",
    ),
    "backward": Entry(
        "a backward pass inside of the compiled function",
        "`backward()` and `autograd.grad` run the engine, which is not captured here; the compiled "
        "forward brings its own compiled backward",
        "compile the forward part (model and loss) and leave the call of backward() outside",
    ),
    "unsupported-call": Entry(
        "a call of something that is not Python code",
        "the callee is written in C and is not known to the compiler, or does input and output",
        "call it before or after the compiled function, or on values that do not depend on tensors",
    ),
    "unsupported-attribute": Entry(
        "an attribute that can not be followed",
        "the attribute is computed by C code that the compiler does not know",
        "read it outside of the compiled function and pass its value",
    ),
    "unsupported-mutation": Entry(
        "a change that can not be repeated",
        "the object is changed in a way that can not be done again by generated Python",
        "make a new object, or change it outside of the compiled function",
    ),
    "unsupported-instruction": Entry(
        "an instruction that is not captured",
        "the bytecode has an instruction that the compiler does not follow (async functions, class "
        "definitions, star imports)",
        "move this part of the program out of the compiled function",
    ),
    "unsupported-value": Entry(
        "a value that can not be passed on",
        "the value can neither be read again nor be made again by generated Python at this place",
        "make it in the part of the program that uses it",
    ),
    "tensor-subclass": Entry(
        "a tensor subclass with its own functions",
        "the class overrides `__torch_function__` or `__torch_dispatch__`, whose Python decides "
        "what happens",
        "unwrap it before the compiled function",
    ),
    "fake-error": Entry(
        "an operator that fails",
        "the operator raised while its result's shape was computed; eager will most likely raise "
        "the same",
        "see the message; if eager accepts the call, please report it",
    ),
    "no-graph-argument": Entry(
        "an argument that a graph can not hold",
        "an operator gets an object that is neither a tensor, a number nor a list of them",
        "pass tensors and numbers",
    ),
    "recursion": Entry(
        "too deep a recursion",
        "calls are nested deeper than capture follows",
        "write the recursion as a loop",
    ),
    "import": Entry(
        "an import",
        "the module is not loaded yet; importing runs code",
        "import at the top of the file",
    ),
    "internal": Entry(
        "a fault in the compiler",
        "capture failed in a way that it should not, and `suppress_errors` is on (without it such a "
        "fault is raised)",
        "please report it with the traceback that suppress_errors = False shows",
    ),
}


class Break(Exception):
    """Capture can not take the present instruction."""

    def __init__(self, code: str, detail: str = "", rewrite: str = "") -> None:
        if code not in CATALOGUE:
            fail(
                KeyError,
                "compile",
                f"a break out of {', '.join(CATALOGUE)} was required",
                code,
                hint="add the break to the catalogue first",
            )
        self.code = code
        self.line: Line | None = None
        self.trace = ""
        self.detail = detail
        self.rewrite = spoken(rewrite or CATALOGUE[code].rewrite)
        super().__init__(f"{CATALOGUE[code].title}: {detail}" if detail else CATALOGUE[code].title)


class Earlier(Exception):
    """The segment has to end before the instruction number `tick`, for the reason `reason`."""

    def __init__(self, tick: int, reason: Break) -> None:
        self.tick = tick
        self.reason = reason
        super().__init__(str(reason))


class Respecialise(Exception):
    """The segment has to be captured again with all sizes static."""


class Unassuming(Exception):
    """The segment has to be captured again without an assumption about a tensor's truth."""


def write_pages(folder: str) -> None:
    """Write the documentation of all codes into a folder: `python -m facula.capture.breaks DIR`."""
    os.makedirs(folder, exist_ok=True)
    for code in CATALOGUE:
        with open(os.path.join(folder, f"{code}.md"), "w", encoding="utf-8") as file:
            file.write(page(code))


def page(code: str) -> str:
    """The documentation of one code, as Markdown."""
    entry = CATALOGUE[code]
    return (
        f"# {code}: {entry.title}\n\n"
        f"**What happens.** The segment that was captured so far is compiled; this instruction runs in "
        f"Python; capture goes on behind it. Under `fullgraph=True` it is an error.\n\n"
        f"**Cause.** {entry.cause[0].upper()}{entry.cause[1:]}.\n\n"
        f"**Instead.** {entry.rewrite[0].upper()}{entry.rewrite[1:]}.\n"
    )


if __name__ == "__main__":
    write_pages(sys.argv[1])
