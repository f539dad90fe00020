"""Units whose pieces are distributed tensors, one for each parameter.

Takes: parameters, a mesh, and along which dimension each is cut. Gives: `ParameterUnit`.
Keeps true: a parameter that is a distributed tensor already (tensor parallel) stays one, on a mesh with a dimension
more; the piece of a rank may be smaller than those of others, or empty; what is sent has one size.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula import core, nn
from facula.core.errors import fail
from facula.distributed.device_mesh import DeviceMesh
from facula.distributed.fsdp.leaf import Leaf, Place
from facula.distributed.fsdp.unit import Unit, accumulate
from facula.distributed.strips import Part, Strip
from facula.distributed.tensor.dtensor import DTensor
from facula.distributed.tensor.placement_types import Placement, Replicate, Shard, _StridedShard
from facula.ops.table.registry import F

__all__ = ["ParameterUnit"]

Tensor = core.Tensor


class _Piece(Leaf):
    """A parameter, and this rank's piece of it as a distributed tensor."""

    def __init__(
        self,
        places: list[Place],
        mesh: DeviceMesh,
        dtype: core.dtype,
        choose: Callable[[Any], Any] | None,
    ) -> None:
        module, name = places[0]
        given = module._parameters[name]
        data = given.detach()
        self.dim = self._cut_dim(given, choose)
        self.inner = data if isinstance(data, DTensor) else None
        local = data.to_local().detach() if isinstance(data, DTensor) else data.detach()
        self.mesh = self._joined_mesh(mesh)
        self.count, self.rank = mesh.size(mesh.ndim - 1), mesh.get_local_rank(mesh.ndim - 1)
        if self.dim >= local.dim() > 0 or local.dim() == 0:
            fail(ValueError, "fully_shard", f"parameters of more than {self.dim} dimensions were required",
                 f"{name} of shape {tuple(local.shape)}", "a parameter of one number is view(1)")  # fmt: skip
        simulated = mesh.get_group(mesh.ndim - 1).engine.counts_only and local.is_meta
        if local.is_meta:
            local = core.empty(tuple(local.shape), dtype=local.dtype, device="meta")
        super().__init__(
            places, local.shape, dtype or local.dtype, given.requires_grad, self._wrap,
            "meta" if simulated else "cpu",
        )  # fmt: skip
        self.whole_shape = tuple(data.shape)
        self.own = local.dtype
        size, start = Shard.local_shard_size_and_offset(self.shape[self.dim], self.count, self.rank)
        piece = local.narrow(self.dim, start, size)
        piece = piece.clone() if not local.is_meta else core.empty(
            tuple(piece.shape), dtype=self.own, device="meta"
        )  # fmt: skip
        placed = DTensor._make(
            piece.contiguous(), self.whole_shape, self.mesh, self._placements(mesh)
        )
        self.shown = nn.Parameter(placed, given.requires_grad)
        for key, value in vars(given).items():
            if not key.startswith("_") and not hasattr(self.shown, key):
                setattr(self.shown, key, value)
        self.install(self.shown)

    def _cut_dim(self, given: Any, choose: Callable[[Any], Any] | None) -> int:
        chosen = choose(given) if choose is not None else None
        return 0 if chosen is None else chosen.dim % max(given.dim(), 1)

    def _wrap(self, tensor: core.Tensor) -> Any:
        if self.inner is None:
            return tensor
        inner = self.inner
        return DTensor._make(tensor, inner.shape, inner.device_mesh, inner.placements)

    def _joined_mesh(self, mesh: DeviceMesh) -> DeviceMesh:
        """The mesh of the piece: that of the cut, and that on which the parameter lies already."""
        if self.inner is None:
            return mesh
        other = self.inner.device_mesh
        root = mesh._get_root_mesh()
        names = (*(mesh.mesh_dim_names or ()), *(other.mesh_dim_names or ()))
        if root is not other._get_root_mesh() or len(names) != mesh.ndim + other.ndim:
            fail(ValueError, "fully_shard", "slices of one mesh with names were required (FSDP requires the "
                 "FSDP and TP DeviceMesh to have the same parent mesh)", f"{mesh} and {other}",
                 "init_device_mesh(..., mesh_dim_names=('dp', 'tp')), then mesh['dp'] and mesh['tp']")  # fmt: skip
        return root[names]

    def _placements(self, mesh: DeviceMesh) -> list[Placement]:
        cut: Placement = Shard(self.dim)
        rest: tuple[Placement, ...] = ()
        if self.inner is not None:
            rest = self.inner.placements
            if any(isinstance(p, Shard) and p.dim == self.dim for p in rest):
                factor = self.inner.device_mesh.size()
                cut = _StridedShard(self.dim, split_factor=factor)
        return [*(Replicate() for _ in range(mesh.ndim - 1)), cut, *rest]

    @property
    def local(self) -> Any:
        """This rank's piece."""
        return self.shown._local_tensor

    def take_over(self, given: object) -> None:
        """Have a parameter that somebody put in the place of the piece as the piece."""
        wanted, name = self.shown, self.places[0][1]
        if not isinstance(given, DTensor) or given.placements != wanted.placements or (
            given.shape != wanted.shape
        ):  # fmt: skip
            got = given if isinstance(given, DTensor) else type(given)
            fail(RuntimeError, "fully_shard", f"a distributed tensor of shape {tuple(wanted.shape)} as "
                 f"{tuple(wanted.placements)} was required for the parameter {name!r}", got,
                 "distribute_tensor(tensor, p.device_mesh, p.placements) makes one")  # fmt: skip
        self.shown = given
        self.install(given)

    def padded(self) -> int:
        """How many elements the largest piece has."""
        full = -(-self.shape[self.dim] // self.count)
        total = self.tensor.numel()
        return total // self.shape[self.dim] * full if self.shape[self.dim] else 0

    def part(self, rank: int) -> tuple[int, int]:
        """Size and start of a rank's piece along the dimension that is cut."""
        return Shard.local_shard_size_and_offset(self.shape[self.dim], self.count, rank)


class ParameterUnit(Unit):
    """Parameters that are cut each for itself."""

    leaves: list[Any]

    def __init__(
        self, places: list[list[Place]], mesh: DeviceMesh, name: str, dtype: core.dtype, reduce_dtype: Any,
        choose: Callable[[Any], Any] | None,
    ) -> None:  # fmt: skip
        """Cut parameters.

        Args:
            mesh: of one dimension, along which they are cut, or of two, along the first of which copies lie.
            choose: gives the `Shard` of a parameter, or None.
        """
        pieces = [_Piece(p, mesh, dtype, choose) for p in places]
        copies = mesh.get_group(0) if mesh.ndim == 2 else None
        group = mesh.get_group(mesh.ndim - 1)
        super().__init__(pieces, group, copies, name)
        self.mesh, self.reduce_dtype = mesh, reduce_dtype
        #: pieces of all ranks, of parameters that are cut along a later dimension
        self._beside: dict[Any, list[Tensor]] = {}

    def versions(self) -> list[int]:
        """How often each of this rank's pieces was written to."""
        return [leaf.local._version for leaf in self.leaves]

    def mine(self) -> Strip:
        """This rank's pieces behind each other, each as long as the longest of any rank."""
        parts: list[Part] = []
        for leaf in self.leaves:
            local = leaf.local.detach()
            if local.is_meta and not leaf.tensor.is_meta:
                fail(RuntimeError, "fully_shard", "parameters with elements were required",
                     f"{leaf.places[0][1]} on the meta device",
                     "module.to_empty(device='cpu'), then initialise or load the parameters")  # fmt: skip
            parts += [(local.reshape(-1), local.numel()), (None, leaf.padded() - local.numel())]
        return Strip(parts, self.leaves[0].dtype)

    def places(self) -> list[Strip]:
        """Where each rank's pieces go: into the whole forms, or beside them where these are cut along a later
        dimension."""
        self._beside = {}
        found = []
        for rank in range(self.count):
            parts: list[Part] = []
            for leaf in self.leaves:
                place = self._place(leaf, rank)
                parts += [(place, place.numel()), (None, leaf.padded() - place.numel())]
            found.append(Strip(parts, self.leaves[0].dtype))
        return found

    def _place(self, leaf: Any, rank: int) -> Tensor:
        count, start = leaf.part(rank)
        row = leaf.tensor.numel() // leaf.shape[leaf.dim] if leaf.shape[leaf.dim] else 0
        if leaf.dim == 0:
            return leaf.flat[start * row : (start + count) * row]
        shape = [*leaf.shape]
        shape[leaf.dim] = count
        made = core.empty(tuple(shape), dtype=leaf.dtype, device=leaf.tensor.device)
        self._beside.setdefault(leaf, []).append(made)
        return made.view(-1)

    def put_in_place(self) -> None:
        """All pieces have come: join those that lie beside their whole forms."""
        for leaf, parts in self._beside.items():
            if not leaf.tensor.is_meta:
                leaf.flat.copy_(F.cat(parts, leaf.dim).reshape(-1))
        self._beside = {}

    def gradients(self, leaves: list[Any], dtype: core.dtype) -> list[list[Part]]:
        """For each rank its pieces of the gradients."""
        pieces: list[list[Part]] = [[] for _ in range(self.count)]
        for leaf in leaves:
            grad = leaf.parameter.grad
            if isinstance(grad, DTensor):
                grad = grad.redistribute(placements=leaf.inner.placements)._local_tensor
            for rank, mine in enumerate(pieces):
                if grad is None:
                    mine.append((None, leaf.padded()))
                    continue
                count, start = leaf.part(rank)
                part = grad.detach().narrow(leaf.dim, start, count).reshape(-1)
                mine += [(part, part.numel()), (None, leaf.padded() - part.numel())]
        return pieces

    def give(self, leaves: list[Any], pieces: Tensor, used: list[bool]) -> None:
        """Add reduced pieces to the gradients of this rank's."""
        at = 0
        for leaf, is_used in zip(leaves, used, strict=True):
            local = leaf.local
            if is_used:
                part = pieces[at : at + local.numel()].view(local.shape).to(leaf.own)
                shown = leaf.shown
                accumulate(shown, DTensor._make(part, shown.shape, leaf.mesh, shown.placements))
            at += leaf.padded()

    def install_pieces(self) -> None:
        """Have the modules show this rank's pieces."""
        for leaf in self.leaves:
            leaf.install(leaf.shown)

    def take_replaced(self) -> bool:
        """The modules may have other parameters for the pieces now, as after `to_empty` or
        `load_state_dict(assign=True)`: take these."""
        found = False
        for leaf in self.leaves:
            module, name = leaf.places[0]
            now = module._parameters[name]
            if now is not leaf.shown and now is not leaf.parameter:
                leaf.take_over(now)
                found = True
        if found and self._gathering is not None:
            self._gathering = self._gathering[0], []  # of those before
        return found
