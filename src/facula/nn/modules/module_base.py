"""Calling a module and reading its registered attributes: the two paths that every use of a module
takes.

Takes the dictionaries that `Module.__init__` makes.  Gives `ModuleBase` with `__call__` and
`__getattr__`.
Keeps true: a call goes to `_call_impl`, which goes straight to `forward` where there are no hooks;
while a module is traced (`core.swap_module_tracers`), the tracer gets calls and reads;
a compiled base class with the same two methods may take this one's place.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.nn.modules import module_hooks


class ModuleBase:
    """What a module does on a call and on reading an attribute."""

    _compiled_call_impl: Any = None

    def _wrapped_call_impl(self, *args: Any, **kwargs: Any) -> Any:
        tracer, _ = core.module_tracers()
        if tracer is not None:
            return tracer(self, args, kwargs)
        if self._compiled_call_impl is not None:
            return self._compiled_call_impl(*args, **kwargs)
        return self._call_impl(*args, **kwargs)

    __call__ = _wrapped_call_impl

    def __getattr__(self, name: str) -> Any:
        """A registered parameter, buffer or submodule; only reached when ordinary look-up found
        nothing.
        """
        state = self.__dict__
        for kind in ("_parameters", "_buffers", "_modules"):
            entries = state.get(kind)
            if entries is not None and name in entries:
                _, tracer = core.module_tracers()
                return entries[name] if tracer is None else tracer(self, name, entries[name])
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")


def quicken(cls: Any) -> None:
    """Give a module class the core's attribute look-up and call, where it has not changed its own.

    Both do what `ModuleBase` does, without interpreted code in between.
    """
    if (
        cls.__getattr__ is ModuleBase.__getattr__
        and cls.__getattribute__ is object.__getattribute__
    ):
        core.fast_module_attributes(cls)
    own_call = (
        cls.__call__ is ModuleBase.__call__
        and cls._wrapped_call_impl is ModuleBase._wrapped_call_impl
    )
    if own_call and cls._call_impl is module_hooks.HookMixin._call_impl:
        core.fast_module_calls(
            cls,
            module_hooks._global_forward_hooks,
            module_hooks._global_forward_pre_hooks,
            module_hooks._global_backward_hooks,
            module_hooks._global_backward_pre_hooks,
        )
