"""Switches of PyTorch's TorchScript executor, which programs set before they measure.

Takes: values. Gives: what was set before. Keeps true: the values are kept and change nothing: scripted functions
run compiled here, by one executor that has no profiling mode and no other fuser.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_VALUES: dict[str, Any] = {
    "profiling_executor": True,
    "profiling_mode": True,
    "bailout_depth": 20,
    "num_profiled_runs": 1,
    "symbolic_shapes_test_mode": False,
    "texpr_fuser_enabled": True,
    "texpr_reductions_enabled": False,
    "texpr_dynamic_shape_enabled": True,
    "nvfuser_enabled": False,
    "nvfuser_single_node_mode": False,
    "nvfuser_guard_mode": False,
    "nvfuser_horizontal_mode": False,
    "nvfuser_skip_node_kind": "",
    "fusion_group_inlining": True,
    "autodiff_subgraph_inlining": True,
    "fuse_on_cpu": True,
    "fuse_on_cpu_legacy": False,
    "fuse_on_gpu": False,
    "llga_enabled": False,
    "te_must_use_llvm_cpu": False,
    "logging_option": "",
    "tracer_state_warn": True,
    "emit_module_hook": None,
    "emit_function_hook": None,
}


def named(name: str) -> Callable[..., Any] | None:
    """The function of a name such as `_jit_set_profiling_executor`; None where there is no such switch."""
    for start in ("_jit_set_", "_jit_override_can_", "_debug_set_"):
        key = name.removeprefix(start)
        if key != name and key in _VALUES:
            return lambda value=True, *rest: _set(key, value)
    for start in ("_jit_get_", "_debug_get_", "_jit_can_", "_jit_"):
        own = name.removeprefix(start)
        for key in (own, own.removesuffix("_enabled")):
            if own != name and key in _VALUES:
                return lambda *rest, key=key: _VALUES[key]
    return None


def _set(key: str, value: Any) -> Any:
    before, _VALUES[key] = _VALUES[key], value
    return before
