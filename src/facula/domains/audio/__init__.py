"""Sound: spectra, filters, resampling, files, losses and networks for speech.

Takes: samples as floats in [-1, 1], `[..., time]`. Gives: `functional`, `transforms`, `models`, and `load`, `save`,
`info` for files.
Keeps true: WAV needs the standard library alone; other formats are soundfile's, an extra.
"""

from importlib import import_module as _import_module
from typing import Any as _Any

from facula.core.errors import no_attribute as _no_attribute

from .files import AudioMetaData, info, load, save

_PARTS = ("functional", "models", "transforms")
__all__ = ["AudioMetaData", "info", "load", "save", *_PARTS]


def __getattr__(name: str) -> _Any:
    if name in _PARTS:
        return _import_module(f"{__name__}.{name}")
    raise _no_attribute(__name__, name)
