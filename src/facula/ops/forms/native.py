"""Functions of the top level that are methods of Tensor, too, or have other arguments than those of `nn.functional`.

Takes: what PyTorch's native functions take. Gives: what methods and the functions of `nn.functional` compute.
Keeps true: nothing is computed here that an operator computes elsewhere.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.layers import dropout as _dropout  # noqa: F401 - defines what is put in place here
from facula.ops.table.registry import TABLE, F, composite

BAGS = ("sum", "mean", "max")


def _bag_numbers(indices: core.Tensor, offsets: Any, include_last: bool) -> tuple[Any, Any]:
    """The bag of each index, and how many indices each bag has."""
    ends = offsets.narrow(0, 1, offsets.shape[0] - 1)
    if not include_last:
        ends = F.cat([ends, offsets.new_full((1,), indices.shape[0])])
    starts = offsets.narrow(0, 0, ends.shape[0])
    sizes = ends - starts
    bags = F.repeat_interleave(F.arange(sizes.shape[0]), sizes)
    return bags.to(indices.dtype), sizes


@composite(
    "embedding_bag_native(Tensor weight, Tensor indices, Tensor offsets, "
    "bool scale_grad_by_freq=False, int mode=0, bool sparse=False, "
    "Tensor? per_sample_weights=None, bool include_last_offset=False, int? padding_idx=None) "
    "-> (Tensor, Tensor, Tensor, Tensor)",
    names=("embedding_bag",),
    out=False,
    overload="padding_idx=padding_idx, default",
    file_name="embedding_bag",
)
def embedding_bag_native(
    weight,
    indices,
    offsets,
    scale_grad_by_freq,
    mode,
    sparse,
    per_sample_weights,
    include_last_offset,
    padding_idx,
):
    """Sums (mode 0), means (1) or maxima (2) of bags of rows; also each index's bag, the bags' sizes
    without padding, and for maxima the rows they come from.
    """
    if mode not in (0, 1, 2):
        fail(
            RuntimeError,
            "embedding_bag",
            "a mode of 0 (sum), 1 (mean) or 2 (max) was required",
            mode,
            hint="nn.functional.embedding_bag() takes modes by name",
        )
    if indices.dim() != 1 or offsets.dim() != 1:
        fail(
            RuntimeError,
            "embedding_bag",
            "one-dimensional indices and offsets were required",
            f"{indices.dim()} and {offsets.dim()} dimensions",
            hint="nn.functional.embedding_bag() takes 2D indices without offsets",
        )
    result = F.embedding_bag(
        indices,
        weight,
        offsets,
        scale_grad_by_freq=scale_grad_by_freq,
        mode=BAGS[mode],
        sparse=sparse,
        per_sample_weights=per_sample_weights,
        include_last_offset=include_last_offset,
        padding_idx=padding_idx,
    )
    bags, sizes = _bag_numbers(indices, offsets, include_last_offset)
    padded = None
    if padding_idx is not None:
        place = padding_idx + weight.shape[0] if padding_idx < 0 else padding_idx
        padded = indices == place
        counts = padded.to(sizes.dtype)
        sizes = sizes - F.zeros_like(sizes).index_add(0, bags.to(core.int64), counts)
    if mode != 2:
        return result, bags, sizes, F.zeros_like(sizes)
    # lazily: few programs ask for it
    from facula.ops.forms.on_demand import largest_rows

    return result, bags, sizes, largest_rows(weight, indices, bags, padded, sizes)


@composite(
    "instance_norm_native(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, "
    "Tensor? running_var, bool use_input_stats, float momentum, float eps, bool cudnn_enabled) "
    "-> Tensor",
    names=("instance_norm",),
    file_name="instance_norm.default",
    out=False,
)
def instance_norm_native(
    input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, cudnn_enabled
):
    """As `nn.functional.instance_norm`, with the arguments in another order."""
    return F.instance_norm(
        input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps
    )


@composite(
    "conv_tbc(Tensor self, Tensor weight, Tensor bias, int pad=0) -> Tensor",
    names=("conv_tbc", "nn.functional.conv_tbc"),
    out=False,
    autocast="lower",
)
def conv_tbc(self, weight, bias, pad):
    """Convolution along the first dimension of [time, batch, in], weight [width, in, out]."""
    if self.dim() != 3 or weight.dim() != 3 or bias.dim() != 1:
        fail(
            RuntimeError,
            "conv_tbc",
            "Input must have 3 dims: time, batch, in_channel; weight 3, bias 1",
            f"{self.dim()}, {weight.dim()} and {bias.dim()}",
            hint="conv1d() takes [batch, channels, time]",
        )
    result = F.conv1d(self.permute((1, 2, 0)), weight.permute((2, 1, 0)), bias, 1, pad)
    return result.permute((2, 0, 1))


@composite(
    "native_channel_shuffle(Tensor input, int groups) -> Tensor",
    names=("native_channel_shuffle", "nn.functional.native_channel_shuffle"),
    out=False,
    file_arguments={"input": "self"},
)
def native_channel_shuffle(input, groups):
    """As `channel_shuffle`."""
    return F.channel_shuffle(input, groups)


@composite(
    "norm_except_dim(Tensor v, int pow=2, int dim=0) -> Tensor",
    names=("norm_except_dim",),
    out=False,
)
def norm_except_dim(v, pow, dim):
    """The norm over all dimensions but one, which stays; over all with dim -1."""
    if dim == -1:
        return v.norm(pow)
    rest = [d for d in range(v.dim()) if d != dim]
    return v.norm(pow, rest, keepdim=True) if rest else v.abs()


@composite(
    "frobenius_norm(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor",
    names=("frobenius_norm",),
)
def frobenius_norm(self, dim, keepdim):
    """The square root of the sum of squares over one or two dimensions, or over all."""
    if len(dim) > 2:
        fail(
            RuntimeError,
            "frobenius_norm",
            "Expected at most 2 dimensions",
            list(dim),
            hint="linalg.vector_norm() takes any number of dimensions",
        )
    return F.linalg_vector_norm(self, 2, list(dim) or None, keepdim)


def _define_in_place(name: str) -> None:
    function = TABLE[name]

    def dropped(input: core.Tensor, p: float, train: bool) -> Any:
        return function(input, p, train, True)

    dropped.__doc__ = f"`nn.functional.{name}` in place."
    composite(
        f"{name}_(Tensor input, float p, bool train) -> Tensor", names=(name + "_",), out=False
    )(dropped)


_define_in_place("alpha_dropout")
_define_in_place("feature_alpha_dropout")


@composite(
    "feature_dropout_(Tensor input, float p, bool train) -> Tensor",
    names=("feature_dropout_",),
    out=False,
)
def feature_dropout_(input, p, train):
    """`feature_dropout` in place."""
    return input.copy_(F.feature_dropout(input, p, train)) if train and p > 0 else input


# ------------------------------------------------------------------ methods as functions, parts of others


@composite(
    "clone(Tensor self, *, memory_format? memory_format=None) -> Tensor",
    names=("clone",),
    elementwise=True,
)
def clone(self, memory_format):
    """A copy in memory of its own."""
    return self.clone(memory_format=memory_format or core.preserve_format)


def _check_fill(value: object) -> None:
    if isinstance(value, core.Tensor) and value.dim():
        fail(
            RuntimeError,
            "fill",
            "fill only supports 0-dimension value tensor",
            f"{value.dim()} dimensions",
            hint="copy_() takes tensors of other shapes",
        )


@composite("fill(Tensor self, Operand value) -> Tensor", names=("fill",))
def fill(self, value):
    """A tensor like `self` whose elements all are `value`.

    Example:
        >>> facula.fill(facula.zeros(2), 7.0)
        tensor([7., 7.])
    """
    _check_fill(value)
    result = self.clone()
    return result.copy_(value) if isinstance(value, core.Tensor) else result.fill_(value)


@composite("fill_function_(Tensor self, Operand value) -> Tensor", names=("fill_",), out=False)
def fill_function_(self, value):
    """Set every element to `value`."""
    _check_fill(value)
    return self.fill_(value)


@composite("zero_(Tensor self) -> Tensor", names=("zero_",), out=False)
def zero_(self):
    """Set every element to zero."""
    return self.zero_()


@composite(
    "detach(Tensor self) -> Tensor",
    names=("detach",),
    out=False,
    elementwise=True,
    quantizers={"fx": "shared"},
)
def detach(self):
    """The same memory without its history."""
    return self.detach()


@composite("detach_(Tensor self) -> Tensor", names=("detach_",), out=False)
def detach_(self):
    """Drop the tensor's history."""
    return self.detach_()


