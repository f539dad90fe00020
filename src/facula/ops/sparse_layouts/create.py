"""Making sparse tensors from their parts, and the invariants that parts must satisfy.

Takes: indices and values (tensors, lists, arrays), a size. Gives: sparse tensors on the values'
device, part of the history of the values.
Keeps true: COO indices are int64 and compressed ones int64 or int32; parts are checked where
`check_invariants` says so, for a call or for all of them (`CHECKS`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.sparse_layouts.convert import flatten
from facula.ops.sparse_layouts.tensor import (
    BLOCKED,
    BSC,
    BSR,
    BY_ROWS,
    COO,
    CSC,
    CSR,
    compose,
    nothing,
)
from facula.ops.table.registry import F, composite

#: [whether parts are checked unless a call says otherwise]
CHECKS = [False]


def _tensor(data: object, dtype: core.dtype, device: core.device | None) -> Any:
    if isinstance(data, core.Tensor):
        moved = data if device is None else data.to(device)
        return moved if dtype is None else moved.to(dtype)
    return core.tensor(data, dtype=dtype, device=device)


def _indices(data: object, device: core.device | None) -> Any:
    if isinstance(data, core.Tensor):
        return data.detach().to(device)
    return core.tensor(data, dtype=core.int64, device=device)


def _whole(op: str, indices: core.Tensor, names: str) -> Any:
    if indices.dtype.is_floating_point or indices.dtype.is_complex or indices.dtype is core.bool:
        fail(
            RuntimeError,
            op,
            f"{names} must be an int64 tensor",
            indices.dtype,
            "convert them with .long()",
        )
    return indices


def _finished(made: core.Tensor, values: core.Tensor, requires_grad: bool) -> Any:
    """A leaf of its own where a gradient is asked for, else part of the history of the values."""
    return made.detach().requires_grad_() if requires_grad and not values.requires_grad else made


# ------------------------------------------------------------------ COO


def _check_pairs(op: str, indices: core.Tensor, values: core.Tensor) -> None:
    """Refuse indices that are no matrix with a column for each value."""
    if indices.dim() != 2:
        fail(
            RuntimeError,
            op,
            "indices must have shape sparse_dim x nnz",
            list(indices.shape),
            hint="indices[None] makes one row of a vector of positions",
        )
    if values.shape[0] != indices.shape[1]:
        fail(
            RuntimeError,
            op,
            "indices and values must have same nnz",
            f"{indices.shape[1]} and {values.shape[0]}",
            hint="indices has a column for each value",
        )


@composite(
    "sparse_coo_tensor(any indices=None, any values=None, any size=None, *, dtype? dtype=None, "
    "device? device=None, bool? pin_memory=False, bool? requires_grad=False, "
    "bool? check_invariants=None, bool? is_coalesced=None) -> Tensor",
    names=("sparse_coo_tensor",),
    out=False,
)
def sparse_coo_tensor(
    indices, values, size, dtype, device, pin_memory, requires_grad, check_invariants, is_coalesced
):
    """A tensor of values at indices [dimensions, count]; values at the same place are added.

    With a size alone: a tensor without specified elements.

    Example:
        >>> facula.sparse_coo_tensor([[0, 1], [1, 0]], [3.0, 4.0], (2, 2)).to_dense()
        tensor([[0., 3.],
                [4., 0.]])
    """
    op = "sparse_coo_tensor"
    if values is None:
        indices = size if indices is None else indices
        if indices is None:
            fail(
                TypeError,
                op,
                "a size, or indices and values, were required",
                "none",
                hint="facula.sparse_coo_tensor((2, 3)) has no specified elements",
            )
        made = nothing(indices, dtype or core.get_default_dtype(), device, COO, len(indices))
        return made.requires_grad_() if requires_grad else made
    values = _tensor(values, dtype, device)
    indices = _indices(indices, values.device).to(core.int64)
    if not values.dim():
        values = values.reshape((1,))
    if indices.dim() == 1:
        indices = indices.unsqueeze(0) if indices.numel() and size is None else indices
    _check_pairs(op, indices, values)
    size = _inferred(indices, values) if size is None else tuple(int(n) for n in size)
    _check_dimensions(op, indices, values, size)
    if CHECKS[0] if check_invariants is None else check_invariants:
        check_coo(op, indices, values, size, bool(is_coalesced))
    unique = bool(is_coalesced) or (is_coalesced is None and indices.shape[1] == 0)
    return _finished(compose((indices,), values, size, COO, unique), values, requires_grad)


def _inferred(indices: core.Tensor, values: Any) -> tuple[int, ...]:
    """The least size that holds the indices."""
    if indices.shape[1] == 0:
        return (*[0] * indices.shape[0], *values.shape[1:])
    if bool((indices < 0).any()):
        negative = int(indices.amin())
        fail(
            RuntimeError,
            "sparse_coo_tensor",
            "found negative index",
            negative,
            hint="positions count from 0 in every dimension",
        )
    return (*(indices.amax(1) + 1).tolist(), *values.shape[1:])


def _check_dimensions(op: str, indices: core.Tensor, values: Any, size: Sequence[int]) -> None:
    sparse, dense = indices.shape[0], values.dim() - 1
    if len(size) != sparse + dense:
        fail(
            RuntimeError,
            op,
            f"number of dimensions must be sparse_dim ({sparse}) + dense_dim ({dense})",
            len(size),
            hint="leave size out to have it worked out",
        )
    if tuple(values.shape[1:]) != tuple(size[sparse:]):
        fail(
            RuntimeError,
            op,
            f"values has incorrect size, expected {[values.shape[0], *size[sparse:]]}",
            list(values.shape),
            hint="the dimensions after the sparse ones are those of a value",
        )


def check_coo(
    op: str, indices: core.Tensor, values: object, size: Sequence[int], is_coalesced: bool = False
) -> None:
    """Raise unless the indices lie in the size."""
    if not indices.shape[1]:
        return
    low, high = indices.amin(1).tolist(), indices.amax(1).tolist()
    for d, (least, most) in enumerate(zip(low, high, strict=True)):
        if least < 0:
            fail(
                RuntimeError,
                op,
                f"found negative index {least} for dim {d}",
                hint="positions count from 0 in every dimension",
            )
        if most >= size[d]:
            fail(
                RuntimeError,
                op,
                f"size is inconsistent with indices: for dim {d}, size is {size[d]} but found "
                f"index {most}",
                hint=f"dimension {d} needs a size of {most + 1} or more",
            )
    if is_coalesced:
        flat = flatten(indices, size[: indices.shape[0]])
        if bool((flat[1:] <= flat[:-1]).any()):
            fail(
                RuntimeError,
                op,
                "cannot set is_coalesced to true if indices correspond to uncoalesced COO tensor",
                hint="leave is_coalesced out, and call coalesce() on the result",
            )


# ------------------------------------------------------------------ compressed layouts


@composite(
    "sparse_compressed_tensor(any compressed_indices, any plain_indices, any values, any size=None, "
    "*, dtype? dtype=None, layout? layout=None, device? device=None, bool? pin_memory=False, "
    "bool? requires_grad=False, bool? check_invariants=None) -> Tensor",
    names=("sparse_compressed_tensor",),
    out=False,
)
def sparse_compressed_tensor(
    compressed_indices,
    plain_indices,
    values,
    size,
    dtype,
    layout,
    device,
    pin_memory,
    requires_grad,
    check_invariants,
):
    """A matrix (or a batch) of values by compressed lines: CSR, CSC, or blocks of values."""
    op = "sparse_compressed_tensor"
    if layout not in (CSR, CSC, BSR, BSC):
        fail(
            RuntimeError,
            op,
            "expected layout to be a sparse compressed one",
            layout,
            hint="take facula.sparse_csr, sparse_csc, sparse_bsr or sparse_bsc",
        )
    values = _tensor(values, dtype, device)
    starts = _whole(op, _indices(compressed_indices, values.device), "compressed_indices")
    plain = _whole(op, _indices(plain_indices, values.device), "plain_indices")
    size = _inferred_matrix(starts, plain, values, layout) if size is None else size
    size = tuple(int(n) for n in size)
    _check_parts(op, starts, plain, values, size, layout)
    if CHECKS[0] if check_invariants is None else check_invariants:
        check_compressed(op, starts, plain, values, size, layout)
    return _finished(compose((starts, plain), values, size, layout, True), values, requires_grad)


def _inferred_matrix(starts: Any, plain: Any, values: Any, layout: Any) -> tuple[int, ...]:
    batch = starts.dim() - 1
    block = values.shape[batch + 1 : batch + 3] if layout in BLOCKED else (1, 1)
    rest = values.shape[batch + (3 if layout in BLOCKED else 1) :]
    lines = starts.shape[-1] - 1
    across = int(plain.amax()) + 1 if plain.numel() else 0
    rows, columns = (lines, across) if layout in BY_ROWS else (across, lines)
    return (*starts.shape[:-1], rows * block[0], columns * block[1], *rest)


def _names(layout: core.layout | None) -> tuple[str, str, str, str]:
    """What the parts are called: compressed and plain indices, and what they count."""
    if layout in BY_ROWS:
        return "crow_indices", "col_indices", "nrows", "ncols"
    return "ccol_indices", "row_indices", "ncols", "nrows"


def _check_parts(
    op: str, starts: Any, plain: Any, values: Any, size: Sequence[int], layout: core.layout | None
) -> None:
    """Raise unless the parts' shapes belong together: without that there is no tensor at all."""
    compressed, name, _, _ = _names(layout)
    blocks = 2 if layout in BLOCKED else 0
    batch = starts.dim() - 1
    if starts.dim() < 1 or starts.dim() != plain.dim():
        fail(
            RuntimeError,
            op,
            f"{compressed} and {name} dimensionalities must be equal and at least 1",
            f"{starts.dim()} and {plain.dim()}",
            hint="both have the batch dimensions, then one of positions",
        )
    if values.dim() < batch + 1 + blocks or len(size) != values.dim() + 1 - blocks:
        fail(
            RuntimeError,
            op,
            "tensor dimensionality must be sum of batch, base, and dense dimensionalities",
            f"size {list(size)} and values of shape {list(values.shape)}",
            hint="values are [batch, count, *block, *dense]",
        )
    if values.shape[batch] != plain.shape[-1]:
        fail(
            RuntimeError,
            op,
            f"number of specified elements must be that of {name}, {plain.shape[-1]}",
            values.shape[batch],
            hint="every value, or block, has one plain index",
        )
    _check_lines(op, starts, values, size, layout)


