"""Quantized linear layers: `ops.quantized.linear` and its kin, and their packed parameters.

Takes: activations as bytes (or numbers, of dynamic forms), weights as signed bytes, biases as numbers. Gives: bytes, or
numbers. Keeps true: a packed parameter keeps weight and bias as they were given, and what products need beside them;
dynamic forms choose scale and zero point by each input's range.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.table.registry import F, composite
from facula.quantization import create, engines, products
from facula.quantization.create import quantize_per_tensor, reduced
from facula.quantization.ranges import _saturate_weight_to_fp16
from facula.quantization.tensor import QuantizedTensor

__all__ = ["LinearPackedParams"]


class LinearPackedParams:
    """A weight [out, in] and a bias, and what products with them need."""

    #: graphs hold it as it is; attributes that say whether it is still the same
    _graph_constant = ("_bias._version", "engine")

    def __init__(self, weight: QuantizedTensor, bias: core.Tensor | None, engine: str) -> None:
        self._weight, self._bias, self.engine = weight, bias, engine
        scales, zeros = products.channels_of("quantized::linear_prepack", weight)
        self.weights = products.Weights(weight._integers, scales, zeros, bias)

    def unpack(self) -> tuple[Any, Any]:
        """The weight and the bias."""
        return self._weight, self._bias

    def weight(self) -> Any:
        """The weight."""
        return self._weight

    def bias(self) -> Any:
        """The bias, or None."""
        return self._bias

    def _method_names(self) -> list[str]:
        return ["unpack", "__getstate__", "__setstate__"]

    def __getstate__(self) -> Any:
        return (self._weight, self._bias, self.engine)

    def __setstate__(self, state: Any) -> None:
        weight, bias, engine = state
        vars(self).update(vars(linear_prepack(weight, bias)))  # which checks them
        self.engine = engines.known(engine)

    def __deepcopy__(self, memo: Any) -> LinearPackedParams:
        bias = None if self._bias is None else self._bias.detach().clone()
        return LinearPackedParams(self._weight.clone(), bias, self.engine)


class LinearPackedParamsFp16:
    """A weight rounded to 16-bit floats, and a bias."""

    def __init__(self, weight: Any, bias: Any) -> None:
        self._weight, self._bias = weight.detach().half().float(), bias

    def unpack(self) -> tuple[Any, Any]:
        """The weight (in 32 bits again) and the bias."""
        return self._weight, self._bias

    weight, bias = (lambda self: self._weight), (lambda self: self._bias)

    def __getstate__(self) -> Any:
        return self._weight, self._bias

    def __setstate__(self, state: Any) -> None:
        vars(self).update(vars(linear_prepack_fp16(*state)))


def _engine() -> str:
    return engines.engine


def _checked(op: str, packed: LinearPackedParams) -> LinearPackedParams:
    """Parameters whose weights are integers."""
    maker = "linear_prepack(weight, bias)"
    return engines.checked_packed(op, packed, (LinearPackedParams,), maker)


def _halves(op: str, packed: Any) -> LinearPackedParamsFp16:
    """Parameters whose weights were rounded to 16-bit floats."""
    maker = "linear_prepack_fp16(weight, bias)"
    return engines.checked_packed(op, packed, (LinearPackedParamsFp16,), maker)


def _check_engine(op: str, packed: LinearPackedParams) -> None:
    """Parameters of qnnpack are no others' in PyTorch; the others' are each other's."""
    _checked(op, packed)
    engine = packed.engine
    if (engine == "qnnpack") != (_engine() == "qnnpack"):
        fail(
            RuntimeError,
            op,
            f"parameters packed for the engine {_engine()} were required",
            engine,
            hint="set backends.quantized.engine before packing, and leave it so",
        )


@composite(
    "quantized::linear_prepack(Tensor W, Tensor? B=None) -> any", names=(), out=False, keeps=False
)
def linear_prepack(W, B):  # noqa: N803 - PyTorch's names
    """Parameters for `linear`: a weight of dtype qint8, quantized as a whole or by rows."""
    op = "quantized::linear_prepack"
    if not isinstance(W, QuantizedTensor) or W.dtype is not core.qint8:
        fail(
            RuntimeError,
            op,
            "The weight scalar type must be qint8",
            W.dtype,
            hint="quantize_per_channel(weight, scales, zero_points, 0, facula.qint8) makes one",
        )
    if W.dim() != 2:
        fail(
            RuntimeError,
            op,
            "The weight tensor for quantized::linear_prepack should be 2-dimensional",
            list(W.shape),
            hint="the weight of a linear layer is [out, in]",
        )
    if B is not None and (B.dim() != 1 or B.shape[0] != W.shape[0]):
        fail(
            RuntimeError,
            op,
            f"bias should have {W.shape[0]} elements: 'weight' and 'bias' must match",
            list(B.shape),
            hint="a bias has a number for each row of the weight",
        )
    return LinearPackedParams(W, B, _engine())


