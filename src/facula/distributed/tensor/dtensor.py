"""Tensors whose elements lie on the ranks of a mesh.

Takes: a mesh and placements, one for each of its dimensions. Gives: `DTensor`.
Keeps true: an operator on distributed tensors gives what it gives on whole ones. One whose definition says
how it runs on pieces (`shards`) does so; any other runs on whole tensors, on each rank the same, which is
counted (`events`). History is recorded above, by the engine, on the distributed tensors themselves.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from facula import core
from facula.autograd import Function
from facula.core.errors import fail
from facula.distributed import operations
from facula.distributed.device_mesh import DeviceMesh, _mesh_resources
from facula.distributed.tensor.events import gathering
from facula.distributed.tensor.pieces import moved
from facula.distributed.tensor.placement_types import Partial, Placement, Replicate, Shard
from facula.distributed.tensor.rules import Plan, ShardingPropagator
from facula.distributed.tensor.specs import DTensorSpec, TensorMeta
from facula.fx._pytree import tree_leaves, tree_map

__all__ = ["DTensor"]


class DTensor(core.Tensor):
    """This rank's view of a tensor that the ranks of a mesh hold together."""

    hears_own_operators = True

    _local_tensor: Any
    device_mesh: DeviceMesh
    placements: tuple[Placement, ...]

    def __new__(cls, local_tensor: Any, spec: DTensorSpec, *, requires_grad: bool) -> DTensor:
        """The distributed tensor of this rank's piece, as a leaf.

        Args:
            local_tensor: the piece.
            spec: mesh, placements, and what is known of the whole tensor.
            requires_grad: whether it gets a gradient.
        """
        if local_tensor.requires_grad and not requires_grad:
            warnings.warn(
                "To construct a DTensor from a tensor with a gradient, pass local_tensor.detach(), or the same "
                "requires_grad", stacklevel=2,
            )  # fmt: skip
        made = cls._make(local_tensor.detach(), spec.shape, spec.mesh, spec.placements)
        return made.requires_grad_(requires_grad)

    def __init__(self, *args: object, **kwargs: object) -> None:
        """All is done when it is made."""

    @property
    def _spec(self) -> DTensorSpec:
        known = TensorMeta(core.Size(self.shape), tuple(self.stride()), self.dtype)
        return DTensorSpec(self.device_mesh, self.placements, known)

    @staticmethod
    def _make(
        piece: Any, shape: Sequence[int], mesh: DeviceMesh, placements: Sequence[Placement]
    ) -> DTensor:
        made = core.Tensor._make_wrapper_subclass(
            DTensor, tuple(shape), dtype=piece.dtype, device=piece.device
        )
        made._local_tensor = piece
        made.device_mesh = mesh
        made.placements = tuple(placements)
        return made

    @staticmethod
    def from_local(
        local_tensor: Any,
        device_mesh: DeviceMesh | None = None,
        placements: Sequence[Placement] | None = None,
        *,
        run_check: bool = False,
        shape: Sequence[int] | None = None,
        stride: object = None,
        grad_placements: Sequence[Placement] | None = None,
    ) -> DTensor:
        """The distributed tensor of the pieces that the ranks have (replicated by default).

        Args:
            local_tensor: this rank's piece.
            device_mesh: the ranks (None: the mesh of the innermost `with`).
            placements: how they lie along each dimension of the mesh.
            run_check: have all ranks of a replicated dimension take the first one's elements.
            shape: the whole shape; without it, pieces are taken to be of one size.
            stride: the whole strides; they follow from the shape.
            grad_placements: the placements of the gradient, whose pieces `local_tensor` gets (None: the same; those
                of parts of reductions get the whole)
        """
        if isinstance(local_tensor, DTensor):
            fail(RuntimeError, "from_local", "a tensor that is not distributed was required (the local_tensor argument "
                 "only accepts torch.Tensor)", "a DTensor", "redistribute() gives it other placements")  # fmt: skip
        device_mesh = device_mesh or _mesh_resources.get_current_mesh()
        chosen = _placements(placements, device_mesh, local_tensor.dim())
        if (shape is None) != (stride is None):
            fail(RuntimeError, "from_local", "shape and stride, or neither, were required (Please pass both shape and "
                 "stride at the same time.)", f"shape={shape}, stride={stride}", "pass both")  # fmt: skip
        if shape is None:
            whole = list(local_tensor.shape)
            for mesh_dim, placement in enumerate(chosen):
                if isinstance(placement, Shard):
                    whole[placement.dim] *= device_mesh.size(mesh_dim)
            shape = whole
        if run_check:
            _take_first(local_tensor, device_mesh, chosen)
        back = None if grad_placements is None else tuple(grad_placements)
        return _FromLocal.apply(local_tensor, tuple(shape), device_mesh, chosen, back)

    def to_local(self, *, grad_placements: Sequence[Placement] | None = None) -> Any:
        """This rank's piece; its gradient has the same placements unless others are named."""
        return _ToLocal.apply(self, tuple(grad_placements or self.placements))

    def full_tensor(self, *, grad_placements: Sequence[Placement] | None = None) -> Any:
        """The whole tensor, on each rank."""
        everywhere = [Replicate()] * self.device_mesh.ndim
        return self.redistribute(placements=everywhere).to_local(grad_placements=grad_placements)

    def redistribute(
        self,
        device_mesh: DeviceMesh | None = None,
        placements: Sequence[Placement] | None = None,
        *,
        async_op: bool = False,
        forward_dtype: core.dtype | None = None,
        backward_dtype: core.dtype | None = None,
    ) -> DTensor:
        """The same tensor under other placements.

        Args:
            device_mesh: the tensor's own mesh.
            placements: how the pieces are to lie along each dimension of the mesh.
            async_op: kept for PyTorch's API; what is sent has come when this returns.
            forward_dtype: what the elements are turned to before they are sent (None: they stay).
            backward_dtype: what the gradient's are turned to before they are sent (None: they stay); it has the
                dtype of the tensor afterwards.
        """
        if device_mesh is not None and device_mesh != self.device_mesh:
            hint = "full_tensor(), then distribute_tensor() on the other mesh"
            fail(NotImplementedError, "redistribute", "the tensor's own mesh was required",
                 device_mesh, hint)  # fmt: skip
        if placements is None:
            fail(RuntimeError, "redistribute", "placements were required (placements is needed for redistribute!)",
                 "None", "[Replicate()] * mesh.ndim for the whole tensor everywhere")  # fmt: skip
        chosen = _placements(placements, self.device_mesh, self.dim())
        types = forward_dtype or self.dtype, backward_dtype or self.dtype
        if chosen == self.placements and types == (self.dtype, self.dtype):
            return self
        return _Redistribute.apply(self, chosen, *types)

    @classmethod
    def __torch_dispatch__(
        cls,
        func: Callable[..., Any],
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        return _run(func, args, kwargs or {})

    @staticmethod
    def pieces_alike(tensors: Sequence[Any]) -> tuple[Any, ...] | None:
        """The pieces of tensors that are cut in the same way, and numbers (tensors of one element) beside them;
        None where one is cut otherwise, or is a part of a sum: what is done to each element may be done to the
        pieces.

        Args:
            tensors: the first of them is distributed.
        """
        first = tensors[0]
        if any(isinstance(p, Partial) for p in first.placements):
            return None
        found = []
        for one in tensors:
            if not isinstance(one, DTensor):
                if one.dim():
                    return None
                found.append(one)
            elif (
                one.shape == first.shape
                and one.placements == first.placements
                and (one.device_mesh is first.device_mesh or one.device_mesh == first.device_mesh)
            ):
                found.append(one._local_tensor)
            else:
                return None
        return tuple(found)

    def __repr__(self, *, tensor_contents: str | None = None) -> str:
        places = tuple(self.placements)
        return f"DTensor(local_tensor={self._local_tensor}, device_mesh={self.device_mesh}, placements={places})"


def _placements(
    given: Sequence[Placement] | None, mesh: DeviceMesh, rank: int
) -> tuple[Placement, ...]:
    """Placements with dimensions counted from the front."""
    if given is None:
        return (Replicate(),) * mesh.ndim
    if len(given) != mesh.ndim:
        hint = "the first placement is that along the mesh's first dimension"
        fail(ValueError, "DTensor", f"{mesh.ndim} placements were required (one for each dimension of "
             "the mesh: `placements` must have the same length as `device_mesh.ndim`)", list(given), hint)  # fmt: skip
    for p in given:
        if isinstance(p, Shard) and not -rank <= p.dim < rank:
            fail(RuntimeError, "DTensor", f"dimensions of a tensor that has {rank} were required (Sharding dim "
                 f"{p.dim} greater than tensor ndim {rank})", list(given), "Shard(0) cuts the first one")  # fmt: skip
    return tuple(
        replace(p, dim=p.dim + rank)
        if isinstance(p, Shard) and p.dim < 0
        else p  # the same dimension
        for p in given
    )


def _take_first(piece: Any, mesh: DeviceMesh, placements: Sequence[Placement]) -> None:
    for mesh_dim, placement in enumerate(placements):
        if isinstance(placement, Replicate):
            group = mesh.get_group(mesh_dim)
            operations.broadcast(piece.detach(), group.ranks[0], group)


class _FromLocal(Function):
    @staticmethod
    def forward(
        ctx: Any, piece: Any, shape: Any, mesh: DeviceMesh, placements: Any, back: Any
    ) -> DTensor:
        ctx.wanted = [Replicate() if isinstance(p, Partial) else p for p in back or placements]
        return DTensor._make(piece.detach(), shape, mesh, placements)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad.redistribute(placements=ctx.wanted).to_local(), None, None, None, None


class _ToLocal(Function):
    @staticmethod
    def forward(ctx: Any, tensor: DTensor, grad_placements: Any) -> Any:
        ctx.of = tensor.device_mesh, tuple(tensor.shape), grad_placements
        return tensor._local_tensor.detach()

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        mesh, shape, placements = ctx.of
        chosen = _placements(placements, mesh, len(shape))
        return _FromLocal.apply(grad, shape, mesh, chosen, None), None


class _Redistribute(Function):
    @staticmethod
    def forward(ctx: Any, tensor: DTensor, placements: Any, dtype: Any, back: Any) -> DTensor:
        ctx.placements, ctx.back, ctx.dtype = tensor.placements, back, tensor.dtype
        cast: Any = tensor.to(dtype)
        return _placed(cast, placements)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        wanted = [Replicate() if isinstance(p, Partial) else p for p in ctx.placements]
        moved = grad.to(ctx.back).redistribute(placements=wanted).to(ctx.dtype)
        return moved, None, None, None


def _placed(tensor: DTensor, placements: Sequence[Placement]) -> DTensor:
    shape, mesh = tuple(tensor.shape), tensor.device_mesh
    piece = moved(tensor._local_tensor.detach(), shape, mesh, tensor.placements, placements)
    return DTensor._make(piece, shape, mesh, placements)


def _run(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """An operator on the pieces, or on the whole tensors."""
    found = [value for value in tree_leaves((args, kwargs)) if isinstance(value, DTensor)]
    _check_alike(func, args, kwargs, found)
    written = _written(func, args)
    definition = getattr(getattr(func, "_op", None), "definition", None)
    if definition is None:
        method = _METHODS.get(getattr(func, "_opname", ""))
        if method is not None:
            return method(func, args, kwargs)
    if found[0].device_mesh.get_coordinate() is None:
        return written[0] if written else _without_elements(func, args, kwargs, found[0])
    if definition is None:
        return _on_whole(func, args, kwargs, found[0], written)
    if written and definition.random:
        return _drawn(func, args, kwargs, written[0])
    elif kwargs.get("out") is None:
        bound = _bound(definition, args, kwargs)
        instead = INSTEAD.get(definition.name)
        if bound is not None and instead is not None:
            result = instead(*bound)
            if result is not NotImplemented:
                return result
        if bound is not None:
            operands = _operands(definition, bound, found[0])
            registered = REGISTERED.get(definition.name)
            if registered is not None:
                plan = registered(func, args, kwargs, *operands)
            else:
                plan = ShardingPropagator.planned(definition, bound, *operands, bool(written))
            if plan is not None:
                return _on_pieces(func, bound, definition, plan, found[0], written)
    return _on_whole(func, args, kwargs, found[0], written)


def _without_elements(
    func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], like: DTensor
) -> Any:
    """An operator on a rank that is in no mesh: the results have their shapes, and no elements (a number is 0)."""

    def shaped(value: object) -> Any:
        if not isinstance(value, DTensor):
            return value
        return core.empty(tuple(value.shape), dtype=value.dtype, device="meta")

    def wrap(value: object) -> Any:
        if not isinstance(value, core.Tensor):
            return value
        piece = like._local_tensor.new_zeros((0,) if value.dim() else (), dtype=value.dtype)
        return DTensor._make(piece, value.shape, like.device_mesh, like.placements)

    return tree_map(wrap, func(*tree_map(shaped, args), **tree_map(shaped, kwargs)))


#: what runs in the place of operators, by name, while a block asks for it
INSTEAD: dict[str, Callable[..., Any]] = {}
#: rules that programs registered, by the operator's name
REGISTERED: dict[str, Callable[..., Plan | None]] = {}
_IMPLICIT = [False]


@contextlib.contextmanager
def implicit_replication() -> Iterator[None]:
    """A block in which plain tensors beside distributed ones count as the same on all ranks."""
    before, _IMPLICIT[0] = _IMPLICIT[0], True
    try:
        yield
    finally:
        _IMPLICIT[0] = before


def _bound(definition: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any] | None:
    """All arguments in the order of the schema; None where they do not fit it."""
    parameters = definition.schema.parameters
    names = [p.name for p in parameters]
    if len(args) > len(names) or any(name not in names for name in kwargs):
        return None
    given = dict(zip(names, args, strict=False)) | kwargs
    return [given.get(p.name, p.default if p.has_default else None) for p in parameters]


def _tensors_of(definition: object, bound: list[Any]) -> list[Any]:
    """The tensors among the arguments, in order; those of lists one by one."""
    found = []
    for value in bound:
        many = value if isinstance(value, (list, tuple)) else (value,)
        found += [v for v in many if isinstance(v, core.Tensor)]
    return found


def _operands(definition: object, bound: list[Any], like: DTensor) -> tuple[list[Any], DeviceMesh]:
    return _tensors_of(definition, bound), like.device_mesh


def _on_pieces(
    func: Callable[..., Any], bound: list[Any], definition: Any, plan: Plan, like: DTensor, written: list[DTensor]
) -> Any:  # fmt: skip
    """Run an operator on pieces, after they were brought where the plan wants them."""
    mesh, wanted = like.device_mesh, iter(plan.wanted)

    def local(value: object) -> Any:
        if isinstance(value, (list, tuple)):
            return type(value)(local(v) for v in value) if _holds_tensors(value) else value
        if not isinstance(value, core.Tensor):
            return value
        placements = next(wanted)
        if not isinstance(value, DTensor):
            return _number(value, mesh, placements)
        if placements is None:
            return value._local_tensor
        return _piece_of(value, placements)

    values = [local(value) for value in bound]
    given: list[Any] = []
    named: dict[str, Any] = {}
    for parameter, value in zip(definition.schema.parameters, values, strict=True):
        value = plan.arguments.get(parameter.name, value)
        if parameter.keyword_only:
            named[parameter.name] = value
        else:
            given.append(value)
    if definition.kind == "view" and not written and like.is_contiguous():
        result = _viewed(func, given, named)
    else:
        result = func(*given, **named)
    if written:
        return written[0]
    number = iter(range(1 << 30))

    def wrap(value: object) -> Any:
        if not isinstance(value, core.Tensor):
            return value
        i = min(next(number), len(plan.placements) - 1)
        return DTensor._make(value, plan.shape(i, value.shape), mesh, plan.placements[i])

    return tree_map(wrap, result)


def _viewed(func: Callable[..., Any], given: list[Any], named: dict[str, Any]) -> Any:
    """A view of a piece. A distributed tensor tells the strides of its elements in order, which `contiguous` and
    `view` go by, also where its piece lies otherwise, as behind a transposition: the piece is put in order then."""
    try:
        return func(*given, **named)
    except RuntimeError:
        if given[0].is_contiguous():
            raise
        return func(given[0].contiguous(), *given[1:], **named)


def _holds_tensors(value: Any) -> bool:
    return any(isinstance(v, core.Tensor) for v in value)


def _number(value: Any, mesh: DeviceMesh, placements: Any) -> Any:
    """A tensor without dimensions that is no distributed one: the same on all ranks."""
    whole = (Replicate(),) * mesh.ndim
    if placements is None or placements == whole:
        return value
    return moved(value, tuple(value.shape), mesh, whole, placements, into_sums=True)


def _piece_of(tensor: DTensor, placements: Sequence[Placement]) -> Any:
    """A tensor's piece under other placements."""
    piece = tensor._local_tensor.detach()
    if tuple(placements) == tensor.placements:
        return piece
    shape, mesh = tuple(tensor.shape), tensor.device_mesh
    return moved(piece, shape, mesh, tensor.placements, placements, into_sums=True)


def _on_whole(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], like: DTensor, written: list[DTensor]
) -> Any:
    """Run an operator on whole tensors, on each rank the same."""
    mesh = like.device_mesh
    gathering(str(func))
    everywhere = (Replicate(),) * mesh.ndim

    def local(value: object) -> Any:
        return _piece_of(value, everywhere) if isinstance(value, DTensor) else value

    result = func(*tree_map(local, args), **tree_map(local, kwargs))
    if written:
        return _write_back(written[0], result, everywhere)

    def wrap(value: object) -> Any:
        if not isinstance(value, core.Tensor):
            return value
        return DTensor._make(value, value.shape, mesh, everywhere)

    return tree_map(wrap, result)


