"""Text: tokenizers, vocabularies, transforms, n-grams, BLEU, datasets of this machine, networks.

Takes: strings. Gives: `data`, `vocab`, `transforms`, `datasets`, `models`, `functional`, with the names that programs
for torchtext use.
Keeps true: a part is imported when it is named.
"""

from importlib import import_module as _import_module
from typing import Any as _Any

from facula.core.errors import no_attribute as _no_attribute

_PARTS = ("data", "datasets", "functional", "models", "transforms", "vocab")
__all__ = list(_PARTS)


def __getattr__(name: str) -> _Any:
    if name in _PARTS:
        return _import_module(f"{__name__}.{name}")
    raise _no_attribute(__name__, name)
