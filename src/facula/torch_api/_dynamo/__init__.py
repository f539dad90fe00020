"""Capture, under the names that PyTorch programs use; everything here stands elsewhere."""

from __future__ import annotations

from facula.capture.rules.framework import graph_break, is_compiling
from facula.compiler.api import (
    allow_in_graph,
    assume_constant_result,
    disable,
    disallow_in_graph,
    reset,
    set_stance,
    substitute_in_graph,
)
from facula.compiler.api import reset as _reset_guarded_backend_cache  # noqa: F401
from facula.compiler.backends import list_backends, lookup_backend, register_backend
from facula.compiler.explanation import explain
from facula.compiler.optimized_module import OptimizedModule

# PyTorch has this module with everything else; libraries read it without an import
from .. import _custom_op
from . import backends, compiled_autograd, config, eval_frame, exc, utils
from .callback import callback_handler, on_compile_end, on_compile_start
from .decorators import (
    mark_dynamic,
    mark_static,
    mark_static_address,
    mark_unbacked,
    maybe_mark_dynamic,
)
from .eval_frame import is_dynamo_supported, optimize, optimize_assert, run
from .exporting import ExportResult, export
