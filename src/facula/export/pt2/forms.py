"""Calls that PyTorch has other operators for, as calls of these.

Takes: a graph. Gives: `in_forms_of_files`, the same graph of operators that PyTorch knows.
Keeps true: what a definition says by `file_form` is the name of a function here, which builds the other calls; values
keep their names; a call that has no such form is refused.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from facula import core
from facula.autograd import no_grad
from facula.export.pt2 import operators  # noqa: F401 - defines what calls become
from facula.export.pt2.plain import refuse
from facula.fx import Graph, GraphModule, Node
from facula.ops.conv.resample import MODES
from facula.ops.layers.embedding import MODES as BAGS
from facula.ops.table.overloads import overload_of
from facula.ops.table.registry import TABLE, F

__all__ = ["in_forms_of_files"]

Tensor = core.Tensor
Form = Callable[..., Any]
_MISSING = object()


class Results:
    """The results of a call, each of which becomes a node when it is asked for."""

    def __init__(self, builder: Builder, node: Node) -> None:
        self.builder, self.node = builder, node
        self.parts: dict[int, Node] = {}

    def __getitem__(self, index: int) -> Node:
        if index not in self.parts:
            value = self.node.meta["val"][index]
            self.parts[index] = self.builder.add(operator.getitem, (self.node, index), {}, value)
        return self.parts[index]


class Builder:
    """Puts calls in front of a node.

    Args:
        node: the node
    """

    def __init__(self, node: Node) -> None:
        self.node = node

    def add(self, target: object, args: object, kwargs: object, value: Any) -> Node:
        """A node of this value."""
        made = self.node.graph.call_function(target, args, kwargs)
        made.meta = {**self.node.meta, "val": value}
        return made

    def __call__(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        """A call of an operator: its node, or its results."""
        given, named = _values(args), _values(kwargs)
        with no_grad():
            value = function(*given, **named)
        made = self.add(overload_of(function, given, named), args, kwargs, value)
        return Results(self, made) if isinstance(value, tuple) else made


def _values(x: Any) -> Any:
    """What the nodes in arguments stand for."""
    if isinstance(x, Node):
        return x.meta["val"]
    if isinstance(x, (list, tuple)):
        return type(x)(map(_values, x))
    return {k: _values(v) for k, v in x.items()} if isinstance(x, dict) else x


# ------------------------------------------------------------------ graphs


def _form(node: Node) -> Form | None:
    definition = getattr(node.target, "_definition", None)
    if node.op != "call_function" or definition is None or not definition.file_form:
        return None
    return _FORMS[definition.file_form]


def in_forms_of_files(module: GraphModule) -> GraphModule:
    """A graph of operators that PyTorch knows.

    Args:
        module: the graph, which is left as it is

    Raises:
        SerializeError: a call has no such form.
    """
    if not any(map(_form, module.graph.nodes)):
        return module
    graph = Graph()
    known: dict[Any, Any] = {}
    for node in module.graph.nodes:
        known[node] = graph.node_copy(node, known.__getitem__)
        known[node].name = node.name
    for node in list(graph.nodes):
        form = _form(node)
        if form is not None:
            _replace(node, form)
    made = GraphModule(module, graph)
    made.meta = dict(module.meta)
    return made


def _replace(node: Node, form: Form) -> None:
    """Put the form of a call in its place."""
    target: Any = node.target
    args = _bound(target._table_schema.parameters, node)
    with node.graph.inserting_before(node):
        made = form(Builder(node), *args)
        if made is NotImplemented:
            return
        if not isinstance(node.meta.get("val"), (tuple, list)):
            _stand_for(node, made)
            return
        for user in list(node.users):
            part = made[user.args[1]]
            if part is None:
                refuse(f"results of {target._opname} that PyTorch gives", f"result {user.args[1]}")
            _stand_for(user, part)
    node.graph.erase_node(node)


def _bound(parameters: Any, node: Node) -> list[Any]:
    """The arguments of a call in the order of the schema, defaults included."""
    given = iter(node.args)
    made = []
    for p in parameters:
        value = node.kwargs.get(p.name, p.default) if p.keyword_only else next(given, _MISSING)
        value = node.kwargs.get(p.name, p.default) if value is _MISSING else value
        several = p.is_list and p.length and not isinstance(value, (list, tuple, type(None)))
        made.append([value] * p.length if several else value)
    return made


def _stand_for(node: Node, made: Node) -> None:
    """Let a node be another one, under the same name where it was made for this."""
    fresh = (
        made.next is node or made.meta.get("val") is not None and made not in node.all_input_nodes
    )
    node.replace_all_uses_with(made)
    name = node.name
    node.graph.erase_node(node)
    if fresh:
        made.name = name


def _constant(x: object) -> int:
    """A size that does not change."""
    if type(x) is int:
        return x
    expr: Any = getattr(x, "expr", None)
    if expr is None or expr.constant is None:
        refuse("a size that does not change", x)
    return int(expr.constant)


def _letters(name: str) -> int:
    """The number of spatial dimensions in a name: 2 of `pool2d`."""
    return next(int(c) for c in name if c.isdigit())


# ------------------------------------------------------------------ convolutions and pools


def convolution(
    b: Builder, input: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any,
    groups: Any, output_size: Any,
) -> Any:  # fmt: skip
    rest = (list(stride), list(padding), list(dilation), False, [0] * len(stride), groups)
    return b(F.convolution, input, weight, bias, *rest)


def transposed_convolution(
    b: Builder, grad: Any, weight: Any, bias: object, stride: Any, padding: Any, dilation: Any,
    groups: Any, input_size: Any,
) -> Any:  # fmt: skip
    sizes = _values(list(input_size))
    kernel, given = weight.meta["val"].shape[2:], grad.meta["val"].shape[-len(stride) :]
    more = [
        _constant(n - ((m - 1) * s - 2 * p + d * (k - 1) + 1))
        for n, m, s, p, d, k in zip(sizes, given, stride, padding, dilation, kernel, strict=True)
    ]
    rest = (list(stride), list(padding), list(dilation), True, more, groups)
    return b(F.convolution, grad, weight, bias, *rest)


def max_pool(
    b: Builder, self: Any, kernel: Any, stride: Any, padding: Any, dilation: Any,
    ceil_mode: Any, index_bytes: object,
) -> Any:  # fmt: skip
    op = TABLE[f"max_pool{len(kernel)}d_with_indices"]
    return b(op, self, list(kernel), list(stride), list(padding), list(dilation), ceil_mode)


def max_pool_with_indices(
    b: Builder, input: object, kernel_size: object, stride: object, padding: object, dilation: object,
    ceil_mode: object, return_indices: object,
) -> Any:  # fmt: skip
    if not return_indices:
        return NotImplemented
    return max_pool(b, input, kernel_size, stride or (), padding, dilation, ceil_mode, 8)


def avg_pool(
    b: Builder, self: Any, kernel: Any, stride: Any, padding: Any, ceil_mode: Any,
    count_include_pad: Any, divisor: object,
) -> Any:  # fmt: skip
    rest = [divisor] if divisor else []
    op = TABLE[f"avg_pool{len(kernel)}d"]
    return b(op, self, list(kernel), list(stride), list(padding), ceil_mode, count_include_pad, *rest)  # fmt: skip


def adaptive_avg_pool(b: Builder, self: Any, output_size: Any) -> Any:
    space = len(output_size)
    op = TABLE["adaptive_avg_pool1d" if space == 1 else f"_adaptive_avg_pool{space}d"]
    return b(op, self, list(output_size))


def adaptive_max_pool(b: Builder, self: Any, output_size: Any) -> Any:
    op = TABLE[f"adaptive_max_pool{len(output_size)}d_with_indices"]
    return b(op, self, list(output_size))


def _sizes(b: Builder, input: Node, output_size: object) -> list[Any]:
    """A size for each spatial dimension; None keeps the input's."""
    space = _letters(b.node.target._opname)
    sizes = list(output_size) if isinstance(output_size, (list, tuple)) else [output_size]
    shape = input.meta["val"].shape[-space:]
    sizes = sizes * space if len(sizes) == 1 else sizes
    return [_constant(n) if s is None else s for s, n in zip(sizes, shape, strict=True)]


