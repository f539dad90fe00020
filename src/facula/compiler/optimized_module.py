"""`OptimizedModule`: a module whose calls are compiled.

Takes: a module and a session of the compiler. Gives: a module that shares its parameters, buffers and
attributes, with state dictionary keys under `_orig_mod.`, as PyTorch has them.
Keeps true: what is set or read on it is set or read on the module; it can be copied and pickled, which
gives a module that compiles anew.
"""

from __future__ import annotations

import copy
import inspect
import types
from typing import Any

from facula import core
from facula.capture import segment
from facula.capture.driver import Session
from facula.compiler.sessions import make_session
from facula.core.errors import is_own
from facula.nn import Module

_HOOKS = segment.global_hooks()
_OWN = frozenset(("_orig_mod", "_session", "_call", "forward", "training"))
#: flags of code that takes any number of arguments
_VARIABLE = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS


class OptimizedModule(Module):
    """A compiled view of a module, as `compile` gives it: same parameters, same attributes, compiled
    calls.

    Args:
        module: what was compiled
        session: how it is compiled

    Example:
        >>> layer = facula.nn.Linear(2, 2)
        >>> fast = facula.compile(layer)
        >>> type(fast).__name__, fast.weight is layer.weight
        ('OptimizedModule', True)
    """

    _orig_mod: Module

    def __init__(self, module: Module, session: Session) -> None:
        super().__init__()
        while isinstance(module, OptimizedModule):
            module = module._orig_mod
        self._modules["_orig_mod"] = module
        object.__setattr__(self, "_session", session)
        self.__dict__["training"] = module.training
        self._attach()

    def _attach(self) -> None:
        """Find what a call runs."""
        module, session = self._orig_mod, self._session
        forward = type(module).forward
        call = type(module)._call_impl
        compiled = isinstance(forward, types.FunctionType)
        self.__dict__["_orig_mod"] = module  # found without `__getattr__`
        whole = type(module).__call__
        if isinstance(whole, types.FunctionType) and not is_own(whole.__module__):
            # the class has a call of its own, which may do more than forward and hooks
            self.__dict__["_call"] = types.MethodType(session.wrap(whole), module)
            return
        entries: list[Any] = []
        count = -1
        if compiled:
            code = forward.__code__
            entries = session.place(forward, code, None).entries
            varies = code.co_flags & _VARIABLE or code.co_kwonlyargcount
            count = -1 if varies else code.co_argcount - 1
        make: Any = core.CompiledForward
        self.__dict__["_call"] = make(
            module, forward, types.MethodType(session.wrap(forward), module) if compiled else module,
            types.MethodType(session.wrap(call), module), entries, _HOOKS, count,
        )  # fmt: skip

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The module's own call, compiled; hooks of the module are captured too."""
        return self._call(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name == "_orig_mod":
            return self._modules["_orig_mod"]
        return getattr(self._modules["_orig_mod"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _OWN or name not in dir(type(self)) and name.startswith("_forward"):
            object.__setattr__(self, name, value)
            if name == "training":
                self._orig_mod.training = value
        else:
            setattr(self._orig_mod, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._orig_mod, name)

    def train(self, mode: bool = True) -> Any:
        """Switch the module, and this view of it."""
        self._orig_mod.train(mode)
        self.__dict__["training"] = mode
        return self

    def eval(self) -> Any:
        """`train(False)`."""
        return self.train(False)

    def __len__(self) -> int:
        return len(self._orig_mod)

    def __getitem__(self, index: Any) -> Any:
        return self._orig_mod[index]  # type: ignore[index]

    def __iter__(self) -> Any:
        return iter(self._orig_mod)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self._orig_mod)})

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return OptimizedModule(copy.deepcopy(self._orig_mod, memo), self._session.again())

    def __reduce__(self) -> Any:
        session = self._session
        how = {"fullgraph": session.fullgraph, "dynamic": session.dynamic, "backend": session.name}
        return _compiled_again, (self._orig_mod, how)


def _compiled_again(module: Module, how: dict[str, Any]) -> Any:
    """What unpickling calls."""
    return OptimizedModule(module, make_session(**how))
