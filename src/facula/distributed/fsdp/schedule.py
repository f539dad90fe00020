"""When units are gathered, given back, and reduced: hooks around forward and backward.

Takes: a module and its unit. Gives: `State`, which hangs on the module.
Keeps true: parameters are whole while the module's forward or backward runs; the unit that the backward pass comes
to next is gathered meanwhile; at the end of the backward pass all gradients are reduced and all pieces are back.
"""

from __future__ import annotations

from typing import Any

from facula import core, nn
from facula.distributed.fsdp.leaf import rest
from facula.distributed.fsdp.unit import Unit
from facula.fx._pytree import tree_leaves, tree_map

__all__ = ["State"]

Tensor = core.Tensor


class _Root:
    """What the units of one tree of modules share."""

    def __init__(self) -> None:
        self.states: list[State] = []
        #: units in the order in which their forward ended, in this step
        self.order: list[State] = []
        self.in_backward = False
        self.last_backward = True


class State:
    """The unit of a module, and where it is in its step."""

    def __init__(self, module: nn.Module, unit: Unit, reshard_after_forward: bool | None) -> None:
        """Hang a unit on a module.

        Args:
            reshard_after_forward: whether pieces are enough between forward and backward; None: except for the
                root.
        """
        self.module, self.unit, self.reshards = module, unit, reshard_after_forward
        self.reshards_after_backward = True
        self.input_dtype: Any = None
        self.output_dtype: Any = None
        self.forward_prefetch: list[State] = []
        self.backward_prefetch: list[State] | None = None
        self.root: _Root | None = None
        self.is_root = False
        self.backward_began = False
        self.left = 0
        module.register_forward_pre_hook(self.before_forward, prepend=True, with_kwargs=True)
        module.register_forward_hook(self.after_forward)
        for leaf in unit.trained():
            leaf.parameter.register_post_accumulate_grad_hook(self._came)

    # ---------------------------------------------------------------- the tree

    def find_root(self) -> _Root:
        """The tree, which is known from the first forward on: who runs first is its root."""
        if self.root is None:
            self.root, self.is_root = _Root(), True
            for inner in self.module.modules():
                state = getattr(inner, "_fsdp_state", None)
                if state is not None and (state.root is None or state is self):
                    state.root = self.root
                    self.root.states.append(state)
        return self.root

    def _reshards_now(self) -> bool:
        return not self.is_root if self.reshards is None else self.reshards

    # ---------------------------------------------------------------- forward

    def before_forward(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Gather, and cast the inputs."""
        root = self.find_root()
        if not root.in_backward and self.is_root:
            root.order = []
        self.unit.unshard()
        for state in self.forward_prefetch:
            state.unit.start_unshard()
        if self.input_dtype is not None:
            return tree_map(self._cast_input, (args, kwargs))
        return None

    def _cast_input(self, value: Any) -> Any:
        floats = isinstance(value, Tensor) and value.is_floating_point()
        return value.to(self.input_dtype) if floats else value

    def after_forward(self, module: nn.Module, args: tuple[Any, ...], output: object) -> Any:
        """Give back, and be called when the backward pass comes here."""
        root = self.find_root()
        if root.in_backward:  # computed again for a checkpoint
            return None
        root.order.append(self)
        if self._reshards_now():
            self.unit.reshard()
        if self.output_dtype is not None:
            output = tree_map(self._cast_output, output)
        for value in tree_leaves(output):
            if isinstance(value, Tensor) and value.requires_grad:
                value.register_hook(self._reached)
        return output

    def _cast_output(self, value: Any) -> Any:
        floats = isinstance(value, Tensor) and value.is_floating_point()
        return value.to(self.output_dtype) if floats else value

    # ---------------------------------------------------------------- backward

    def _reached(self, grad: Any) -> None:
        """The backward pass comes to this module."""
        root = self.find_root()
        if not root.in_backward:
            root.in_backward = True
            for state in root.states:
                state.backward_began = False
            core.queue_callback(lambda: _finish(root))
        if self.backward_began:
            return
        self.backward_began = True
        self.left = len(self.unit.trained())
        self.unit.unshard()
        for state in self._next():
            state.unit.start_unshard()

    def _next(self) -> list[State]:
        """The units whose backward comes after this one's."""
        if self.backward_prefetch is not None:
            return self.backward_prefetch
        order = self.find_root().order
        at = next((i for i in reversed(range(len(order))) if order[i] is self), 0)
        return [s for s in order[max(at - 1, 0) : at] if not s.backward_began]

    def _came(self, parameter: Any) -> None:
        """The gradient of a whole parameter is complete."""
        if (
            not self.backward_began
        ):  # of a module whose result did not say so, such as a plain number
            self._reached(None)
        self.left -= 1
        if self.left == 0:
            self._all_came()

    def _all_came(self) -> None:
        self.unit.start_reduce()
        frozen = len(self.unit.trained()) < len(self.unit.leaves)
        if not frozen and self.reshards_after_backward:
            self.unit.reshard()


def _finish(root: _Root) -> None:
    """The backward pass is over."""
    root.in_backward = False
    for state in root.states:
        if state.backward_began and state.left:
            state.unit.start_reduce()
        if state.reshards_after_backward:
            state.unit.reshard()
    if root.last_backward:
        for state in root.states:
            state.unit.finish_reduce()
            state.backward_began = False
        root.order = []
        rest()
