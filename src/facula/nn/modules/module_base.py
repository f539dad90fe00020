"""Calling a module and reading its registered attributes: the two paths that every use of a module
takes.

Takes the dictionaries that `Module.__init__` makes.  Gives `ModuleBase` with `__call__` and
`__getattr__`.
Keeps true: a call goes to `_call_impl`, which goes straight to `forward` where there are no hooks;
a compiled base class with the same two methods may take this one's place.
"""

from __future__ import annotations

from typing import Any


class ModuleBase:
    """What a module does on a call and on reading an attribute."""

    _compiled_call_impl: Any = None

    def _wrapped_call_impl(self, *args: Any, **kwargs: Any) -> Any:
        if self._compiled_call_impl is not None:
            return self._compiled_call_impl(*args, **kwargs)
        return self._call_impl(*args, **kwargs)  # type: ignore[attr-defined]

    __call__ = _wrapped_call_impl

    def __getattr__(self, name: str) -> Any:
        """A registered parameter, buffer or submodule; only reached when ordinary look-up found
        nothing.
        """
        state = self.__dict__
        for kind in ("_parameters", "_buffers", "_modules"):
            entries = state.get(kind)
            if entries is not None and name in entries:
                return entries[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
