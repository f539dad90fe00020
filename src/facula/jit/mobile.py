"""Scripted modules in files for small machines, under PyTorch's names.

Takes: files of `_save_for_lite_interpreter`. Gives: `_load_for_lite_interpreter`, which reads them, and
`_export_operator_list`, the operators that a module needs.
Keeps true: a file is one of `jit.save`, read by `jit.load`: nothing of it is executed while it is read.
"""

from __future__ import annotations

from typing import Any

from facula.core.errors import fail
from facula.jit.archive_reading import load

__all__ = ["LiteScriptModule"]


class LiteScriptModule:
    """A module for inference: it runs, and shows nothing of its parts."""

    def __init__(self, module: Any) -> None:
        self._module = module

    def __call__(self, *args: Any) -> Any:
        return self._module(*args)

    def forward(self, *args: Any) -> Any:
        """Run the module."""
        return self._module(*args)

    def find_method(self, method_name: str) -> bool:
        """Whether the module has a method of this name."""
        return method_name in self._module._script_type.methods

    def run_method(self, method_name: str, *args: object) -> Any:
        """Run a method."""
        if not self.find_method(method_name):
            fail(
                RuntimeError,
                "jit.mobile",
                f"a method of the module was required (Method '{method_name}' is not defined)",
                hint="mark methods with @facula.jit.export before the module is scripted",
            )
        return getattr(self._module, method_name)(*args)


def _load_for_lite_interpreter(f: Any, map_location: Any = None) -> LiteScriptModule:
    """The module of a file: a name, or an open one."""
    return LiteScriptModule(load(f, map_location=map_location))


def _export_operator_list(module: LiteScriptModule) -> set[str]:
    """The names of the operators that the methods of a module call."""
    found: set[str] = set()
    for method in module._module._script_type.methods.values():
        nodes = method.compiled().graph.all_nodes()
        found.update(str(node.kind_) for node in nodes if "::" in node.kind_)
    return {name for name in found if not name.startswith("prim::")}
