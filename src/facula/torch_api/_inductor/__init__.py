"""`facula._inductor`: the compiler of flat graphs under PyTorch's name.

Takes: nothing. Gives: `config`, `metrics`, `utils`, `codecache`, `compile_fx`, `list_mode_options`,
`list_options`, `compile`; `aoti_compile_and_package`, `aoti_load_package`, `aot_compile` (`packages`, `package`).
Keeps true: it holds nothing of its own: `facula.compiler` does (`config` names its options).
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

from facula.core.errors import no_attribute as _no_attribute

_SAME = {"metrics": "metrics"}
_OWN = frozenset({"utils", "codecache", "compile_fx", "config", "decomposition", "package"})

_PACKAGES = frozenset({"aoti_compile_and_package", "aoti_load_package", "aot_compile"})

_FOUND = {
    name: importlib.import_module(f"facula.compiler.{module}") for name, module in _SAME.items()
}
for _name, _module in _FOUND.items():
    sys.modules[f"{__name__}.{_name}"] = _module
importlib.import_module(f"{__name__}.config")  # PyTorch's package brings its settings along


def __getattr__(name: str) -> Any:
    if name in _FOUND:
        return _FOUND[name]
    if name in _OWN:
        return importlib.import_module(f"{__name__}.{name}")
    if name in _PACKAGES:
        return getattr(importlib.import_module(f"{__name__}.packages"), name)
    if name == "cudagraph_mark_step_begin":
        return importlib.import_module("facula.compiler").cudagraph_mark_step_begin
    if name in ("list_mode_options", "list_options"):
        # lazily: settings are read and set without the compiler
        from facula.compiler import backend

        return getattr(backend, name)
    raise _no_attribute(__name__, name)


def compile(gm: Any, example_inputs: Any, options: dict[str, Any] | None = None) -> Any:
    """A captured graph compiled for inputs like the examples."""
    # lazily: as above
    from facula.compiler.backend import compile_fx

    return compile_fx(gm, example_inputs, options=options)
