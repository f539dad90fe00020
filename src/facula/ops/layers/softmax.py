"""Softmax, its logarithm and its relatives.

Takes floating-point tensors; normalises along one dimension. Keeps true: exponentials are shifted
by the largest value, so nothing overflows; half precision is computed in f32; gradients come from
fused kernels that are operators themselves, so that they can be differentiated again.
"""

from __future__ import annotations

import warnings
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.reduce import launch
from facula.ops.reduce.launch import wrap_dim
from facula.ops.table.registry import F, composite, operator


def _check(op: str, self: core.Tensor, dim: int, dtype: core.dtype) -> Any:
    wrap_dim(op, dim, self.dim())
    kind = dtype if dtype is not None else self.dtype
    if kind.code not in launch.FLOATING:
        fail(
            NotImplementedError,
            op,
            f'a floating-point dtype ("{op}" not implemented for this dtype)',
            kind,
            f"name one: {op}(x, dim, dtype=facula.float32)",
        )
    return core.empty(self.shape, dtype=kind, device=self.device)


def _run(kernel: str, out: core.Tensor, inputs: tuple[Any, ...], dim: int) -> None:
    d = wrap_dim(kernel, dim, out.dim())
    if not out.numel():  # its rows may be many all the same
        return
    contiguous = tuple(x.contiguous() for x in inputs)
    core.kernel(f"{kernel}:{out.dtype.code}")((out, *contiguous), (*launch.along(out, d), 0, 0))


_ARGUMENTS = "Tensor self, int dim, dtype? dtype=None"


@operator(
    f"softmax({_ARGUMENTS}) -> Tensor",
    names=("softmax", "Tensor.softmax", "special.softmax"),
    overload="int",
    autocast="accelerator float32",
    quantizers={"fx": "own", "script": ""},
)
class Softmax:
    """exp(x) / sum(exp(x)) along `dim`."""

    shards = "along"

    vmap = "dims"

    fast = "rows"

    def meta(self, dim, dtype):
        return _check("softmax", self, dim, dtype)

    def cpu(out, self, dim, dtype):
        _run("softmax", out, (self.to(out.dtype),), dim)

    def backward(grad, result, self_meta, dim):
        return F.softmax_backward(grad, result, dim).to(self_meta.dtype)

    def samples(S):
        yield (S(3, 4), 1), {}
        yield (S(2, 3, 4), 1), {}

    def errors(S):
        yield (S(3), 2), {}, IndexError, "Dimension out of range"


@operator("softmax_backward(Tensor grad, Tensor output, int dim) -> Tensor", names=(), out=False)
class SoftmaxBackward:
    """output * (grad - sum(grad * output))."""

    shards = "along 1 2 2"

    vmap = "dims"

    def meta(grad, output, dim):
        return core.empty(output.shape, dtype=output.dtype, device=output.device)

    def cpu(out, grad, output, dim):
        _run("softmax.backward", out, (grad.to(out.dtype), output), dim)

    def backward(grads, grad, output, dim):
        second = grads[0]
        to_grad = F.softmax_backward(second, output, dim)
        by_grad = (output * grad).sum(dim, True) * second
        to_output = grad * second - by_grad - grad * (output * second).sum(dim, True)
        return to_grad, to_output

    def samples(S):
        yield (S(3, 4), S(3, 4), 1), {}


@operator(
    f"log_softmax({_ARGUMENTS}) -> Tensor",
    names=("log_softmax", "Tensor.log_softmax", "special.log_softmax"),
    overload="int",
    autocast="accelerator float32",
)
class LogSoftmax:
    """x - log(sum(exp(x))) along `dim`."""

    shards = "along"

    vmap = "dims"

    fast = "rows"

    def meta(self, dim, dtype):
        return _check("log_softmax", self, dim, dtype)

    def cpu(out, self, dim, dtype):
        _run("log_softmax", out, (self.to(out.dtype),), dim)

    def backward(grad, result, self_meta, dim):
        return F.log_softmax_backward(grad, result, dim).to(self_meta.dtype)

    def samples(S):
        yield (S(3, 4), 1), {}
        yield (S(2, 3, 4), 1), {}


