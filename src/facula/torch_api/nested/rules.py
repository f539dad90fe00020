"""What operators do with nested tensors.

Takes: nested tensors among the arguments. Gives: entries of `RULES`, by the operators' names.
Keeps true: elementwise operators are those of the table, on the rows; others work on the rows where
these decide alone, and on entries one by one where they do not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import facula
from facula import core
from facula.core.errors import fail
from facula.nn import functional as F
from facula.ops.table.registry import TABLE

from .shaping import dimension, lies_behind, of_rows
from .tensor import RULES, NestedTensor, packed

Rule = Callable[..., Any]


def _rule(*names: str) -> Callable[[Rule], Rule]:
    def enter(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return enter


def _entries(function: Rule, *nested: NestedTensor) -> NestedTensor:
    """A function of the entries, one by one."""
    rows = zip(*(x._rows() for x in nested), strict=True)
    return packed([function(*each) for each in rows], nested[0]._form)


def _same(first: NestedTensor, second: NestedTensor, name: str) -> None:
    if first._shapes != second._shapes:
        fail(
            RuntimeError,
            name,
            "nested tensors of the same sizes were required",
            f"{list(first._shapes)} and {list(second._shapes)}",
            hint="make both from lists of equal shapes",
        )


_REFLECTED = {"radd": "add", "rsub": "sub", "rmul": "mul", "rtruediv": "div", "truediv": "div"}
#: methods of tensors, which have no definitions
_CONVERSIONS = frozenset("contiguous to type float double half bfloat16 long int bool".split())


@_rule("pointwise")
def pointwise(
    name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """An elementwise operator on the rows; NotImplemented for others."""
    plain = _REFLECTED.get(name, name)
    operator = TABLE.get(plain)
    elementwise = operator is not None and (
        operator.definition.kind == "pointwise" or operator.definition.elementwise
    )
    if not (elementwise or plain in _CONVERSIONS):
        return NotImplemented
    nested = [x for x in (*args, *kwargs.values()) if isinstance(x, NestedTensor)]
    first = nested[0]
    writes = getattr(function, "__name__", "") == f"{name}_"
    if writes and not isinstance(args[0], NestedTensor):
        fail(
            RuntimeError,
            plain,
            "a nested tensor was required where a nested one is written to",
            list(args[0].shape),
            hint=f"{plain}(dense, nested) makes a new one",
        )
    for other in nested[1:]:
        _same(first, other, plain)
    if first._form is core.strided:
        _check_both_nested(plain, args)
    if plain == "contiguous" and first._turned:
        return packed(first._rows(), first._form)
    given = [_of_rows(first, x, plain) for x in args]
    found = function(*given, **{k: _of_rows(first, x, plain) for k, x in kwargs.items()})
    if writes:
        return first
    same = tuple(found.shape) == tuple(first._values.shape)
    return first._with(found) if same else _over_rows(plain, first, found)


def _check_both_nested(name: str, args: tuple[Any, ...]) -> None:
    """Raise where one of the first two arguments is a dense tensor with dimensions, as for strided ones in PyTorch."""
    both = [x for x in args[:2] if isinstance(x, core.Tensor)]
    dense = [x for x in both if not isinstance(x, NestedTensor)]
    if len(both) < 2 or not dense or dense[0].numel() == 1 and not dense[0].dim():
        return
    one = both[0] is not dense[0]
    if one and _meets_rows(cast("NestedTensor", both[0]), dense[0]):
        return
    fail(
        RuntimeError,
        name,
        f"Expected both self and other to be nested, but got a {'' if one else 'non-'}nested self and "
        f"{'non-' if one else ''}nested other: two nested tensors were required",
        list(dense[0].shape),
        hint="nested_tensor(list(x.unbind())) nests a dense one; [batch, 1, ...] has one row for each entry",
    )


def _meets_rows(first: NestedTensor, x: core.Tensor) -> bool:
    """Whether each row of an entry meets the same row of a dense tensor."""
    regular = first._is_packed and x.dim() == first.dim() and x.shape[1] == 1
    return regular and x.shape[0] in (1, len(first._shapes))


def _of_rows(first: NestedTensor, x: NestedTensor | int, name: str) -> Any:
    """An argument as the rows meet it: a dense one broadcasts over rows."""
    if isinstance(x, NestedTensor):
        return x._values
    if not isinstance(x, core.Tensor) or x.dim() == 0:
        return x
    if x.dim() < first.dim() - 1 and first._is_packed:
        return x
    if _meets_rows(first, x):
        lengths = core.as_tensor([s[0] for s in first._shapes])
        whole = x.expand((len(first._shapes), *x.shape[1:])).squeeze(1)
        return facula.repeat_interleave(whole, lengths, 0)
    if first._form is core.jagged and not first._is_packed and x.dim() <= first.dim():
        return _each_entry(first, x, name)
    return fail(
        RuntimeError,
        name,
        "a dense tensor that broadcasts over the ragged dimension was required",
        list(x.shape),
        hint="[batch, 1, ...] has one row for each entry",
    )


def _each_entry(first: NestedTensor, x: core.Tensor, name: str) -> core.Tensor:
    """A dense tensor at the elements of entries that lie one behind the other."""
    sizes = [1] * (first.dim() - x.dim()) + list(x.shape)
    wanted = [len(first._shapes), *first._shapes[0]]
    wanted[first._ragged_idx] = 1
    if any(n not in (1, m) for n, m in zip(sizes, wanted, strict=True)):
        fail(
            RuntimeError,
            name,
            "a dense tensor that broadcasts over the ragged dimension was required",
            list(x.shape),
            hint=f"sizes of 1, or {wanted}",
        )
    rows = x.reshape(sizes).expand([wanted[0], *sizes[1:]]).unbind(0)
    each = zip(rows, first._shapes, strict=True)
    return facula.cat([row.expand(shape).reshape(-1) for row, shape in each])


@_rule("unbind")
def unbind(x: NestedTensor, dim: int = 0) -> tuple[Any, ...]:
    if dim not in (0, -x.dim()):
        fail(
            RuntimeError,
            "unbind",
            "dimension 0 was required (NestedTensor can only be unbound along dimension 0)",
            dim,
            hint="x.unbind() gives the entries",
        )
    return x._rows()


def _packed_only(name: str, x: NestedTensor) -> None:
    if not x._is_packed:
        fail(
            RuntimeError,
            name,
            "entries that differ in their first dimension alone were required",
            list(x._shapes),
            hint="take entries one by one: x.unbind()",
        )


def _row_shapes(x: NestedTensor, values: core.Tensor) -> list[tuple[int, ...]]:
    return [(s[0], *values.shape[1:]) for s in x._shapes]


def _over_rows(name: str, x: NestedTensor, found: core.Tensor) -> NestedTensor:
    return x._with(found, _row_shapes(x, found))


def _check_linear(input: Any, weight: Any) -> None:
    """Raise, as PyTorch does, unless the input is nested, the weight is not, and their widths agree."""
    if isinstance(weight, NestedTensor) or not isinstance(input, NestedTensor):
        both = isinstance(input, NestedTensor)
        said = (
            "Linear does not support nested weight when input is a nested tensor."
            if both
            else "get_nested_tensor_impl requires a NestedTensor."
        )
        fail(
            RuntimeError,
            "linear",
            f"a nested input and an ordinary weight were required ({said})",
            f"{type(input).__name__} and {type(weight).__name__}",
            hint="take entries one by one: weights.unbind()",
        )
    _check_strided(input, weight)
    _packed_only("linear", input)
    if weight.dim() == 2 and input._values.shape[-1] != weight.shape[1]:
        sizes = input._values.shape[-1], weight.shape[1]
        fail(
            RuntimeError,
            "linear",
            "Shape mismatch for NestedTensor Linear: Expected input's (a nested tensor) 'last_dim' to equal "
            f"'weight.size(1), but got: last_dim = {sizes[0]}, and weight.size(1) = {sizes[1]}",
            sizes,
            hint="the weight is [out_features, in_features]",
        )


def _check_strided(input: Any, weight: Any) -> None:
    """What the strided layout asks for besides."""
    if input._form is core.strided and (input.dim() != 3 or weight.dim() != 2):
        fail(
            RuntimeError,
            "linear",
            "Linear requires nested_tensor.dim == 3 and dense_matrix.dim == 2. Nested tensor dim: "
            f"{input.dim()}. Dense tensor dim: {weight.dim()}",
            list(weight.shape),
            hint="entries are [length, in_features], the weight is [out_features, in_features]",
        )
    if input._form is core.strided and len({s[-1] for s in input._shapes}) > 1:
        fail(
            RuntimeError,
            "linear",
            "Expected all tensors in nested tensor to have the same trailing dimension, instead last dimension "
            f"equals: {[s[-1] for s in input._shapes]}",
            list(input._shapes),
            hint="take entries one by one: x.unbind()",
        )


@_rule("linear")
def linear(input: Any, weight: Any, bias: Any = None) -> Any:
    _check_linear(input, weight)
    return _over_rows("linear", input, F.linear(input._values, weight, bias))


@_rule("layer_norm")
def layer_norm(input: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5,
               *more: object) -> Any:  # fmt: skip
    _packed_only("layer_norm", input)
    shape = [normalized_shape] if isinstance(normalized_shape, int) else list(normalized_shape)
    if len(shape) > input.dim() - 2:
        return _entries(lambda row: F.layer_norm(row, shape, weight, bias, eps), input)
    return input._with(F.layer_norm(input._values, shape, weight, bias, eps))


@_rule("rms_norm")
def rms_norm(input: Any, normalized_shape: Any, weight: Any = None, eps: Any = None) -> Any:
    _packed_only("rms_norm", input)
    return input._with(F.rms_norm(input._values, list(normalized_shape), weight, eps))


@_rule("embedding")
def embedding(input: Any, weight: Any = None, *args: Any, **kwargs: Any) -> Any:
    if not isinstance(input, NestedTensor):  # the table's own order
        input, weight = weight, input
    return _over_rows("embedding", input, F.embedding(input._values, weight, *args, **kwargs))


@_rule("rmatmul")
def matmul_reflected(second: object, first: object) -> Any:
    return matmul(first, second)


@_rule("matmul", "bmm")
def matmul(first: Any, second: Any) -> Any:
    if isinstance(first, NestedTensor) and isinstance(second, NestedTensor):
        return _entries(facula.matmul, first, second)
    if isinstance(first, NestedTensor) and second.dim() == 2 and first._is_packed:
        return _over_rows("matmul", first, facula.matmul(first._values, second))
    if isinstance(first, NestedTensor):
        parts = zip(first._rows(), second.unbind(0), strict=True)
        return packed([facula.matmul(a, b) for a, b in parts], first._form)
    return _entries(lambda row: facula.matmul(first, row), second)


@_rule("transpose", "swapaxes", "swapdims")
def transpose(x: NestedTensor, dim0: int, dim1: int) -> Any:
    a, b = (d + x.dim() if d < 0 else d for d in (dim0, dim1))
    if 0 in (a, b):
        fail(
            RuntimeError,
            "transpose",
            "dimensions of the entries were required (Nested tensor dimension 0 cannot be transposed)",
            (dim0, dim1),
            hint="the batch stays in front",
        )
    if lies_behind(x, a, b):
        return of_rows(x, x._values.transpose(a - 1, b - 1))
    ragged = {a: b, b: a}.get(x._ragged_idx, x._ragged_idx)
    found = packed([row.transpose(a - 1, b - 1) for row in x._rows()], x._form, ragged)
    found._turned = x._form is core.strided and a != b and not x._turned
    return found


@_rule("permute")
def permute(x: Any, *dims: Any) -> Any:
    given = dims[0] if len(dims) == 1 and isinstance(dims[0], (tuple, list)) else dims
    order = [d + x.dim() if d < 0 else d for d in given]
    if sorted(order) != list(range(x.dim())) or order[0] != 0:
        fail(
            RuntimeError,
            "permute",
            "each dimension once was required, the batch in front (Permute is not supported on the batch "
            "dimension for jagged NT)",
            tuple(given),
            hint="the first number is 0",
        )
    if lies_behind(x) and order[1] == 1:
        return of_rows(x, x._values.permute([d - 1 for d in order[1:]]))
    rows = [row.permute([d - 1 for d in order[1:]]) for row in x._rows()]
    return packed(rows, x._form, order.index(x._ragged_idx))


@_rule("movedim", "moveaxis")
def movedim(x: Any, source: Any, destination: Any) -> Any:
    many = isinstance(source, (tuple, list))
    sources, places = (list(source), list(destination)) if many else ([source], [destination])
    sources = [dimension(x, d, "movedim") for d in sources]
    places = [dimension(x, d, "movedim") for d in places]
    order = [d for d in range(x.dim()) if d not in sources]
    for place, d in sorted(zip(places, sources, strict=True)):
        order.insert(place, d)
    return permute(x, order)


@_rule("adjoint")
def adjoint(x: Any) -> Any:
    return transpose(x, -2, -1).conj()


@_rule("masked_fill")
def masked_fill(x: Any, mask: Any, value: Any) -> Any:
    if isinstance(mask, NestedTensor):
        _same(x, mask, "masked_fill")
    return x._with(x._values.masked_fill(_of_rows(x, mask, "masked_fill"), value))


@_rule("chunk")
def chunk(x: Any, chunks: int, dim: int = 0) -> Any:
    if x._form is core.strided:
        _check_chunks(x, chunks, dim)
    if dim in (0, -x.dim()) and x._shapes:  # whole entries, as many in each part but the last
        rows, count = x._rows(), -(-len(x) // chunks)
        parts = [rows[i : i + count] for i in range(0, len(rows), count)]
        return tuple(packed(part, x._form, x._ragged_idx) for part in parts)
    at = _last(x, dim, "chunk")
    return tuple(_over_rows("chunk", x, part) for part in x._values.chunk(chunks, at))


def _check_chunks(x: Any, chunks: int, dim: int) -> None:
    """Raise where PyTorch takes no chunks of layout strided."""
    last = x._shapes[0][-1] if x._shapes and x._shapes[0] else 0
    for holds, required, got, hint in (
        (dim in (-1, x.dim() - 1), "Chunk for nested tensors is currently only supported for the last "
         "dimension.", f"dim={dim}", "x.unbind() gives the entries"),
        (x.is_contiguous(), "chunk expects `self` to be contiguous.", "a transposed tensor",
         "x.contiguous() is one"),
        (chunks > 0 and last % max(chunks, 1) == 0, "Chunk for nested tensors is only supported for nested "
         "tensors with trailing dimension divisible by chunks.", f"{last} by {chunks}", "x.unbind() gives the "
         "entries, which have chunks of other lengths"),
    ):  # fmt: skip
        if not holds:
            fail(RuntimeError, "chunk", required, got, hint=hint)


@_rule("split", "split_with_sizes")
def split(x: Any, sizes: Any, dim: int = 0) -> Any:
    at = _last(x, dim, "split")
    return tuple(_over_rows("split", x, part) for part in x._values.split(sizes, at))


def _last(x: NestedTensor, dim: int, name: str) -> int:
    at = dim + x.dim() if dim < 0 else dim
    _packed_only(name, x)
    if at < 2:
        fail(
            RuntimeError,
            name,
            "a regular dimension behind the ragged one was required",
            dim,
            hint="dim=-1 is the last one; x.unbind() gives the entries",
        )
    return at - 1


@_rule("unflatten")
def unflatten(x: Any, dim: int, sizes: Any) -> Any:
    return _over_rows("unflatten", x, x._values.unflatten(_last(x, dim, "unflatten"), sizes))


@_rule("flatten")
def flatten(x: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    at, end = _last(x, start_dim, "flatten"), _last(x, end_dim, "flatten")
    return _over_rows("flatten", x, x._values.flatten(at, end))


def _sizes(given: tuple[Any, ...]) -> list[Any]:
    """Sizes that are given one by one, or as one sequence."""
    one = len(given) == 1 and isinstance(given[0], (tuple, list))
    return list(given[0] if one else given)


@_rule("view", "reshape", "_unsafe_view")
def reshape(x: Any, *shape: object) -> Any:
    wanted = _sizes(shape)
    if list(x._shapes) and x._form is core.jagged and wanted == list(x.shape):
        return x._with(x._values)
    _packed_only("reshape", x)
    if len(wanted) < 2 or wanted[0] not in (len(x), -1):
        fail(
            RuntimeError,
            "reshape",
            "the batch and the ragged dimension in front were required",
            wanted,
            hint="x.reshape(x.size(0), -1, ...)",
        )
    return _over_rows("reshape", x, x._values.reshape(-1, *wanted[2:]))


@_rule("expand")
def expand(x: Any, *shape: object) -> Any:
    wanted = _sizes(shape)
    _packed_only("expand", x)
    same = all(n in (-1, m) for n, m in zip(wanted, x.shape[:2], strict=False))
    if len(wanted) != x.dim() or not same:
        fail(
            RuntimeError,
            "expand",
            "as many sizes as there are dimensions were required, the batch and the ragged dimension as they are",
            wanted,
            hint="x.expand(-1, -1, n) repeats a last dimension of size 1",
        )
    return _over_rows("expand", x, x._values.expand(-1, *wanted[2:]))


def _of_same_entries(x: Any, other: Any) -> Any:
    """A view of the same sizes, if the other tensor has those."""
    nested = isinstance(x, NestedTensor) and isinstance(other, NestedTensor)
    return (
        x._with(x._values.expand_as(x._values)) if nested and x._shapes == other._shapes else None
    )


@_rule("view_as", "reshape_as")
def reshape_as(x: Any, other: Any) -> Any:
    same = _of_same_entries(x, other)
    return reshape(x, *other.shape) if same is None else same


@_rule("expand_as")
def expand_as(x: Any, other: Any) -> Any:
    same = _of_same_entries(x, other)
    return expand(x, *other.shape) if same is None else same


@_rule("grad")
def gradients(
    outputs: core.Tensor, inputs: core.Tensor, grad_outputs: Any = None, **words: Any
) -> tuple[Any, ...]:
    """`autograd.grad`: of the rows."""
    single = isinstance(inputs, core.Tensor)
    sources = [inputs] if single else list(inputs)
    plain = [x._values if isinstance(x, NestedTensor) else x for x in sources]
    found = facula.autograd.grad(_rows_of(outputs), plain, _rows_of(grad_outputs), **words)
    return tuple(
        x._with(g) if isinstance(x, NestedTensor) and g is not None else g
        for x, g in zip(sources, found, strict=True)
    )


def _rows_of(values: core.Tensor | None) -> Any:
    if values is None or isinstance(values, NestedTensor):
        return None if values is None else values._values
    if isinstance(values, core.Tensor):
        return values
    return [x._values if isinstance(x, NestedTensor) else x for x in values]


@_rule("is_same_size")
def is_same_size(x: Any, other: Any) -> bool:
    return bool(x._shapes == other._shapes)


@_rule("scaled_dot_product_attention")
def attention(
    query: core.Tensor, key: core.Tensor, value: Any, attn_mask: Any = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: Any = None, enable_gqa: bool = False,
) -> Any:  # fmt: skip
    """Entries one by one, in the layout [heads, length, size]; nothing is spent on padding."""
    if attn_mask is not None:
        fail(
            RuntimeError,
            "scaled_dot_product_attention",
            "attn_mask None was required of nested tensors",
            list(attn_mask.shape),
            hint="entries attend to themselves alone: leave the padding mask out",
        )
    words = {
        "dropout_p": dropout_p,
        "is_causal": is_causal,
        "scale": scale,
        "enable_gqa": enable_gqa,
    }

    def one(q: core.Tensor, k: core.Tensor, v: core.Tensor) -> Any:
        return F.scaled_dot_product_attention(q[None], k[None], v[None], **words)[0]

    rows = zip(query._rows(), key._rows(), value._rows(), strict=True)
    return packed([one(*each) for each in rows], query._form, query._ragged_idx)


@_rule("_native_multi_head_attention")
def native_attention(
    query: Any, key: Any, value: Any, embed_dim: int, num_head: int, qkv_weight: Any, qkv_bias: Any, proj_weight: Any,
    proj_bias: Any, mask: Any = None, need_weights: bool = True, average_attn_weights: bool = True,
    mask_type: Any = None,
) -> Any:  # fmt: skip
    """Attention of whole batches, in which the places behind an entry are no keys."""
    if mask is not None:
        fail(
            RuntimeError,
            "_native_multi_head_attention",
            "mask None was required of nested tensors",
            list(mask.shape),
            hint="entries attend to themselves alone: leave the padding mask out",
        )
    lengths = core.as_tensor([shape[0] for shape in key._shapes])
    rows = [shape[0] for shape in query._shapes]
    q, k, v = (x.to_padded_tensor(0.0) for x in (query, key, value))
    behind = facula.arange(k.shape[1])[None] >= lengths[:, None]
    found, weights = facula._native_multi_head_attention(
        q, k, v, embed_dim, num_head, qkv_weight, qkv_bias, proj_weight, proj_bias, behind,
        need_weights, average_attn_weights, 1,
    )  # fmt: skip
    entries = [entry[:length] for entry, length in zip(found, rows, strict=True)]
    return packed(entries, query._form), weights