@composite(
    "resize_as_(Tensor self, Tensor the_template, *, memory_format? memory_format=None) -> Tensor",
    names=("resize_as_",),
    out=False,
)
def resize_as_(self, the_template, memory_format):
    """Give the tensor the shape of another; new elements are not set."""
    return self.resize_as_(the_template, memory_format=memory_format)


@composite(
    "_softmax_backward_data(Tensor grad_output, Tensor output, int dim, dtype input_dtype) -> Tensor",
    names=("_softmax_backward_data",),
)
def _softmax_backward_data(grad_output, output, dim, input_dtype):
    """The gradient of softmax's argument, from its result."""
    return F.softmax_backward(grad_output, output, dim).to(input_dtype)


@composite(
    "_log_softmax_backward_data(Tensor grad_output, Tensor output, int dim, dtype input_dtype) -> Tensor",
    names=("_log_softmax_backward_data",),
)
def _log_softmax_backward_data(grad_output, output, dim, input_dtype):
    """The gradient of log_softmax's argument, from its result."""
    return F.log_softmax_backward(grad_output, output, dim).to(input_dtype)


@composite(
    "_safe_softmax(Tensor self, int dim, dtype? dtype=None) -> Tensor", names=("_safe_softmax",)
)
def _safe_softmax(self, dim, dtype):
    """Softmax that is zero where every element of a row is -inf."""
    empty = (self == -float("inf")).all(dim, keepdim=True)
    return F.softmax(self.masked_fill(empty, 0), dim, dtype).masked_fill(empty, 0)


