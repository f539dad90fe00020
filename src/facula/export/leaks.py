"""Tensors of a trace for export that somebody kept.

Takes: the tracer that made them. Gives: `watch`, and `warn_of`, which says which are still there after the export.
Keeps true: nothing is looked for unless `DETECT` is on; what is kept is named with the line that made or used it.
"""

from __future__ import annotations

import gc
import warnings
import weakref
from typing import Any

from facula.core.named_settings import Setting
from facula.fx.fake_tensor import FakeTensor

#: whether exports look for such tensors
DETECT = [False]


def _switch(value: bool) -> None:
    DETECT[0] = bool(value)


SETTING: Setting = Setting(lambda: DETECT[0], _switch)

#: a tensor that must not be kept alive, its node's name, and where it was made or used
Watched = list[tuple[Any, str]]


def watch(tracer: Any) -> Watched:
    """The tensors of a trace, each with a text about it."""
    found: Watched = []
    if DETECT[0]:
        for tensor, node in tracer.known_tensors():
            if isinstance(tensor, FakeTensor):
                shown = f"FakeTensor(shape={tensor.shape}, dtype={tensor.dtype}) from node '{node.name}'"
                found.append((weakref.ref(tensor), shown + _place(node)))
    return found


def _place(node: Any) -> str:
    stack = node.meta.get("stack_trace")
    if stack:
        return f":\n{stack}"
    user = next(iter(node.users), None)
    if user is None:
        return ""
    return f": Used by '{user.name}':\n{user.meta.get('stack_trace') or ''}"


def warn_of(watched: Watched) -> None:
    """Warn of those that are still there."""
    if not watched:
        return
    gc.collect()
    alive = [text for reference, text in watched if reference() is not None]
    if alive:
        listed = "\n".join(alive)
        warnings.warn(
            f"[export] Detected {len(alive)} fake tensors that are still alive after export: the program put "
            "them where the trace does not follow, in a list outside of the module, say. They have no elements.\n"
            f"{listed}",
            stacklevel=3,
        )