def adaptive_average(b: Builder, input: object, output_size: object) -> Any:
    sizes = _sizes(b, input, output_size)
    return b(b.node.target._op, input, sizes) if sizes != output_size else NotImplemented


def adaptive_maximum(b: Builder, input: object, output_size: object, return_indices: object) -> Any:
    made = adaptive_max_pool(b, input, _sizes(b, input, output_size))
    return made if return_indices else made[0]


def unpooled(b: Builder, source: object, indices: object, sizes: Any) -> Any:
    if len(sizes) == 2:
        return b(TABLE["pt2::unpool2d"], source, indices, list(sizes))
    if len(sizes) == 3:
        return b(TABLE["pt2::unpool3d"], source, indices, list(sizes), [1, 1, 1], [0, 0, 0])
    flat = [b(F.unsqueeze, x, -1) for x in (source, indices)]
    return b(F.squeeze, b(TABLE["pt2::unpool2d"], *flat, [*sizes, 1]), -1)


def unpooled_to_size(
    b: Builder, input: Any, indices: Any, kernel_size: Any, stride: object, padding: object,
    output_size: object,
) -> Any:  # fmt: skip
    return unpooled(b, input, indices, b.node.meta["val"].shape[-len(kernel_size) :])


def taken_from_planes(b: Builder, source: object, indices: object, space: Any) -> Any:
    flat = [b(F.flatten, x, -space) for x in (source, indices)]
    return b(F.view_as, b(F.gather, flat[0], -1, flat[1]), indices)