@operator(
    "log_softmax_backward(Tensor grad, Tensor output, int dim) -> Tensor", names=(), out=False
)
class LogSoftmaxBackward:
    """grad - exp(output) * sum(grad)."""

    shards = "along 1 2 2"

    vmap = "dims"

    def meta(grad, output, dim):
        return core.empty(output.shape, dtype=output.dtype, device=output.device)

    def cpu(out, grad, output, dim):
        _run("log_softmax.backward", out, (grad.to(out.dtype), output), dim)

    def backward(grads, grad, output, dim):
        second, probability = grads[0], output.exp()
        to_grad = second - (second * probability).sum(dim, True)
        return to_grad, -grad.sum(dim, True) * probability * second

    def samples(S):
        yield (S(3, 4), S(3, 4), 1), {}


def _implicit_dim(op: str, ndim: int) -> int:
    """The dimension that PyTorch takes when none is named."""
    core.unkept()  # each call warns
    warnings.warn(
        f"Implicit dimension choice for {op} has been deprecated: name dim=", stacklevel=4
    )
    return 0 if ndim in (0, 1, 3) else 1


_FUNCTIONAL = "Tensor input, int? dim=None, int _stacklevel=3, dtype? dtype=None"


@composite(
    f"functional_softmax({_FUNCTIONAL}) -> Tensor", names=("nn.functional.softmax",), out=False
)
def functional_softmax(input, dim, _stacklevel, dtype):
    """exp(x) / sum(exp(x)) along `dim`.

    Example:
        >>> facula.nn.functional.softmax(facula.tensor([0.0, 1.0]), dim=0)
        tensor([0.2689, 0.7311])
    """
    if dim is None:
        dim = _implicit_dim("softmax", input.dim())
    return F.softmax(input, dim, dtype)


@composite(
    f"functional_log_softmax({_FUNCTIONAL}) -> Tensor",
    names=("nn.functional.log_softmax",),
    out=False,
)
def functional_log_softmax(input, dim, _stacklevel, dtype):
    """x - log(sum(exp(x))) along `dim`.

    Example:
        >>> facula.nn.functional.log_softmax(facula.tensor([0.0, 1.0]), dim=0)
        tensor([-1.3133, -0.3133])
    """
    if dim is None:
        dim = _implicit_dim("log_softmax", input.dim())
    return F.log_softmax(input, dim, dtype)


@composite(
    f"softmin({_FUNCTIONAL}) -> Tensor",
    names=("nn.functional.softmin",),
    out=False,
    autocast="accelerator float32",
    inlined=True,
)
def softmin(input, dim, _stacklevel, dtype):
    """softmax of -x along `dim`.

    Example:
        >>> facula.nn.functional.softmin(facula.tensor([0.0, 1.0]), dim=0)
        tensor([0.7311, 0.2689])
    """
    if dim is None:
        dim = _implicit_dim("softmin", input.dim())
    return F.softmax(-input, dim, dtype)


@composite(
    "gumbel_softmax(Tensor logits, Operand tau=1, bool hard=False, float eps=1e-10, int dim=-1) -> "
    "Tensor",
    names=("nn.functional.gumbel_softmax",),
    out=False,
    inlined=True,
)
def gumbel_softmax(logits, tau, hard, eps, dim):
    """A sample from the Gumbel-Softmax distribution [Jang et al. 2017]; `hard` gives one-hot values
    whose gradient is that of the soft sample.

    Example:
        >>> facula.nn.functional.gumbel_softmax(facula.zeros(2, 3), hard=True).sum(-1)
        tensor([1., 1.])
    """
    noise = -F.empty_like(logits).exponential_().log()
    soft = F.softmax((logits + noise) / tau, dim)
    if not hard:
        return soft
    index = soft.argmax(dim, True)
    sharp = F.scatter(F.zeros_like(logits), dim, index, F.ones_like(soft))
    return sharp - soft.detach() + soft
