"""Operators: embedding tables and bags of embeddings.

Takes a table `[rows, width]` and integer indices of any shape; gives rows, or sums, means and
maxima of bags of rows.
Keeps true: all indices are checked before memory is touched; gradients are added in index order, so
they do not depend on the number of threads; half precision adds in float32; the padding row takes
no gradient and is no member of a bag.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.forms.value_checks import checked, is_traced
from facula.ops.index import launch
from facula.ops.table import batch_forms
from facula.ops.table.registry import F, composite, operator

GRAIN = 16384
MODES = {"sum": 0, "mean": 1, "max": 2}


def _check(op: str, weight: core.Tensor, indices: core.Tensor) -> None:
    if weight.dim() != 2:
        fail(
            RuntimeError,
            op,
            "'weight' must be 2-D",
            list(weight.shape),
            hint="the table is [num_embeddings, embedding_dim]",
        )
    if indices.dtype is not core.int64 and indices.dtype is not core.int32:
        fail(
            RuntimeError,
            op,
            "Expected tensor for argument 'indices' to have one of the following scalar types: "
            "Long, Int",
            indices.dtype,
            "convert the indices with .long()",
        )


def _indices(op: str, indices: core.Tensor, rows: int) -> Any:
    """The indices as contiguous int64, checked to lie in [0, rows)."""
    indices = indices.to(core.int64).contiguous()
    launch.check_bounds(op, indices, rows, 0, IndexError, negative=False)
    return indices


def _sparse_rows(
    values: core.Tensor, places: core.Tensor, size: tuple[int, ...], padding_idx: int
) -> Any:
    """A sparse gradient of a table: rows at their places, without the padding row."""
    if padding_idx >= 0:
        kept = (places != padding_idx).nonzero().reshape((-1,))
        places, values = places.index_select(0, kept), values.index_select(0, kept)
    return F.sparse_coo_tensor(places.unsqueeze(0), values, size)


@operator(
    "embedding(Tensor weight, Tensor indices, int padding_idx=-1, bool scale_grad_by_freq=False, "
    "bool sparse=False) "
    "-> Tensor",
    names=("embedding",),
    out=False,
)
class Embedding:
    """Rows of `weight` by index: `indices.shape + (width,)`."""

    shards = "looked_up"

    vmap = batch_forms.embedding
    jvp = "linear"

    convention = "the padding row takes no gradient"

    def meta(weight, indices, padding_idx, scale_grad_by_freq, sparse):
        _check("embedding", weight, indices)
        return core.empty(
            (*indices.shape, weight.shape[1]), dtype=weight.dtype, device=weight.device
        )

    def cpu(out, weight, indices, padding_idx, scale_grad_by_freq, sparse):
        bytes_ = weight.shape[1] * weight.dtype.itemsize
        places = _indices("embedding", indices, weight.shape[0])
        core.kernel("embedding")(
            (out, weight.contiguous(), places),
            (bytes_,),
            (),
            total=places.numel() if bytes_ else 0,
            grain=max(1, 4 * GRAIN // max(1, bytes_)),
        )

    def backward(grad, weight_meta, indices, padding_idx, scale_grad_by_freq, sparse):
        rows = weight_meta.shape[0]
        if not sparse:
            return F.embedding_dense_backward(
                grad, indices, rows, padding_idx, scale_grad_by_freq
            ), None
        if scale_grad_by_freq:
            fail(
                RuntimeError,
                "embedding",
                "scale_grad_by_freq was required to be False with sparse gradients",
                True,
                hint="pass sparse=False, or scale_grad_by_freq=False",
            )
        places, values = indices.reshape((-1,)), grad.reshape((-1, grad.shape[-1]))
        return _sparse_rows(values, places, tuple(weight_meta.shape), padding_idx), None

    def samples(S):
        yield (S(5, 3), S.integers(0, 5, (2, 4))), {}
        yield (S(5, 3), S.integers(0, 5, (6,)), 2), {}

    def errors(S):
        yield (S(5, 3), S(2)), {}, RuntimeError, "scalar types: Long, Int"
        yield (S(5), S.integers(0, 5, (2,))), {}, RuntimeError, "'weight' must be 2-D"


@operator(
    "embedding_dense_backward(Tensor grad_output, Tensor indices, int num_weights, int "
    "padding_idx, bool scale_grad_by_freq) "
    "-> Tensor",
    names=("embedding_dense_backward",),
    out=False,
)
class EmbeddingDenseBackward:
    """The transpose of `embedding`: a table of `num_weights` rows with the gradients added up."""

    shards = "looked_up_backward"

    vmap = batch_forms.embedding_dense_backward
    jvp = "linear"

    def meta(grad_output, indices, num_weights, padding_idx, scale_grad_by_freq):
        expected = (*indices.shape, grad_output.shape[-1] if grad_output.dim() else 1)
        if num_weights < 0 or tuple(grad_output.shape) != expected:
            fail(
                RuntimeError,
                "embedding_dense_backward",
                "a gradient row for each index, and no negative number of weights, was required",
                f"grad_output {tuple(grad_output.shape)}, indices {tuple(indices.shape)}, "
                f"{num_weights} weights",
                hint="grad_output is shaped like embedding's result: indices.shape + (width,)",
            )
        return core.empty(
            (num_weights, grad_output.shape[-1]), dtype=grad_output.dtype, device=grad_output.device
        )

    def cpu(out, grad_output, indices, num_weights, padding_idx, scale_grad_by_freq):
        places = _indices("embedding_dense_backward", indices, num_weights).reshape((-1,))
        factors = _inverse_counts(places, num_weights) if scale_grad_by_freq else None
        add_rows(out, grad_output, places, factors, None, padding_idx)

    def backward(grad, indices, padding_idx, scale_grad_by_freq):
        rows = F.embedding(grad, indices, padding_idx)
        if padding_idx >= 0:
            rows = rows.masked_fill((indices == padding_idx).unsqueeze(-1), 0)
        if scale_grad_by_freq:
            factors = _inverse_counts(indices.reshape((-1,)), grad.shape[0])
            rows = rows * factors.reshape((*indices.shape, 1)).to(rows.dtype)
        return rows, None

    def errors(S):
        required = "a gradient row for each index"
        yield (S(5, 3), S.integers(0, 2, (4,)), 2, -1, False), {}, RuntimeError, required
        yield (S(2, 3), S.integers(0, 2, (2, 3)), 2, -1, False), {}, RuntimeError, required
        yield (S(2, 3), S.integers(0, 2, (2,)), -1, -1, False), {}, RuntimeError, required


def _inverse_counts(places: Any, rows: int) -> Any:
    """One over how often each index occurs, an entry an index."""
    ones = F.ones(places.shape, dtype=core.float64)
    counts = F.zeros((rows,), dtype=core.float64).index_add(0, places, ones)
    return counts.reciprocal().index_select(0, places)


def add_rows(
    out: core.Tensor,
    grad: core.Tensor,
    places: core.Tensor,
    factors: Any,
    sources: object,
    padding_idx: int,
) -> None:
    """out[places[i]] += grad[sources[i] or i] * factors[i], from zero; half precision in
    float32."""
    half = out.dtype in (core.bfloat16, core.float16)
    compute = core.float32 if half else out.dtype
    target = core.empty(out.shape, dtype=compute) if half else out
    rows, width = out.shape
    factors = factors.to(compute).contiguous() if factors is not None else None
    core.kernel(f"embedding.grad:{compute.code}")(
        (target, grad.to(compute).contiguous(), places, factors, sources),
        (width, places.numel(), padding_idx),
        (),
        total=rows,
        # every thread reads all indices, so no more pieces than threads
        grain=max(-(-rows // core.get_num_threads()), GRAIN // max(1, width), 1),
    )
    if half:
        out.copy_(target)


@operator(
    "_embedding_renorm(Tensor weight, Tensor indices, float max_norm, float norm_type) -> Tensor",
    names=(),
    out=False,
    file_form="embedding_renorm",
)
class EmbeddingRenorm:
    """A copy of `weight` in which the rows named by `indices` have at most norm `max_norm`."""

    def meta(weight, indices, max_norm, norm_type):
        return core.empty(weight.shape, dtype=weight.dtype, device=weight.device)

    def cpu(out, weight, indices, max_norm, norm_type):
        out.copy_(weight)
        distinct = F.unique(indices.reshape((-1,)))
        places = _indices("embedding_renorm_", distinct, weight.shape[0])
        core.kernel(f"embedding_renorm:{out.dtype.code}")(
            (out, places),
            (out.shape[1],),
            (float(max_norm), float(norm_type)),
            total=places.numel(),
            grain=max(1, GRAIN // max(1, out.shape[1])),
        )


@composite(
    "embedding_renorm_(Tensor self, Tensor indices, float max_norm, float norm_type) -> Tensor",
    names=("embedding_renorm_",),
)
def embedding_renorm_(self, indices, max_norm, norm_type):
    """Scale the rows that `indices` name to at most norm `max_norm`, in place and outside of the
    history."""
    if self.dim() != 2:
        fail(
            RuntimeError,
            "embedding_renorm_",
            "a table [rows, width] was required: 'self' must be 2-D",
            list(self.shape),
            hint="a row for each index",
        )
    if self.is_meta:
        return self
    self.detach().copy_(F._embedding_renorm(self.detach(), indices, max_norm, norm_type))
    return self


def _padding(op: str, padding_idx: int | None, rows: int) -> int:
    """The padding row as a position, -1 for none."""
    if padding_idx is None:
        return -1
    if not -rows <= padding_idx < rows:
        fail(
            AssertionError,
            op,
            "Padding_idx must be within num_embeddings",
            padding_idx,
            hint=f"the table has {rows} rows; a negative padding_idx counts from the last",
        )
    return padding_idx % rows if rows else -1


@composite(
    "_embedding_function(Tensor input, Tensor weight, int? padding_idx=None, float? max_norm=None, "
    "float norm_type=2.0, "
    "bool scale_grad_by_freq=False, bool sparse=False) -> Tensor",
    names=("nn.functional.embedding",),
)
def embedding_function(input, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse):
    """Rows of `weight` by index.

    padding_idx: a row that takes no gradient; max_norm: longer rows that are used are scaled to
    it, in place;
    scale_grad_by_freq: gradients are divided by how often their index occurs; sparse: the gradient
    is sparse.
    """
    if weight.dim() != 2:
        fail(
            RuntimeError,
            "embedding",
            "'weight' must be 2-D",
            list(weight.shape),
            hint="the table is [num_embeddings, embedding_dim]",
        )
    padding = _padding("embedding", padding_idx, weight.shape[0])
    if max_norm is not None:
        F.embedding_renorm_(weight, input, max_norm, norm_type)
    return F.embedding(weight, input, padding, scale_grad_by_freq, sparse)


def _check_bags(
    weight: core.Tensor, indices: core.Tensor, offsets: core.Tensor, scales: core.Tensor | None
) -> None:
    """Raise unless there is a table, a vector of rows of it, where each bag begins and the last one
    ends, and a factor for each index where there are any."""
    vectors = indices.dim() == 1 and offsets.dim() == 1 and offsets.shape[0] > 0
    fits = scales is None or (scales.shape == indices.shape and scales.dtype is weight.dtype)
    if weight.dim() != 2 or not vectors or offsets.dtype is not core.int64 or not fits:
        fail(
            RuntimeError,
            "_embedding_bag",
            "a table [rows, width], vectors of indices and of int64 offsets (one more than there are "
            "bags), and weights like the indices, in the table's dtype",
            [list(x.shape) for x in (weight, indices, offsets, scales) if x is not None],
            hint="nn.functional.embedding_bag() brings its arguments to this form",
        )


@operator(
    "_embedding_bag(Tensor weight, Tensor indices, Tensor offsets, Tensor? per_sample_weights, int "
    "mode, int padding_idx, "
    "bool scale_grad_by_freq, bool sparse=False) -> (Tensor output, Tensor positions)",
    names=(),
    file_form="embedding_bag_rows",
    out=False,
)
class EmbeddingBag:
    """Bags of rows, bag b being `indices[offsets[b]:offsets[b + 1]]`; positions: where each
    maximum came from."""

    kept_for = {"weight": "per_sample_weights"}

    def meta(
        weight, indices, offsets, per_sample_weights, mode, padding_idx, scale_grad_by_freq, sparse
    ):
        _check_bags(weight, indices, offsets, per_sample_weights)
        shape = (offsets.shape[0] - 1, weight.shape[1])
        positions = core.empty(shape if mode == 2 else (0,), dtype=core.int64, device=weight.device)
        return core.empty(shape, dtype=weight.dtype, device=weight.device), positions

    def cpu(
        out,
        weight,
        indices,
        offsets,
        per_sample_weights,
        mode,
        padding_idx,
        scale_grad_by_freq,
        sparse,
    ):
        rows, width = weight.shape
        places = _indices("embedding_bag", indices, rows)
        count = indices.numel() + 1
        launch.check_bounds("embedding_bag", offsets, count, 0, RuntimeError, negative=False)
        scales = per_sample_weights
        core.kernel(f"embedding_bag:{weight.dtype.code}")(
            (
                out[0],
                weight.contiguous(),
                places,
                offsets.contiguous(),
                scales.contiguous() if scales is not None else None,
                out[1] if mode == 2 else None,
            ),
            (width, mode, padding_idx),
            (),
            total=offsets.shape[0] - 1,
            grain=max(1, GRAIN // max(1, width)),
        )

    def backward(
        grads,
        weight,
        indices,
        offsets,
        per_sample_weights,
        mode,
        padding_idx,
        scale_grad_by_freq,
        sparse,
        results,
        needs,
    ):
        rows = weight.shape[0]
        grad = grads[0]
        if mode == 2:
            return F._embedding_bag_max_backward(grad, results[1], rows), None, None, None
        bags = _bags(offsets, indices.numel())
        factors = _bag_factors(
            indices, offsets, bags, per_sample_weights, mode, padding_idx, scale_grad_by_freq, rows
        )
        spread = grad.index_select(0, bags)
        to_scales = None
        if needs[3]:
            to_scales = (spread * weight.index_select(0, indices)).sum(-1)
            if padding_idx >= 0:
                to_scales = to_scales.masked_fill(indices == padding_idx, 0)
        if factors is not None:
            spread = spread * factors.to(spread.dtype).unsqueeze(-1)
        if sparse:
            to_weight = _sparse_rows(spread, indices, tuple(weight.shape), padding_idx)
        else:
            to_weight = F.embedding_dense_backward(spread, indices, rows, padding_idx, False)
        return to_weight, None, None, to_scales

    def samples(S):
        indices = S.integers(0, 5, (7,))
        offsets = core.tensor([0, 3, 3, 7]).clamp(max=indices.numel())
        for mode in (0, 1, 2):
            yield (S(5, 3), indices, offsets, None, mode, -1, False), {}
        yield (S(5, 3), indices, offsets, S(7), 0, 2, False), {}


def _bags(offsets: core.Tensor, count: int) -> Any:
    """The bag of each index."""
    starts = F.zeros((count + 1,), dtype=core.int64)
    inner = offsets.narrow(0, 1, offsets.shape[0] - 1)
    return (
        starts.index_add(0, inner, F.ones(inner.shape, dtype=core.int64))
        .cumsum(0)
        .narrow(0, 0, count)
    )


def _bag_factors(
    indices: core.Tensor,
    offsets: core.Tensor,
    bags: core.Tensor,
    scales: core.Tensor | None,
    mode: int,
    padding_idx: int,
    by_frequency: bool,
    rows: int,
) -> Any:
    """What each index multiplies its bag's gradient by: sample weight, one over the bag's size,
    over its frequency."""
    factors = scales
    if mode == 1:
        members = F.ones(indices.shape, dtype=core.float64)
        if padding_idx >= 0:
            members = (indices != padding_idx).to(core.float64)
        sizes = F.zeros((offsets.shape[0] - 1,), dtype=core.float64).index_add(0, bags, members)
        factors = sizes.clamp(min=1).reciprocal().index_select(0, bags)
    if by_frequency:
        frequency = _inverse_counts(indices, rows)
        factors = frequency if factors is None else factors * frequency.to(factors.dtype)
    return factors


@operator(
    "_embedding_bag_max_backward(Tensor grad_out, Tensor positions, int rows) -> Tensor",
    names=(),
    out=False,
)
class EmbeddingBagMaxBackward:
    """The gradient of bags' maxima: each value's goes to the row it came from, in its column."""

    def meta(grad, positions, rows):
        if grad.dim() != 2 or grad.shape != positions.shape or positions.dtype is not core.int64:
            fail(
                RuntimeError,
                "_embedding_bag_max_backward",
                "an int64 position for each gradient [bags, width]",
                f"{list(grad.shape)} and {positions.dtype} of {list(positions.shape)}",
                hint="_embedding_bag() with mode 2 gives the positions",
            )
        return core.empty((rows, grad.shape[1]), dtype=grad.dtype, device=grad.device)

    def cpu(out, grad, positions, rows):
        half = grad.dtype in (core.bfloat16, core.float16)
        target = core.empty(out.shape, dtype=core.float32) if half else out
        core.kernel(f"embedding_bag.max.grad:{target.dtype.code}")(
            (target, grad.to(target.dtype).contiguous(), positions.contiguous()),
            (grad.shape[1], grad.shape[0]),
            (),
            total=rows,
            grain=max(-(-rows // core.get_num_threads()), 1),
        )
        if half:
            out.copy_(target)

    def backward(grad, positions):
        taken = grad.gather(0, positions.clamp(min=0))
        return taken.masked_fill(positions < 0, 0), None


def _check_mode(mode: str, sparse: bool, per_sample_weights: Any, op: str) -> None:
    if mode not in MODES:
        fail(
            ValueError,
            op,
            "mode has to be one of sum, mean or max",
            mode,
            hint="mode='mean' is the default",
        )
    if sparse and mode == "max":
        fail(
            ValueError,
            op,
            "max mode does not support sparse weights",
            "sparse=True",
            hint="pass sparse=False, or take mode='sum' or 'mean'",
        )
    if per_sample_weights is not None and mode != "sum":
        fail(
            NotImplementedError,
            op,
            "per_sample_weights was not None: it is supported for mode='sum' only",
            f"mode='{mode}'",
            hint="pass mode='sum', or leave the weights out",
        )


@composite(
    "embedding_bag(Tensor input, Tensor weight, Tensor? offsets=None, float? max_norm=None, float "
    "norm_type=2.0, "
    "bool scale_grad_by_freq=False, str mode='mean', bool sparse=False, Tensor? "
    "per_sample_weights=None, "
    "bool include_last_offset=False, int? padding_idx=None) -> Tensor",
    names=("nn.functional.embedding_bag",),
    file_form="embedding_bag",
)
def embedding_bag(
    input,
    weight,
    offsets,
    max_norm,
    norm_type,
    scale_grad_by_freq,
    mode,
    sparse,
    per_sample_weights,
    include_last_offset,
    padding_idx,
):
    """Sums, means or maxima of bags of rows: the rows of a 2-d `input`, or a 1-d one cut at
    `offsets`.

    Example:
        >>> weight = facula.tensor([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]])
        >>> indices, offsets = facula.tensor([0, 2, 1]), facula.tensor([0, 2])
        >>> facula.nn.functional.embedding_bag(indices, weight, offsets, mode="sum")
        tensor([[4., 6.],
                [2., 3.]])
    """
    op = "embedding_bag"
    _check_mode(mode, sparse, per_sample_weights, op)
    _check(op, weight, input)
    if per_sample_weights is not None and tuple(per_sample_weights.shape) != tuple(input.shape):
        fail(
            ValueError,
            op,
            "If per_sample_weights is not None, then it must have the same shape as the input",
            f"{list(per_sample_weights.shape)} and {list(input.shape)}",
            hint="give one weight for each index",
        )
    offsets, bags = _bag_offsets(op, input, offsets, include_last_offset)
    padding = _padding(op, padding_idx, weight.shape[0])
    indices = input.reshape((-1,)).to(core.int64)
    if max_norm is not None:
        F.embedding_renorm_(weight, indices, max_norm, norm_type)
    scales = per_sample_weights.reshape((-1,)) if per_sample_weights is not None else None
    result = F._embedding_bag(
        weight, indices, offsets, scales, MODES[mode], padding, scale_grad_by_freq, sparse
    )[0]
    return result if bags == result.shape[0] else result.narrow(0, 0, bags)


# what to do about bags that do not start where they should
_STARTS = "offsets are starts, not lengths: lengths.cumsum(0) - lengths makes them"


def _check_starts(op: str, values: list[int], count: int) -> None:
    if values[0] != 0:
        fail(
            RuntimeError,
            op,
            "offsets[0] has to be 0, i.e., the first sequence starts at 0",
            values[0],
            hint=_STARTS,
        )
    if values[-1] > count or any(b < a for a, b in zip(values, values[1:], strict=False)):
        fail(
            RuntimeError,
            op,
            f"offsets must not fall and not exceed {count}",
            values,
            hint=_STARTS,
        )


def _check_offsets(op: str, input: core.Tensor, offsets: core.Tensor, include_last: bool) -> None:
    """That indices of one dimension and offsets fit together."""
    if input.dim() != 1:
        fail(
            ValueError,
            op,
            "input has to be 1D or 2D Tensor",
            f"{input.dim()}D",
            hint="input.reshape(-1) is 1D: offsets then say where bags start",
        )
    if offsets is None or offsets.dim() != 1:
        fail(
            ValueError,
            op,
            "offsets has to be a 1D Tensor",
            None if offsets is None else offsets.dim(),
            hint="facula.tensor([0]) makes one bag of everything",
        )
    if include_last and not offsets.shape[0]:
        fail(
            RuntimeError,
            op,
            "include_last_offset: number of offset should be at least 1",
            0,
            hint="the last offset is where the last bag ends: facula.tensor([0]) makes no bag",
        )


def _bag_offsets(op: str, input: core.Tensor, offsets: Any, include_last: bool) -> tuple[Any, int]:
    """Where each bag starts and, after the last one, where the indices end; how many bags are
    asked for. Indices behind the end that the caller gave are one more bag, that nobody asked for."""
    if input.dim() == 2:
        if offsets is not None:
            fail(
                ValueError,
                op,
                "if input is 2D, then offsets has to be None",
                list(offsets.shape),
                hint="every row is a bag: leave offsets out, or flatten the input",
            )
        bags, size = input.shape
        return F.arange(bags + 1, device=input.device) * size, bags
    _check_offsets(op, input, offsets, include_last)
    offsets = offsets.to(core.int64)
    count = input.numel()
    whole = False
    if is_traced(offsets):
        said = f"offsets that start at 0, do not fall and do not exceed {count} were required"
        steps = checked(F.diff(offsets), 0, count + 1, op, said)
        starts = checked(steps.cumsum(0), 0, count + 1, op, said)
        offsets = F.cat((checked(offsets[:1], 0, 1, op, said), starts))
    elif input.device.type != "meta" and offsets.numel():
        values = offsets.tolist()
        _check_starts(op, values, count)
        whole = values[-1] == count
    bags = offsets.shape[0] - include_last
    if include_last and whole:
        return offsets, bags
    end = F.full((1,), count, dtype=core.int64, device=input.device)
    return F.cat((offsets, end), 0), bags
