"""Settings of capture; assignments here change `facula.capture.config`."""

from __future__ import annotations

import sys
import types
from typing import Any, NoReturn

from facula.capture import config as _config
from facula.core.errors import fail


def _unknown(name: str) -> NoReturn:
    fail(
        AttributeError,
        "config",
        "a setting of capture was required",
        got=name,
        hint="dir(facula._dynamo.config) lists them",
    )


class _Config(types.ModuleType):
    """A module whose attributes are the settings."""

    def __getattr__(self, name: str) -> Any:
        name = _config._ALIASES.get(name, name)
        if name in _config._NAMES or name == "patch":
            return getattr(_config, name)
        _unknown(name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *_config.names()})

    def __setattr__(self, name: str, value: object) -> None:
        name = _config._ALIASES.get(name, name)
        if name.startswith("__"):
            super().__setattr__(name, value)
        elif name in _config._NAMES:
            setattr(_config, name, value)
        else:
            _unknown(name)


sys.modules[__name__].__class__ = _Config