@composite("quantized::linear_unpack(any W_prepack) -> any", names=(), out=False, keeps=False)
def linear_unpack(W_prepack):  # noqa: N803
    """Weight and bias of packed parameters."""
    return _checked("quantized::linear_unpack", W_prepack).unpack()


@composite(
    "quantized::linear_prepack_fp16(Tensor W, Tensor? B=None) -> any",
    names=(),
    out=False,
    keeps=False,
)
def linear_prepack_fp16(W, B):  # noqa: N803
    """Parameters for `linear_dynamic_fp16`: the weight is rounded to 16-bit floats."""
    if W.dim() != 2 or not W.is_floating_point():
        fail(
            RuntimeError,
            "quantized::linear_prepack_fp16",
            "a floating-point weight of two dimensions was required",
            f"{W.dtype}, {list(W.shape)}",
            hint="the weight of a linear layer is [out, in]",
        )
    return LinearPackedParamsFp16(_saturate_weight_to_fp16(W), B)


@composite("quantized::linear_unpack_fp16(any W_prepack) -> any", names=(), out=False, keeps=False)
def linear_unpack_fp16(W_prepack):  # noqa: N803
    """Weight and bias of packed parameters."""
    return _halves("quantized::linear_unpack_fp16", W_prepack).unpack()


def _rows(op: str, x: core.Tensor, inner: int) -> Any:
    """The rows of an input, whose last dimension has to be `inner`."""
    if not x.dim() or x.shape[-1] != inner:
        fail(
            RuntimeError,
            op,
            f"The number of rows in the packB should be equal to K: an input of {inner} columns "
            "was required",
            list(x.shape),
            hint="the last dimension of the input is the second one of the weight",
        )
    return x.reshape(-1, inner).contiguous()


def _linear(op: str, x: Any, packed: Any, scale: Any, zero: Any, low: int | None = None) -> Any:
    _check_engine(op, packed)
    integers, zero_point = products.bytes_of(op, x)
    kind = x.dtype
    quantizer = products.checked_output(op, scale, zero, kind)
    weights = packed.weights
    rows = _rows(op, integers, weights.inner)
    low = quantizer.zero_point if low is not None else None
    given, size = (x.q_scale(), zero_point), (*x.shape[:-1], weights.results)
    made = weights.integers(rows, size, (), given, quantizer, kind, low)
    return products.quantized(made, kind, scale, zero)


_LINEAR = "(Tensor X, any W_prepack, float Y_scale_i, int Y_zero_point_i) -> Tensor"


@composite(f"quantized::linear{_LINEAR}", names=(), out=False, keeps=False)
def linear(X, W_prepack, Y_scale_i, Y_zero_point_i):  # noqa: N803
    """``X @ W.T + B`` as bytes."""
    return _linear("quantized::linear", X, W_prepack, Y_scale_i, Y_zero_point_i)


@composite(f"quantized::linear_relu{_LINEAR}", names=(), out=False, keeps=False)
def linear_relu(X, W_prepack, Y_scale_i, Y_zero_point_i):  # noqa: N803
    """``relu(X @ W.T + B)`` as bytes."""
    return _linear("quantized::linear_relu", X, W_prepack, Y_scale_i, Y_zero_point_i, 0)


def _numbers(rows: Any, weights: Any, scale: float, zero: int, relu: bool) -> Any:
    """The product of rows of bytes as numbers."""
    return weights.numbers(rows, (rows.shape[0], weights.results), (), (scale, zero), relu)


def _then(op: str, function: Any, x: Any, packed: Any, scale: float, zero: int) -> Any:
    """A function between the sums and the bytes."""
    _check_engine(op, packed)
    integers, zero_point = products.bytes_of(op, x)
    weights = packed.weights
    rows = _rows(op, integers, weights.inner)
    made = _numbers(rows, weights, x.q_scale(), zero_point, False)
    shape = (*x.shape[:-1], weights.results)
    return quantize_per_tensor(function(made).reshape(shape), scale, zero, x.dtype)