def _same_pieces(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> DTensor:
    """A method that gives the same elements: so do the pieces."""
    tensor = args[0]
    piece = func(tensor._local_tensor, *args[1:], **kwargs)
    return DTensor._make(piece, tensor.shape, tensor.device_mesh, tensor.placements)


def _copied(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> DTensor:
    """`copy_`: what is copied comes to lie as the target does."""
    target, source = args[0], args[1]
    mesh = target.device_mesh
    if mesh.get_coordinate() is None:
        return target
    if isinstance(source, DTensor):
        if source.shape != target.shape:
            source = source.expand(target.shape)
        piece = _piece_of(source, target.placements)
    elif isinstance(source, core.Tensor):
        piece = _number(source, mesh, target.placements)
    else:
        piece = source
    target._local_tensor.detach().copy_(piece)
    return target


#: methods of the core that are no operators
_METHODS: dict[str, Callable[..., Any]] = {
    "detach": _same_pieces, "alias": _same_pieces, "clone": _same_pieces, "contiguous": _same_pieces,
    "copy_": _copied,
}  # fmt: skip


def _write_back(target: DTensor, result: object, placements: Sequence[Placement]) -> DTensor:
    """Puts a result into the tensor that an in-place form writes to."""
    piece = moved(result, tuple(target.shape), target.device_mesh, placements, target.placements,
                  into_sums=True)  # fmt: skip
    if piece is not target._local_tensor:
        target._local_tensor.copy_(piece)
    return target


def _drawn(
    func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], target: DTensor
) -> DTensor:
    """Random numbers in place: those of one process, of which each rank keeps its piece. Nothing is sent where the
    numbers do not depend on what was there."""
    whole = core.empty(tuple(target.shape), dtype=target.dtype, device=target.device)
    everywhere = (Replicate(),) * target.device_mesh.ndim

    def local(value: object) -> Any:
        return _piece_of(value, everywhere) if isinstance(value, DTensor) else value

    func(whole, *tree_map(local, args[1:]), **tree_map(local, kwargs))
    return _write_back(target, whole, everywhere)


def _written(func: Callable[..., Any], args: tuple[Any, ...]) -> list[DTensor]:
    """The argument that the operator writes to, where it is a distributed one."""
    schema = getattr(func, "_schema", None)
    if schema is None or not schema.is_mutable or not isinstance(args[0], DTensor):
        return []
    return [args[0]]


def _check_alike(
    func: Callable[..., Any], args: object, kwargs: object, found: list[DTensor]
) -> None:
    for value in tree_leaves((args, kwargs)):
        plain = isinstance(value, core.Tensor) and not isinstance(value, DTensor)
        if plain and value.dim() > 0 and not _IMPLICIT[0]:
            hint = "distribute_tensor(tensor, mesh) makes a distributed one"
            fail(RuntimeError, str(func), "distributed tensors were required for all arguments (got mixed "
                 "torch.Tensor and DTensor)", list(value.shape), hint)  # fmt: skip
    if any(t.device_mesh != found[0].device_mesh for t in found):
        hint = "full_tensor() gives whole tensors, which can be distributed anew"
        fail(RuntimeError, str(func), "tensors on one mesh were required",
             ", ".join(dict.fromkeys(str(t.device_mesh) for t in found)), hint)  # fmt: skip
