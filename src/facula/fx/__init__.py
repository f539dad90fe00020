"""Graphs of programs: traced, read, changed, and run again.

Takes modules and functions (`symbolic_trace`), or nodes one by one (`Graph`).  Gives `GraphModule`s,
whose `forward` is generated Python.  See `docs/fx.md`.
Keeps true: nothing is imported before it is asked for.
"""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import Any as _Any

_FROM = {
    "_symbolic_trace": "PH ProxyableClassMeta Tracer symbolic_trace wrap",
    "graph": "CodeGen Graph",
    "graph_module": "GraphModule",
    "immutable_collections": "immutable_dict immutable_list",
    "interpreter": "Interpreter Transformer",
    "node": "Node has_side_effect map_arg",
    "proxy": "Proxy TraceError",
    "subgraph_rewriter": "replace_pattern",
}
_NAMES = {name: module for module, names in _FROM.items() for name in names.split()}
_MODULES = frozenset(
    (
        *_FROM, "experimental", "operator_schemas", "passes", "traceback"
    )
)  # fmt: skip

__all__ = [
    "Graph", "GraphModule", "Interpreter", "Node", "Proxy", "Tracer", "Transformer", "has_side_effect",
    "map_arg", "replace_pattern", "symbolic_trace", "wrap",
]  # fmt: skip


def __getattr__(name: str) -> _Any:
    if name in _NAMES:
        value = getattr(_import_module(f"facula.fx.{_NAMES[name]}"), name)
        globals()[name] = value
        return value
    if name in _MODULES:
        return _import_module(f"facula.fx.{name}")
    raise _import_module("facula.core.errors").no_attribute(__name__, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_NAMES, *_MODULES} - {"annotations"})
