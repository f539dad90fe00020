"""Ranks in a grid: a group for each line of it.

Takes: a shape, or a tensor of ranks. Gives: `DeviceMesh`, `init_device_mesh`.
Keeps true: all ranks make the same groups in the same order; a slice of a mesh has the groups of the
mesh; what is made of a mesh (slices, flattened and split dimensions) knows it as its root.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.distributed import mesh_axes
from facula.distributed.mesh_axes import Axis
from facula.distributed.world import (
    GroupMember,
    default_group,
    get_backend,
    get_default_backend_for_device,
    get_rank,
    get_world_size,
    groups,
    init_process_group,
    is_initialized,
    new_group,
)
from facula.fx.fake_tensor import unset_fake_temporarily
from facula.ops.table.registry import F

__all__ = ["DeviceMesh", "init_device_mesh"]

Tensor = core.Tensor
#: for each dimension, the engine and the options of its groups (None: those of the world)
Backends = Sequence[tuple[str | None, Any]]


class DeviceMesh:
    """A grid of ranks, seen from one of them."""

    def __init__(
        self, device_type: str, mesh: Any = None, *, mesh_dim_names: Sequence[str] | None = None,
        backend_override: Backends | None = None, _init_backend: bool = True, _rank: int | None = None,
        _groups: list[Any] | None = None, _root: DeviceMesh | None = None, _axes: Sequence[Axis] | None = None,
    ) -> None:  # fmt: skip
        """Make the groups of a grid; every process calls this.

        Args:
            mesh: the ranks, as a tensor or nested lists.
            mesh_dim_names: a name for each dimension.
            backend_override: for each dimension, the engine of its groups and its options (None: the world's).
        """
        self.device_type, self._root = core.device(device_type).type, _root
        #: the ranks of the root, in order; places are counted in it
        self._numbers: list[int]
        if _root is not None and _axes is not None:
            self._numbers, self._axes = _root._numbers, list(_axes)
        elif mesh is None:
            fail(TypeError, "DeviceMesh", "a tensor or lists of ranks were required (The mesh argument is "
                 "required)", "None", "for example [[0, 1], [2, 3]]")  # fmt: skip
        else:
            with unset_fake_temporarily():
                made = isinstance(mesh, Tensor)
                given = mesh.detach().to("cpu") if made else core.tensor(mesh, device="cpu")
                self._numbers = given.to(core.int32).reshape(-1).tolist()
            self._axes = mesh_axes.axes_of(tuple(given.shape))
        self.mesh_dim_names = tuple(mesh_dim_names) if mesh_dim_names is not None else None
        _check_names(self.mesh_dim_names, len(self._axes))
        self._flatten_mapping: dict[str, DeviceMesh] = {}
        self._init_backend = _init_backend
        self._rank = self._begin(_init_backend) if _rank is None else _rank
        self._place()
        threads = is_initialized() and get_backend() == "threaded"
        self._thread_id = threading.get_ident() if threads else None
        if _groups is not None:
            self._groups: list[Any] | None = _groups
        else:
            self._groups = self._lines(backend_override) if _init_backend else None

    def _begin(self, joins: bool) -> int:
        """This process's rank, in a world that is large enough."""
        if not joins and not is_initialized():
            return 0
        if not is_initialized():
            init_process_group(get_default_backend_for_device(self.device_type))
        ranks = self._numbers
        if joins and (len(set(ranks)) != len(ranks) or max(ranks) >= get_world_size()):
            fail(RuntimeError if len(set(ranks)) == len(ranks) else ValueError, "DeviceMesh",
                 f"different ranks below {get_world_size()} were required (Mesh should not be bigger than "
                 "default world size; ranks list must not contain duplicate entries)", ranks,
                 hint="name every rank once; start more processes for a larger mesh")  # fmt: skip
        return get_rank()

    def _place(self) -> None:
        """Find which of the grids of these axes is this process's, and where it stands in it."""
        every = mesh_axes.copies(self._axes, len(self._numbers))
        mine = [grid for grid in every if any(self._numbers[p] == self._rank for p in grid)]
        #: ranks of this process's grid (of the first one, where this process is in none), in order
        self._flatten_mesh_list = tuple(self._numbers[p] for p in (mine or every)[0])
        self._coordinate_on_dim: tuple[int, ...] | None = None
        if mine:
            at, found = self._flatten_mesh_list.index(self._rank), []
            for size in reversed(self.shape):
                at, rest = divmod(at, size)
                found.append(rest)
            self._coordinate_on_dim = tuple(found[::-1])

    def _lines(self, backends: Backends | None, dims: Sequence[int] | None = None) -> list[Any]:
        """For each dimension, this process's group along it."""
        groups: list[Any] = []
        if backends is not None and len(backends) != self.ndim:
            fail(ValueError, "DeviceMesh", f"{self.ndim} engines were required (backend_override should have "
                 "the same length as the number of mesh dimensions)", len(backends),
                 "None stands for the world's")  # fmt: skip
        for dim in range(self.ndim) if dims is None else dims:
            backend, options = (None, None) if backends is None else backends[dim]
            name = self.mesh_dim_names[dim] if self.mesh_dim_names else str(dim)
            every = mesh_axes.copies([self._axes[dim]], len(self._numbers))
            lines = [[self._numbers[p] for p in line] for line in every]
            if backend is None and options is None and lines == [list(range(get_world_size()))]:
                groups.append(default_group())
                continue
            mine: Any = GroupMember.NON_GROUP_MEMBER
            for line in lines:
                made = new_group(
                    line, backend=backend, pg_options=options, group_desc=f"mesh_{name}"
                )
                mine = made if self._rank in line else mine
            groups.append(mine)
        return groups

    # ---------------------------------------------------------------- what it is

    @property
    def mesh(self) -> Tensor:
        """The ranks of the grid in which this process is."""
        with unset_fake_temporarily():
            found = core.tensor(self._flatten_mesh_list, dtype=core.int32, device="cpu")
            return found.view(self.shape)

    @property
    def shape(self) -> tuple[int, ...]:
        """How many ranks there are along each dimension."""
        return tuple(map(len, self._axes))

    @property
    def ndim(self) -> int:
        """How many dimensions there are."""
        return len(self._axes)

    def size(self, mesh_dim: int | None = None) -> int:
        """How many ranks there are, along one dimension or altogether."""
        return math.prod(self.shape) if mesh_dim is None else self.shape[mesh_dim]

    def get_rank(self) -> int:
        """This process's rank in the world."""
        return self._rank

    def get_coordinate(self) -> tuple[int, ...] | None:
        """Where this process is in the grid; None where it is not in it."""
        return self._coordinate_on_dim

    def _is_current_rank_part_of_mesh(self) -> bool:
        return self._coordinate_on_dim is not None

    def _get_mesh_dim_by_name(self, name: str) -> int:
        if name not in (self.mesh_dim_names or ()):
            fail(KeyError, "DeviceMesh", f"a name out of {self.mesh_dim_names} was required (Mesh dimension "
                 f"{name!r} does not exist.)", repr(name), hint="mesh.mesh_dim_names has the names")  # fmt: skip
        return (self.mesh_dim_names or ()).index(name)

    def _dim(self, mesh_dim: int | str | None) -> int:
        if mesh_dim is None:
            if self.ndim != 1:
                fail(RuntimeError, "DeviceMesh", "a dimension was required (Optional kwarg `mesh_dim` "
                     "needs to be specified when device_mesh.ndim > 1)", f"{self.ndim} dimensions",
                     hint="pass mesh_dim, an index or a name; get_all_groups() gives all groups")  # fmt: skip
            return 0
        if isinstance(mesh_dim, str):
            return self._get_mesh_dim_by_name(mesh_dim)
        return range(self.ndim)[mesh_dim]

    def _flattened(self, mesh_dim: int | str | None) -> DeviceMesh | None:
        """The flattened mesh of that name, which the root knows."""
        if not isinstance(mesh_dim, str):
            return None
        return self._get_root_mesh()._flatten_mapping.get(mesh_dim)

    def get_local_rank(self, mesh_dim: int | str | None = None) -> int:
        """This process's number along a dimension."""
        flattened = self._flattened(mesh_dim)
        if flattened is not None:
            return flattened.get_local_rank()
        dim = self._dim(mesh_dim)
        if self._coordinate_on_dim is None:
            fail(RuntimeError, "DeviceMesh", "a process of the mesh was required", self._rank,
                 hint="ask on the ranks of the mesh only")  # fmt: skip
        return self._coordinate_on_dim[dim]

    def get_group(self, mesh_dim: int | str | None = None) -> Any:
        """This process's group along a dimension."""
        if self._groups is None:
            fail(RuntimeError, "DeviceMesh", "groups were required (DeviceMesh process groups not initialized!)",
                 "a mesh that was made with _init_backend=False", "leave that argument out")  # fmt: skip
        flattened = self._flattened(mesh_dim)
        return flattened.get_group() if flattened is not None else self._groups[self._dim(mesh_dim)]

    def get_all_groups(self) -> list[Any]:
        """This process's groups along all dimensions."""
        return [self.get_group(dim) for dim in range(self.ndim)]

    @property
    def _dim_group_names(self) -> list[str]:
        members = (g for g in self._groups or () if g is not GroupMember.NON_GROUP_MEMBER)
        return [group.group_name for group in members]

    # ---------------------------------------------------------------- what is made of it

    def _get_root_mesh(self) -> DeviceMesh:
        """The mesh that this one was made of; itself, where it was made of none."""
        return self if self._root is None else self._root

    def _get_root_mesh_dim(self) -> int | None:
        """Which dimension of its root a slice of one dimension is."""
        if self.mesh_dim_names is None:
            return None
        if self.ndim != 1:
            fail(AssertionError, "DeviceMesh", "one dimension was required (The submesh can only be a 1D mesh.)",
                 self.ndim, "slice a mesh by one name")  # fmt: skip
        return self._get_root_mesh()._get_mesh_dim_by_name(self.mesh_dim_names[0])

    def _part(
        self, axes: Sequence[Axis], names: Sequence[str], groups: list[Any] | None
    ) -> DeviceMesh:
        return DeviceMesh(
            self.device_type, mesh_dim_names=names, _groups=groups, _root=self._get_root_mesh(),
            _axes=axes, _rank=self._rank, _init_backend=False,
        )  # fmt: skip

    def __getitem__(self, names: str | tuple[str, ...]) -> DeviceMesh:
        """The slice along named dimensions in which this process is."""
        if self.mesh_dim_names is None:
            fail(RuntimeError, "DeviceMesh", "a mesh with names was required (Cannot slice a DeviceMesh "
                 "without mesh_dim_names!)", "one without",
                 hint="pass mesh_dim_names to init_device_mesh()")  # fmt: skip
        wanted = (names,) if isinstance(names, str) else tuple(names)
        if wanted == self.mesh_dim_names:
            return self
        flattened = self._flatten_mapping if self._root is None else {}
        known = (*self.mesh_dim_names, *flattened)
        if not wanted or any(name not in known for name in wanted):
            fail(KeyError, "DeviceMesh", f"names out of {known} were required (Invalid mesh_dim_name)", wanted,
                 hint="mesh.mesh_dim_names has the names")  # fmt: skip
        axes, groups = [], []
        for name in wanted:
            whole = flattened.get(name, self)
            dim = whole._get_mesh_dim_by_name(name)
            axes.append(whole._axes[dim])
            groups.append(None if whole._groups is None else whole._groups[dim])
        if mesh_axes.overlaps(axes):
            fail(RuntimeError, "DeviceMesh", "dimensions that do not meet were required (Slicing overlapping "
                 "dim_names is not allowed)", wanted, "name each dimension once")  # fmt: skip
        steps = [mesh_axes.stride(axis) for axis in axes]
        if any(a < b for a, b in zip(steps, steps[1:], strict=False)):
            fail(KeyError, "DeviceMesh", f"the order of {known} was required (Invalid mesh_dim_names {wanted} "
                 "specified. Mesh dim indices should be in ascending order)", wanted,
                 "name the dimensions in the order of the mesh")  # fmt: skip
        return self._part(axes, wanted, None if self._groups is None else groups)

    def _flatten(
        self, mesh_dim_name: str | None = None, backend_override: Any = None
    ) -> DeviceMesh:
        """A mesh of one dimension of the same ranks; the root knows it by its name from then on.

        Args:
            mesh_dim_name: its name; None: the names of the dimensions, joined by `_`.
            backend_override: the engine of its groups, or its options, or both (None: the world's).
        """
        if not self.mesh_dim_names:
            fail(RuntimeError, "DeviceMesh", "a mesh with names was required (Cannot flatten a DeviceMesh "
                 "without mesh_dim_names!)", "one without", "pass mesh_dim_names to init_device_mesh()")  # fmt: skip
        name = mesh_dim_name or "_".join(self.mesh_dim_names)
        if self.mesh_dim_names == (name,):
            return self
        root = self._get_root_mesh()
        axis, known = mesh_axes.merged(self._axes), root._flatten_mapping.get(name)
        if name in (root.mesh_dim_names or ()):
            fail(ValueError, "DeviceMesh", f"a name other than {root.mesh_dim_names} was required ({name} already "
                 f"exists for submesh of the {root}; specify another valid mesh_dim_name)", repr(name),
                 "pass mesh_dim_name")  # fmt: skip
        if known is not None and known._axes != [axis]:
            fail(ValueError, "DeviceMesh", f"another name was required (Flatten mesh with mesh_dim_name {name} "
                 "has been created before)", repr(name), "pass mesh_dim_name")  # fmt: skip
        if known is None:
            known = root._part([axis], (name,), None)
            if root._groups is not None:
                given = {} if backend_override is None else {0: backend_override}
                known._groups = known._lines(_backends(given, 1, (name,)))
            root._flatten_mapping[name] = known
        return known

    def _unflatten(
        self, dim: int | str, mesh_sizes: Sequence[int], mesh_dim_names: Sequence[str],
        backend_override: dict[Any, Any] | None = None,
    ) -> DeviceMesh:  # fmt: skip
        """A mesh that has several dimensions in the place of one.

        Args:
            dim: an index or a name.
            mesh_sizes: the sizes of the new dimensions.
            mesh_dim_names: their names.
            backend_override: the engines of their groups, or options, by name or index (None: the world's).
        """
        names, sizes = self.mesh_dim_names or (), tuple(mesh_sizes)
        if (dim not in names) if isinstance(dim, str) else not -self.ndim <= dim < self.ndim:
            fail(ValueError, "DeviceMesh", f"a dimension of {names or self.ndim} was required (dim {dim} specified "
                 "in `_unflatten` is out of range or unknown)", dim, "mesh.mesh_dim_names has the names")  # fmt: skip
        if len(sizes) != len(mesh_dim_names):
            fail(RuntimeError, "DeviceMesh", "as many names as sizes were required (mesh_dim_names must have same "
                 "length as mesh_sizes in _unflatten!)", f"{mesh_dim_names} and {sizes}", "name each one")  # fmt: skip
        at = self._dim(dim)
        if math.prod(sizes) != self.shape[at]:
            fail(ValueError, "DeviceMesh", f"sizes whose product is {self.shape[at]} were required (These must be "
                 "equal for unflatten to work correctly.)", sizes, "the number of ranks stays")  # fmt: skip
        axes = [*self._axes[:at], *mesh_axes.split(self._axes[at], sizes), *self._axes[at + 1 :]]
        new = range(at, at + len(sizes))
        made = self._part(axes, (*names[:at], *mesh_dim_names, *names[at + 1 :]), None)
        if self._groups is not None:
            chosen = _backends(backend_override or {}, len(sizes), tuple(mesh_dim_names))
            padded = [(None, None)] * at + list(chosen) + [(None, None)] * (self.ndim - at - 1)
            lines = made._lines(padded, new)
            made._groups = [*self._groups[:at], *lines, *self._groups[at + 1 :]]
        return made

    @staticmethod
    def _concatenate(device_mesh_list: Sequence[DeviceMesh]) -> DeviceMesh:
        """A mesh of the dimensions of several that were made of one."""
        first = device_mesh_list[0]
        axes = [axis for mesh in device_mesh_list for axis in mesh._axes]
        if any(mesh._numbers != first._numbers for mesh in device_mesh_list):
            fail(RuntimeError, "DeviceMesh", "slices of one mesh were required (Cannot concatenate DeviceMeshes "
                 "derived from different device meshs)", device_mesh_list, "slice one mesh by names")  # fmt: skip
        if mesh_axes.overlaps(axes):
            fail(RuntimeError, "DeviceMesh", "meshes that do not meet were required (Cannot concatenate overlapping "
                 "meshes)", device_mesh_list, "name each dimension once")  # fmt: skip
        names = [name for mesh in device_mesh_list for name in mesh.mesh_dim_names or ()]
        groups = [group for mesh in device_mesh_list for group in mesh.get_all_groups()]
        return first._part(axes, names, groups)

    def _get_all_submeshes(self, mesh_dim_name: str) -> list[DeviceMesh]:
        """All lines along a dimension, that of this process among them."""
        dim = self._get_mesh_dim_by_name(mesh_dim_name)
        found = []
        for line in mesh_axes.copies([self._axes[dim]], len(self._numbers)):
            ranks = [self._numbers[p] for p in line]
            groups = [self.get_group(dim)] if self._rank in ranks else []
            found.append(
                DeviceMesh(
                    self.device_type, ranks, mesh_dim_names=(mesh_dim_name,), _groups=groups,
                    _rank=self._rank, _init_backend=False,
                )
            )  # fmt: skip
        return found

    @staticmethod
    def from_group(
        group: Any, device_type: str, mesh: Any = None, *, mesh_dim_names: Sequence[str] | None = None
    ) -> DeviceMesh:  # fmt: skip
        """The mesh whose groups are there already.

        Args:
            group: a group, or a list of one for each dimension.
            mesh: the ranks, as a tensor or nested lists; needed for several groups.
            mesh_dim_names: a name for each dimension; needed for several groups.
        """
        single = not isinstance(group, (list, tuple))
        groups = [group] if single else list(group)
        given = mesh.tolist() if isinstance(mesh, Tensor) else mesh
        if single and given is not None and given != groups[0].ranks:
            fail(ValueError, "DeviceMesh.from_group", f"the ranks of the group were required (Invalid mesh {given} "
                 f"for ProcessGroup with ranks {groups[0].ranks})", given, "leave mesh out")  # fmt: skip
        if not groups or (not single and (mesh is None or mesh_dim_names is None)):
            fail(ValueError, "DeviceMesh.from_group", "groups, their mesh and names were required (Expects at least "
                 "one ProcessGroup to be passed; Must pass mesh and mesh_dim_names if passing multiple ProcessGroups)",
                 f"{len(groups)} groups, mesh {given}, names {mesh_dim_names}", "pass mesh= and names")  # fmt: skip
        ranks = groups[0].ranks if single else given
        shaped = core.tensor(ranks, dtype=core.int32, device="cpu")
        if shaped.dim() != len(groups):
            fail(ValueError, "DeviceMesh.from_group", "a mesh of as many dimensions as groups was required (Expects "
                 "mesh with ndim equal to number of ProcessGroups but got mesh "
                 f"{shaped.tolist()} and {len(groups)} ProcessGroups)", shaped.dim(), "one for each")  # fmt: skip
        return DeviceMesh(
            device_type, shaped, mesh_dim_names=mesh_dim_names, _groups=groups, _init_backend=False
        )

    # ---------------------------------------------------------------- as an object

    def __enter__(self) -> DeviceMesh:
        """Be the mesh that is meant where none is named."""
        _mesh_resources.mesh_stack.append(self)
        return self

    def __exit__(self, *raised: object) -> None:
        _mesh_resources.mesh_stack.pop()

    def __getstate__(self) -> dict[str, Any]:
        """All but the groups, which go by their names."""
        names = self._dim_group_names if self._groups is not None else None
        return {**vars(self), "_groups": names}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        if self._groups is not None:
            known = {group.group_name: group for group in groups()}
            self._groups = [known[name] for name in self._groups]

    def _key(self) -> tuple[Any, ...]:
        names, ranks = self.mesh_dim_names, self._flatten_mesh_list
        return self.device_type, names, self.shape, ranks, self._thread_id

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, DeviceMesh) and self._key() == other._key())

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        names = self.mesh_dim_names or ("",) * self.ndim
        sizes = ", ".join(
            f"{n}={s}" if n else str(s) for n, s in zip(names, self.shape, strict=True)
        )
        if not self.mesh_dim_names and self.ndim == 1:
            sizes += ","
        steps = tuple(mesh_axes.stride(axis) for axis in self._axes)
        return f"DeviceMesh(({sizes}), {self.device_type!r}, stride={steps})"


