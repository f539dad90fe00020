"""Operators that PyTorch's files name and that are forms of operators here: `pt2::`.

Takes: what PyTorch's operators take, in its order, numbers for words. Gives: what they give.
Keeps true: each is a formula over operators of the table; none has a kernel of its own, and none a public name.
"""

from __future__ import annotations

from typing import Any

from facula import core, nn
from facula.ops.conv.resample import MODES
from facula.ops.table.registry import F, composite


@composite(
    "pt2::group_norm_native(Tensor input, Tensor? weight, Tensor? bias, int N, int C, int HxW, int group, float eps) "
    "-> (Tensor, Tensor, Tensor)",
    names=(),
    out=False,
    file_name="native_group_norm.default",
)
def group_norm_native(
    input: object,
    weight: object,
    bias: object,
    N: object,
    C: object,
    HxW: object,
    group: object,
    eps: object,
) -> Any:  # noqa: N803
    """A group norm, with the mean and the inverse spread of each group."""
    return F.native_group_norm(input, group, weight, bias, eps)


@composite(
    "pt2::batch_norm_functional(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor running_var, "
    "bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    names=(),
    out=False,
    file_name="_native_batch_norm_legit_functional.default",
)
def batch_norm_functional(
    input: Any,
    weight: object,
    bias: object,
    running_mean: Any,
    running_var: Any,
    training: object,
    momentum: object,
    eps: object,
) -> Any:
    """A batch norm that gives the new running statistics instead of writing them."""
    if training:
        return F.batch_norm_train(input, weight, bias, running_mean, running_var, momentum, eps)
    result = F.batch_norm_eval(input, running_mean, running_var, weight, bias, eps)
    empty = input.new_empty((0,))
    return result, empty, empty.clone(), running_mean.clone(), running_var.clone()


@composite(
    "pt2::embedding_renorm(Tensor self, Tensor indices, float max_norm, float norm_type) -> Tensor",
    names=(),
    out=False,
    file_name="embedding_renorm.default",
)
def embedding_renorm(self: object, indices: object, max_norm: object, norm_type: object) -> Any:
    """A table of which the rows that are looked up have at most a norm."""
    return F._embedding_renorm(self, indices, max_norm, norm_type)


@composite(
    "pt2::unpool2d(Tensor self, Tensor indices, int[2] output_size) -> Tensor",
    names=(),
    out=False,
    file_name="max_unpool2d.default",
)
def unpool2d(self: Any, indices: Any, output_size: Any) -> Any:
    """Values at their places in planes of a size, zero elsewhere."""
    return F._plane_scatter(self, indices, list(output_size))


@composite(
    "pt2::unpool3d(Tensor self, Tensor indices, int[3] output_size, int[3] stride, int[3] padding) -> Tensor",
    names=(),
    out=False,
    file_name="max_unpool3d.default",
)
def unpool3d(self: Any, indices: Any, output_size: Any, stride: object, padding: object) -> Any:
    """Values at their places in volumes of a size, zero elsewhere."""
    return F._plane_scatter(self, indices, list(output_size))


@composite(
    "pt2::unique_with_counts(Tensor self, bool sorted=True, bool return_inverse=False, bool return_counts=False) "
    "-> (Tensor, Tensor, Tensor)",
    names=(),
    out=False,
    file_name="_unique2.default",
)
def unique_with_counts(
    self: object, sorted: object, return_inverse: object, return_counts: object
) -> Any:
    """The distinct values, the number of each element among them, and how often each occurs."""
    return F.unique(self, sorted, True, True)


# ------------------------------------------------------------------ images


