"""Quantized convolutions of one to three dimensions, and transposed ones, with their packed parameters.

Takes: activations as bytes, weights as signed bytes [out, in / groups, ...]. Gives: bytes, channels last in memory.
Keeps true: a convolution is a product of windows with the packed weight (`products.Weights`);
what lies outside of the image is the zero point. A transposed one is a convolution of the image with zeros between.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.table.registry import F, composite
from facula.ops.view import memory_order
from facula.quantization import engines, products
from facula.quantization.create import _extremes, choose_qparams, quantize_per_tensor, reduced
from facula.quantization.linear import _engine
from facula.quantization.tensor import PER_CHANNEL, QuantizedTensor

__all__ = ["ConvPackedParams"]


class ConvPackedParams:
    """A weight, a bias and the geometry, and what products with them need."""

    #: graphs hold it as it is; attributes that say whether it is still the same
    _graph_constant = ("_bias._version", "engine")
    #: of parameters of two extents, the first of which is 1: those of one extent, once somebody asked
    _narrow: ConvPackedParams

    def __init__(self, weight: Any, bias: Any, geometry: tuple[Any, ...], engine: str) -> None:
        self._weight, self._bias, self.engine = weight, bias, engine
        self._stride, self._padding, self._output_padding = map(list, geometry[:3])
        self._dilation, self._groups, self._transpose = list(geometry[3]), *geometry[4:]
        self._prepare()

    def _prepare(self) -> None:
        weight = self._weight._integers
        if self._transpose:
            weight = _untransposed(weight, self._groups)
            scales, zeros = _transposed_channels(self._weight, weight.shape[0])
        else:
            scales, zeros = products.channels_of("quantized::conv_prepack", self._weight)
        while weight.dim() < 5:
            weight = weight.unsqueeze(2)
        self.shape = tuple(weight.shape)
        self.scales = scales
        last = weight.permute(0, 2, 3, 4, 1).reshape(weight.shape[0], -1).contiguous()
        depthwise = weight.shape[1] == 1
        self.weights = products.Weights(last, scales, zeros, self._bias, self._groups, depthwise)

    def unpack(self) -> tuple[Any, Any]:
        """The weight and the bias."""
        return self._weight, self._bias

    def weight(self) -> Any:
        """The weight."""
        return self._weight

    def bias(self) -> Any:
        """The bias, or None."""
        return self._bias

    def stride(self) -> list[int]:
        """The step between windows."""
        return self._stride

    def padding(self) -> list[int]:
        """What is added on both sides."""
        return self._padding

    def output_padding(self) -> list[int]:
        """What is added on one side of a transposed convolution's result."""
        return self._output_padding

    def dilation(self) -> list[int]:
        """The step between the elements of a window."""
        return self._dilation

    def groups(self) -> int:
        """The number of groups."""
        return self._groups

    def transpose(self) -> bool:
        """Whether the convolution is transposed."""
        return self._transpose

    def _geometry(self) -> tuple[Any, ...]:
        lists = (self._stride, self._padding, self._output_padding, self._dilation)
        return (*lists, self._groups, self._transpose)

    def __getstate__(self) -> Any:
        return (self._weight, self._bias, self._geometry(), self.engine)

    def __setstate__(self, state: Any) -> None:
        weight, bias, geometry, engine = state
        *lists, groups, transpose = geometry
        op = "quantized::conv_prepack"
        made = _packed(
            op, weight, bias, len(lists[0]), lists, groups, bool(transpose)
        )  # which checks
        vars(self).update(vars(made))
        self.engine = engines.known(engine)

    def __deepcopy__(self, memo: Any) -> ConvPackedParams:
        bias = None if self._bias is None else self._bias.detach().clone()
        return ConvPackedParams(self._weight.clone(), bias, self._geometry(), self.engine)


