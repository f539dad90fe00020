"""Where nodes come from: the user's lines, and meta data that a transformation hands on.

Takes the frames of the running thread.  Gives stack traces without facula's own frames, and blocks in
which nodes inherit the `meta` of the node that is being interpreted.
Keeps true: a trace costs microseconds, since each line's text is made once.
"""

from __future__ import annotations

import linecache
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from facula.fx.node import Node


__all__ = [
    "annotate", "format_stack", "get_current_meta", "has_preserved_node_meta", "preserve_node_meta",
    "reset_grad_fn_seq_nr", "set_current_meta", "set_grad_fn_seq_nr", "set_stack_trace",
]  # fmt: skip

_OWN = os.path.dirname(os.path.dirname(__file__)) + "/"
_current_meta: dict[str, Any] = {}
_preserving = False

#: (id of the code, line) -> the text of a frame, "" for those that are not shown, and the code, which
#: stays alive with its id: to hash a code object takes long
_frames: dict[tuple[int, int], tuple[str, Any]] = {}
_FRAMES_KEPT = 20_000
#: file of generated code -> line -> the trace of the node that the line computes
ORIGINS: dict[str, dict[int, str]] = {}
#: file of generated code -> line -> what was annotated at the node that the line computes
NOTES: dict[str, dict[int, dict[str, Any]]] = {}


def _frame_text(code: Any, line: int) -> str:
    file = code.co_filename
    if file.startswith(_OWN) or file.startswith("<frozen"):
        text = ""
    elif line in ORIGINS.get(file, ()):
        text = _as_frames(ORIGINS[file][line])
    else:
        source = linecache.getline(file, line).strip()
        text = f'  File "{file}", line {line}, in {code.co_name}\n'
        if source:
            text += f"    {source}\n"
    if len(_frames) > _FRAMES_KEPT:
        _frames.clear()
    _frames[id(code), line] = text, code
    return text


def _as_frames(trace: str) -> str:
    """A node's trace as lines of a traceback."""
    lines = [text.strip() for text in trace.strip().splitlines()]
    return "".join(f"  {t}\n" if t.startswith('File "') else f"    {t}\n" for t in lines)


def user_stack(stop: Any = None, skip: int = 1) -> str:
    """The user's frames, the innermost last, as a traceback shows them.

    Args:
        stop: a frame; it and those outside of it are left out.
        skip: how many of the innermost frames are left out.
    """
    frame = sys._getframe(skip)
    texts = []
    while frame is not None and frame is not stop:
        line = frame.f_lineno or 0
        code = frame.f_code
        known = _frames.get((id(code), line))
        text = _frame_text(code, line) if known is None else known[0]
        if text:
            texts.append(text)
        frame = frame.f_back  # type: ignore[assignment]
    return "".join(reversed(texts))


def user_note(stop: Any = None) -> dict[str, Any] | None:
    """What was annotated at the node of generated code that runs now, the innermost; None where nothing was.

    Args:
        stop: a frame; it and those outside of it do not count.
    """
    frame: Any = sys._getframe(1)
    while frame is not None and frame is not stop:
        lines = NOTES.get(frame.f_code.co_filename)
        if lines is not None:
            return lines.get(frame.f_lineno or 0)
        frame = frame.f_back
    return None


def user_frame() -> Any:
    """The innermost frame that is not facula's."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_OWN):
        frame = frame.f_back
    return frame


@contextmanager
def preserve_node_meta(enable: bool = True) -> Iterator[None]:
    """A block in which new nodes get the meta of the node that is interpreted."""
    global _preserving, _current_meta
    before, meta_before = _preserving, _current_meta
    _preserving = enable
    try:
        yield
    finally:
        _preserving, _current_meta = before, meta_before


def has_preserved_node_meta() -> bool:
    """Whether new nodes inherit meta data."""
    return _preserving


@contextmanager
def set_current_meta(node: Node, pass_name: str = "") -> Iterator[None]:
    """A block in which new nodes inherit the meta of `node`."""
    global _current_meta
    if not _preserving or not node.meta:
        yield
        return
    before = _current_meta
    _current_meta = {k: v for k, v in node.meta.items() if k not in ("val", "tensor_meta")}
    try:
        yield
    finally:
        _current_meta = before


def get_current_meta() -> dict[str, Any]:
    """What new nodes inherit."""
    return _current_meta


def set_stack_trace(stack: list[str]) -> None:
    """Say where new nodes come from."""
    if _preserving and stack:
        _current_meta["stack_trace"] = "".join(stack)


def format_stack() -> list[str]:
    """The stack trace that new nodes inherit, else the present one."""
    if _preserving:
        return [_current_meta.get("stack_trace", "")]
    return [user_stack(skip=2)]


@contextmanager
def annotate(annotation_dict: dict[str, Any]) -> Iterator[None]:
    """A block whose nodes have these entries in `meta["custom"]`."""
    global _current_meta
    before = _current_meta
    custom = {**before.get("custom", {}), **annotation_dict}
    _current_meta = {**before, "custom": custom}
    try:
        yield
    finally:
        _current_meta = before


def _get_custom_metadata(module: Any) -> str:
    """A line for each node with entries in `meta["custom"]`: its kind, its name and they."""
    lines = []
    for node in module.graph.nodes:
        if node.meta.get("custom"):
            lines.append(str((node.op, node.name, node.meta["custom"])))
        if node.op == "get_attr" and hasattr(getattr(module, str(node.target), None), "graph"):
            lines.append(_get_custom_metadata(getattr(module, node.target)))
    return "\n".join(lines)


def set_grad_fn_seq_nr(seq_nr: int) -> None:
    """Note the number of the gradient node that new nodes belong to."""
    if _preserving:
        _current_meta["grad_fn_seq_nr"] = [*_current_meta.get("grad_fn_seq_nr", []), seq_nr]
        _current_meta["in_grad_fn"] = _current_meta.get("in_grad_fn", 0) + 1


def reset_grad_fn_seq_nr() -> None:
    """Forget the last such number."""
    if _preserving and _current_meta.get("in_grad_fn"):
        _current_meta["in_grad_fn"] -= 1
        _current_meta["grad_fn_seq_nr"] = _current_meta["grad_fn_seq_nr"][:-1]
