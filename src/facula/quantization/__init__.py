"""Quantization: tensors of integers that stand for numbers, and models that compute with them.

Gives: `tensor` and `create` (quantized tensors), `rules` (what operators do with them), `operators` (`ops.quantized`),
and above them observers, modules and the workflows, whose names are those of PyTorch's `ao.quantization`.
Keeps true: a module is imported when a name of it is asked for, so that `import facula` takes no longer for it.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from facula.core.errors import no_attribute as _no_attribute

#: where names are looked for, in this order
_MODULES = (
    "observer",
    "fake_quantize",
    "qconfig",
    "qconfig_mapping",
    "modules.stubs",
    "fuse",
    "eager",
    "quantize_fx",
    "mappings",
    "utils",
    "quant_type",
)


#: the module of the workflows of scripts, which lies above: its names are those of this room, too
_SCRIPTS = "facula.ao.quantization.quantize_jit"

#: the modules of the room, which come before names inside of them
_PARTS = frozenset(module.name for module in iter_modules(__path__))


def __getattr__(name: str) -> Any:
    if name in _PARTS:
        return import_module(f"facula.quantization.{name}")
    if not name.startswith("__"):
        for module in _MODULES:
            found = vars(import_module(f"facula.quantization.{module}")).get(name)
            if found is not None:
                globals()[name] = found
                return found
        if name in import_module(_SCRIPTS).__all__:
            return getattr(import_module(_SCRIPTS), name)
    raise _no_attribute(__name__, name)


def __dir__() -> list[str]:
    names = set(globals())
    for module in _MODULES:
        names.update(vars(import_module(f"facula.quantization.{module}")))
    return sorted(name for name in names if not name.startswith("_"))