def _check_lines(
    op: str, starts: core.Tensor, values: core.Tensor, size: Sequence[int], layout: Any
) -> None:
    compressed, _, counted, _ = _names(layout)
    batch = starts.dim() - 1
    block = values.shape[batch + 1 : batch + 3] if layout in BLOCKED else (1, 1)
    for d in range(2):
        if block[d] and size[batch + d] % block[d]:
            fail(
                RuntimeError,
                op,
                f"tensor shape[{batch + d}] = {size[batch + d]} must be divisible by blocksize",
                block[d],
                hint=f"{-(-size[batch + d] // block[d]) * block[d]} has room for whole blocks",
            )
    d = 0 if layout in BY_ROWS else 1
    lines = size[batch + d] // max(block[d], 1)
    if starts.shape[-1] != lines + 1:
        fail(
            RuntimeError,
            op,
            f"{compressed}.shape[-1] must be equal to the number of {counted} + 1, {lines + 1}",
            starts.shape[-1],
            hint=f"the last of the {lines + 1} is the number of values",
        )


def check_compressed(
    op: str, starts: Any, plain: Any, values: Any, size: Sequence[int], layout: core.layout | None
) -> None:
    """Raise unless the parts satisfy the invariants of the layout."""
    compressed, name, counted, across = _names(layout)
    batch = starts.dim() - 1
    block = values.shape[batch + 1 : batch + 3] if layout in BLOCKED else (1, 1)
    d = 1 if layout in BY_ROWS else 0
    width = size[batch + d] // max(block[d], 1)
    lengths = starts[..., 1:] - starts[..., :-1]
    _demand(op, f"{compressed}[..., 0] == 0", starts[..., 0] == 0)
    _demand(op, f"{compressed}[..., -1] == nnz", starts[..., -1] == plain.shape[-1])
    _demand(
        op,
        f"0 <= {compressed}[..., 1:] - {compressed}[..., :-1] <= {across}",
        (lengths >= 0) & (lengths <= width),
    )
    _demand(op, f"0 <= {name} < {across}", (plain >= 0) & (plain < width))
    rises = plain[..., 1:] > plain[..., :-1]
    if not rises.numel():
        return
    ends = F.zeros_like(rises, dtype=core.int64)
    inner = (starts[..., 1:-1].to(core.int64) - 1).clamp(0, rises.shape[-1])
    ends = F.pad(ends, (0, 1)) if ends.dim() else ends
    ends = ends.scatter(-1, inner, 1)[..., : rises.shape[-1]]
    _demand(
        op,
        f"{name}[..., {compressed}[..., i - 1]:{compressed}[..., i]] for all i = 1, ..., "
        f"{counted} are sorted and distinct along the last dimension values",
        rises | (ends > 0),
    )