def _upsample(name: str, mode: str, scales: str, corners: bool, antialias: bool) -> None:
    """An operator that resamples to a size, with the factors that gave it."""
    corner = "bool align_corners, " if corners else ""

    def body(self: Any, output_size: Any, *rest: Any) -> Any:
        align, factors = (rest[0], rest[1:]) if corners else (False, rest)
        given = [float(factor or 0.0) for factor in factors]
        return F._resample(self, list(output_size), MODES[mode][0], bool(align), antialias, given)

    words = ", ".join(f"float? scales{f'_{s}' if len(scales) > 1 else ''}=None" for s in scales)
    body.__doc__ = f"Interpolation of mode {mode!r} to a size, with the factors that gave it."
    composite(
        f"pt2::resampled{name}(Tensor self, int[] output_size, {corner}{words}) -> Tensor",
        names=(), out=False, file_name=f"{name}.default",
    )(body)  # fmt: skip


_upsample("_upsample_nearest_exact1d", "nearest-exact", "w", False, False)
_upsample("_upsample_nearest_exact2d", "nearest-exact", "hw", False, False)
_upsample("_upsample_nearest_exact3d", "nearest-exact", "dhw", False, False)
_upsample("_upsample_bilinear2d_aa", "bilinear", "hw", True, True)
_upsample("_upsample_bicubic2d_aa", "bicubic", "hw", True, True)

# ------------------------------------------------------------------ recurrent networks


def _recurrent(name: str, overload: str, states: str, weights: str, results: str) -> None:
    """A recurrent network, or one step of it, as a function of its weights."""

    def body(input: core.Tensor, hx: object, *rest: object) -> Any:
        found = getattr(nn.recurrent, name)(input, hx, *rest)
        return found if results == "Tensor" else tuple(found)

    what = "one step" if name.endswith("_cell") else "all layers"
    body.__doc__ = f"`{name}`: {what} of a recurrent network, as a function of its weights."
    composite(
        f"pt2::{name}(Tensor input, {states} hx, {weights}) -> {results}",
        names=(), out=False, file_name=f"{name}.{overload}",
    )(body)  # fmt: skip


_LAYERS = (
    "Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, "
    "bool batch_first"
)
_STEP = "Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None"
_recurrent("lstm", "input", "Tensor[]", _LAYERS, "(Tensor, Tensor, Tensor)")
_recurrent("lstm_cell", "default", "Tensor[]", _STEP, "(Tensor, Tensor)")
for _name in ("gru", "rnn_tanh", "rnn_relu"):
    _recurrent(_name, "input", "Tensor", _LAYERS, "(Tensor, Tensor)")
    _recurrent(f"{_name}_cell", "default", "Tensor", _STEP, "Tensor")


@composite(
    "pt2::contracted(Tensor self, Tensor other, int[] dims_self, int[] dims_other) -> Tensor",
    names=(),
    out=False,
    file_name="tensordot.default",
)
def contracted(self: Any, other: Any, dims_self: Any, dims_other: Any) -> Any:
    """The product of two tensors, summed over dimensions of both."""
    return F.tensordot(self, other, (list(dims_self), list(dims_other)))


# ------------------------------------------------------------------ forms of operators that are public otherwise


@composite(
    "pt2::scaled_elu(Tensor self, Number alpha=1, Number scale=1, Number input_scale=1) -> Tensor",
    names=(),
    out=False,
    file_name="elu.default",
)
def scaled_elu(self: Any, alpha: Any, scale: Any, input_scale: Any) -> Any:
    """`scale * x` above zero, `scale * alpha * (exp(input_scale * x) - 1)` below."""
    below = F.expm1(F.minimum(self, self.new_zeros(())) * input_scale) * alpha
    return F.where(self > 0, self, below) * scale


def _bags(name: str) -> None:
    def body(
        weight: object,
        indices: object,
        offsets: object,
        scale_grad_by_freq: object,
        mode: object,
        sparse: object,
        per_sample_weights: object,
        last: object,
        padding: Any,
    ) -> Any:
        kept = padding if padding >= 0 else None
        rest = (scale_grad_by_freq, mode, sparse, per_sample_weights, last, kept)
        return F.embedding_bag_native(weight, indices, offsets, *rest)

    body.__doc__ = "Bags of rows: their sums, means or maxima, and what a gradient asks for."
    composite(
        f"pt2::bags{name}(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0, "
        "bool sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False, int padding_idx=-1) "
        "-> (Tensor, Tensor, Tensor, Tensor)", names=(), out=False, file_name=f"{name}.default",
    )(body)  # fmt: skip