class _Environment(threading.local):
    """The meshes of this thread that are meant where none is named."""

    def __init__(self) -> None:
        self.mesh_stack: list[DeviceMesh] = []

    def get_current_mesh(self) -> DeviceMesh:
        """The innermost mesh that a `with` statement names."""
        if not self.mesh_stack:
            fail(RuntimeError, "DeviceMesh", "a mesh was required (No device mesh is currently active!)", "none",
                 "with mesh: ...")  # fmt: skip
        return self.mesh_stack[-1]

    def get_root_mesh(self, device_mesh: DeviceMesh) -> DeviceMesh:
        """The mesh that another one was made of."""
        return device_mesh._get_root_mesh()

    def _get_all_submeshes(self, device_mesh: DeviceMesh, mesh_dim_name: str) -> list[DeviceMesh]:
        return device_mesh._get_all_submeshes(mesh_dim_name)


_mesh_resources = _Environment()


def _check_names(names: tuple[str, ...] | None, count: int) -> None:
    if names is None:
        return
    if len(set(names)) != len(names):
        fail(RuntimeError, "DeviceMesh", "different names were required (Each mesh_dim_name must be "
             "unique)", names, hint="for example ('data', 'model')")  # fmt: skip
    if len(names) != count:
        fail(RuntimeError, "DeviceMesh", f"{count} names were required (mesh_shape and mesh_dim_names "
             "should have same length!)", names, hint="give one name for each dimension")  # fmt: skip