def resample(
    b: Builder,
    self: Any,
    sizes: Any,
    method: object,
    align_corners: object,
    antialias: object,
    scales: Any,
) -> Any:
    known = MODES.items()
    mode = next(w for w, (n, spaces) in known if n == method and len(scales) in spaces)
    name = f"upsample_{mode.replace('-', '_')}{len(scales)}d"
    name = (
        f"pt2::resampled_{name}_aa"
        if antialias
        else f"pt2::resampled_{name}"
        if "exact" in name
        else name
    )
    corners = () if "nearest" in mode else (align_corners,)
    return b(TABLE[name], self, list(sizes), *corners, *[s or None for s in scales])


def padded(b: Builder, self: Any, pad: Any, mode: Any) -> Any:
    return b(F.pad, self, list(pad), mode)


# ------------------------------------------------------------------ norms


def batch_norm_eval(
    b: Builder,
    input: object,
    running_mean: object,
    running_var: object,
    weight: object,
    bias: object,
    eps: object,
) -> Any:
    op = F._native_batch_norm_legit_no_training
    return b(op, input, weight, bias, running_mean, running_var, 0.1, eps)[0]


def batch_norm_train(
    b: Builder, input: object, weight: object, bias: object, running_mean: object, running_var: object,
    momentum: object, eps: object,
) -> Any:  # fmt: skip
    if running_mean is None:
        refuse("running statistics of a batch norm that trains", None)
    op = TABLE["pt2::batch_norm_functional"]
    return b(op, input, weight, bias, running_mean, running_var, True, momentum, eps)


def group_norm(
    b: Builder, input: object, groups: object, weight: object, bias: object, eps: object
) -> Any:
    return b(F.group_norm, input, groups, weight, bias, eps), None, None


def instance_norm(
    b: Builder, input: object, running_mean: object, running_var: object, weight: object, bias: object,
    use_input_stats: object, momentum: object, eps: object,
) -> Any:  # fmt: skip
    statistics = (running_mean, running_var, use_input_stats, momentum, eps, False)
    return b(F.instance_norm_native, input, weight, bias, *statistics)


def rms_norm(b: Builder, input: Any, normalized_shape: Any, weight: Any, eps: Any) -> Any:
    return b(F.rms_norm, input, list(normalized_shape), weight, eps), None


def vector_norm(b: Builder, self: Any, ord: Any, dim: Any, keepdim: Any) -> Any:
    return b(F.linalg_vector_norm, self, ord, None if dim is None else list(dim), keepdim)


def nextafter(b: Builder, self: object, other: object) -> Any:
    return b(F.nextafter, self, other)


def polygamma(b: Builder, self: object, n: object) -> Any:
    return b(F.polygamma, n, self)


def softsign(b: Builder, self: object) -> Any:
    return b(F.div, self, b(F.add, b(F.abs, self), 1))


