"""Graph modules in packages: their code as a module of the package, their attributes in the pickle.

Takes graph modules and exporters, or importers and what they read. Gives both directions, in PyTorch's form.
Keeps true: what is read is traced from the code again, with children as leaves.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from facula import nn
from facula.core.errors import is_own, own_name
from facula.fx import GraphModule, Tracer, names

from ._mangling import demangle

__all__ = ["FUNCTION", "parts_of", "rebuilt"]

#: the function that the file names
FUNCTION = ("torch.fx.graph_module", "reduce_package_graph_module")
_MADE_AGAIN = frozenset(
    (
        "_graph",
        "_code",
        "_lineno_map",
        "_deepcopy_hooks",
        "_tracer_extras",
        "_prologue_start",
        "meta",
    )
)


def parts_of(module: GraphModule, exporter: Any) -> tuple[dict[str, Any], str]:
    """The attributes of a graph module, and the module of the package that holds its code."""
    state = {k: v for k, v in module.__dict__.items() if k not in _MADE_AGAIN}
    state["_graphmodule_cls_name"] = type(module).__name__
    name = f"fx-generated._{exporter.get_unique_id()}"
    code = module.graph.python_code("self")
    lines = [_import(n, value, exporter.importer) for n, value in code.globals.items()]
    exporter.save_source_string(name, "\n".join([*lines, code.src]))
    return state, name


def _import(name: str, value: object, importer: Any) -> str:
    """The statement that gives a name of the code its value."""
    builtins = names.custom_builtins()
    if name in builtins:
        return builtins[name].import_str
    if isinstance(value, ModuleType):
        return f"import {_written(value.__name__)} as {name}"
    module, found = importer.get_name(value)
    return f"from {_written(demangle(module))} import {found} as {name}"


def _written(module: str) -> str:
    return "torch" + own_name(module).removeprefix("facula") if is_own(module) else module


def rebuilt(importer: Any, body: dict[str, Any], generated_module_name: str) -> GraphModule:
    """A graph module of its attributes, and of the code in the package."""
    holder = type("_CodeOnlyModule", (nn.Module,), {})()
    holder.__setstate__(body)
    type(holder).forward = importer.import_module(generated_module_name).forward
    kind = body.get("_tracer_cls") or Tracer
    tracer = type("KeepModules", (kind,), {"is_leaf_module": lambda *given: True})()
    graph = tracer.trace(holder)
    graph._tracer_cls = kind
    made = GraphModule(holder, graph, class_name=body.get("_graphmodule_cls_name", "GraphModule"))
    for name, value in body.items():
        if not hasattr(made, name):
            setattr(made, name, value)
    return made
