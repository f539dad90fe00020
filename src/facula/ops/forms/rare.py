"""Operators that few programs name, mostly by `ops.aten`: read when one is asked for, as the import shall be short.

Takes: what PyTorch's operators of these names take. Gives: composites, so that gradients, maps and shapes follow.
Keeps true: each is a formula over operators of the table; none has a kernel of its own. They have no place among
the public names: the root package finds them in this module (`torch_api/public.py`).
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.layers.loss import REDUCTIONS, reduction_of
from facula.ops.table.registry import F, composite

# ------------------------------------------------------------------ views and sums


@composite("_unsafe_view(Tensor self, int[] size) -> Tensor", names=(), out=False)
def _unsafe_view(self, size):
    """The elements in another shape, in memory of their own."""
    return F.reshape(self, size).clone()


@composite("_add_relu(Tensor self, Operand other, *, Number alpha=1) -> Tensor", names=())
def _add_relu(self, other, alpha):
    """`relu(self + alpha * other)`."""
    return F.relu(F.add(self, other, alpha=alpha))


# ------------------------------------------------------------------ ragged rows


def _ends(op: str, offsets: Any) -> core.Tensor:
    """The one tensor of offsets."""
    if len(offsets) != 1:
        fail(
            RuntimeError,
            op,
            "one tensor of offsets was required (only a single jagged dim is supported)",
            len(offsets),
            hint="fold inner ragged dimensions one after the other",
        )
    if offsets[0].dim() != 1:
        fail(
            RuntimeError,
            op,
            f"expected 1D offsets, but got offsets.dim() == {offsets[0].dim()}",
            list(offsets[0].shape),
            hint="offsets are [0, length of the first, length of both, ...]",
        )
    return offsets[0]


def _whole(op: str, ends: core.Tensor, total: int) -> None:
    last = int(ends[-1]) if ends.numel() and not ends.is_meta else total
    if last != total:
        fail(
            RuntimeError,
            op,
            f"final offset should match total_L value, but got {last} and {total}",
            f"{last} and {total}",
            hint="the last offset is the number of rows",
        )


@composite(
    "_jagged_to_padded_dense_forward(Tensor values, Tensor[] offsets, int[] max_lengths, "
    "float padding_value=0.0) -> Tensor",
    names=(),
    out=False,
)
def _jagged_to_padded_dense_forward(values, offsets, max_lengths, padding_value):
    """Rows of ragged entries as a dense batch: what lies behind an entry is `padding_value`, longer entries are cut."""
    op = "_jagged_to_padded_dense_forward"
    ends = _ends(op, offsets)
    _whole(op, ends, values.shape[0])
    (longest,) = max_lengths
    at = F.arange(longest, device=values.device) + ends[:-1, None]
    inside = at < ends[1:, None]
    padded = F.cat([values, values.new_full((1, *values.shape[1:]), padding_value)])
    return F.index(padded, (F.where(inside, at, values.shape[0]),))


@composite(
    "_padded_dense_to_jagged_forward(Tensor dense, Tensor[] offsets, int? total_L=None) -> Tensor",
    names=(),
    out=False,
)
def _padded_dense_to_jagged_forward(dense, offsets, total_L):  # noqa: N803
    """The rows of a dense batch that lie inside of their entries, one behind the other."""
    op = "_padded_dense_to_jagged_forward"
    ends = _ends(op, offsets)
    if dense.dim() < 2:
        fail(RuntimeError, op, f"expected padded dim >= 2, but dense.dim() == {dense.dim()}",
             list(dense.shape), hint="[batch, longest, ...]")  # fmt: skip
    total = int(ends[-1]) if total_L is None else total_L
    _whole(op, ends, total)
    longest = 0 if ends.is_meta or ends.numel() < 2 else int(ends.diff().max())
    if longest > dense.shape[1]:
        fail(RuntimeError, op, f"found batch item of length {longest} when max length specified by padded input is "
             f"{dense.shape[1]}", list(dense.shape), hint="pad to the longest entry")  # fmt: skip
    row = F.arange(total, device=dense.device)
    entry = F.searchsorted(ends.contiguous(), row, right=True) - 1
    return F.index(dense, (entry, row - F.index(ends, (entry,))))


# ------------------------------------------------------------------ convolutions


@composite(
    "_convolution_double_backward(Tensor? ggI, Tensor? ggW, Tensor? ggb, Tensor gO, Tensor weight, Tensor self, "
    "int[] stride, int[] padding, int[] dilation, bool transposed, int[] output_padding, int groups, "
    "bool[] output_mask) -> (Tensor, Tensor, Tensor)",
    names=(),
    out=False,
)
def _convolution_double_backward(
    ggI, ggW, ggb, gO, weight, self, stride, padding, dilation, transposed, output_padding, groups, output_mask,  # noqa: N803
):  # fmt: skip
    """The gradients of gO, self and weight of `convolution_backward`, given those of its results."""
    geometry = (stride, padding, dilation, transposed, output_padding, groups)
    zero = F.zeros_like
    given_input = zero(self) if ggI is None else ggI
    given_weight = zero(weight) if ggW is None else ggW
    to_grad = to_weight = to_input = None
    if output_mask[0]:
        to_grad = F.convolution(given_input, weight, ggb, *geometry)
        to_grad = to_grad + F.convolution(self, given_weight, None, *geometry)
    if output_mask[2]:
        mask = (False, True, False)
        to_weight = F.convolution_backward(gO, given_input, weight, None, *geometry, mask)[1]
    if output_mask[1]:
        mask = (True, False, False)
        to_input = F.convolution_backward(gO, self, given_weight, None, *geometry, mask)[0]
    return to_grad, to_input, to_weight


def _define_slow(name: str, plain: str, space: int, dilated: bool) -> None:
    """A convolution under the name of the way in which PyTorch computes it."""
    dilation = f", int[{space}] dilation=1" if dilated else ""

    def body(self, weight, kernel_size, bias, stride, padding, dilation=1):
        return getattr(F, plain)(self, weight, bias, stride, padding, dilation)

    body.__name__ = name
    body.__doc__ = f"The same as `{plain}`."
    globals()[name] = composite(
        f"{name}(Tensor self, Tensor weight, int[{space}] kernel_size, Tensor? bias=None, int[{space}] stride=1, "
        f"int[{space}] padding=0{dilation}) -> Tensor",
        names=(),
        autocast="lower",
    )(body)


for _name, _plain, _space, _dilated in (
    ("thnn_conv2d", "conv2d", 2, False),
    ("slow_conv3d", "conv3d", 3, False),
    ("slow_conv_dilated2d", "conv2d", 2, True),
    ("slow_conv_dilated3d", "conv3d", 3, True),
):
    _define_slow(_name, _plain, _space, _dilated)


@composite(
    "_grid_sampler_2d_cpu_fallback(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, "
    "bool align_corners) -> Tensor",
    names=(),
    out=False,
)
def _grid_sampler_2d_cpu_fallback(input, grid, interpolation_mode, padding_mode, align_corners):
    """The same as `grid_sampler`."""
    return F.grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners)


# ------------------------------------------------------------------ losses


@composite(
    "cross_entropy_loss(Tensor input, Tensor target, Tensor? weight=None, int reduction=1, int ignore_index=-100, "
    "float label_smoothing=0.0) -> Tensor",
    names=(),
    out=False,
    inlined=False,
    file_arguments={"input": "self"},
)
def cross_entropy_loss(input, target, weight, reduction, ignore_index, label_smoothing):
    """`nn.functional.cross_entropy` with a number for the reduction."""
    word = reduction_of(
        "cross_entropy_loss", None, None, dict(enumerate(REDUCTIONS)).get(reduction, "")
    )
    return F.functional_cross_entropy(
        input, target, weight, ignore_index=ignore_index, reduction=word, label_smoothing=label_smoothing
    )  # fmt: skip
