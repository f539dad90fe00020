"""Pooling under its public names: one function a number of spatial dimensions.

Takes PyTorch's arguments (one number stands for every dimension; stride defaults to the kernel
size); calls the primitives of `pool`. Keeps true: positions are computed only where they are asked
for or needed by a gradient.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from facula import core
from facula.core.errors import cast_hint, fail
from facula.ops.forms.value_checks import checked, is_traced
from facula.ops.table.batch_forms import innermost
from facula.ops.table.registry import F, composite, operator

_MAX = (
    "(Tensor input, int[{n}] kernel_size, int[{n}]? stride=None, int[{n}] padding=0, "
    "int[{n}] dilation=1, bool ceil_mode=False"
)


#: what PyTorch calls the first argument in files
_SELF = {"input": "self"}


def _strides(stride: Sequence[int] | None, kernel: Sequence[int]) -> list[int]:
    return list(stride) if stride else list(kernel)


def _max(
    input: core.Tensor,
    kernel: tuple[int, ...],
    stride: tuple[int, ...] | None,
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    ceil_mode: bool,
    indices: bool,
) -> Any:
    """Maxima, with positions where asked for; positions for the gradient alone are narrow."""
    wide = 8
    if not indices:
        narrow = 4 if math.prod(input.shape[-len(kernel) :]) < 1 << 31 else 8
        recording = input.requires_grad and core.is_grad_enabled()
        wide = narrow if recording or core.interpreters() else 0
    result = F._max_pool(
        input, kernel, _strides(stride, kernel), padding, dilation, ceil_mode, wide
    )
    return result if indices else result[0]


#: on the CPU autocast computes pools over volumes in float32
_POLICY = {1: None, 2: None, 3: "cpu float32"}
#: quantizers of exported graphs know pools over images alone
_OF_IMAGES = {"fx": "shared", "xnnpack": "shared", "x86": "shared"}
_QUANTIZERS = {1: {"fx": "shared"}, 2: _OF_IMAGES, 3: {"fx": "shared"}}


def _define_max(n: int) -> None:
    arguments = _MAX.format(n=n)

    @composite(
        f"max_pool{n}d_with_indices{arguments}, bool return_indices=False) -> (Tensor, Tensor)",
        file_arguments=_SELF,
        names=(f"max_pool{n}d_with_indices", f"nn.functional.max_pool{n}d_with_indices"),
        home=f"nn.functional.max_pool{n}d_with_indices",
        autocast=_POLICY[n],
    )
    def with_indices(input, kernel_size, stride, padding, dilation, ceil_mode, return_indices):
        """The largest value of each window, and its flat position in the input's plane."""
        return _max(input, kernel_size, stride, padding, dilation, ceil_mode, True)

    @composite(
        f"max_pool{n}d{arguments}, bool return_indices=False) -> Tensor",
        file_arguments=_SELF,
        names=(f"nn.functional.max_pool{n}d", f"max_pool{n}d"),
        file_form="max_pool_with_indices",
        autocast=_POLICY[n],
        quantizers=_QUANTIZERS[n],
    )
    def plain(input, kernel_size, stride, padding, dilation, ceil_mode, return_indices):
        """The largest value of each window; return_indices: also its flat position in the input's
        plane.

        Example:
            >>> facula.nn.functional.max_pool3d(facula.arange(8.0).reshape(1, 2, 2, 2), 2)
            tensor([[[[7.]]]])
        """
        return _max(input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


@operator(
    "max_pool2d_with_indices_backward(Tensor grad_output, Tensor self, int[2] kernel_size, int[2] stride, "
    "int[2] padding, int[2] dilation, bool ceil_mode, Tensor indices) -> Tensor",
    names=(),
    out=False,
)
class MaxPoolGradient:
    """The gradient of the input of `max_pool2d`: each window's goes to where its maximum stood."""

    def meta(grad_output, self, kernel_size, stride, padding, dilation, ceil_mode, indices):
        return core.empty(self.shape, dtype=grad_output.dtype, device=grad_output.device)

    def cpu(out, grad_output, self, kernel_size, stride, padding, dilation, ceil_mode, indices):
        out.copy_(F._plane_scatter_add(grad_output, indices, list(self.shape[-2:])))

    def backward(grad, self_meta, indices):
        own = F.zeros(self_meta.shape, dtype=self_meta.dtype, device=self_meta.device)
        return F._plane_gather(grad, indices, 2), own, None


def _output_size(input: core.Tensor, output_size: Any, n: int, op: str) -> list[int]:
    """One size a spatial dimension; None keeps the input's."""
    sizes = list(output_size) if isinstance(output_size, (tuple, list)) else [output_size] * n
    if len(sizes) == 1:
        sizes *= n
    if n > 1 and isinstance(output_size, (tuple, list)) and input.dim() <= len(sizes):
        at_least = len(sizes) + 1
        fail(
            ValueError,
            op,
            f"Input dimension should be at least {at_least}",
            input.dim(),
            hint="unsqueeze() adds dimensions to the input",
        )
    if len(sizes) != n:
        fail(
            RuntimeError,
            op,
            f"output_size must be {n} numbers",
            output_size,
            hint="a single number stands for all of them",
        )
    for size in sizes:
        if size is not None and not hasattr(size, "__index__"):
            required = (
                "ints were required: argument 'output_size' (position 2) must be tuple of ints"
            )
            hint = "a single int stands for all dimensions, None keeps the input's size"
            fail(TypeError, op, required, type(size).__name__, hint)
    return [input.shape[d - n] if s is None else s.__index__() for d, s in enumerate(sizes)]


def _define_adaptive(n: int) -> None:
    @composite(
        f"adaptive_max_pool{n}d(Tensor input, any output_size, bool return_indices=False) -> "
        f"Tensor",
        file_arguments=_SELF,
        names=(f"nn.functional.adaptive_max_pool{n}d", f"adaptive_max_pool{n}d"),
        file_form="adaptive_maximum",
    )
    def maximum(input, output_size, return_indices):
        """The largest value of each of `output_size` equal parts; return_indices: also its flat
        position."""
        sizes = _output_size(input, output_size, n, f"adaptive_max_pool{n}d")
        result = F._adaptive_max_pool(input, sizes)
        return result if return_indices else result[0]

    @composite(
        f"adaptive_max_pool{n}d_with_indices(Tensor input, any output_size, bool "
        f"return_indices=False) "
        "-> (Tensor, Tensor)",
        names=(f"nn.functional.adaptive_max_pool{n}d_with_indices",),
        file_name=f"adaptive_max_pool{n}d.default",
        file_arguments=_SELF,
        inlined=True,
    )
    def with_indices(input, output_size, return_indices):
        """The largest value of each of `output_size` equal parts, and its flat position."""
        return F._adaptive_max_pool(
            input, _output_size(input, output_size, n, f"adaptive_max_pool{n}d")
        )

    @composite(
        f"adaptive_avg_pool{n}d(Tensor input, any output_size) -> Tensor",
        file_arguments=_SELF,
        names=(
            f"nn.functional.adaptive_avg_pool{n}d",
            *((f"adaptive_avg_pool{n}d",) if n == 1 else ()),
        ),
        file_form="adaptive_average",
        autocast=_POLICY[n],
        quantizers=_QUANTIZERS[n],
    )
    def average(input, output_size):
        """The mean of each of `output_size` equal parts; None keeps a dimension."""
        sizes = _output_size(input, output_size, n, f"adaptive_avg_pool{n}d")
        return F._adaptive_avg_pool(input, sizes)


def _define_average(n: int) -> None:
    divisor = "" if n == 1 else ", int? divisor_override=None"

    def run(
        input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override=None
    ):
        """The mean of each window; padding counts unless count_include_pad is False.

        Example:
            >>> facula.nn.functional.avg_pool3d(facula.arange(8.0).reshape(1, 2, 2, 2), 2)
            tensor([[[[3.5000]]]])
        """
        if divisor_override == 0:
            fail(
                RuntimeError,
                f"avg_pool{n}d",
                "divisor must be not zero",
                0,
                hint="leave it out to divide by the window's size",
            )
        steps, count = _strides(stride, kernel_size), divisor_override or 0
        return F._avg_pool(input, kernel_size, steps, padding, ceil_mode, count_include_pad, count)

    composite(
        f"avg_pool{n}d(Tensor input, int[{n}] kernel_size, int[{n}]? stride=None, int[{n}] "
        f"padding=0, bool ceil_mode=False, "
        f"bool count_include_pad=True{divisor}) -> Tensor",
        file_arguments=_SELF,
        names=(f"nn.functional.avg_pool{n}d", *((f"avg_pool{n}d",) if n == 1 else ())),
        home=f"_C._nn.avg_pool{n}d" if n > 1 else "",
        autocast=_POLICY[n],
        quantizers=_QUANTIZERS[n],
    )(run)


def _define_power(n: int) -> None:
    @composite(
        f"lp_pool{n}d(Tensor input, Number norm_type, int[{n}] kernel_size, int[{n}]? stride=None, "
        f"bool ceil_mode=False) "
        "-> Tensor",
        names=(f"nn.functional.lp_pool{n}d",),
        inlined=True,
    )
    def power(input, norm_type, kernel_size, stride, ceil_mode):
        """The power mean without division: `(sum of x ** p) ** (1 / p)` of each window.

        Example:
            >>> facula.nn.functional.lp_pool3d(facula.ones(1, 1, 2, 2, 2), 2, 2)
            tensor([[[[[2.8284]]]]])
        """
        count = math.prod(kernel_size)
        mean = F._avg_pool(
            input.pow(norm_type),
            kernel_size,
            _strides(stride, kernel_size),
            [0] * n,
            ceil_mode,
            True,
            0,
        )
        return (mean.sign() * mean.abs().relu()).mul(count).pow(1.0 / norm_type)


def _define_unpool(n: int) -> None:
    @composite(
        f"max_unpool{n}d(Tensor input, Tensor indices, int[{n}] kernel_size, int[{n}]? "
        f"stride=None, int[{n}] padding=0, "
        "int[]? output_size=None) -> Tensor",
        file_arguments=_SELF,
        names=(f"nn.functional.max_unpool{n}d",),
        file_form="unpooled_to_size",
        inlined=n == 1,
        autocast=None if n == 1 else "cpu float32",
    )
    def unpool(input, indices, kernel_size, stride, padding, output_size):
        """The inverse of max pooling: maxima at their positions, zero elsewhere.

        Example:
            >>> input = facula.tensor([[[1.0, 2.0], [3.0, 4.0]]])
            >>> pooled, indices = facula.nn.functional.max_pool2d(input, 2, return_indices=True)
            >>> facula.nn.functional.max_unpool2d(pooled, indices, 2)
            tensor([[[0., 0.],
                     [0., 4.]]])
        """
        op = f"max_unpool{n}d"
        if input.dim() not in (n + 1, n + 2):
            required = f"Input to {op} should be a {n + 1}d or {n + 2}d Tensor"
            hint = "shapes are [N, C, *spatial] or [C, *spatial]"
            fail(RuntimeError, op, required, f"{input.dim()} dimensions", hint)
        if len(kernel_size) != n or len(padding) != n or (stride and len(stride) != n):
            given = [list(v) for v in (kernel_size, stride or kernel_size, padding)]
            hint = "kernel_size=2 is a window of 2 along each dimension"
            fail(RuntimeError, op, f"{n} ints or a single one were required", given, hint)
        steps = _strides(stride, kernel_size)
        shape = input.shape[-n:]
        usual = [
            (s - 1) * t + k - 2 * p
            for s, t, k, p in zip(shape, steps, kernel_size, padding, strict=True)
        ]
        sizes = usual if output_size is None else list(output_size)[-n:]
        _check_unpool(op, input, indices, sizes, usual, steps, output_size is not None)
        if is_traced(indices):
            indices = checked(indices, 0, math.prod(sizes), op, "Found an invalid max index")
        return F._plane_scatter(input, indices, sizes)


def _check_positions(op: str, input: core.Tensor, indices: core.Tensor) -> None:
    if indices.dtype is not core.int64:
        fail(
            RuntimeError,
            op,
            "elements in indices should be type int64",
            indices.dtype,
            hint=cast_hint("indices", core.int64),
        )
    if tuple(indices.shape) != tuple(input.shape):
        fail(
            RuntimeError,
            op,
            "Expected shape of indices to be same as that of the input tensor",
            f"{list(indices.shape)} and {list(input.shape)}",
            hint="max pooling with return_indices=True gives both",
        )


def _check_unpool(
    op: str,
    input: core.Tensor,
    indices: core.Tensor,
    sizes: list[int],
    usual: list[int],
    steps: list[int],
    given: bool,
) -> None:
    _check_positions(op, input, indices)
    if len(sizes) != len(usual):
        fail(
            ValueError,
            op,
            f"output_size should be a sequence containing {len(usual)} elements, or two more",
            sizes,
            hint="leave output_size out for the usual one",
        )
    for size, default, step in zip(sizes, usual, steps, strict=True):
        if given and not default - step < size < default + step:
            fail(
                ValueError,
                op,
                f"invalid output_size {sizes}: each must lie within a stride of {usual}",
                sizes,
                hint="leave output_size out for the usual one",
            )
    indices = innermost(indices)
    if indices.device.type == "meta" or not indices.numel() or is_traced(indices):
        return
    low, high, limit = indices.min().item(), indices.max().item(), math.prod(sizes)
    if low < 0 or high >= limit:
        fail(
            RuntimeError,
            op,
            f"Found an invalid max index: positions in [0, {limit}) were required",
            high if high >= limit else low,
            hint="pass the output_size of what was pooled",
        )


for _n in (1, 2, 3):
    _define_max(_n)
    _define_adaptive(_n)
    _define_average(_n)
    _define_power(_n)
    _define_unpool(_n)
