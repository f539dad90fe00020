"""Elementwise operators, products and rows, with the gradients that listeners of PyTorch's operators hear of.

Takes: gradients, and what PyTorch keeps for them. Gives: the fields `heard` of the operators, and PyTorch's operators
for gradients that have no other use here.
Keeps true: gradients are those of the definitions, each as one call that is told.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.ops.table import pointwise_rules
from facula.ops.table.heard import hear, hear_as, hear_gradient, tell
from facula.ops.table.registry import TABLE, F, composite

# ------------------------------------------------------------------ gradients without another use


def define(schema: str, doc: str, **fields: object) -> Any:
    """Decorator: a form of PyTorch's, below `ops.aten` only."""

    def enter(body: Any) -> Any:
        body.__doc__ = doc
        return composite(schema, names=(), out=False, **fields)(body)

    return enter


@define(
    "elu_backward(Tensor grad_output, Number alpha, Number scale, Number input_scale, bool is_result, "
    "Tensor self_or_result) -> Tensor",
    "The gradient of the argument of `elu`, times `scale`; its exponent was scaled by `input_scale`.",
)
def elu_backward(grad_output, alpha, scale, input_scale, is_result, self_or_result):
    x = self_or_result
    grown = (x + alpha * scale) if is_result else (x * input_scale).exp() * (alpha * scale)
    return F.where(x <= 0, grad_output * input_scale * grown, grad_output * scale)


def _define_shrink(name: str) -> None:
    @define(
        f"{name}_backward(Tensor grad_output, Tensor self, Number lambd) -> Tensor",
        f"The gradient of the argument of `{name}`.",
    )
    def gradient(grad_output, self, lambd):
        return pointwise_rules.pull(TABLE[name], (self, lambd), 0, grad_output)


for _name in ("hardshrink", "softshrink"):
    _define_shrink(_name)


@define(
    "log_sigmoid_forward(Tensor self) -> (Tensor, Tensor)",
    "`logsigmoid`, and what PyTorch keeps for its gradient: nothing here.",
)
def log_sigmoid_forward(self):
    return F.logsigmoid(self), self.new_empty((0,))


@define(
    "log_sigmoid_backward(Tensor grad_output, Tensor self, Tensor buffer) -> Tensor",
    "The gradient of the argument of `logsigmoid`.",
)
def log_sigmoid_backward(grad_output, self, buffer):
    return pointwise_rules.pull(TABLE["logsigmoid"], (self,), 0, grad_output)


@define(
    "glu_backward(Tensor grad_output, Tensor self, int dim) -> Tensor",
    "The gradient of the argument of `glu`.",
)
def glu_backward(grad_output, self, dim):
    value, gate = F.chunk(self, 2, dim)
    open_ = F.sigmoid(gate)
    slope = grad_output * value * open_ * (1 - open_)
    return F.cat([grad_output * open_, slope], dim)


# ------------------------------------------------------------------ elementwise


@hear_gradient("relu")
def _relu(grad, result):
    return tell(F.threshold_backward, grad, result, 0)


@hear_gradient("threshold")
def _threshold(grad, self, threshold):
    return tell(F.threshold_backward, grad, self, threshold)


@hear_gradient("gelu")
def _gelu(grad, self, approximate):
    return tell(F.gelu_backward, grad, self, approximate=approximate)


def _of_argument(name: str) -> None:
    gradient = getattr(F, f"{name}_backward")

    @hear_gradient(name)
    def formula(grad, self):
        return tell(gradient, grad, self)


for _name in ("silu", "mish", "hardswish", "hardsigmoid"):
    _of_argument(_name)


def _of_result(name: str) -> None:
    gradient = getattr(F, f"{name}_backward")

    @hear_gradient(name)
    def formula(grad, result):
        return tell(gradient, grad, result)


for _name in ("sigmoid", "tanh"):
    _of_result(_name)


@hear_gradient("hardtanh")
def _hardtanh(grad, self, min_val, max_val):
    return tell(F.hardtanh_backward, grad, self, min_val, max_val)


@hear_gradient("leaky_relu")
def _leaky_relu(grad, self, negative_slope):
    return tell(F.leaky_relu_backward, grad, self, negative_slope, False)


@hear_gradient("elu")
def _elu(grad, self, alpha):
    return tell(F.elu_backward, grad, alpha, 1, 1, False, self)


@hear_gradient("softplus")
def _softplus(grad, self, beta, threshold):
    return tell(F.softplus_backward, grad, self, beta, threshold)


@hear_gradient("hardshrink")
def _hardshrink(grad, self, lambd):
    return tell(F.hardshrink_backward, grad, self, lambd)


@hear_gradient("softshrink")
def _softshrink(grad, self, lambd):
    return tell(F.softshrink_backward, grad, self, lambd)


@hear_gradient("glu")
def _glu(grad, self, dim):
    return tell(F.glu_backward, grad, self, dim)


