"""PyTorch's switches of its script executor, and the names of the operators that a script runs.

Takes what PyTorch's functions of these names take. Gives blocks and answers.
Keeps true: graphs run as they stand, so that no switch changes a number.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

from facula.core.errors import fail
from facula.jit.passes.inlining import inlined
from facula.jit.script_objects import RecursiveScriptModule, ScriptFunction

__all__ = [
    "enable_onednn_fusion",
    "export_opnames",
    "fuser",
    "onednn_fusion_enabled",
    "optimized_execution",
    "strict_fusion",
]

_FUSERS = ("fuser0", "fuser1", "fuser2", "fuser3")
_ONEDNN = [False]


@contextlib.contextmanager
def optimized_execution(should_optimize: bool) -> Iterator[None]:
    """A block in which PyTorch's executor changes graphs, or leaves them; here they run as they stand.

    Args:
        should_optimize: whether PyTorch would change them

    Example:
        >>> with facula.jit.optimized_execution(False):
        ...     facula.jit.script(facula.nn.ReLU())(facula.ones(1))
        tensor([1.])
    """
    yield


@contextlib.contextmanager
def fuser(name: str) -> Iterator[None]:
    """A block in which PyTorch joins operators by one of its fusers; `facula.compile` does that here.

    Args:
        name: 'fuser0' to 'fuser3'

    Raises:
        Exception: there is no fuser of that name.

    Example:
        >>> with facula.jit.fuser("fuser1"):
        ...     facula.jit.script(facula.nn.ReLU())(facula.ones(1))
        tensor([1.])
    """
    if name not in _FUSERS:
        fail(RuntimeError, "jit.fuser", "the name of a fuser was required (unrecognized fuser option)", name,
             hint=f"the names are {', '.join(_FUSERS)}")  # fmt: skip
    yield


class strict_fusion(contextlib.ContextDecorator):
    """A block all of whose operators PyTorch's executor would have to join; here it changes nothing.

    Example:
        >>> with facula.jit.strict_fusion():
        ...     facula.ones(1) + 1
        tensor([2.])
    """

    def __enter__(self) -> None:
        pass

    def __exit__(self, type: object, value: object, tb: object) -> None:
        pass


def enable_onednn_fusion(enabled: bool) -> None:
    """Keeps a switch of PyTorch's executor, which the interpreter has no use for.

    Args:
        enabled: the switch

    Example:
        >>> facula.jit.enable_onednn_fusion(False)
    """
    _ONEDNN[0] = bool(enabled)


def onednn_fusion_enabled() -> bool:
    """What `enable_onednn_fusion` was given last.

    Example:
        >>> facula.jit.onednn_fusion_enabled()
        False
    """
    return _ONEDNN[0]


def export_opnames(m: Any) -> list[str]:
    """The names of the operators that a scripted module or function runs, each once.

    Args:
        m: a scripted module or function

    Example:
        >>> facula.jit.export_opnames(facula.jit.script(facula.nn.Flatten()))
        ['aten::flatten']
    """
    if not isinstance(m, (RecursiveScriptModule, ScriptFunction)):
        fail(RuntimeError, "jit.export_opnames", "a scripted module or function was required", type(m).__name__,
             hint="jit.script() makes one")  # fmt: skip
    found: set[str] = set()
    kind = getattr(m, "_script_type", None)
    compiled = [m.unit] if kind is None else [u for u in kind.methods.values() if _is_compiled(u)]
    for unit in compiled:
        for node in inlined(unit.compiled().graph).all_nodes():
            signature = node.signature
            if signature is not None and not node.kind_.startswith("prim::"):
                dot = f".{signature.overload}" if signature.overload else ""
                found.add(f"{node.kind_}{dot}")
    return sorted(found)


def _is_compiled(unit: object) -> bool:
    inner = getattr(unit, "_unit", unit)
    return getattr(inner, "_graph", None) is not None


def unique_state_dict(module: Any, keep_vars: bool = False) -> OrderedDict[str, Any]:
    """The state of a module, each tensor under the first of its names only."""
    made: OrderedDict[str, Any] = OrderedDict()
    seen: set[int] = set()
    for name, value in module.state_dict(keep_vars=True).items():
        if id(value) not in seen:
            seen.add(id(value))
            made[name] = value if keep_vars else value.detach()
    return made
