"""Matrix products.

Takes and gives what `onnx.table` says.
Keeps true: whole numbers are multiplied exactly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from facula.onnx.table import Call, translation

if TYPE_CHECKING:
    from facula.onnx.graph import Value


@translation("linear")
def linear(call: Call, x: Value, weight: Value, bias: Value) -> Any:
    """x @ w.T + b."""
    if x.rank == 2 and weight.rank == 2 and call.dtype.is_floating_point:
        if bias is None or bias.rank == 1:
            return call.op("Gemm", x, weight, bias, transB=1)
    turned = call.graph.transpose(weight, list(range(weight.rank))[::-1])
    product = call.op("MatMul", x, turned)
    return product if bias is None else call.op("Add", product, bias)


@translation("mm")
def mm(call: Call, x: Value, y: Value) -> Any:
    """The product of two matrices."""
    return call.op("MatMul", x, y)


@translation("bmm")
def bmm(call: Call, x: Value, y: Value) -> Any:
    """The products of matrices of two batches."""
    return call.op("MatMul", x, y)


@translation("addmm")
def addmm(call: Call, bias: Value, x: Value, y: Value, beta: Any, alpha: Any) -> Any:
    """beta * bias + alpha * x @ y."""
    if call.dtype.is_floating_point and beta != 0:
        return call.op("Gemm", x, y, bias, alpha=float(alpha), beta=float(beta))
    product = call.op("MatMul", x, y)
    product = product if alpha == 1 else call.op("Mul", product, alpha)
    if beta == 0:
        return product
    return call.op("Add", product, bias if beta == 1 else call.op("Mul", bias, beta))