def _untransposed(weight: core.Tensor, groups: int) -> Any:
    """[in, out / groups, ...] -> [out, in / groups, ...], turned round."""
    rows = weight.reshape(groups, weight.shape[0] // groups, *weight.shape[1:]).transpose(1, 2)
    rows = rows.reshape(-1, *rows.shape[2:])
    return rows.flip(tuple(range(2, rows.dim())))


def _transposed_channels(weight: core.Tensor, count: int) -> tuple[Any, Any]:
    quantizer = weight._quantizer
    if quantizer.scheme in PER_CHANNEL:
        fail(
            RuntimeError,
            "quantized::conv_transpose_prepack",
            "Per channel quantization for transposed conv not supported: a weight quantized as a "
            "whole was required",
            quantizer.scheme,
            hint="quantize the weight with quantize_per_tensor()",
        )
    scales = F.full((count,), quantizer.scale, dtype=core.float32)
    return scales, F.full((count,), int(quantizer.zero_point), dtype=core.int32)


# ------------------------------------------------------------------ packing


def _checked_weight(op: str, weight: core.Tensor, dims: int) -> None:
    if not isinstance(weight, QuantizedTensor) or weight.dtype is not core.qint8:
        fail(
            RuntimeError,
            op,
            "a weight of dtype qint8 was required",
            weight.dtype,
            hint="quantize_per_channel(weight, scales, zero_points, 0, facula.qint8) makes one",
        )
    if weight.dim() != dims + 2:
        fail(
            RuntimeError,
            op,
            f"Weights are expected to have {dims + 2} dimensions",
            list(weight.shape),
            hint="the weight of a convolution is [out, in / groups, sizes of the kernel]",
        )


def _packed(
    op: str, weight: Any, bias: Any, dims: int, lists: Any, groups: int, transpose: bool
) -> Any:
    _checked_weight(op, weight, dims)
    names = ("stride", "padding", "output_padding", "dilation")
    whole = []
    for name, values in zip(names, lists, strict=True):
        values = list(values)
        if len(values) != dims:
            fail(
                RuntimeError,
                op,
                f"{name} should contain {dims} elements for {dims}D convolution",
                values,
                hint=f"give a {name} for each dimension of the kernel",
            )
        whole.append(values)
    _check_geometry(op, weight, bias, whole, groups, transpose)
    geometry = (*whole, int(groups), transpose)
    return ConvPackedParams(weight, bias, geometry, _engine())


def _check_geometry(
    op: str, weight: core.Tensor, bias: core.Tensor, lists: Any, groups: int, transpose: bool
) -> None:
    names = ("stride", "padding", "output_padding", "dilation")
    for name, values, least in zip(names, lists, (1, 0, 0, 1), strict=True):
        if min(values) < least:
            fail(
                RuntimeError,
                op,
                f"{name} should be {'positive' if least else 'non-negative'}",
                values,
                hint=f"{least} is the least",
            )
    # of a transposed convolution the groups divide the first dimension too, which is the input's there
    if groups < 1 or weight.shape[0] % groups:
        fail(
            RuntimeError,
            op,
            f"groups that divide the first dimension of the weight, {weight.shape[0]}, were required",
            groups,
            hint="groups=1 connects each result with each input",
        )
    results = weight.shape[1] * groups if transpose else weight.shape[0]
    sizes = list(bias.shape) if isinstance(bias, core.Tensor) else type(bias).__name__
    if bias is not None and sizes != [results]:
        fail(
            RuntimeError,
            op,
            f"bias should have K elements: {results}",
            sizes,
            hint="a bias has a number for each channel of the result",
        )


def _define_packing(dims: int) -> None:
    for transpose in (False, True):
        kind = "conv_transpose" if transpose else "conv"
        op = f"quantized::{kind}{dims}d_prepack"
        more = "int[] output_padding, " if transpose else ""
        schema = (
            f"{op}(Tensor weight, Tensor? bias, int[] stride, int[] padding, {more}"
            "int[] dilation, int groups) -> any"
        )
        composite(schema, names=(), out=False, keeps=False)(_prepack(op, dims, transpose))
        for name in ("unpack", "stride", "padding", "output_padding", "dilation", "groups"):
            asked = f"quantized::{kind}{dims}d_{name}"
            schema = f"{asked}(any packed_weights) -> any"
            composite(schema, names=(), out=False, keeps=False)(_asking(asked, name))


def _prepack(op: str, dims: int, transpose: bool) -> Any:
    if transpose:

        def pack(weight, bias, stride, padding, output_padding, dilation, groups):  # type: ignore
            lists = (stride, padding, output_padding, dilation)
            return _packed(op, weight, bias, dims, lists, groups, True)
    else:

        def pack(weight, bias, stride, padding, dilation, groups):  # type: ignore
            lists = (stride, padding, [0] * dims, dilation)
            return _packed(op, weight, bias, dims, lists, groups, False)

    pack.__doc__ = "Parameters for the convolution: a weight of dtype qint8 and its geometry."
    return pack


def _asking(op: str, name: str) -> Any:
    def ask(packed_weights):  # type: ignore
        packed = _of_one_extent(op, packed_weights) if "1d" in op else packed_weights
        return getattr(_checked(op, packed), name)()

    ask.__doc__ = f"What packed parameters have as `{name}`."
    return ask


for _dims in (1, 2, 3):
    _define_packing(_dims)


def state_of(packed: ConvPackedParams) -> tuple[Any, ...]:
    """What a file keeps, as PyTorch has it: version, numbers and weight, bias; of one extent as of two."""
    lists, weight = packed._geometry()[:4], packed._weight
    if len(lists[0]) == 1:
        lists = tuple([fill, *values] for values, fill in zip(lists, (1, 0, 0, 1), strict=True))
        weight = weight.unsqueeze(2)
    stride, padding, output_padding, dilation = lists
    numbers = [
        len(stride),
        *stride,
        *padding,
        *dilation,
        *output_padding,
        packed._groups,
        int(packed._transpose),
    ]
    return "2", [core.tensor(numbers, dtype=core.int16), weight], [packed._bias]


def packed_of_state(*state: Any) -> ConvPackedParams:
    """The parameters of such a state, or of one of an older or newer version, checked like those of packing."""
    op = "quantized::conv_prepack"
    if isinstance(state[0], core.Tensor):  # the first version: each number is a tensor
        weight, bias, stride, padding, dilation, groups = state
        lists = [[int(n) for n in part] for part in (stride, padding, dilation)]
        numbers = [len(stride), *lists[0], *lists[1], *lists[2], *[0] * len(stride), int(groups), 0]
    elif state[0] == "2" and len(state[1]) == 2 and len(state[2]) == 1:
        numbers, weight, bias = state[1][0].tolist(), state[1][1], state[2][0]
    elif state[0] == 3 and len(state[2]) == 3 and state[2][1] is not None:
        numbers, (_, weight, bias) = state[1], state[2]
    else:
        numbers = []
    dims = numbers[0] if numbers else 0
    if dims not in (2, 3) or len(numbers) != 4 * dims + 3:
        fail(RuntimeError, op, "a state of version 1, 2 or 3 was required: the geometry, a weight, a bias", state[0],
             hint="the file is damaged, or of another version")  # fmt: skip
    stride, padding, dilation, more = (numbers[1 + i * dims : 1 + (i + 1) * dims] for i in range(4))
    lists = [stride, padding, more, dilation]
    return _packed(op, weight, bias, dims, lists, numbers[-2], bool(numbers[-1]))


def _of_one_extent(op: str, packed: Any) -> Any:
    """Parameters of two extents, the first of which is 1, as those of one: files have them so."""
    if not isinstance(packed, ConvPackedParams) or len(packed._stride) != 2:
        return packed
    if "_narrow" not in vars(packed):
        if packed._weight.shape[2] != 1:
            fail(RuntimeError, op, "parameters of a convolution of one extent were required",
                 list(packed._weight.shape), hint="conv1d_prepack() makes them")  # fmt: skip
        lists = [values[1:] for values in packed._geometry()[:4]]
        geometry = (*lists, packed._groups, packed._transpose)
        packed._narrow = ConvPackedParams(
            packed._weight.squeeze(2), packed._bias, geometry, packed.engine
        )
    return packed._narrow


# ------------------------------------------------------------------ computing


def _three(values: Any, fill: int) -> list[int]:
    return [fill] * (3 - len(values)) + list(values)


def _sizes(image: Any, packed: ConvPackedParams, stride: Any, padding: Any) -> list[int]:
    """The result's extent along each of three dimensions."""
    dilation, kernel = _three(packed._dilation, 1), packed.shape[2:]
    places = zip(image, padding, dilation, kernel, stride, strict=True)
    return [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, p, d, k, s in places]


def _between(x: core.Tensor, packed: ConvPackedParams, zero_point: int) -> Any:
    """The image of a transposed convolution with zeros between and around."""
    rank = x.dim() - 2
    parts = ((packed._stride, 1), (packed._padding, 0), (packed._output_padding, 0),
             (packed._dilation, 1))  # fmt: skip
    stride, padding, more, dilation = (_three(values, fill)[-rank:] for values, fill in parts)
    kernel = packed.shape[-rank:]
    room = [d * (k - 1) - p for d, k, p in zip(dilation, kernel, padding, strict=True)]
    size = [(n - 1) * s + 1 for n, s in zip(x.shape[2:], stride, strict=True)]
    full = [n + 2 * r + m for n, r, m in zip(size, room, more, strict=True)]
    if min(full) < 1:
        fail(
            RuntimeError,
            "quantized::conv_transpose",
            "a result with elements was required",
            full,
            hint="less padding, or a larger kernel",
        )
    made = memory_order.empty((*x.shape[:2], *full), x, True).fill_(zero_point)
    # where padding exceeds the kernel's reach, rows at the border fall away
    inner, skip = made, x
    for dim, (r, s, n) in enumerate(zip(room, stride, x.shape[2:], strict=True), 2):
        first = max(0, -(r // s)) if r < 0 else 0
        count = sum(r + i * s < full[dim - 2] for i in range(first, n))
        skip = skip.narrow(dim, first, count)
        inner = inner.narrow(dim, r + first * s, max((count - 1) * s + 1, 0)) if count else inner
        index = [slice(None)] * x.dim()
        index[dim] = slice(None, None, s)
        inner = inner[tuple(index)]
    inner.copy_(skip)
    return made


def _image(op: str, integers: core.Tensor, packed: ConvPackedParams) -> Any:
    """The bytes as an image of two extents or three."""
    dims = packed._weight.dim() - 2
    channels = packed.shape[1] * packed._groups
    if integers.dim() != dims + 2 or integers.shape[1] != channels:
        fail(
            RuntimeError,
            op,
            f"an input of {dims + 2} dimensions with {channels} channels was required",
            list(integers.shape),
            hint="the input is [batch, channels, extents of the image]",
        )
    return integers.unsqueeze(2) if dims == 1 else integers


def _places(op: str, integers: core.Tensor, zero_point: int, packed: ConvPackedParams) -> Any:
    """The image, the shape of the result, and the geometry of windows."""
    x = _image(op, integers, packed)
    stride, padding = _three(packed._stride, 1), _three(packed._padding, 0)
    if packed._transpose:
        x, stride, padding = _between(x, packed, zero_point), [1, 1, 1], [0, 0, 0]
    extents = _three(x.shape[2:], 1)
    result = _sizes(extents, packed, stride, padding)
    if min(result) < 1:
        fail(
            RuntimeError,
            op,
            "Output dimensions should be greater than 0: a kernel that fits into the padded image "
            "was required",
            f"{list(integers.shape[2:])} and {list(packed._weight.shape[2:])}",
            hint="a smaller kernel, or more padding",
        )
    dilation, kernel = _three(packed._dilation, 1), packed.shape[2:]
    size = (x.shape[0], packed.shape[0], *result[5 - x.dim() :])
    places = (*extents, x.shape[1], *result, *kernel, *stride, *padding, *dilation)
    return x, size, places


def _checked(op: str, packed: Any) -> ConvPackedParams:
    """Parameters of a convolution."""
    return engines.checked_packed(op, packed, (ConvPackedParams,), "conv2d_prepack(...)")


def _check_engine(op: str, packed: ConvPackedParams) -> None:
    _checked(op, packed)
    if (packed.engine == "qnnpack") != (_engine() == "qnnpack"):
        fail(
            RuntimeError,
            op,
            f"parameters packed for the engine {_engine()} were required",
            packed.engine,
            hint="set backends.quantized.engine before packing, and leave it so",
        )


def _in_place(made: core.Tensor, packed: ConvPackedParams) -> Any:
    """The result with the dimensions that it has; of one extent in order, else channels last."""
    return made.squeeze(2).contiguous() if packed._weight.dim() == 3 else made


def _convolution(op: str, x: Any, packed: Any, scale: Any, zero: Any, relu: bool) -> Any:
    _check_engine(op, packed)
    integers, zero_point = products.bytes_of(op, x)
    quantizer = products.checked_output(op, scale, zero, x.dtype)
    geometry = _places(op, integers, zero_point, packed)
    low = quantizer.zero_point if relu else None
    given = (x.q_scale(), zero_point)
    made = packed.weights.integers(*geometry, given, quantizer, x.dtype, low)
    return products.quantized(_in_place(made, packed), x.dtype, scale, zero)


def _dynamic(op: str, x: Any, packed: Any, reduce_range: bool) -> Any:
    _check_engine(op, packed)
    x = x.detach()
    scale, zero = choose_qparams(*_extremes(op, x), 0, 255, reduce_range and reduced())
    q = quantize_per_tensor(x, scale, zero, core.quint8)
    # PyTorch's result is one of integers, too: those of the input's scale and zero point
    return _convolution(op, q, packed, scale, zero, False).dequantize()


def _define(dims: int, kind: str, relu: bool) -> None:
    op = f"quantized::{kind}{dims}d{'_relu' if relu else ''}"
    rest = "float output_scale, int output_zero_point"

    def run(qx, packed_weight, output_scale, output_zero_point):  # type: ignore
        packed = _of_one_extent(op, packed_weight) if dims == 1 else packed_weight
        return _convolution(op, qx, packed, output_scale, output_zero_point, relu)

    run.__doc__ = f"A convolution{', then relu,' if relu else ''} of bytes."
    schema = f"{op}(Tensor qx, any packed_weight, {rest}) -> Tensor"
    composite(schema, names=(), out=False, keeps=False)(run)
    if relu:
        return
    name = f"{op}_dynamic"

    def dynamic(qx, packed_weight, reduce_range):  # type: ignore
        packed = _of_one_extent(name, packed_weight) if dims == 1 else packed_weight
        return _dynamic(name, qx, packed, reduce_range)

    dynamic.__doc__ = "A convolution of numbers that are quantized on the way, by their range."
    schema = f"{name}(Tensor qx, any packed_weight, bool reduce_range=False) -> Tensor"
    composite(schema, names=(), out=False, keeps=False)(dynamic)


for _dims in (1, 2, 3):
    for _kind, _relu in (("conv", False), ("conv", True), ("conv_transpose", False)):
        _define(_dims, _kind, _relu)


def _with_sum(op: str, qx: Any, qaccum: Any, packed: Any, scale: Any, zero: Any, relu: bool) -> Any:
    _check_engine(op, packed)
    integers, zero_point = products.bytes_of(op, qx)
    quantizer = products.checked_output(op, scale, zero, qx.dtype)
    x, size, places = _places(op, integers, zero_point, packed)
    if not getattr(qaccum, "is_quantized", False) or qaccum.dtype is not qx.dtype:
        fail(RuntimeError, op, f"qaccum of dtype {qx.dtype}, as the input, was required", qaccum.dtype,
             hint="quantize_per_tensor() makes it of numbers")  # fmt: skip
    if tuple(qaccum.shape) != tuple(size):
        fail(RuntimeError, op, f"qaccum of the result's shape {tuple(size)} was required", tuple(qaccum.shape),
             hint="the sum is one of equal shapes")  # fmt: skip
    given, weights = (qx.q_scale(), zero_point), packed.weights
    if weights.is_apart:
        total = weights.numbers(x, size, places, given, False) + qaccum.dequantize()
        return quantize_per_tensor(total.relu_() if relu else total, scale, zero, qx.dtype)
    more = (qaccum.q_scale(), qaccum.q_zero_point())
    made = weights.summed(x, size, places, given, quantizer, qaccum._integers, more, relu)
    return products.quantized(made, qx.dtype, scale, zero)


def _define_sum(relu: bool) -> None:
    op = f"quantized::conv2d_add{'_relu' if relu else ''}"

    def run(qx, qaccum, packed_weight, output_scale, output_zero_point):  # type: ignore
        return _with_sum(op, qx, qaccum, packed_weight, output_scale, output_zero_point, relu)

    run.__doc__ = f"A convolution of bytes and a sum with others{', then relu' if relu else ''}: rounded once."
    schema = (
        f"{op}(Tensor qx, Tensor qaccum, any packed_weight, float output_scale, "
        "int output_zero_point) -> Tensor"
    )
    composite(schema, names=(), out=False, keeps=False)(run)


for _relu in (False, True):
    _define_sum(_relu)
