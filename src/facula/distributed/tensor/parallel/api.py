"""`parallelize_module`: a plan, applied.

Takes: a module, a mesh of one dimension, and a style or styles by the names of submodules. Gives: the module.
Keeps true: a name may have wildcards, as `layers.*.attention`; one that meets no submodule is a warning.
"""

from __future__ import annotations

import fnmatch
import warnings
from collections.abc import Iterator
from typing import Any

from facula import nn
from facula.core.errors import fail
from facula.distributed.device_mesh import DeviceMesh, init_device_mesh
from facula.distributed.tensor.parallel.style import ParallelStyle
from facula.distributed.world import get_world_size

__all__ = ["parallelize_module"]


def parallelize_module(
    module: nn.Module, device_mesh: DeviceMesh | None = None, parallelize_plan: Any = None,
    *, src_data_rank: int | None = 0,
) -> nn.Module:  # fmt: skip
    """Cut a module over ranks, in place.

    >>> plan = {"up": ColwiseParallel(), "down": RowwiseParallel()}
    >>> parallelize_module(block, mesh["tp"], plan)

    Args:
        device_mesh: of one dimension; default: all ranks.
        parallelize_plan: a style, or styles by the names of submodules.
        src_data_rank: the rank whose parameters count; None: each rank cuts its own.
    """
    mesh = device_mesh or init_device_mesh("cpu", (get_world_size(),))
    if mesh.ndim != 1:
        fail(ValueError, "parallelize_module", "a mesh of one dimension was required (only 1D "
             "device_mesh is supported)", mesh, "mesh['tp'] is a slice of a larger one")  # fmt: skip
    if parallelize_plan is None:
        warnings.warn("[parallelize_module] no plan was given: nothing is cut", stacklevel=2)
        return module
    if isinstance(parallelize_plan, ParallelStyle):
        parallelize_plan.src_data_rank = src_data_rank
        return parallelize_plan._apply(module, mesh)
    if not isinstance(parallelize_plan, dict):
        fail(TypeError, "parallelize_module", "a ParallelStyle or a dict of them was required (Expect "
             "Union[ParallelStyle, Dict[str, ParallelStyle]] for parallelize_plan)",
             type(parallelize_plan).__name__, "for example {'linear': ColwiseParallel()}")  # fmt: skip
    for path, style in parallelize_plan.items():
        found = list(_matching(module, path.split(".") if path else []))
        if not found:
            warnings.warn(f"[parallelize_module] no submodule is called {path!r}", stacklevel=2)
        for inner in found:
            parallelize_module(inner, mesh, style, src_data_rank=src_data_rank)
    return module


def _matching(module: nn.Module, path: list[str]) -> Iterator[nn.Module]:
    """The submodules at a path, whose parts may have wildcards."""
    if not path:
        yield module
        return
    for name, inner in module.named_children():
        if fnmatch.fnmatchcase(name, path[0]):
            yield from _matching(inner, path[1:])