@composite(
    "quantized::linear_leaky_relu(Tensor X, any W_prepack, float Y_scale_i, int Y_zero_point_i, "
    "float negative_slope) -> Tensor",
    names=(),
    out=False,
    keeps=False,
)
def linear_leaky_relu(X, W_prepack, Y_scale_i, Y_zero_point_i, negative_slope):  # noqa: N803
    """``leaky_relu(X @ W.T + B)`` as bytes."""
    function = lambda y: F.leaky_relu(y, negative_slope)  # noqa: E731
    return _then("quantized::linear_leaky_relu", function, X, W_prepack, Y_scale_i, Y_zero_point_i)


@composite(f"quantized::linear_tanh{_LINEAR}", names=(), out=False, keeps=False)
def linear_tanh(X, W_prepack, Y_scale_i, Y_zero_point_i):  # noqa: N803
    """``tanh(X @ W.T + B)`` as bytes."""
    return _then("quantized::linear_tanh", F.tanh, X, W_prepack, Y_scale_i, Y_zero_point_i)


def _dynamic(op: str, x: core.Tensor, packed: Any, reduce_range: bool, relu: bool) -> Any:
    if isinstance(packed, LinearPackedParamsFp16):
        return _fp16(op, x, packed, relu)
    _check_engine(op, packed)
    if x.dtype is not core.float32:
        fail(
            RuntimeError,
            op,
            "an input of dtype float32 was required",
            x.dtype,
            hint="convert it with .float(); linear() takes quantized inputs",
        )
    x = x.detach()
    weights = packed.weights
    rows = _rows(op, x, weights.inner)
    size = (*x.shape[:-1], weights.results)
    if not rows.numel():
        return _numbers(rows.to(core.uint8), weights, 1.0, 0, relu).reshape(size)
    scale, zero = create.range_parameters(op, rows, reduce_range and reduced())
    # bytes rounded after the zero point was added, as the products of numbers have them in PyTorch
    integers = create.integers(rows, scale, zero, 0, True, core.uint8, 0, 255, True)
    return weights.numbers_of_range(integers, size, scale, zero, relu)


def _fp16(op: str, x: core.Tensor, packed: Any, relu: bool) -> Any:
    packed = _halves(op, packed)
    made = F.linear(x.detach(), packed._weight, packed._bias)
    return made.relu_() if relu else made


_DYNAMIC = "(Tensor X, any W_prepack, bool reduce_range=False) -> Tensor"


@composite(f"quantized::linear_dynamic{_DYNAMIC}", names=(), out=False, keeps=False)
def linear_dynamic(X, W_prepack, reduce_range):  # noqa: N803
    """``X @ W.T + B`` of numbers that are quantized on the way, by their range."""
    return _dynamic("quantized::linear_dynamic", X, W_prepack, reduce_range, False)


@composite(f"quantized::linear_relu_dynamic{_DYNAMIC}", names=(), out=False, keeps=False)
def linear_relu_dynamic(X, W_prepack, reduce_range):  # noqa: N803
    """``relu(X @ W.T + B)`` of the same."""
    return _dynamic("quantized::linear_relu_dynamic", X, W_prepack, reduce_range, True)


@composite(
    "quantized::linear_dynamic_fp16(Tensor X, any W_prepack) -> Tensor",
    names=(),
    out=False,
    keeps=False,
)
def linear_dynamic_fp16(X, W_prepack):  # noqa: N803
    """``X @ W.T + B`` with a weight that was rounded to 16-bit floats."""
    return _fp16("quantized::linear_dynamic_fp16", X, W_prepack, False)


@composite(
    "quantized::linear_relu_dynamic_fp16(Tensor X, any W_prepack) -> Tensor",
    names=(),
    out=False,
    keeps=False,
)
def linear_relu_dynamic_fp16(X, W_prepack):  # noqa: N803
    """``relu(X @ W.T + B)`` of the same."""
    return _fp16("quantized::linear_relu_dynamic_fp16", X, W_prepack, True)


@composite(
    "quantized::linear_with_input_q_dq_qweight_dq_output_fp32(Tensor X, float X_scale, "
    "int X_zero_point, any W_prepack) -> Tensor",
    names=(),
    out=False,
    keeps=False,
)
def linear_with_input_q_dq_qweight_dq_output_fp32(X, X_scale, X_zero_point, W_prepack):  # noqa: N803
    """Numbers quantized by given parameters, multiplied as integers, as numbers."""
    op = "quantized::linear_with_input_q_dq_qweight_dq_output_fp32"
    x = quantize_per_tensor(X.detach(), X_scale, X_zero_point, core.quint8)
    weights = _checked(op, W_prepack).weights
    rows = _rows(op, x._integers, weights.inner)
    made = _numbers(rows, weights, X_scale, X_zero_point, False)
    return made.reshape(*X.shape[:-1], weights.results)
