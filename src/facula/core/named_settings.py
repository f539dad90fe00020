"""Modules whose attributes are settings under PyTorch's names.

Takes: the names with their defaults, and which of them change something here. Gives: `become`, which makes a
module such a one, with `patch`, `save_config`, `load_config` and their kin.
Keeps true: an unknown name is an error; a setting that changes nothing here is kept, and said to be without
effect when it gets another value than its default for the first time.
"""

from __future__ import annotations

import contextlib
import functools
import json
import sys
import types
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from facula.core.errors import fail

__all__ = ["Setting", "become", "several"]


class Setting:
    """A setting that acts: how it is read and written."""

    def __init__(self, read: Callable[[], Any], write: Callable[[Any], None]) -> None:
        self.read, self.write = read, write


class _Patch(contextlib.ContextDecorator):
    """Settings with other values, in a `with` block or a function."""

    def __init__(self, module: Any, wanted: dict[str, Any]) -> None:
        self.module, self.wanted = module, wanted
        self.before: list[dict[str, Any]] = []

    def __enter__(self) -> None:
        self.before.append({name: getattr(self.module, name) for name in self.wanted})
        for name, value in self.wanted.items():
            setattr(self.module, name, value)

    def __exit__(self, *exception: object) -> None:
        for name, value in self.before.pop().items():
            setattr(self.module, name, value)

    def __call__(self, function: Any) -> Any:
        if not isinstance(function, type):
            return super().__call__(function)
        for name, method in list(vars(function).items()):  # a class of tests
            if name.startswith("test") and callable(method):
                setattr(function, name, super().__call__(method))
        return function


class NamedSettings(types.ModuleType):
    """A module of settings."""

    _defaults: Mapping[str, Any]
    _acting: Mapping[str, Setting]
    _values: dict[str, Any]
    _hidden: set[str]

    def __getattr__(self, name: str) -> Any:
        if name not in self._hidden:
            if name in self._acting:
                return self._acting[name].read()
            if name in self._values:
                return self._values[name]
        return fail(
            AttributeError,
            self.__name__,
            "a setting was required",
            got=name,
            hint=f"dir({self.__name__}) lists them",
        )

    def __setattr__(self, name: str, value: object) -> None:
        self._hidden.discard(name)
        if name.startswith("__"):
            super().__setattr__(name, value)
        elif name in self._acting:
            self._acting[name].write(value)
        elif name not in self._values:
            getattr(self, name)  # raises
        else:
            if value != self._defaults[name] and name not in _SAID:
                _SAID.add(name)
                text = f"[{self.__name__}] {name} has no effect here"
                warnings.warn(text, stacklevel=2)
            self._values[name] = value

    def __delattr__(self, name: str) -> None:
        # `mock.patch` deletes what it set, and gives back the value before only where then is none
        getattr(self, name)  # raises where there is none
        self._hidden.add(name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._values, *self._acting, *_METHODS})

    def patch(self, changes: Any = None, value: object = None, **more: object) -> _Patch:
        """Settings with other values: by a name and a value, a dictionary, or keywords."""
        wanted = {changes: value} if isinstance(changes, str) else dict(changes or {})
        wanted.update(more)
        for name in wanted:
            getattr(self, name)  # raises where there is none
        return _Patch(self, wanted)

    def get_config_copy(self) -> dict[str, Any]:
        """All values by name."""
        return {name: getattr(self, name) for name in (*self._values, *self._acting)}

    shallow_copy_dict = to_dict = get_config_copy

    def save_config_portable(self, **words: object) -> dict[str, Any]:
        """The values that differ from the defaults."""
        return {k: v for k, v in self.get_config_copy().items() if v != self._defaults.get(k)}

    def save_config(self) -> bytes:
        """All values as bytes, for `load_config`."""
        return json.dumps(self.get_config_copy()).encode()

    def load_config(self, saved: bytes | dict[str, Any]) -> None:
        """Values that `save_config` gave, or a dictionary of them."""
        for name, value in (saved if isinstance(saved, dict) else json.loads(saved)).items():
            setattr(self, name, value)


_METHODS = ("get_config_copy", "load_config", "patch", "save_config", "save_config_portable")
_SAID: set[str] = set()


def become(
    name: str, defaults: Mapping[str, Any], acting: Mapping[str, Setting] | None = None
) -> None:
    """Make the module of a name one of settings.

    Args:
        name: of the module, `__name__`
        defaults: the settings that are kept and change nothing here
        acting: those that do
    """
    module: Any = sys.modules[name]
    inner: dict[str, Any] = {"_defaults": dict(defaults), "_values": dict(defaults)}
    inner.update(_acting=dict(acting or {}), _hidden=set())
    module.__class__ = type("NamedSettings", (NamedSettings,), inner)


def attribute(owner: object, name: str) -> Setting:
    """The setting that an attribute of another object is."""
    return Setting(functools.partial(getattr, owner, name), functools.partial(setattr, owner, name))


def several(owner: object, names: Iterable[str]) -> dict[str, Setting]:
    """Attributes of another object, by name."""
    return {name: attribute(owner, name) for name in names}
