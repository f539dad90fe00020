"""Distributed tensors of zeros, ones, random numbers.

Takes: a shape, a mesh and placements. Gives: distributed tensors.
Keeps true: a rank makes only its piece where the values are known; random numbers are those of the whole
tensor, the same whatever the placements are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from facula import core
from facula.distributed.device_mesh import DeviceMesh, _mesh_resources
from facula.distributed.tensor._utils import compute_local_shape_and_global_offset
from facula.distributed.tensor.distributing import distribute_tensor
from facula.distributed.tensor.dtensor import DTensor, _placements
from facula.ops.table.registry import F

__all__ = ["empty", "full", "ones", "rand", "randn", "zeros"]


def _sizes(size: tuple[Any, ...]) -> tuple[int, ...]:
    return tuple(size[0]) if len(size) == 1 and isinstance(size[0], (tuple, list)) else size


def _filled(
    make: Callable[..., Any],
    size: tuple[int, ...],
    mesh: DeviceMesh,
    placements: Any,
    options: dict[str, Any],
) -> DTensor:
    chosen = _placements(placements, mesh, len(size))
    shape, _ = compute_local_shape_and_global_offset(size, mesh, chosen)
    return DTensor._make(make(shape, **options), size, mesh, chosen)


def _drawn(
    make: Callable[..., Any],
    size: tuple[int, ...],
    mesh: DeviceMesh,
    placements: Any,
    options: dict[str, Any],
) -> DTensor:
    return distribute_tensor(make(size, **options), mesh, placements)


def _factory(name: str, place: Callable[..., DTensor], text: str) -> Callable[..., DTensor]:
    """A function that makes tensors of a size as the operator of that name does."""
    make = getattr(F, name)

    def factory(
        *size: Any,
        requires_grad: bool = False,
        dtype: core.dtype | None = None,
        layout: core.layout | None = None,
        device_mesh: DeviceMesh | None = None,
        placements: Sequence[Any] | None = None,
    ) -> DTensor:
        mesh = device_mesh or _mesh_resources.get_current_mesh()
        made = place(make, _sizes(size), mesh, placements, {"dtype": dtype})
        made.requires_grad_(requires_grad)
        return made

    factory.__name__ = factory.__qualname__ = name
    factory.__doc__ = text
    return factory


zeros = _factory("zeros", _filled, "Zeros.")
ones = _factory("ones", _filled, "Ones.")
empty = _factory("empty", _filled, "Memory as it is.")
rand = _factory("rand", _drawn, "Uniform numbers in [0, 1), drawn by the first rank.")
randn = _factory("randn", _drawn, "Normal numbers, drawn by the first rank.")


def full(
    size: Any,
    fill_value: Any,
    *,
    dtype: core.dtype | None = None,
    layout: core.layout | None = None,
    requires_grad: bool = False,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Any] | None = None,
) -> DTensor:
    """One value everywhere."""

    def make(shape: Any, **options: object) -> Any:
        return F.full(shape, fill_value, **options)

    mesh = device_mesh or _mesh_resources.get_current_mesh()
    made = _filled(make, tuple(size), mesh, placements, {"dtype": dtype})
    made.requires_grad_(requires_grad)
    return made