def tanhshrink(b: Builder, self: object) -> Any:
    return b(F.sub, self, b(F.tanh, self))


# ------------------------------------------------------------------ losses


def cross_entropy_rows(
    b: Builder,
    input: object,
    target: object,
    weight: object,
    ignore_index: object,
    label_smoothing: object,
) -> Any:
    made = b(F.cross_entropy_loss, input, target, weight, 0, ignore_index, label_smoothing)
    return made, None


def losses_of_paths(
    b: Builder, log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: Any, zero_infinity: Any
) -> Any:  # fmt: skip
    # rows of targets stand behind one place here
    rows = b(F.narrow, targets, 1, 1, _constant(targets.meta["val"].shape[1]) - 1)
    args = (log_probs, rows, input_lengths, target_lengths, blank, "none", zero_infinity)
    target = overload_of(F.ctc_loss, _values(args))
    return b.add(target, args, {}, b.node.meta["val"][0]), None


def bce_with_logits(b: Builder, input: object, target: object, mean: object) -> Any:
    word = "mean" if mean else "sum"
    return b(F.binary_cross_entropy_with_logits, input, target, reduction=word)


def bce_elements(b: Builder, input: object, target: object) -> Any:
    return b(F.binary_cross_entropy, input, target, reduction="none")


def divergence(
    b: Builder, input: Any, target: object, size_average: object, reduce: object, reduction: object,
    log_target: object,
) -> Any:  # fmt: skip
    if reduction != "batchmean":
        return NotImplemented
    total = b(F.kl_div, input, target, reduction="sum", log_target=log_target)
    size = input.meta["val"].shape
    return b(F.div, total, _constant(size[0])) if len(size) else total


def embedding_bag(
    b: Builder, input: Any, weight: object, offsets: Any, max_norm: object, norm_type: object,
    scale_grad_by_freq: object, mode: Any, sparse: object, per_sample_weights: Any,
    include_last_offset: object, padding_idx: object,
) -> Any:  # fmt: skip
    if max_norm is not None:
        refuse("a bag of rows as they are", f"max_norm={max_norm}")
    if offsets is None:
        rows, length = map(_constant, input.meta["val"].shape)
        offsets = b(F.arange, 0, rows * length, length)
        input = b(F.reshape, input, [-1])
        if per_sample_weights is not None:
            per_sample_weights = b(F.reshape, per_sample_weights, [-1])
    rest = (scale_grad_by_freq, BAGS[mode], sparse, per_sample_weights, include_last_offset)
    return _bags(b, b.node.meta["val"], weight, input, offsets, *rest, padding_idx)


def _bags(
    b: Builder, value: object, weight: Node, indices: Node, offsets: Node, *rest: object
) -> Node:
    """The first result; the others, of which nothing is asked, have the shapes of what they are about."""
    others = [x.meta["val"].new_empty(x.meta["val"].shape) for x in (indices, offsets, offsets)]
    target = overload_of(F.embedding_bag_native, (weight, indices, offsets, *rest))
    made = b.add(target, (weight, indices, offsets, *rest), {}, (value, *others))
    return Results(b, made)[0]


def embedding_bag_rows(
    b: Builder, weight: object, indices: object, offsets: object, per_sample_weights: object, mode: object,
    padding_idx: Any, scale_grad_by_freq: object, sparse: object,
) -> Any:  # fmt: skip
    # the last offset is the end of the last bag
    rest = (scale_grad_by_freq, mode, sparse, per_sample_weights, True)
    padding = padding_idx if padding_idx >= 0 else None
    return _bags(b, b.node.meta["val"][0], weight, indices, offsets, *rest, padding), None


def embedding_renorm(
    b: Builder, weight: object, indices: object, max_norm: object, norm_type: object
) -> Any:
    return b(TABLE["pt2::embedding_renorm"], weight, indices, max_norm, norm_type)


# ------------------------------------------------------------------ sequences


