"""Ranks in a grid: a group for each line of it.

Takes: a shape, or a tensor of ranks. Gives: `DeviceMesh`, `init_device_mesh`.
Keeps true: all ranks make the same groups in the same order; a slice of a mesh has the groups of the
mesh.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.distributed.world import (
    GroupMember,
    get_default_backend_for_device,
    get_rank,
    get_world_size,
    init_process_group,
    is_initialized,
    new_group,
)
from facula.ops.registry import F

__all__ = ["DeviceMesh", "init_device_mesh"]

Tensor = core.Tensor


class DeviceMesh:
    """A grid of ranks, seen from one of them."""

    def __init__(
        self,
        device_type: str,
        mesh: Any,
        *,
        mesh_dim_names: Sequence[str] | None = None,
        _init_backend: bool = True,
        _groups: list[Any] | None = None,
        _root: DeviceMesh | None = None,
    ) -> None:
        """Make the groups of a grid; every process calls this.

        Args:
            mesh: the ranks, as a tensor or nested lists.
            mesh_dim_names: a name for each dimension.
        """
        self.device_type = device_type
        self._root = _root
        self.mesh = (
            mesh.detach().to(core.int32)
            if isinstance(mesh, Tensor)
            else core.tensor(mesh, dtype=core.int32, device="cpu")
        )
        self.mesh_dim_names = tuple(mesh_dim_names) if mesh_dim_names is not None else None
        _check_names(self.mesh_dim_names, self.mesh.dim())
        if not is_initialized():
            init_process_group(get_default_backend_for_device(device_type))
        ranks = self.mesh.reshape(-1).tolist()
        if len(set(ranks)) != len(ranks) or max(ranks) >= get_world_size():
            fail(RuntimeError, "DeviceMesh", f"different ranks below {get_world_size()} were required "
                 "(Mesh should not be bigger than default world size)", ranks,
                 hint="name every rank once; start more processes for a larger mesh")  # fmt: skip
        self._coordinate = self._place(ranks)
        self._groups = self._lines() if _groups is None else _groups

    def _place(self, ranks: list[int]) -> list[int] | None:
        """Where this process is in the grid."""
        if get_rank() not in ranks:
            return None
        at, found = ranks.index(get_rank()), []
        for size in reversed(self.mesh.shape):
            at, rest = divmod(at, size)
            found.append(rest)
        return found[::-1]

    def _lines(self) -> list[Any]:
        """For each dimension, this process's group along it."""
        groups: list[Any] = []
        for dim in range(self.mesh.dim()):
            mine: Any = GroupMember.NON_GROUP_MEMBER
            size = self.mesh.shape[dim]
            for line in self.mesh.movedim((dim,), (-1,)).reshape(-1, size).tolist():
                name = self.mesh_dim_names[dim] if self.mesh_dim_names else str(dim)
                made = new_group(line, group_desc=f"mesh_{name}")
                mine = made if get_rank() in line else mine
            groups.append(mine)
        return groups

    @property
    def shape(self) -> tuple[int, ...]:
        """How many ranks there are along each dimension."""
        return tuple(self.mesh.shape)

    @property
    def ndim(self) -> int:
        """How many dimensions there are."""
        return self.mesh.dim()

    def size(self, mesh_dim: int | None = None) -> int:
        """How many ranks there are, along one dimension or altogether."""
        return self.mesh.numel() if mesh_dim is None else self.mesh.shape[mesh_dim]

    def get_rank(self) -> int:
        """This process's rank in the world."""
        return get_rank()

    def get_coordinate(self) -> list[int] | None:
        """Where this process is in the grid; None where it is not in it."""
        return self._coordinate

    def _dim(self, mesh_dim: int | str | None) -> int:
        if mesh_dim is None:
            if self.ndim != 1:
                fail(RuntimeError, "DeviceMesh", "a dimension was required (Optional kwarg `mesh_dim` "
                     "needs to be specified when device_mesh.ndim > 1)", f"{self.ndim} dimensions",
                     hint="pass mesh_dim, an index or a name")  # fmt: skip
            return 0
        if isinstance(mesh_dim, str):
            if mesh_dim not in (self.mesh_dim_names or ()):
                fail(KeyError, "DeviceMesh", f"a name out of {self.mesh_dim_names} was required "
                     "(Invalid mesh_dim_name)", repr(mesh_dim),
                     hint="mesh.mesh_dim_names has the names")  # fmt: skip
            return (self.mesh_dim_names or ()).index(mesh_dim)
        return range(self.ndim)[mesh_dim]

    def get_local_rank(self, mesh_dim: int | str | None = None) -> int:
        """This process's number along a dimension."""
        dim = self._dim(mesh_dim)
        if self._coordinate is None:
            fail(
                RuntimeError,
                "DeviceMesh",
                "a process of the mesh was required",
                get_rank(),
                hint="ask on the ranks of the mesh only",
            )
        return self._coordinate[dim]

    def get_group(self, mesh_dim: int | str | None = None) -> Any:
        """This process's group along a dimension."""
        return self._groups[self._dim(mesh_dim)]

    def get_all_groups(self) -> list[Any]:
        """This process's groups along all dimensions."""
        return [self.get_group(dim) for dim in range(self.ndim)]

    def __getitem__(self, names: str | tuple[str, ...]) -> DeviceMesh:
        """The slice along named dimensions in which this process is."""
        if self.mesh_dim_names is None:
            fail(RuntimeError, "DeviceMesh", "a mesh with names was required (Cannot slice a DeviceMesh "
                 "without mesh_dim_names!)", "one without",
                 hint="pass mesh_dim_names to init_device_mesh()")  # fmt: skip
        wanted = (names,) if isinstance(names, str) else tuple(names)
        dims = [self._dim(name) for name in wanted]
        place = self._coordinate or [0] * self.ndim
        others = [d for d in range(self.ndim) if d not in dims]
        part = self.mesh.permute(*others, *dims)
        for dim in others:
            part = part[place[dim]]
        return DeviceMesh(
            self.device_type, part, mesh_dim_names=wanted, _groups=[self._groups[d] for d in dims],
            _root=self._root_mesh(),
        )  # fmt: skip

    def _root_mesh(self) -> DeviceMesh:
        """The mesh that this one is a slice of; itself, where it is none."""
        return self if self._root is None else self._root

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DeviceMesh):
            return NotImplemented
        same = self.device_type == other.device_type and self.mesh_dim_names == other.mesh_dim_names
        return same and self.mesh.tolist() == other.mesh.tolist()

    def __hash__(self) -> int:
        return hash((self.device_type, self.mesh_dim_names, tuple(self.mesh.reshape(-1).tolist())))

    def __repr__(self) -> str:
        names = f", mesh_dim_names={self.mesh_dim_names}" if self.mesh_dim_names else ""
        return f"DeviceMesh('{self.device_type}', {self.mesh.tolist()}{names})"