@composite(
    "native_dropout_backward(Tensor grad_output, Tensor mask, float scale) -> Tensor",
    names=("native_dropout_backward",),
)
def native_dropout_backward(grad_output, mask, scale):
    """The gradient of dropout's argument."""
    return grad_output * (mask.to(grad_output.dtype) * scale)


def _inside(self: Any, indices: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(
        None if index is None else index.clamp(-size, size - 1)
        for index, size in zip(indices, self.shape, strict=False)
    )


@composite(
    "_unsafe_masked_index(Tensor self, Tensor mask, Tensor?[] indices, Number fill) -> Tensor",
    names=("_unsafe_masked_index",),
    out=False,
)
def _unsafe_masked_index(self, mask, indices, fill):
    """Indexing where the mask holds, `fill` elsewhere: indices may point anywhere there."""
    if not self.numel():
        shape = F.broadcast_tensors([mask, *(i for i in indices if i is not None)])[0].shape
        return F.full(shape, fill, dtype=self.dtype, device=self.device)
    return F.index(self, _inside(self, indices)).masked_fill(~mask, fill)


@composite(
    "_unsafe_masked_index_put_accumulate(Tensor self, Tensor mask, Tensor?[] indices, Tensor values) -> Tensor",
    names=("_unsafe_masked_index_put_accumulate",),
    out=False,
)
def _unsafe_masked_index_put_accumulate(self, mask, indices, values):
    """Add values where the mask holds: indices may point anywhere else."""
    if not self.numel():
        return self.clone()
    return F.index_put(self, _inside(self, indices), values.masked_fill(~mask, 0), accumulate=True)