def lstm_layer(
    b: Builder,
    input: object,
    h0: object,
    c0: object,
    w_input: object,
    w_hidden: object,
    bias: object,
    reverse: object,
) -> Any:
    state = [b(F.unsqueeze, x, 0) for x in (h0, c0)]
    biases = [] if bias is None else [bias, b(F.zeros_like, bias)]
    steps = b(F.flip, input, [0]) if reverse else input
    settings = (bias is not None, 1, 0.0, False, False, False)
    made = b(TABLE["pt2::lstm"], steps, state, [w_input, w_hidden, *biases], *settings)
    output = b(F.flip, made[0], [0]) if reverse else made[0]
    return output, b(F.select, made[1], 0, 0), b(F.select, made[2], 0, 0), None, None


def attention(
    b: Builder, query: object, key: object, value: object, mask: object, is_causal: object, scale: object,
    dropout_p: object, state: object,
) -> Any:  # fmt: skip
    op = F.scaled_dot_product_attention
    return b(op, query, key, value, mask, dropout_p, is_causal, scale=scale), None


# ------------------------------------------------------------------ matrices


def cholesky(b: Builder, self: object, upper: object, check: object) -> Any:
    return b(F.linalg_cholesky_ex, self, upper=upper)


def svdvals(b: Builder, A: object, check: object) -> Any:
    return b(F.linalg_svdvals, A)


def inverse(b: Builder, A: object, check: object) -> Any:
    return b(F.linalg_inv_ex, A)


def solved(b: Builder, A: object, B: object, check: object) -> Any:
    return b(F.linalg_solve, A, B), None, None, None


def qr(b: Builder, A: object, mode: object) -> Any:
    return b(F.linalg_qr, A, mode)


def eigvalsh(b: Builder, A: object, upper: object, check: object) -> Any:
    return b(F.linalg_eigvalsh, A, "U" if upper else "L")


def pinv(b: Builder, A: object, atol: object, rtol: object, hermitian: object) -> Any:
    return b(F.linalg_pinv, A, atol=atol, rtol=rtol, hermitian=hermitian)


def matrix_exp(b: Builder, self: object) -> Any:
    return b(F.linalg_matrix_exp, self)


def cholesky_solve(b: Builder, B: object, L: object, upper: object) -> Any:
    return b(F.cholesky_solve, B, L, upper)


def solve_triangular(b: Builder, A: object, B: object, upper: object, unitriangular: object) -> Any:
    return b(F.linalg_solve_triangular, A, B, upper=upper, unitriangular=unitriangular)


def lu_factor(b: Builder, self: object, check: object) -> Any:
    return b(F.linalg_lu_factor_ex, self)


def ldl_factor(b: Builder, A: object, hermitian: object, check: object) -> Any:
    return b(F.linalg_ldl_factor_ex, A, hermitian=hermitian)


def median_of_all(b: Builder, self: object, *rest: object) -> Any:
    return b(F.median, self)


def tensordot(b: Builder, first: object, second: object, dims: Any) -> Any:
    if isinstance(dims, int):
        axes: Sequence[Any] = list(range(-dims, 0)), list(range(dims))
    else:
        axes = [list(d) if isinstance(d, (list, tuple)) else [d] for d in dims]
    return b(TABLE["pt2::contracted"], first, second, *axes)


# ------------------------------------------------------------------ places and checks


def unchecked(
    b: Builder, self: object, low: object, high: object, op: object, message: object
) -> Any:
    return self


def index_put(b: Builder, self: Any, indices: Any, values: Any, accumulate: Any) -> Any:
    return b(F.index_put, self, list(indices), values, accumulate)


def dropped_channels(
    b: Builder, input: object, p: object, training: object, inplace: object
) -> Any:
    return b(F.feature_dropout, input, p, training)


def _dropped_channels_of(space: int) -> Callable[..., Any]:
    """PyTorch's operator always reads [N, C, ...]."""

    def form(b: Builder, input: Any, p: object, training: object, inplace: object) -> Any:
        if len(input.meta["val"].shape) > space + 1:
            return dropped_channels(b, input, p, training, inplace)
        alone = b(F.unsqueeze, input, 0)
        return b(F.squeeze, dropped_channels(b, alone, p, training, inplace), 0)

    return form


dropped_channels_1d, dropped_channels_3d = _dropped_channels_of(1), _dropped_channels_of(3)

_FORMS: dict[str, Form] = {
    name: form for name, form in list(globals().items()) if callable(form) and name.islower()
}
