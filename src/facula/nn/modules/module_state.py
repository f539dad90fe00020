"""Saving a module's state to a dictionary and loading it back.

Takes and gives an ordered dictionary from dotted names to tensors, with the modules' format
versions in its `_metadata` attribute.
Keeps true: keys, order, versions and hook points are those of PyTorch, so checkpoints are
interchangeable; loading reports every missing, unexpected and misshapen entry at once.
"""

from __future__ import annotations

import itertools
import warnings
from collections import OrderedDict, namedtuple
from collections.abc import Callable, Mapping
from typing import Any

from facula import core
from facula.autograd.grad_mode import no_grad
from facula.autograd.hooks import RemovableHandle
from facula.core.errors import fail
from facula.namespaces.swapping import swap_tensors
from facula.nn.modules.module_conversions import ON_CONVERSION
from facula.nn.parameter import Parameter, is_lazy

_EXTRA_STATE_KEY_SUFFIX = "_extra_state"


class _IncompatibleKeys(namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    """What `load_state_dict` did not find, and what it had no place for."""

    __slots__ = ()

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return super().__repr__()

    __str__ = __repr__


class _PreHookWithModule:
    """Calls a load hook with its module first, without keeping the module alive in a cycle of its
    own making.
    """

    def __init__(self, hook: Callable, module: object = None) -> None:
        self.hook = hook
        self.module = module
        self.with_module = module is not None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.with_module:
            return self.hook(self.module, *args, **kwargs)
        return self.hook(*args, **kwargs)


def _in_place_of(target: object, value: object) -> Any:
    """What to assign for a value that takes the place of a parameter or buffer."""
    if not isinstance(target, Parameter):
        return value
    if not isinstance(value, Parameter):
        return Parameter(value, requires_grad=target.requires_grad)
    return value.requires_grad_(target.requires_grad)


def _swap_in(target: Any, value: core.Tensor, assign: bool) -> None:
    """Make a parameter or buffer what its `module_load` gives for a value of a state dictionary."""
    new = target.module_load(value, assign=assign)
    if new is target or new is value:
        fail(
            RuntimeError,
            "load_state_dict",
            "a tensor of its own from module_load: module_load returned one of self or other",
            type(target).__name__,
            hint="return it .detach()ed where nothing else is to change",
        )
    swap_tensors(target, _in_place_of(target, new))


def _put(module: object, name: str, target: core.Tensor, value: core.Tensor, assign: bool) -> None:
    """Give a module's parameter or buffer a value: by exchange, as another object, or in its own memory."""
    if ON_CONVERSION["swap"]:
        _swap_in(target, value, assign)
    elif assign:
        setattr(module, name, _in_place_of(target, value))
    else:
        target.copy_(value)


class StateMixin:
    """The part of `Module` about its state dictionary."""

    _version: int = 1
    _parameters: dict
    _buffers: dict
    _modules: dict
    _non_persistent_buffers_set: set
    _state_dict_hooks: OrderedDict
    _state_dict_pre_hooks: OrderedDict
    _load_state_dict_pre_hooks: OrderedDict
    _load_state_dict_post_hooks: OrderedDict

    # hooks ----------------------------------------------------------------------------------------

    def _register_state_dict_hook(self, hook: Callable) -> RemovableHandle:
        """Run ``hook(module, state_dict, prefix, local_metadata)`` after saving; it may return
        another dictionary.
        """
        if getattr(hook, "_from_public_api", False):
            fail(
                RuntimeError,
                "_register_state_dict_hook",
                "a hook of its own",
                got="one that register_state_dict_post_hook has",
                hint="wrap it: lambda *args: hook(*args)",
            )
        handle = RemovableHandle(self._state_dict_hooks)
        self._state_dict_hooks[handle.id] = hook
        return handle

    def register_state_dict_post_hook(self, hook: Callable) -> RemovableHandle:
        """Run ``hook(module, state_dict, prefix, local_metadata)`` after saving; it changes the
        dictionary in place.
        """
        hook._from_public_api = True  # type: ignore[attr-defined]
        handle = RemovableHandle(self._state_dict_hooks)
        self._state_dict_hooks[handle.id] = hook
        return handle

    def register_state_dict_pre_hook(self, hook: Callable) -> RemovableHandle:
        """Run ``hook(module, prefix, keep_vars)`` before saving."""
        handle = RemovableHandle(self._state_dict_pre_hooks)
        self._state_dict_pre_hooks[handle.id] = hook
        return handle

    def _register_load_state_dict_pre_hook(
        self, hook: Callable, with_module: bool = False
    ) -> RemovableHandle:
        handle = RemovableHandle(self._load_state_dict_pre_hooks)
        self._load_state_dict_pre_hooks[handle.id] = _PreHookWithModule(
            hook, self if with_module else None
        )
        return handle

    def register_load_state_dict_pre_hook(self, hook: Callable) -> RemovableHandle:
        """Run ``hook(module, state_dict, prefix, local_metadata, strict, missing, unexpected,
        errors)`` before loading.
        """
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def register_load_state_dict_post_hook(self, hook: Callable) -> RemovableHandle:
        """Run ``hook(module, incompatible_keys)`` after loading; it may edit the lists in place."""
        handle = RemovableHandle(self._load_state_dict_post_hooks)
        self._load_state_dict_post_hooks[handle.id] = hook
        return handle

    # saving ---------------------------------------------------------------------------------------

    def get_extra_state(self) -> Any:
        """What else the state dictionary holds for this module; a subclass that needs it overrides
        this.
        """
        return fail(
            RuntimeError,
            "Module.get_extra_state",
            "an override in the module",
            got=type(self).__name__,
            hint="define get_extra_state() together with set_extra_state()",
        )

    def set_extra_state(self, state: object) -> None:
        """Take back what `get_extra_state` gave."""
        fail(
            RuntimeError,
            "Module.set_extra_state",
            "an override in the module",
            got=type(self).__name__,
            hint="define set_extra_state() together with get_extra_state()",
        )

    def _has_extra_state(self, method: str) -> bool:
        return getattr(type(self), method) is not getattr(StateMixin, method)

    def _save_to_state_dict(self, destination: dict, prefix: str, keep_vars: bool) -> None:
        """Put this module's own parameters, buffers and extra state into ``destination``."""
        for name, parameter in self._parameters.items():
            if parameter is not None:
                destination[prefix + name] = parameter if keep_vars else parameter.detach()
        for name, buffer in self._buffers.items():
            if buffer is not None and name not in self._non_persistent_buffers_set:
                destination[prefix + name] = buffer if keep_vars else buffer.detach()
        if self._has_extra_state("get_extra_state"):
            destination[prefix + _EXTRA_STATE_KEY_SUFFIX] = self.get_extra_state()

    def state_dict(
        self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> Any:
        """The parameters and persistent buffers by dotted name.

        Values are detached and share storage with the module (``keep_vars`` leaves them as they
        are).
        """
        if args:
            warnings.warn(
                "positional arguments of Module.state_dict are deprecated: use keywords",
                FutureWarning,
                stacklevel=2,
            )
            destination = args[0] if destination is None else destination
            prefix = args[1] if len(args) > 1 and prefix == "" else prefix
            keep_vars = args[2] if len(args) > 2 and keep_vars is False else keep_vars
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        local_metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = local_metadata
        for hook in self._state_dict_pre_hooks.values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(
                    destination=destination, prefix=prefix + name + ".", keep_vars=keep_vars
                )
        for hook in self._state_dict_hooks.values():
            result = hook(self, destination, prefix, local_metadata)
            if getattr(hook, "_from_public_api", False):
                if result is not None:
                    fail(
                        RuntimeError,
                        "Module.state_dict",
                        "post-hooks that change the dictionary in place and return None",
                        got=f"{type(result).__name__} (state_dict post-hook must return None)",
                        hint="change the dictionary that the hook gets, and return nothing",
                    )
            elif result is not None:
                destination = result
        return destination

    # loading --------------------------------------------------------------------------------------

    def _load_one(
        self,
        name: str,
        key: str,
        value: object,
        target: core.Tensor,
        assign: bool,
        error_msgs: list,
    ) -> None:
        """Copy or assign ``value`` to the parameter or buffer ``name``; what is wrong goes to
        ``error_msgs``.
        """
        if not isinstance(value, core.Tensor):
            error_msgs.append(
                f'While copying the parameter named "{key}", expected facula.Tensor or Tensor-like '
                f"object from checkpoint but received {type(value)}"
            )
            return
        lazy = is_lazy(target)
        # checkpoints before 0.4 hold 0-d entries as one element
        if not lazy and len(target.shape) == 0 and len(value.shape) == 1 and not assign:
            value = value[0]
        if not lazy and value.shape != target.shape:
            error_msgs.append(
                f"size mismatch for {key}: copying a param with shape {value.shape} from "
                "checkpoint, the shape in "
                f"current model is {target.shape}."
            )
            return
        if target.is_meta and not value.is_meta and not assign:
            warnings.warn(
                f"for {key}: copying from a non-meta parameter in the checkpoint to a meta "
                "parameter in the current "
                "model, which is a no-op. (Did you mean to pass `assign=True` to assign items in "
                "the state dictionary "
                "to their corresponding key in the module instead of copying them in place?)",
                stacklevel=4,
            )
        try:
            with no_grad():
                _put(self, name, target, value, assign)
        except Exception as error:
            error_msgs.append(
                f'While copying the parameter named "{key}", whose dimensions in the model are '
                f"{target.size()} and "
                f"whose dimensions in the checkpoint are {value.size()}, an exception occurred: "
                f"{error.args}."
            )

    def _load_from_state_dict(
        self,
        state_dict: Mapping,
        prefix: str,
        local_metadata: dict,
        strict: bool,
        missing_keys: list,
        unexpected_keys: list,
        error_msgs: list,
    ) -> None:
        """Take this module's own entries from ``state_dict``; lists are added to, nothing is
        raised.

        ``local_metadata`` holds the ``version`` with which they were saved (see ``_version``).
        """
        for hook in self._load_state_dict_pre_hooks.values():
            hook(
                state_dict,
                prefix,
                local_metadata,
                strict,
                missing_keys,
                unexpected_keys,
                error_msgs,
            )
        persistent = (
            (k, v) for k, v in self._buffers.items() if k not in self._non_persistent_buffers_set
        )
        local = {
            k: v for k, v in itertools.chain(self._parameters.items(), persistent) if v is not None
        }
        assign = local_metadata.get("assign_to_params_buffers", False)
        for name, target in local.items():
            key = prefix + name
            if key in state_dict:
                self._load_one(name, key, state_dict[key], target, assign, error_msgs)
            elif strict:
                missing_keys.append(key)
        self._load_extra_state(state_dict, prefix, strict, missing_keys, unexpected_keys)
        if strict:
            self._note_unexpected(state_dict, prefix, local, unexpected_keys)

    def _load_extra_state(
        self, state_dict: Mapping, prefix: str, strict: bool, missing: list, unexpected: list
    ) -> None:
        key = prefix + _EXTRA_STATE_KEY_SUFFIX
        if self._has_extra_state("set_extra_state"):
            if key in state_dict:
                self.set_extra_state(state_dict[key])
            elif strict:
                missing.append(key)
        elif strict and key in state_dict:
            unexpected.append(key)

    def _note_unexpected(
        self, state_dict: Mapping, prefix: str, local: dict, unexpected: list
    ) -> None:
        extra_key = prefix + _EXTRA_STATE_KEY_SUFFIX
        for key in state_dict:
            if key.startswith(prefix) and key != extra_key:
                head, *rest = key[len(prefix) :].split(".", 1)
                # a dotted rest belongs to a submodule, which reports for itself
                if head in self._modules if rest else head in local:
                    continue
                unexpected.append(key)

    def _load_tree(
        self,
        state_dict: Mapping,
        prefix: str,
        metadata: Any,
        strict: bool,
        assign: bool,
        lists: tuple[list, list, list],
    ) -> None:
        missing, unexpected, errors = lists
        local_metadata = {} if metadata is None else metadata.get(prefix[:-1], {})
        if assign:
            local_metadata["assign_to_params_buffers"] = True
        # everything under True: a module's own entries are looked at again as unexpected
        self._load_from_state_dict(
            state_dict, prefix, local_metadata, True, missing, unexpected, errors
        )
        for name, child in self._modules.items():
            if child is not None:
                child_prefix = prefix + name + "."
                child_state = {k: v for k, v in state_dict.items() if k.startswith(child_prefix)}
                child._load_tree(child_state, child_prefix, metadata, strict, assign, lists)
        incompatible = _IncompatibleKeys(missing, unexpected)
        for hook in self._load_state_dict_post_hooks.values():
            if hook(self, incompatible) is not None:
                fail(
                    AssertionError,
                    "Module.load_state_dict",
                    "post-hooks that edit incompatible_keys in place and return None",
                    got="a value (Hooks registered with ``register_load_state_dict_post_hook`` are not "
                    "expected to return new values, if incompatible_keys need to be modified, it should be "
                    "done inplace.)",
                    hint="change the lists that the hook gets, and return nothing",
                )

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> _IncompatibleKeys:
        """Copy parameters and buffers from ``state_dict`` into this module.

        ``strict`` raises RuntimeError unless the keys are exactly the module's; ``assign`` puts the
        given tensors in the module instead of copying (their dtype and device then hold).  Returns
        the missing and unexpected keys.
        """
        if not isinstance(state_dict, Mapping):
            fail(
                TypeError,
                "Module.load_state_dict",
                "a dict-like state_dict was required",
                got=f"Expected state_dict to be dict-like, got {type(state_dict)}.",
                hint="facula.load(file) reads what facula.save(module.state_dict(), file) wrote",
            )
        metadata = getattr(state_dict, "_metadata", None)
        copied: Any = OrderedDict(state_dict)
        if metadata is not None:
            copied._metadata = metadata
        lists: tuple[list, list, list] = ([], [], [])
        self._load_tree(copied, "", metadata, strict, assign, lists)
        missing, unexpected, errors = lists
        if strict:
            if unexpected:
                quoted = ", ".join(f'"{k}"' for k in unexpected)
                errors.insert(0, f"Unexpected key(s) in state_dict: {quoted}. ")
            if missing:
                quoted = ", ".join(f'"{k}"' for k in missing)
                errors.insert(0, f"Missing key(s) in state_dict: {quoted}. ")
        if errors:
            fail(
                RuntimeError,
                "Module.load_state_dict",
                f"Error(s) in loading state_dict for {type(self).__name__}:\n\t"
                + "\n\t".join(errors),
                hint="strict=False leaves out missing and unexpected keys; sizes must be equal in "
                "any case",
            )
        return _IncompatibleKeys(missing, unexpected)

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update(state)
        # the core looks attributes up in plain dictionaries; older versions had ordered ones
        for name in ("_parameters", "_buffers", "_modules"):
            entries = self.__dict__.get(name)
            if entries is not None and type(entries) is not dict:
                self.__dict__[name] = dict(entries)
        # modules pickled by older versions lack the later dictionaries
        for name in (
            "_forward_pre_hooks",
            "_forward_pre_hooks_with_kwargs",
            "_forward_hooks_with_kwargs",
            "_forward_hooks_always_called",
            "_state_dict_hooks",
            "_state_dict_pre_hooks",
            "_load_state_dict_pre_hooks",
            "_load_state_dict_post_hooks",
            "_backward_pre_hooks",
        ):
            self.__dict__.setdefault(name, OrderedDict())
        self.__dict__.setdefault("_non_persistent_buffers_set", set())
        self.__dict__.setdefault("_is_full_backward_hook", None)