_bags("_embedding_bag")
_bags("_embedding_bag_forward_only")


@composite("pt2::numpy_T(Tensor self) -> Tensor", names=(), out=False, file_name="numpy_T.default")
def numpy_T(self: Any) -> Any:  # noqa: N802 - PyTorch's name
    """The tensor with its dimensions in the opposite order."""
    return F.permute(self, list(range(self.dim()))[::-1])


@composite(
    "pt2::svd_of_file(Tensor A, bool full_matrices=False, bool compute_uv=True, *, str? driver=None) "
    "-> (Tensor, Tensor, Tensor)",
    names=(),
    out=False,
    file_name="_linalg_svd.default",
)
def svd_of_file(A: Any, full_matrices: object, compute_uv: object, driver: object) -> Any:  # noqa: N803
    """A singular value decomposition, or its values alone."""
    if compute_uv:
        return tuple(F.linalg_svd(A, full_matrices))
    return A.new_empty((0,)), F.linalg_svdvals(A), A.new_empty((0,))


@composite(
    "pt2::eigh_of_file(Tensor A, str UPLO='L', bool compute_v=True) -> (Tensor, Tensor)",
    names=(),
    out=False,
    file_name="_linalg_eigh.default",
)
def eigh_of_file(A: Any, UPLO: object, compute_v: object) -> Any:  # noqa: N803
    """Eigenvalues and vectors of a symmetric matrix, or its values alone."""
    if compute_v:
        return tuple(F.linalg_eigh(A, UPLO))
    return F.linalg_eigvalsh(A, UPLO), A.new_empty((0,))


@composite(
    "pt2::_trilinear(Tensor i1, Tensor i2, Tensor i3, int[] expand1, int[] expand2, int[] expand3, int[] sumdim, "
    "int unroll_dim=1) -> Tensor",
    names=(),
    out=False,
    file_name="_trilinear.default",
)
def _trilinear(
    i1: Any,
    i2: Any,
    i3: Any,
    expand1: Any,
    expand2: Any,
    expand3: Any,
    sumdim: Any,
    unroll_dim: Any,
) -> Any:
    """The product of three tensors with further dimensions of size 1, summed over some."""
    product = None
    for x, dims in ((i1, expand1), (i2, expand2), (i3, expand3)):
        for dim in sorted(dims):
            x = F.unsqueeze(x, dim)
        product = x if product is None else product * x
    return F.sum(product, list(sumdim)) if sumdim else product


@composite(
    "pt2::_weight_norm(Tensor v, Tensor g, int dim=0) -> Tensor",
    names=(),
    out=False,
    file_name="_weight_norm.default",
)
def _weight_norm(v: Any, g: Any, dim: Any) -> Any:
    """`v` with norms of `g` over all dimensions but one."""
    dims = [d for d in range(v.dim()) if d != dim % v.dim()]
    return v * (g / F.linalg_vector_norm(v, 2, dims, True))


def _by_factors(name: str, mode: str, corners: bool, antialias: bool) -> None:
    """An operator that resamples to a size, or by factors."""
    corner = "bool align_corners, " if corners else ""

    def body(input: object, output_size: object, *rest: object) -> Any:
        align = rest[0] if corners else None
        return F.interpolate(input, output_size, rest[-1], mode, align, None, antialias)

    body.__doc__ = f"Interpolation of mode {mode!r} to a size, or by factors."
    composite(
        f"pt2::resampled_by{name}(Tensor input, int[]? output_size, {corner}float[]? scale_factors) -> Tensor",
        names=(), out=False, file_name=f"{name}.vec",
    )(body)  # fmt: skip


for _space in (1, 2, 3):
    _by_factors(f"_upsample_nearest_exact{_space}d", "nearest-exact", False, False)
_by_factors("_upsample_bilinear2d_aa", "bilinear", True, True)
_by_factors("_upsample_bicubic2d_aa", "bicubic", True, True)
