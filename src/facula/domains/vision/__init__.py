"""Images: models, transforms, operators on boxes and regions, datasets on local files.

Takes: tensors and Pillow's images. Gives: `models`, `transforms`, `ops`, `datasets`, `io`, `utils`, with the
names that programs for torchvision use.
Keeps true: a part is imported when it is named.
"""

from importlib import import_module as _import_module
from typing import Any as _Any

from facula.core.errors import no_attribute as _no_attribute

_PARTS = ("datasets", "io", "models", "ops", "transforms", "utils")
__all__ = list(_PARTS)


def __getattr__(name: str) -> _Any:
    if name in _PARTS:
        return _import_module(f"{__name__}.{name}")
    raise _no_attribute(__name__, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_PARTS})
