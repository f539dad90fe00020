"""Hooks of modules: registration on one module or on all of them, and the call that runs them.

Takes hook functions with PyTorch's signatures.  Gives `HookMixin`, the part of `Module` about
hooks, and the `register_module_*` functions.
Keeps true: hooks run in the order of registration, global ones first; a hook that returns something
other than None replaces what it was given; with no hooks at all `_call_impl` adds a handful of
truth tests to `forward`.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from facula import core
from facula.autograd.hooks import BackwardHook, RemovableHandle
from facula.core.errors import fail

_global_backward_pre_hooks: OrderedDict = OrderedDict()
_global_backward_hooks: OrderedDict = OrderedDict()
_global_is_full_backward_hook: bool | None = None
_global_forward_pre_hooks: OrderedDict = OrderedDict()
_global_forward_hooks: OrderedDict = OrderedDict()
_global_forward_hooks_always_called: OrderedDict = OrderedDict()
_global_forward_hooks_with_kwargs: OrderedDict = OrderedDict()
_global_buffer_registration_hooks: OrderedDict = OrderedDict()
_global_module_registration_hooks: OrderedDict = OrderedDict()
_global_parameter_registration_hooks: OrderedDict = OrderedDict()


def _has_any_global_hook() -> bool:
    return bool(
        _global_backward_pre_hooks
        or _global_backward_hooks
        or _global_forward_pre_hooks
        or _global_forward_hooks
        or _global_forward_hooks_always_called
        or _global_forward_hooks_with_kwargs
    )


def _register(hooks: OrderedDict, hook: Callable, *, extra: object = None) -> RemovableHandle:
    handle = RemovableHandle(hooks, extra_dict=extra)
    hooks[handle.id] = hook
    return handle


def register_module_buffer_registration_hook(hook: Callable) -> RemovableHandle:
    """Run ``hook(module, name, buffer)`` at every buffer registration; what it returns is
    registered instead.
    """
    return _register(_global_buffer_registration_hooks, hook)


def register_module_module_registration_hook(hook: Callable) -> RemovableHandle:
    """Run ``hook(module, name, submodule)`` at every submodule registration."""
    return _register(_global_module_registration_hooks, hook)


def register_module_parameter_registration_hook(hook: Callable) -> RemovableHandle:
    """Run ``hook(module, name, parameter)`` at every parameter registration."""
    return _register(_global_parameter_registration_hooks, hook)


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Run ``hook(module, args)`` before the forward of every module."""
    return _register(_global_forward_pre_hooks, hook)


