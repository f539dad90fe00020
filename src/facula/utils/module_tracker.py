"""Which modules are running.

Takes: a block in which modules are called. Gives: `ModuleTracker`, whose `parents` are the names of the
modules that are running, in the forward pass and in the backward pass after it.
Keeps true: "Global" is always among them; a module is named by its path below the outermost one that
was called, which goes by its class.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from facula import core
from facula.autograd.graph import register_multi_grad_hook
from facula.fx._pytree import tree_leaves
from facula.nn.modules.module_hooks import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)

__all__ = ["ModuleTracker"]


class ModuleTracker:
    """A block in which `parents` is kept."""

    def __init__(self) -> None:
        self.parents: set[str] = {"Global"}
        self._names: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self._seen: weakref.WeakSet[Any] = weakref.WeakSet()
        self._backward = False
        self._handles: list[Any] = []

    @property
    def is_bw(self) -> bool:
        """Whether a backward pass is going on."""
        return core.current_graph_task_id() != -1

    def __enter__(self) -> ModuleTracker:
        self._handles = [
            register_module_forward_pre_hook(self._before),
            register_module_forward_hook(self._after, always_call=True),
        ]
        return self

    def __exit__(self, *exception: object) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self.parents = {"Global"}

    def _name(self, module: Any) -> str:
        """The path of a module; all modules below one that is new are named with it."""
        if module not in self._seen:
            root = type(module).__name__
            for path, inner in module.named_modules():
                self._names[inner] = f"{root}.{path}" if path else root
                self._seen.add(inner)
        return self._names[module]

    def _before(self, module: Any, inputs: object) -> None:
        name = self._name(module)
        self.parents.add(name)
        self._at_gradients(inputs, lambda _: self.parents.discard(name))

    def _after(self, module: Any, inputs: object, output: object) -> None:
        name = self._name(module)
        self.parents.discard(name)

        def begin(_: object) -> None:
            self.parents.add(name)
            # nothing says when it ends where no gradient of its inputs is asked for: at the latest now
            core.queue_callback(lambda: self.parents.discard(name))

        self._at_gradients(output, begin, "any")  # a result that nobody uses has no gradient

    def _at_gradients(self, values: object, act: Callable[..., Any], mode: str = "all") -> None:
        """Acts when the backward pass comes to these tensors, or to any of them."""
        tensors = [t for t in tree_leaves(values) if isinstance(t, core.Tensor) and t.requires_grad]
        if tensors and core.is_grad_enabled():
            register_multi_grad_hook(tensors, act, mode=mode)