def _demand(op: str, invariant: str, holds: core.Tensor) -> None:
    if not bool(holds.all()):
        fail(
            RuntimeError,
            op,
            f"`{invariant}` is not satisfied.",
            hint="to_sparse(layout=...) of a dense tensor makes valid indices",
        )


_PARTS = {CSR: ("crow", "col"), CSC: ("ccol", "row"), BSR: ("crow", "col"), BSC: ("ccol", "row")}


def _constructor(layout: core.layout) -> Any:
    """`sparse_csr_tensor` and its like: the layout stands in the name."""
    name = str(layout).rpartition(".")[2] + "_tensor"
    first, second = _PARTS[layout]

    def body(
        starts: core.Tensor,
        plain: core.Tensor,
        values: object,
        size: Sequence[int],
        dtype: core.dtype,
        given: object,
        device: core.device | None,
        pin_memory: bool,
        requires_grad: bool,
        check_invariants: Any,
    ) -> Any:
        return F.sparse_compressed_tensor(
            starts,
            plain,
            values,
            size,
            dtype=dtype,
            layout=layout,
            device=device,
            requires_grad=requires_grad,
            check_invariants=check_invariants,
        )

    body.__name__ = name
    body.__doc__ = f"A tensor in the layout {layout} of its parts."
    schema = (
        f"{name}(any {first}_indices, any {second}_indices, any values, any size=None, *, "
        "dtype? dtype=None, layout? layout=None, device? device=None, bool? pin_memory=False, "
        "bool? requires_grad=False, bool? check_invariants=None) -> Tensor"
    )
    return composite(schema, names=(name,), out=False)(body)


for _layout in _PARTS:
    _constructor(_layout)
