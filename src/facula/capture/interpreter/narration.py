"""What capture tells while it works, where logs ask for it: instructions, lines, calls, guards, sizes.

Takes: the segment, frame or entry at hand. Gives: records of the artifacts `bytecode`, `trace_source`,
`trace_call`, `graph`, `graph_code`, `graph_sizes`, `guards`, `verbose_guards`, `recompiles_verbose`.
Keeps true: nothing is made into text unless somebody reads it.
"""

from __future__ import annotations

import dis
from collections.abc import Callable, Sequence
from types import CodeType
from typing import TYPE_CHECKING, Any

from facula import core
from facula.capture.values.sources import Line
from facula.core import logs

if TYPE_CHECKING:
    from facula.fx import Node


__all__ = ["code_of", "graph_of", "guards_of", "lines_of_frames", "misses", "trace_call"]


def code_of(code: CodeType) -> None:
    """The instructions that a segment is made of."""
    if logs.is_on("bytecode"):
        place = f"{code.co_qualname} {code.co_filename} line {code.co_firstlineno}"
        listing = dis.Bytecode(code).dis()
        logs.artifact("bytecode").debug("ORIGINAL BYTECODE %s\n%s", place, listing)


def lines_of_frames() -> Callable[[Any], None] | None:
    """What hears of each instruction, to tell of each new line; None where nobody reads it."""
    if not logs.is_on("trace_source"):
        return None
    last: list[Any] = [None]

    def watch(frame: Any) -> None:
        here = (id(frame), frame.instruction.line)
        if here != last[0]:
            last[0] = here
            line = Line.of(frame.code, frame.instruction.line)
            logs.artifact("trace_source").debug("TRACE starts_line %s", line)

    return watch


def trace_call(what: str, name: core.Op | str, line: Callable[[], Line]) -> None:
    """A call that is followed, or that becomes a node."""
    if logs.is_on("trace_call"):
        name = getattr(name, "__name__", None) or str(name)
        logs.artifact("trace_call").debug("TRACE %s %s from %s", what, name, line())


def graph_of(name: str, module: Any) -> None:
    """A captured graph, in each form that is asked for."""
    if logs.is_on("graph_code"):
        shown = module.print_readable(print_output=False)
        logs.artifact("graph_code").debug("TRACED GRAPH of %s:\n%s", name, shown)
    if logs.is_on("graph"):
        logs.artifact("graph").debug("TRACED GRAPH of %s:\n%s", name, module.graph)
    if logs.is_on("graph_sizes"):
        sizes = "\n".join(_sizes(node) for node in module.graph.nodes if _is_tensor(node))
        logs.artifact("graph_sizes").debug("TRACED GRAPH TENSOR SIZES of %s:\n%s", name, sizes)


def _is_tensor(node: Node) -> bool:
    return isinstance(node.meta.get("val"), core.Tensor)


def _sizes(node: Node) -> str:
    return f"{node.name}: {tuple(node.meta['val'].shape)}"


def guards_of(name: str, guards: Sequence[Any]) -> None:
    """What is checked before a segment is used."""
    for artifact in ("guards", "verbose_guards"):
        if logs.is_on(artifact):
            verbose = artifact == "verbose_guards"
            labels = "\n".join(_guard(guard, verbose) for guard in guards)
            logs.artifact(artifact).debug("GUARDS of %s:\n%s", name, labels)


def _guard(guard: Any, verbose: bool) -> str:
    text = f"  {guard.label()}"
    return f"{text}  # {guard.line}" if verbose and guard.line is not None else text


def misses(name: str, entries: Sequence[Sequence[str]]) -> None:
    """Why each of the segments of a place does not serve a state, the newest first."""
    if logs.is_on("recompiles_verbose"):
        text = "\n".join(
            f"  segment {len(entries) - 1 - n}: {reason}"
            for n, reasons in enumerate(entries)
            for reason in reasons
        )
        logs.artifact("recompiles_verbose").debug(
            "Recompiling %s, guards that failed:\n%s", name, text
        )