def _check_names(names: tuple[str, ...] | None, count: int) -> None:
    if names is None:
        return
    if len(set(names)) != len(names):
        fail(RuntimeError, "DeviceMesh", "different names were required (Each mesh_dim_name must be "
             "unique)", names, hint="for example ('data', 'model')")  # fmt: skip
    if len(names) != count:
        fail(RuntimeError, "DeviceMesh", f"{count} names were required (mesh_shape and mesh_dim_names "
             "should have same length!)", names, hint="give one name for each dimension")  # fmt: skip


def init_device_mesh(
    device_type: str,
    mesh_shape: Sequence[int],
    *,
    mesh_dim_names: Sequence[str] | None = None,
    backend_override: Any = None,
) -> DeviceMesh:
    """The ranks 0, 1, .. in a grid of this shape.

    >>> mesh = init_device_mesh("cpu", (2, 4), mesh_dim_names=("data", "tensor"))
    """
    shape = tuple(mesh_shape)
    names = tuple(mesh_dim_names) if mesh_dim_names is not None else None
    _check_names(names, len(shape))
    if not device_type.isalpha():
        fail(RuntimeError, "init_device_mesh", "a device type without an index was required (Device type "
             "with index is not supported)", device_type, hint="for example 'cpu'")  # fmt: skip
    if not is_initialized():
        init_process_group(get_default_backend_for_device(device_type))
    if math.prod(shape) > get_world_size():
        fail(RuntimeError, "init_device_mesh", f"a shape of at most {get_world_size()} ranks was required",
             shape, hint="start more processes for a larger mesh")  # fmt: skip
    mesh = F.arange(math.prod(shape), dtype=core.int32, device="cpu").view(shape)
    return DeviceMesh(device_type, mesh, mesh_dim_names=names)
