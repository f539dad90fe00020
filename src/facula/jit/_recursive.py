"""`torch.jit._recursive`: modules of graphs' classes, as libraries ask for them.

Takes modules and views of scripted ones. Gives scripted modules.
Keeps true: re-exports.
"""

from __future__ import annotations

from typing import Any

from facula.jit.module_views import module_of
from facula.jit.script_objects import ScriptModule
from facula.jit.scripting import script

__all__ = ["ConcreteTypeStore", "concrete_type_store", "create_script_module", "wrap_cpp_module"]


class ConcreteTypeStore:
    """The classes of modules that were scripted; they are kept with the modules here."""

    def __init__(self) -> None:
        self.type_store: dict[type, list[Any]] = {}


concrete_type_store = ConcreteTypeStore()


def wrap_cpp_module(cpp_module: Any) -> Any:
    """The scripted module of a view."""
    return module_of(cpp_module)


def create_script_module(
    nn_module: Any, stubs_fn: Any = None, share_types: bool = True, is_tracing: bool = False
) -> Any:
    """The scripted form of a module."""
    return nn_module if isinstance(nn_module, ScriptModule) else script(nn_module)
