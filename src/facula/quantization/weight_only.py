"""Products with integer weights: `_int_mm`, and weights of 8 and 4 bits for activations that stay numbers.

Takes: matrices. Gives: their products. Keeps true: `_int_mm` is exact in 32 bits; of weights only, each group of a
row has its scale (and zero), by which the integers stand for numbers; groups divide the rows.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.core.errors import fail, product_hint
from facula.ops.matmul.products import _gemm_numbers
from facula.ops.table.registry import F, composite, operator

#: rows of activations for which weights become numbers in registers; for more they do so in memory, once
_FEW = 32
#: dtypes that have kernels
_DTYPES = (core.float32, core.bfloat16, core.float16)


@operator(
    "quantization::_int_mm(Tensor self, Tensor mat2) -> Tensor", names=("_int_mm",), out=False
)
class _int_mm:
    """The product of two matrices of bytes in 32 bits: the first signed or not, the second signed."""

    def meta(self, mat2):
        op = "_int_mm"
        if self.dim() != 2 or mat2.dim() != 2:
            fail(
                RuntimeError,
                op,
                "Expected self and mat2 to be of dimension 2",
                f"{self.dim()} and {mat2.dim()}",
                hint="take one matrix of a batch at a time",
            )
        if self.dtype not in (core.int8, core.uint8) or mat2.dtype is not core.int8:
            fail(
                RuntimeError,
                op,
                "Expected self dtype to be of type int8 or uint8, and mat2 dtype to be int8",
                f"{self.dtype} and {mat2.dtype}",
                hint="convert both with .to(facula.int8)",
            )
        if self.shape[1] != mat2.shape[0]:
            fail(
                RuntimeError,
                op,
                f"self.size(1) needs to match mat2.size(0): {self.shape[1]} was required",
                mat2.shape[0],
                hint=product_hint(self.shape, mat2.shape),
            )
        return core.empty((self.shape[0], mat2.shape[1]), dtype=core.int32, device=self.device)

    def cpu(out, self, mat2):
        if not out.numel():
            return
        if not self.shape[1]:
            out.zero_()
            return
        right = mat2.contiguous()
        left = self
        if self.dtype is core.uint8:  # x = (x - 128) + 128, of which the former is a signed byte
            left = F.bitwise_xor(self, 128).view(core.int8)
        core.kernel("gemm:i8")((out, left, right, None), _gemm_numbers(out, left, right), (1, 0))
        if self.dtype is core.uint8:
            out.add_(right.sum(0, dtype=core.int32), alpha=128)


def _check_rows(op: str, x: core.Tensor, inner: int) -> None:
    if x.dim() != 2 or x.shape[1] != inner or not x.is_floating_point():
        fail(
            RuntimeError,
            op,
            f"a matrix of numbers with {inner} columns was required",
            f"{x.dtype}, {list(x.shape)}",
            hint="the second dimension of x is that of the weight",
        )


@operator(
    "quantization::_weight_int8pack_mm(Tensor self, Tensor mat2, Tensor scales) -> Tensor",
    names=("_weight_int8pack_mm",),
    out=False,
)
class _weight_int8pack_mm:
    """``x @ w.T`` of a weight [out, in] of signed bytes, each row times its scale."""

    def meta(self, mat2, scales):
        op = "_weight_int8pack_mm"
        if mat2.dtype is not core.int8 or mat2.dim() != 2:
            fail(
                RuntimeError,
                op,
                "expect B to be int8 2-D tensor",
                f"{mat2.dtype}, {list(mat2.shape)}",
                hint="weight.to(facula.int8)",
            )
        _check_rows(op, self, mat2.shape[1])
        if scales.dim() != 1 or scales.shape[0] != mat2.shape[0]:
            fail(
                RuntimeError,
                op,
                f"expect scales to be 1d tensor with size {mat2.shape[0]}",
                list(scales.shape),
                hint="give a scale for each row of the weight",
            )
        shape = (self.shape[0], mat2.shape[0])
        return core.empty(shape, dtype=self.dtype, device=self.device)

    def cpu(out, self, mat2, scales):
        rows, (results, inner) = self.shape[0], mat2.shape
        if not out.numel():
            return
        if rows > _FEW or self.dtype not in _DTYPES:
            weight = mat2.to(core.float32).t()
            out.copy_(F.matmul(self.to(core.float32), weight) * scales.to(core.float32))
            return
        core.kernel(f"weight_int8:{self.dtype.code}")(
            (out, self.contiguous(), mat2.contiguous(), scales.to(self.dtype).contiguous()),
            (rows, results, inner),
        )


@composite(
    "quantization::_convert_weight_to_int4pack_for_cpu(Tensor self, int innerKTiles) -> Tensor",
    names=("_convert_weight_to_int4pack_for_cpu",),
    out=False,
)
def _convert_weight_to_int4pack_for_cpu(self, innerKTiles):  # noqa: N803 - PyTorch's name
    """Integers from 0 to 15, [out, in], two to a byte."""
    op = "_convert_weight_to_int4pack_for_cpu"
    if self.dtype is not core.int32 or self.dim() != 2 or self.shape[1] % 2:
        fail(
            RuntimeError,
            op,
            "a weight of dtype int32 with an even number of columns was required",
            f"{self.dtype}, {list(self.shape)}",
            hint="pad the rows with zeros",
        )
    low, high = self[:, 0::2], self[:, 1::2]
    return (low | (high << 4)).to(core.uint8)


@operator(
    "quantization::_weight_int4pack_mm_for_cpu(Tensor self, Tensor mat2, int qGroupSize, "
    "Tensor qScaleAndZeros) -> Tensor",
    names=("_weight_int4pack_mm_for_cpu",),
    out=False,
)
class _weight_int4pack_mm_for_cpu:
    """``x @ w.T`` of a packed weight: in each group of a row ``(level - 8) * scale + zero``."""

    def meta(self, mat2, qGroupSize, qScaleAndZeros):  # noqa: N803 - PyTorch's names
        op = "_weight_int4pack_mm_for_cpu"
        if mat2.dtype is not core.uint8 or mat2.dim() != 2:
            fail(
                RuntimeError,
                op,
                "a weight of dtype uint8 with two dimensions was required",
                f"{mat2.dtype}, {list(mat2.shape)}",
                hint="_convert_weight_to_int4pack_for_cpu(levels, 1) makes one",
            )
        inner = mat2.shape[1] * 2
        _check_rows(op, self, inner)
        if qGroupSize not in (32, 64, 128, 256) or inner % qGroupSize:
            fail(
                RuntimeError,
                op,
                "expect qGroupSize to be 32, 64, 128 or 256, and to divide the columns",
                f"{qGroupSize} of {inner}",
                hint="pad the weight with zeros, or take a smaller group",
            )
        groups = inner // qGroupSize
        if list(qScaleAndZeros.shape) != [groups, mat2.shape[0], 2]:
            fail(
                RuntimeError,
                op,
                f"expect qScaleAndZeros to be 3d tensor with sizes {[groups, mat2.shape[0], 2]}",
                list(qScaleAndZeros.shape),
                hint="a scale and a zero for each group of each row",
            )
        shape = (self.shape[0], mat2.shape[0])
        return core.empty(shape, dtype=self.dtype, device=self.device)

    def cpu(out, self, mat2, qGroupSize, qScaleAndZeros):  # noqa: N803
        rows, results, inner = self.shape[0], mat2.shape[0], mat2.shape[1] * 2
        if not out.numel():
            return
        if rows > _FEW or self.dtype not in _DTYPES:
            weight = _unpacked(mat2, qGroupSize, qScaleAndZeros)
            out.copy_(F.matmul(self.to(core.float32), weight.t()))
            return
        parameters = qScaleAndZeros.to(self.dtype).contiguous()
        core.kernel(f"weight_int4:{self.dtype.code}")(
            (out, self.contiguous(), mat2.contiguous(), parameters),
            (rows, results, inner, qGroupSize),
        )


def _unpacked(packed: core.Tensor, group: int, parameters: core.Tensor) -> Any:
    """The matrix that half bytes stand for."""
    levels = F.stack([packed & 15, packed >> 4], -1).reshape(packed.shape[0], -1, group)
    scale, zero = parameters.to(core.float32).permute(2, 1, 0).unsqueeze(-1).unbind(0)
    return ((levels.to(core.float32) - 8) * scale + zero).reshape(packed.shape[0], -1)
