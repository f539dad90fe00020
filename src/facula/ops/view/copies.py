"""Copies of views: for each view, the operator that gives the same elements in memory of their own.

Takes: the operator table, after `view` filled it. Gives: `name_copy` for every definition whose
`copied` says where such a form appears, and the `unsafe_` splits, whose pieces autograd takes for
separate tensors. Keeps true: a copy is contiguous and shares no memory with its argument; gradients
are those of the view.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from facula import core
from facula.ops.reduce.launch import wrap_dim
from facula.ops.table.registry import TABLE, F, composite, operator
from facula.ops.view import dtype as view_dtype  # noqa: F401  (they fill the table)
from facula.ops.view import split as view_split  # noqa: F401  (they fill the table)
from facula.ops.view import views as view  # noqa: F401  (they fill the table)

if TYPE_CHECKING:
    from facula.ops.table.definition import Definition


def _fresh(result: Any) -> Any:
    if isinstance(result, tuple):
        return tuple(_fresh(piece) for piece in result)
    return result.clone(memory_format=core.contiguous_format)


def _copy_text(definition: Definition) -> str:
    return definition.schema.text.strip().replace(definition.name, f"{definition.name}_copy", 1)


def _define_copy(source: core.Op) -> None:
    """The copy of a view is an operator of its own, so that programs may name it."""
    definition = source.definition

    def shown_by(args: tuple[Any, ...]) -> Any:
        if definition.geometry == "view":  # a copy may have any shape, whatever lies in memory
            args = (args[0].contiguous(), *args[1:])
        positional, keywords = definition.trim(args)
        return source(*positional, **keywords)

    def meta(*args: object) -> Any:
        shown = shown_by(args)
        return core.empty(shown.shape, dtype=shown.dtype, device=shown.device)

    def cpu(out: core.Tensor, *args: Any) -> None:
        out.copy_(shown_by(args))

    body = type(f"{definition.name}_copy", (), {"meta": staticmethod(meta)})
    body.cpu = staticmethod(cpu)  # type: ignore[attr-defined]
    body.backward = staticmethod(definition.backward)  # type: ignore[attr-defined]
    rule = definition.vmap
    body.jvp = "linear"  # type: ignore[attr-defined]
    body.vmap = (  # type: ignore[attr-defined]
        (lambda batch, *args: _fresh(rule(batch, *args))) if callable(rule) else rule or "view"
    )
    body.__doc__ = f"As `{definition.name}`, in memory of its own."
    places = tuple(place + body.__name__ for place in definition.copied)
    operator(_copy_text(definition), names=places)(body)


def _define_copies(source: core.Op) -> None:
    """The copies of a view in several pieces: each piece is copied."""
    definition = source.definition

    def copy(*args: object) -> Any:
        positional, keywords = definition.trim(args)
        return _fresh(source(*positional, **keywords))

    name = f"{definition.name}_copy"
    copy.__name__ = name
    copy.__doc__ = f"As `{definition.name}`, in memory of its own."
    composite(_copy_text(definition), names=tuple(place + name for place in definition.copied))(
        copy
    )


for _source in [source for source in TABLE.values() if source.definition.copied]:
    if _source.definition.kind == "view":
        _define_copy(_source)
    else:
        _define_copies(_source)


@composite("detach_copy(Tensor self) -> Tensor", names=("detach_copy",))
def detach_copy(self):
    """The elements without their history, in memory of their own."""
    return self.detach().clone()


def _define_unsafe(source: core.Op) -> None:
    name = f"unsafe_{source.definition.name}"
    text = source.definition.schema.text.strip().replace(source.definition.name, name, 1)

    def pieces(*args: object) -> Any:
        core.unkept()  # calls that are done again give pieces that may not be written to
        return core.allow_writes(source(*args))

    pieces.__doc__ = f"As `{source.definition.name}`, and the pieces may be written to."
    composite(text, names=(name, "Tensor." + name), out=False)(pieces)


for _source in (F.chunk, F.split, F.split_with_sizes):
    _define_unsafe(_source)


@composite(
    "as_strided_scatter(Tensor self, Tensor src, int[] size, int[] stride, int? "
    "storage_offset=None) -> Tensor"
)
def as_strided_scatter(self, src, size, stride, storage_offset):
    """A copy of `self` in which the elements that `as_strided` would view are those of `src`."""
    if tuple(src.shape) != tuple(size):
        core.errors.fail(
            RuntimeError,
            "as_strided_scatter",
            "expected src to have a size equal to the slice of self",
            f"{list(src.shape)} and {list(size)}",
        )
    offset = self.storage_offset() if storage_offset is None else storage_offset
    # places that share an element get one each
    shares = any(s == 0 and n > 1 for s, n in zip(self.stride(), self.shape, strict=True))
    strides = core.empty(self.shape, device="meta").stride() if shares else self.stride()
    whole = core.empty_strided(self.shape, strides, dtype=self.dtype, device=self.device)
    whole = whole.copy_(self)
    whole.as_strided(size, stride, offset - self.storage_offset()).copy_(src)
    return whole


def _refuse(required: str, got: Any, hint: str) -> None:
    core.errors.fail(RuntimeError, "_chunk_cat", f"_chunk_cat expects {required}", got, hint=hint)


def _check_chunks(tensors: tuple[Any, ...], dim: int, num_chunks: int) -> None:
    """That `_chunk_cat` can cut and join these."""
    if num_chunks < 1:
        _refuse("positive num_chunks", num_chunks, "num_chunks=1 joins the tensors as they are")
    if not tensors:
        _refuse("a non-empty input tensor list", "[]", "give at least one tensor")
    if dim < 0 and len({tensor.dim() for tensor in tensors}) > 1:
        required = "non-negative dim when input tensors have different ndims"
        _refuse(required, dim, "count dimensions from the first")
    for tensor in tensors:
        if not tensor.numel():
            _refuse("non-empty tensor", "an empty one", "leave out tensors without elements")
        d = wrap_dim("_chunk_cat", dim, tensor.dim())
        if tensor.shape[:d] != tensors[0].shape[:d]:
            _refuse(
                "same sizes of 0,...,dim-1 dimensions for all tensors",
                f"{list(tensors[0].shape[:d])} and {list(tensor.shape[:d])}",
                "a smaller dim leaves fewer sizes that must be equal",
            )


@composite("_chunk_cat(Tensor[] tensors, int dim, int num_chunks) -> Tensor", names=("_chunk_cat",))
def _chunk_cat(tensors: tuple[Any, ...], dim: int, num_chunks: int) -> Any:
    """Each tensor cut into `num_chunks` equal pieces along `dim` (zeros fill the last), flattened,
    then joined.
    """
    _check_chunks(tensors, dim, num_chunks)
    rows = []
    for tensor in tensors:
        d = wrap_dim("_chunk_cat", dim, tensor.dim())
        missing = -tensor.shape[d] % num_chunks
        if missing:
            gap = [*tensor.shape[:d], missing, *tensor.shape[d + 1 :]]
            tensor = F.cat([tensor, F.zeros(gap, dtype=tensor.dtype, device=tensor.device)], d)
        rows.append(tensor.reshape([*tensor.shape[:d], num_chunks, -1]))
    return F.cat(rows, d + 1)
