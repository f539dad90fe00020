"""TorchScript: functions and modules whose source becomes a graph that runs without Python.

Takes Python functions, classes and modules (`script`), or example inputs (`trace`), and files. Gives
`ScriptFunction`s and `ScriptModule`s. Keeps true: the source is parsed and typed, never evaluated; what is
not TorchScript is an error with the line, what was found and what was needed.
"""

from __future__ import annotations

from typing import Any, Final

from facula.jit import (
    _logging,
    frontend,
    primitive_containers,
    primitive_files,
    primitive_networks,
    primitive_quantized,
    primitives,
)
from facula.jit import internal_names as _jit_internal
from facula.jit.archive_reading import load
from facula.jit.archive_writing import save
from facula.jit.compilation_unit import CompilationUnit
from facula.jit.containers import ScriptDict, ScriptList
from facula.jit.errors import ScriptError as Error
from facula.jit.freezing import (
    freeze,
    optimize_for_inference,
    run_frozen_optimizations,
    set_fusion_strategy,
)
from facula.jit.marks import (
    Attribute,
    _overload,
    _overload_method,
    _unwrap_optional,
    annotate,
    export,
    ignore,
    interface,
    is_scripting,
    is_tracing,
    script_if_tracing,
    script_method,
    unused,
)
from facula.jit.modes import (
    enable_onednn_fusion,
    export_opnames,
    fuser,
    onednn_fusion_enabled,
    optimized_execution,
    strict_fusion,
    unique_state_dict,
)
from facula.jit.questions import container_isinstance as isinstance  # noqa: A004
from facula.jit.script_objects import (
    RecursiveScriptModule,
    ScriptFunction,
    ScriptMethod,
    ScriptModule,
)
from facula.jit.script_profile import ScriptProfile
from facula.jit.scripting import fork, script, wait
from facula.jit.tracing import TracerWarning, TracingCheckError, trace, trace_graph, trace_module
from facula.namespaces._awaits import _Await, _awaitable, _awaitable_nowait, _awaitable_wait
from facula.namespaces.futures import Future

__all__ = [
    "Attribute",
    "CompilationUnit",
    "Error",
    "Final",
    "Future",
    "RecursiveScriptModule",
    "ScriptDict",
    "ScriptFunction",
    "ScriptList",
    "ScriptMethod",
    "ScriptModule",
    "TracerWarning",
    "TracingCheckError",
    "annotate",
    "enable_onednn_fusion",
    "export",
    "export_opnames",
    "fork",
    "freeze",
    "frontend",
    "fuser",
    "ignore",
    "interface",
    "is_scripting",
    "is_tracing",
    "isinstance",
    "load",
    "onednn_fusion_enabled",
    "optimized_execution",
    "save",
    "optimize_for_inference",
    "run_frozen_optimizations",
    "script",
    "script_if_tracing",
    "script_method",
    "set_fusion_strategy",
    "strict_fusion",
    "trace",
    "trace_module",
    "unused",
    "wait",
]

_script_if_tracing = script_if_tracing
_get_trace_graph = trace_graph
_unique_state_dict = unique_state_dict
_fork, _wait, _drop = fork, wait, unused
_ScriptProfile = ScriptProfile
del (
    ScriptProfile,
    primitive_containers,
    primitive_files,
    primitive_networks,
    primitive_quantized,
    primitives,
    trace_graph,
    unique_state_dict,
)
