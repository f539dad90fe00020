"""`facula.backends`: devices that a package adds, and the modules by which PyTorch asks about devices.

Re-exports the registry of `facula.devices`. Gives the modules `cpu`, `cuda`, `cudnn`, `mps`, `mkl`, ...
that PyTorch code reads. Keeps true: they are imported when they are first asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from facula.core.errors import no_attribute as _no_attribute
from facula.devices import get, load, register, registered, tensors_of, unset_results

__all__ = ["get", "load", "register", "registered", "tensors_of", "unset_results"]

#: how products of float32 are computed, "none" where each backend says it. It is kept; they are computed in float32
fp32_precision = "none"


@contextmanager
def __allow_nonbracketed_mutation() -> Iterator[None]:
    """A block in which switches are set one by one, outside of `flags`, as is allowed everywhere here."""
    yield


#: those in this folder, and one that stands with what it chooses
_MODULES = frozenset(module.name for module in iter_modules(__path__)) | {"quantized"}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"facula.backends.{name}")
    raise _no_attribute(__name__, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