def register_module_forward_hook(
    hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Run ``hook(module, args, output)`` after the forward of every module.

    ``with_kwargs`` adds the keyword arguments before the output; ``always_call`` runs it even when
    forward raised.
    """
    extra = [_global_forward_hooks_always_called, _global_forward_hooks_with_kwargs]
    handle = _register(_global_forward_hooks, hook, extra=extra)
    if with_kwargs:
        _global_forward_hooks_with_kwargs[handle.id] = True
    if always_call:
        _global_forward_hooks_always_called[handle.id] = True
    return handle


def _set_global_backward_kind(full: bool) -> None:
    global _global_is_full_backward_hook
    if _global_is_full_backward_hook is (not full):
        fail(
            RuntimeError,
            "register_module_backward_hook",
            "global backward hooks of one kind only, full or not",
            got="both (Cannot use both regular backward hooks and full backward hooks as a global Module "
            "hook. Please use only one of them.)",
            hint="use register_module_full_backward_hook throughout",
        )
    _global_is_full_backward_hook = full


def register_module_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Run ``hook(module, grad_input, grad_output)`` for the last node of every module (the older
    kind of hook).
    """
    _set_global_backward_kind(False)
    return _register(_global_backward_hooks, hook)


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Run ``hook(module, grad_output)`` before the backward of every module."""
    return _register(_global_backward_pre_hooks, hook)


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Run ``hook(module, grad_input, grad_output)`` once a module's input gradients are known, for
    every module.
    """
    _set_global_backward_kind(True)
    return _register(_global_backward_hooks, hook)


def _first_tensor(value: object) -> Any:
    while not isinstance(value, core.Tensor):
        if isinstance(value, dict):
            value = next((v for v in value.values() if isinstance(v, core.Tensor)), None)
        elif isinstance(value, (list, tuple)) and value:
            value = value[0]
        else:
            return None
    return value


def _are_tensors(values: object) -> bool:
    if isinstance(values, tuple):
        return all(isinstance(value, core.Tensor) for value in values)
    return isinstance(values, core.Tensor)


def _what_old_hooks_miss(args: tuple[Any, ...], result: Any, grad_fn: Any) -> str:
    """Why one node is less than the module; an empty text where it is all of it."""
    if not _are_tensors(result):
        return "Using non-full backward hooks on a Module that does not return a single Tensor or a tuple of Tensors"
    if not _are_tensors(args):
        return (
            "Using non-full backward hooks on a Module that does not take as input a single Tensor or a tuple of "
            "Tensors"
        )
    results = result if isinstance(result, tuple) else (result,)
    nodes = {tensor.grad_fn for tensor in results if tensor.grad_fn is not None}
    if len(nodes) > 1:
        return (
            "Using a non-full backward hook when outputs are generated by different autograd Nodes"
        )
    given = {tensor.grad_fn for tensor in args if tensor.grad_fn is not None}
    if given != {node for node, _ in grad_fn.next_functions}:
        return "Using a non-full backward hook when the forward contains multiple autograd Nodes"
    return ""


class HookMixin:
    """The part of `Module` about hooks; every dictionary named here is made by ``Module.__init__``."""

    _backward_hooks: OrderedDict
    _backward_pre_hooks: OrderedDict
    _forward_hooks: OrderedDict
    _forward_hooks_with_kwargs: OrderedDict
    _forward_hooks_always_called: OrderedDict
    _forward_pre_hooks: OrderedDict
    _forward_pre_hooks_with_kwargs: OrderedDict
    _is_full_backward_hook: bool | None
    forward: Callable[..., Any]

    def register_full_backward_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Run ``hook(module, grad_output)`` before gradients pass through this module.

        A tuple returned replaces ``grad_output``; ``prepend`` puts the hook before those of this
        module.
        """
        handle = _register(self._backward_pre_hooks, hook)
        if prepend:
            self._backward_pre_hooks.move_to_end(handle.id, last=False)
        return handle

    def register_full_backward_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Run ``hook(module, grad_input, grad_output)`` when the gradients of this module's inputs
        are known.

        A tuple returned replaces ``grad_input``; entries for arguments that are no tensors are
        None.
        """
        self._set_backward_kind(True)
        handle = _register(self._backward_hooks, hook)
        if prepend:
            self._backward_hooks.move_to_end(handle.id, last=False)
        return handle

    def register_backward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """The older kind of backward hook: it sees the inputs of the last node of the module's
        forward only.
        """
        self._set_backward_kind(False)
        return _register(self._backward_hooks, hook)

    def _set_backward_kind(self, full: bool) -> None:
        if self._is_full_backward_hook is (not full):
            fail(
                RuntimeError,
                "Module.register_backward_hook",
                "backward hooks of one kind only on a module, full or not",
                got="both (Cannot use both regular backward hooks and full backward hooks on a single Module. "
                "Please use only one of them.)",
                hint="use register_full_backward_hook throughout",
            )
        self._is_full_backward_hook = full

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Run ``hook(module, args)`` before forward; what it returns becomes the positional
        arguments.

        With ``with_kwargs`` it is ``hook(module, args, kwargs)`` and returns None or ``(args,
        kwargs)``.
        """
        handle = _register(self._forward_pre_hooks, hook, extra=self._forward_pre_hooks_with_kwargs)
        if with_kwargs:
            self._forward_pre_hooks_with_kwargs[handle.id] = True
        if prepend:
            self._forward_pre_hooks.move_to_end(handle.id, last=False)
        return handle

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """Run ``hook(module, args, output)`` after forward; what it returns replaces the output.

        ``with_kwargs`` makes it ``hook(module, args, kwargs, output)``; ``always_call`` runs it
        even when forward or another hook raised.
        """
        extra = [self._forward_hooks_with_kwargs, self._forward_hooks_always_called]
        handle = _register(self._forward_hooks, hook, extra=extra)
        if with_kwargs:
            self._forward_hooks_with_kwargs[handle.id] = True
        if always_call:
            self._forward_hooks_always_called[handle.id] = True
        if prepend:
            self._forward_hooks.move_to_end(handle.id, last=False)
        return handle

    def _call_impl(self, *args: object, **kwargs: object) -> Any:
        if not (
            self._forward_hooks
            or self._forward_pre_hooks
            or self._backward_hooks
            or self._backward_pre_hooks
            or _global_forward_hooks
            or _global_forward_pre_hooks
            or _global_backward_hooks
            or _global_backward_pre_hooks
        ):
            return self.forward(*args, **kwargs)
        if not (self._forward_hooks_always_called or _global_forward_hooks_always_called):
            return self._call_with_hooks(args, kwargs, set())
        done: set = set()
        try:
            return self._call_with_hooks(args, kwargs, done)
        except Exception:
            self._run_always_called(args, kwargs, done)
            raise

    def _run_pre_hooks(self, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
        hooks = [*_global_forward_pre_hooks.items(), *self._forward_pre_hooks.items()]
        for key, hook in hooks:
            if key in self._forward_pre_hooks_with_kwargs:
                result = hook(self, args, kwargs)
                if result is None:
                    continue
                if not (isinstance(result, tuple) and len(result) == 2):
                    fail(
                        RuntimeError,
                        "forward pre-hook",
                        "None or a tuple of (args, kwargs)",
                        got=result,
                        hint="return (args, kwargs), also where only one of them changes",
                    )
                args, kwargs = result
            else:
                result = hook(self, args)
                if result is not None:
                    args = result if isinstance(result, tuple) else (result,)
        return args, kwargs

    def _forward_hook_list(self) -> list[tuple[int, Callable, bool, bool]]:
        """(key, hook, takes keyword arguments, always called) in calling order."""
        listed = []
        for hooks, with_kwargs, always in (
            (
                _global_forward_hooks,
                _global_forward_hooks_with_kwargs,
                _global_forward_hooks_always_called,
            ),
            (
                self._forward_hooks,
                self._forward_hooks_with_kwargs,
                self._forward_hooks_always_called,
            ),
        ):
            listed += [
                (key, hook, key in with_kwargs, key in always) for key, hook in hooks.items()
            ]
        return listed

    def _call_with_hooks(self, args: tuple, kwargs: dict, done: set) -> Any:
        full_hooks, old_hooks = self._get_backward_hooks()
        backward_pre_hooks = self._get_backward_pre_hooks()
        if _global_forward_pre_hooks or self._forward_pre_hooks:
            args, kwargs = self._run_pre_hooks(args, kwargs)
        watcher = None
        if full_hooks or backward_pre_hooks:
            watcher = BackwardHook(self, full_hooks, backward_pre_hooks)
            args = watcher.setup_input_hook(args)
        output = self.forward(*args, **kwargs)
        for key, hook, with_kwargs, always in self._forward_hook_list():
            if always:
                done.add(key)
            result = hook(self, args, kwargs, output) if with_kwargs else hook(self, args, output)
            if result is not None:
                output = result
        if watcher is not None:
            if not isinstance(output, (core.Tensor, tuple)):
                warnings.warn(
                    "full backward hooks need the module's output to be a tensor or a tuple of "
                    "tensors; they do not "
                    f"run for {type(output).__name__}",
                    stacklevel=3,
                )
            output = watcher.setup_output_hook(output)
        if old_hooks:
            self._attach_old_backward_hooks(output, old_hooks, args)
        return output

    def _run_always_called(self, args: tuple, kwargs: dict, done: set) -> None:
        """After an exception: the always-called hooks that have not run yet; their own failures
        only warn.
        """
        for key, hook, with_kwargs, always in self._forward_hook_list():
            if not always or key in done:
                continue
            try:
                if with_kwargs:
                    hook(self, args, kwargs, None)
                else:
                    hook(self, args, None)
            except Exception as error:
                warnings.warn(
                    f"a forward hook with always_call=True raised in turn: {error}", stacklevel=4
                )

    def _get_backward_hooks(self) -> tuple[list, list]:
        """(full hooks, hooks of the older kind), global ones first."""
        full: list = []
        old: list = []
        if _global_backward_hooks:
            (full if _global_is_full_backward_hook else old).extend(_global_backward_hooks.values())
        if self._backward_hooks:
            (full if self._is_full_backward_hook else old).extend(self._backward_hooks.values())
        return full, old

    def _get_backward_pre_hooks(self) -> list:
        return [*_global_backward_pre_hooks.values(), *self._backward_pre_hooks.values()]

    def _attach_old_backward_hooks(self, output: object, hooks: list, args: tuple) -> None:
        tensor = _first_tensor(output)
        node = None if tensor is None else tensor.grad_fn
        if node is None:
            return
        self._maybe_warn_non_full_backward_hook(args, output, node)
        for hook in hooks:
            node.register_hook(
                lambda grad_input, grad_output, hook=hook: hook(self, grad_input, grad_output)
            )

    def _maybe_warn_non_full_backward_hook(
        self, args: tuple[Any, ...], result: object, grad_fn: Any
    ) -> None:
        """The older kind of hook sees one node only: say so where that is less than the module."""
        trouble = _what_old_hooks_miss(args, result, grad_fn)
        if trouble:
            warnings.warn(
                f"[Module.register_backward_hook] {trouble} is deprecated and will be removed in future versions: the "
                "hook sees the last node only.\nhint: register_full_backward_hook sees all inputs and outputs",
                FutureWarning,
                stacklevel=5,
            )