def _log_sigmoid_gradient(grads: Any, self: object, result_1: object) -> Any:
    return tell(F.log_sigmoid_backward, grads[0], self, result_1)


@hear("logsigmoid")
def _logsigmoid(self):
    return tell(F.log_sigmoid_forward, self, backward=_log_sigmoid_gradient)[0]


@hear("softsign")
def _softsign(self):
    return self / (1 + self.abs())


@hear("tanhshrink")
def _tanhshrink(self):
    return self - self.tanh()


def _power_gradient(grad: Any, self: Any, exponent: Any) -> Any:
    if exponent == 0:
        return F.zeros_like(grad), None
    return grad * (exponent * self.pow(exponent - 1)), None


@hear("square")
def _square(self):
    return tell(F.pow, self, 2, backward=_power_gradient)


# ------------------------------------------------------------------ rows


def _softmax_gradient(grad: object, self_meta: Any, result: object, dim: object) -> Any:
    return tell(F._softmax_backward_data, grad, result, dim, self_meta.dtype)


def _log_softmax_gradient(grad: object, self_meta: Any, result: object, dim: object) -> Any:
    return tell(F._log_softmax_backward_data, grad, result, dim, self_meta.dtype)


def _rows(name: str, gradient: Any) -> None:
    form = getattr(F, f"_{name}")

    @hear(name)
    def heard(*given):
        self, dim, *rest = given
        dtype = next((x for x in rest if isinstance(x, core.dtype)), None)
        x = self if dtype is None else self.to(dtype)
        return tell(form, x, dim, False, backward=gradient)


_rows("softmax", _softmax_gradient)
_rows("log_softmax", _log_softmax_gradient)


# ------------------------------------------------------------------ products


def _by_columns(x: Any) -> bool:
    """Whether a matrix lies in memory column by column."""
    return tuple(x.stride()) == (1, x.shape[0]) and x.shape[0] > 1


def _to_left(grad: Any, left: object, right: Any) -> Any:
    """The gradient of the left factor, in the order of its memory."""
    if _by_columns(left):
        return right.mm(grad.t()).t()
    return grad.mm(right.t())


def _to_right(grad: Any, left: Any, right: object) -> Any:
    """The gradient of the right factor, in the order of its memory."""
    if _by_columns(right):
        return grad.t().mm(left).t()
    return left.t().mm(grad)


@hear_gradient("mm")
def _mm(grad, self, mat2, needs):
    to_right = _to_right(grad, self, mat2) if needs[1] else None
    return _to_left(grad, self, mat2) if needs[0] else None, to_right


@hear_gradient("addmm")
def _addmm(grad, self_meta, mat1, mat2, beta, alpha, needs):
    scaled = grad if alpha == 1 else grad * alpha
    first = _to_left(scaled, mat1, mat2) if needs[1] else None
    second = _to_right(scaled, mat1, mat2) if needs[2] else None
    to_self = None
    if needs[0]:
        to_self = F.sum_to_size(grad if beta == 1 else grad * beta, self_meta.shape)
    return to_self, first, second


@hear("linear")
def _linear(input, weight, bias):
    dims = input.dim()
    if weight.dim() != 2:
        result = F.matmul(input, weight.t())
        return result if bias is None else result + bias
    if bias is not None and dims == 2:
        return F.addmm(bias, input, weight.t())
    if bias is not None and bias.dim() == 1 and input.is_contiguous():
        rows = input.view((-1, input.shape[-1])) if dims else input
        return F.addmm(bias, rows, weight.t()).view((*input.shape[:-1], weight.shape[0]))
    result = F.matmul(input, weight.t())
    return result if bias is None else result + bias


def _mv_gradient(grad: Any, self: Any, vec: Any, needs: Any) -> Any:
    first = grad.unsqueeze(1) * vec.unsqueeze(0) if needs[0] else None
    return first, F.mv(self.t(), grad) if needs[1] else None


@hear("mv")
def _mv(self, vec):
    return tell(F.mv, self, vec, backward=_mv_gradient)


hear_as("vector_norm", "linalg_vector_norm.default")


# ------------------------------------------------------------------ elements that move


def _define_movement(name: str, gradient: Any) -> None:
    operator = getattr(F, name)

    @hear(name)
    def heard(*bound):
        return tell(operator, *bound, backward=gradient)


def _to_shuffled(grad: object, upscale_factor: object) -> Any:
    return F.pixel_unshuffle(grad, upscale_factor)


def _to_unshuffled(grad: object, downscale_factor: object) -> Any:
    return F.pixel_shuffle(grad, downscale_factor)


def _to_mixed(grad: object, self_meta: Any, groups: Any) -> Any:
    return F.channel_shuffle(grad, self_meta.shape[1] // groups)


for _name, _gradient in (
    ("pixel_shuffle", _to_shuffled), ("pixel_unshuffle", _to_unshuffled), ("channel_shuffle", _to_mixed),
):  # fmt: skip
    _define_movement(_name, _gradient)
