"""Names in captured graphs: inputs by where they come from, values by the variables that hold them.

Takes: sources, the frame that a segment is of, and variables that values are stored to. Gives: the name of a
placeholder as PyTorch's backends read it (`L_x_`, `G_table_`, `L_self_modules_0_parameters_weight_`), and
nodes that carry the name of the first variable.
Keeps true: a name says what a source reads, and nothing depends on it; two inputs may ask for one name.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from facula.capture.values.kinds import TensorValue
from facula.capture.values.sources import Held, Source

if TYPE_CHECKING:
    from facula.capture.interpreter.frames import Frame

__all__ = ["called_after", "input_name", "is_named", "spelled"]

_CELL = "cell_"


def input_name(source: Source, frame: Frame | None) -> str:
    """The target of the placeholder that stands for a source: `L_` a local, `G_` a global."""
    return re.sub(r"[^a-zA-Z0-9]+", "_", spelled(source, frame)) or "input"


def is_named(patterns: str, source: Source, frame: Frame | None) -> bool:
    """Whether a source is one of those that a setting names: expressions or patterns, with commas between."""
    text = spelled(source, frame)
    wanted = [pattern.strip() for pattern in patterns.split(",")]
    return any(p == text or ("\\" in p and bool(re.fullmatch(p, text))) for p in wanted)


def plain_name(slot: str) -> str:
    """The local that a slot holds; those with the name of a builtin end with an underscore."""
    plain = slot.removesuffix("_")
    return plain if plain != slot and not plain.endswith("_") else slot


def spelled(source: Source, frame: Frame | None) -> str:
    """A source as an expression over the locals `L` and the globals `G`."""
    if source.kind == "slot":
        return f"L[{plain_name(source.key)!r}]"
    if source.kind == "held":
        return _held(source.key.value)
    if source.kind == "attr" and source.key == "cell_contents":
        return _cell(source.base, frame)
    if source.kind == "attr":
        return f"{spelled(source.base, frame)}.{source.key}"
    if source.kind == "item":
        key = source.key[1]
        if source.base.kind == "held" and isinstance(key, str):
            return _global(source.base.key.value, key, frame)
        if source.base.kind == "attr" and source.base.key == "__dict__" and isinstance(key, str):
            return f"{spelled(source.base.base, frame)}.{key}"
        shown = _held(key.value) if isinstance(key, Held) else repr(key)
        return f"{spelled(source.base, frame)}[{shown}]"
    return f"{_held(source.key[0].value)}({spelled(source.base, frame)})"


def _held(value: Any) -> str:
    return getattr(value, "__name__", None) or type(value).__name__


def _cell(source: Source, frame: Frame | None) -> str:
    """What a cell holds: a free variable of the frame is one of its locals."""
    if source.kind == "slot":
        return f"L[{plain_name(source.key).removeprefix(_CELL)!r}]"
    if frame is not None and source.kind == "item" and type(source.key[1]) is int:
        base = source.base
        if base.kind == "attr" and base.base.kind == "slot" and base.base.key == "F":
            return f"L[{frame.code.co_freevars[source.key[1]]!r}]"
    return f"{spelled(source, frame)}.cell_contents"


def _global(table: Any, name: str, frame: Frame | None) -> str:
    """A global of the frame, or of the module of another function."""
    if not isinstance(table, dict) or "__name__" not in table:
        return f"{_held(table)}[{name!r}]"
    if frame is not None and frame.globals is not table:
        module = "__import_" + table["__name__"].replace(".", "_dot_")
        return f"G[{module!r}].{name}"
    return f"G[{name!r}]"


def called_after(value: Any, name: str) -> None:
    """Let the node of a tensor that was computed have the name of the variable it is stored to."""
    if type(value) is not TensorValue or value.named:
        return
    value.named = True
    node = value.node
    if node is not None and node.op != "placeholder" and name.isidentifier():
        node._rename(name)
