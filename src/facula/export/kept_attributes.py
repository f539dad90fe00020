"""The attributes of a module, as they were before it was traced.

Takes: a module. Gives: a block behind which its attributes are those from before.
Keeps true: no tensor of a trace stays in the module; tensors that the forward assigned are told.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from facula import nn
from facula.core.errors import message
from facula.fx import _pytree as pytree
from facula.fx.fake_tensor import FakeTensor

__all__ = ["attributes_kept"]

_OWN = frozenset(vars(nn.Module()))


@contextmanager
def attributes_kept(module: nn.Module) -> Iterator[None]:
    """A block whose tensors do not stay in attributes of the module, and in lists and dictionaries there."""
    before = [(path, m, dict(vars(m)), _containers(m)) for path, m in module.named_modules()]
    try:
        yield
    finally:
        assigned = [name for entry in before for name in _restored(*entry)]
    if assigned:
        names = ", ".join(f"self.{name}" for name in assigned)
        words = "attributes {} were" if len(assigned) > 1 else "attribute {} was"
        text = message(
            "export",
            f"a forward that keeps no tensor was required: The tensor {words.format(names)} assigned "
            "during export. Such attributes must be registered as buffers using the `register_buffer` "
            "API (https://pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.register_buffer)",
            hint="register a buffer and write to it: self.name.copy_(value)",
        )
        warnings.warn(text, UserWarning, stacklevel=2)


def _containers(module: nn.Module) -> dict[str, Any]:
    """Copies of the lists and dictionaries among the attributes."""
    return {
        name: value.copy()
        for name, value in vars(module).items()
        if name not in _OWN and type(value) in (list, dict)
    }


def _restored(
    path: str, module: nn.Module, before: dict[str, Any], copies: dict[str, Any]
) -> list[str]:
    """Puts back what was assigned; gives the names of attributes that had tensors of the trace."""
    found = []
    now = vars(module)
    for name in [n for n in now if n not in _OWN]:
        if not _of_a_trace(now[name]):
            continue
        found.append(f"{path}.{name}" if path else name)
        if name not in before:
            del now[name]
            continue
        old = now[name] = before[name]
        if name in copies and isinstance(old, list):
            old[:] = copies[name]
        elif name in copies:
            old.clear()
            old.update(copies[name])
    return found


def _of_a_trace(value: object) -> bool:
    plain = type(value) in (list, tuple, dict)
    leaves = pytree.tree_leaves(value) if plain else [value]
    return any(isinstance(leaf, FakeTensor) for leaf in leaves)
