"""Handles that remove hooks, and the identity nodes behind a module's backward hooks.

Takes hook dictionaries that live on tensors, modules, nodes and optimizers.  Gives
`RemovableHandle` (remove a hook, use as a context manager, pickle) and `BackwardHook` (watch
gradients at the inputs and outputs of a module call).
Keeps true: a handle owns no reference to the hook's owner, and removing twice is harmless.
"""

from __future__ import annotations

import itertools
import warnings
import weakref
from collections import OrderedDict
from typing import Any

from facula import core
from facula.autograd.function import Function

_next_id = itertools.count()


class RemovableHandle:
    """Removes one hook from its dictionary.

    ``hooks_dict`` holds the hook under ``handle.id``; ``extra_dict`` (one dictionary or a list of
    them) holds flags under the same key, which go when the hook goes.
    """

    def __init__(self, hooks_dict: Any, *, extra_dict: Any = None) -> None:
        self.hooks_dict_ref = weakref.ref(hooks_dict)
        self.id = next(_next_id)
        if extra_dict is None:
            extra_dict = ()
        elif isinstance(extra_dict, dict):
            extra_dict = (extra_dict,)
        self.extra_dict_ref = tuple(weakref.ref(extra) for extra in extra_dict)

    def remove(self) -> None:
        """Take the hook out of its dictionaries, where they still exist."""
        for reference in (self.hooks_dict_ref, *self.extra_dict_ref):
            hooks = reference()
            if hooks is not None:
                hooks.pop(self.id, None)

    def __getstate__(self) -> tuple:
        return (self.hooks_dict_ref(), self.id, tuple(ref() for ref in self.extra_dict_ref))

    def __setstate__(self, state: tuple) -> None:
        hooks, self.id, *extra = state
        # a dead dictionary becomes an empty one of this handle's own: remove() then does nothing
        self.hooks_dict_ref = weakref.ref(OrderedDict() if hooks is None else hooks)
        extras = extra[0] if extra and extra[0] else ()
        self.extra_dict_ref = tuple(weakref.ref(OrderedDict() if e is None else e) for e in extras)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.remove()


def unserializable_hook(function: Any) -> Any:
    """Mark a hook so that saving a tensor that carries it warns."""
    function.__torch_unserializable__ = True
    return function


def warn_if_has_hooks(tensor: core.Tensor) -> None:
    """Warn about backward hooks on ``tensor`` that a pickle leaves out."""
    for hook in (getattr(tensor, "_backward_hooks", None) or {}).values():
        if not hasattr(hook, "__torch_unserializable__"):
            warnings.warn(f"backward hook {hook!r} on tensor will not be serialized", stacklevel=3)


class BackwardHookFunction(Function):
    """Passes tensors through, so that one node sees all of their gradients together."""

    @staticmethod
    def forward(ctx: Any, *tensors: Any) -> tuple:
        ctx.mark_non_differentiable(*[t for t in tensors if not t.requires_grad])
        return tuple(t.view_as(t) for t in tensors)

    @staticmethod
    def backward(ctx: object, *grads: Any) -> tuple:
        return grads


_INPUTS = "hook returned an invalid number of grad_input"
_OUTPUTS = "pre hook returned an invalid number of grad_output"
_NO_INPUTS = (
    "[Module backward hook] Full backward hook is firing when gradients are computed with respect to module "
    "outputs since no inputs require gradients.\nhint: call requires_grad_() on an input, or hook the outputs"
)