def _backends(
    given: dict[Any, Any], count: int, names: tuple[str, ...] | None
) -> list[tuple[str | None, Any]]:
    """For each dimension, the engine and its options, of what a user named by index or name."""
    known, found = names or (), []
    unknown = [key for key in given if key not in known and key not in range(count)]
    if unknown:
        fail(RuntimeError, "backend_override", f"integers below {count} or names out of {known} were required "
             "(Found invalid keys in backend_override)", unknown, "mesh_dim_names has the names")  # fmt: skip
    for dim in range(count):
        keys = [key for key in (dim, *known[dim : dim + 1]) if key in given]
        if len(keys) > 1:
            fail(RuntimeError, "backend_override", "one engine for each dimension was required (Found redundant "
                 f"dim index {dim} and name {known[dim]} in backend_override)", keys, "leave one out")  # fmt: skip
        value = given[keys[0]] if keys else (None, None)
        if isinstance(value, str):
            value = (value, None)
        found.append(value if isinstance(value, tuple) else (None, value))
    return found


def init_device_mesh(
    device_type: str,
    mesh_shape: Sequence[int],
    *,
    mesh_dim_names: Sequence[str] | None = None,
    backend_override: dict[Any, Any] | None = None,
) -> DeviceMesh:
    """The ranks 0, 1, .. in a grid of this shape.

    Args:
        device_type: `"cpu"`, or that of another device.
        mesh_shape: how many ranks there are along each dimension.
        mesh_dim_names: a name for each dimension.
        backend_override: by index or name of a dimension, the engine of its groups, or options, or both.

    >>> mesh = init_device_mesh("cpu", (2, 4), mesh_dim_names=("data", "tensor"))
    """
    shape = tuple(mesh_shape)
    names = tuple(mesh_dim_names) if mesh_dim_names is not None else None
    _check_names(names, len(shape))
    if any(not hasattr(n, "__index__") or n < 1 for n in shape):
        fail(RuntimeError, "init_device_mesh", "at least one rank along each dimension was required", shape,
             hint="(2, 4) is a grid of 8 ranks")  # fmt: skip
    if not device_type.isalpha():
        fail(RuntimeError, "init_device_mesh", "a device type without an index was required (Device type "
             "with index is not supported)", device_type, hint="for example 'cpu'")  # fmt: skip
    if not is_initialized():
        init_process_group(get_default_backend_for_device(device_type))
    if math.prod(shape) > get_world_size():
        fail(RuntimeError, "init_device_mesh", f"a shape of at most {get_world_size()} ranks was required "
             "(Mesh should not be bigger than default world size)", shape,
             hint="start more processes for a larger mesh")  # fmt: skip
    with unset_fake_temporarily():
        mesh = F.arange(math.prod(shape), dtype=core.int32, device="cpu").view(shape)
    chosen = None if backend_override is None else _backends(backend_override, len(shape), names)
    return DeviceMesh(device_type, mesh, mesh_dim_names=names, backend_override=chosen)
