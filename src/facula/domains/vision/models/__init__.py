"""Networks for images. Their parameters have torchvision's names, so files of its weights load.

Takes: settings. Gives: modules with random weights; `list_models()` and `get_model(name)` know them all.
Keeps true: a family is imported when one of its names is asked for.
"""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import Any as _Any

from facula.core.errors import fail as _fail
from facula.core.errors import no_attribute as _no_attribute

_FAMILIES = ("resnet", "plain", "mobilenet", "efficient", "transformer", "segmentation")
#: families whose names are found below their own name only
_APART = ("segmentation",)


def _names(family: str) -> dict[str, _Any]:
    module = _import_module(f"{__name__}.{family}")
    return {name: getattr(module, name) for name in module.__all__}


def __getattr__(name: str) -> _Any:
    if name.startswith("__"):
        raise _no_attribute(__name__, name)
    if name in _FAMILIES:
        return _import_module(f"{__name__}.{name}")
    for family in _FAMILIES:
        if family not in _APART:
            found = _names(family)
            globals().update(found)
            if name in found:
                return found[name]
    raise _no_attribute(__name__, name)


def _constructors() -> dict[str, _Any]:
    every: dict[str, _Any] = {}
    for family in _FAMILIES:
        every |= {name: value for name, value in _names(family).items() if name == name.lower()}
    return every


def list_models() -> list[str]:
    """The names of all models."""
    return sorted(_constructors())


def get_model(name: str, **settings: _Any) -> _Any:
    """A model by its name."""
    every = _constructors()
    if name not in every:
        hint = "list_models() has the names"
        _fail(
            ValueError,
            "get_model",
            "the name of a model was required (Unknown model)",
            name,
            hint=hint,
        )
    return every[name](**settings)


def __dir__() -> list[str]:
    names = [name for family in _FAMILIES if family not in _APART for name in _names(family)]
    return sorted({*globals(), *names, *_FAMILIES})