class BackwardHook:
    """Runs a module's full backward hooks once the gradients of a call's inputs and outputs are
    known.

    The call's inputs and outputs each pass through an identity node; hooks on the two nodes run
    ``user_pre_hooks`` on the gradients of the outputs and ``user_hooks`` on those of the inputs.
    """

    def __init__(self, module: Any, user_hooks: list, user_pre_hooks: list) -> None:
        self.module = module
        self.user_hooks = user_hooks
        self.user_pre_hooks = user_pre_hooks
        self.grad_outputs: tuple | None = None
        self.n_inputs = self.n_outputs = -1
        self.input_indices: list[int] = []
        self.output_indices: list[int] = []

    def _spread(self, grads: tuple, indices: list[int], size: int) -> tuple:
        full: list[Any] = [None] * size
        for index, grad in zip(indices, grads, strict=True):
            full[index] = grad
        return tuple(full)

    def _as_replacement(self, result: object, expected: int, kind: str) -> tuple:
        result = result if isinstance(result, tuple) else (result,)
        if len(result) != expected:
            core.errors.fail(
                RuntimeError,
                "Module backward hook",
                f"a hook returns as many gradients as it was given, {expected}",
                got=f"{len(result)} (Backward {kind}, got {len(result)}, but expected {expected})",
                hint="None stands for no gradient",
            )
        return result

    def _through_identity(self, values: tuple) -> tuple[tuple, Any, list[int]]:
        indices = [i for i, v in enumerate(values) if isinstance(v, core.Tensor)]
        if not any(values[i].requires_grad for i in indices) or not core.is_grad_enabled():
            return values, None, indices
        passed = BackwardHookFunction.apply(*[values[i] for i in indices])
        node = next((t.grad_fn for t in passed if t.grad_fn is not None), None)
        if node is None:
            core.errors.fail(
                RuntimeError,
                "Module backward hook",
                "at least one tensor with a gradient among those hooked",
            )
        mixed = list(values)
        for index, tensor in zip(indices, passed, strict=True):
            mixed[index] = tensor
        return tuple(mixed), node, indices

    def setup_input_hook(self, args: tuple) -> tuple:
        """Give ``args`` with its tensors passed through a node that runs the hooks for the inputs."""

        def run_hooks(grad_input: tuple, _: object) -> Any:
            if self.grad_outputs is None:  # the inputs got gradients, the outputs never did
                return None
            replaced = self._spread(grad_input, self.input_indices, self.n_inputs)
            changed = False
            for hook in self.user_hooks:
                result = hook(self.module, replaced, self.grad_outputs)
                if result is not None:
                    replaced, changed = self._as_replacement(result, self.n_inputs, _INPUTS), True
            self.grad_outputs = None
            return tuple(replaced[i] for i in self.input_indices) if changed else None

        args, node, self.input_indices = self._through_identity(args)
        self.n_inputs = len(args)
        if node is not None:
            node.register_hook(run_hooks)
        self._input_node_made = node is not None
        return args

    def setup_output_hook(self, args: Any) -> Any:
        """Give ``args`` with its tensors passed through a node that runs the pre-hooks for the
        outputs.
        """

        def run_pre_hooks(grad_output: tuple) -> Any:
            grads = self._spread(grad_output, self.output_indices, self.n_outputs)
            for hook in self.user_pre_hooks:
                result = hook(self.module, grads)
                if result is not None:
                    grads = self._as_replacement(result, self.n_outputs, _OUTPUTS)
            self.grad_outputs = grads
            # no input asks for a gradient, so no later node can run the hooks
            if not self._input_node_made:
                warnings.warn(_NO_INPUTS, stacklevel=5)
                nothing = (None,) * max(self.n_inputs, 0)
                for hook in self.user_hooks:
                    result = hook(self.module, nothing, grads)
                    if result is not None and any(r is not None for r in _as_tuple(result)):
                        core.errors.fail(
                            RuntimeError,
                            "Module backward hook",
                            "no replacement where no input of the module requires a gradient",
                            got="a gradient (Backward hook for Modules where no input requires gradient should "
                            "always return None or None for all gradients.)",
                        )
                self.grad_outputs = None
            return tuple(grads[i] for i in self.output_indices)

        single = not isinstance(args, tuple)
        values, node, self.output_indices = self._through_identity((args,) if single else args)
        self.n_outputs = len(values)
        if node is not None:
            node.register_prehook(run_pre_hooks)
        return values[0] if single else values


def _as_tuple(value: object) -> tuple:
    return value if isinstance(value, tuple) else (value,)
