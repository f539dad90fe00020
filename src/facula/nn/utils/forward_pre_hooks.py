"""Forward pre-hooks that changed a parameter, and are taken off again.

Takes: a module, and a question about its hooks. Gives: whether there was one. Keeps true: the hook has put the
parameter back before it is gone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula.nn.modules.module import Module


def take_off(module: Module, wanted: Callable[[Any], bool]) -> bool:
    """Remove the first forward pre-hook that is wanted; False where a module has none."""
    for key, hook in module._forward_pre_hooks.items():
        if wanted(hook):
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return True
    return False
