"""Cases of the sweep for operators that packages above the table bring: of quantization, images and sound.

    python tools/sweep.py --module sweep_domains --dtypes float32

Takes: as `sweep_cases`. Gives: `NAMES`, `DTYPES` and `cases`: calls that are right, with one or two of their arguments
replaced by odd ones (other dtypes, layouts, sizes, quantized tensors, NaN, infinities, indices far outside).
Keeps true: as `sweep_cases`; the dtype is that of floating-point arguments.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from sweep_cases import LAYOUTS, Case, described, seeded, told

import facula
import facula.audio.definitions
import facula.quantization.operators
import facula.vision.definitions  # noqa: F401
from facula.core import Tensor
from facula.ops import TABLE

LIBRARIES = (
    "quantization",
    "quantized",
    "quantized_decomposed",
    "torchvision",
    "audio",
    "torchaudio",
)
NAMES = [name for name in TABLE if name.partition("::")[0] in LIBRARIES and "::" in name]
DTYPES = ["float32", "float64", "float16"]
ODD_NUMBERS: tuple[Any, ...] = (
    0,
    1,
    -1,
    2,
    3,
    7,
    255,
    256,
    -129,
    2**31,
    -(2**31) - 1,
    2**62,
    0.5,
    -0.5,
    1e-30,
    1e30,
)
ODD_NUMBERS += (float("nan"), float("inf"), float("-inf"), None, True, "sum", (1, 1), [2], [])
SHAPES = (
    (),
    (0,),
    (1,),
    (3,),
    (2, 3),
    (3, 2),
    (0, 4),
    (1, 4, 5),
    (2, 3, 4, 4),
    (2, 0, 4, 4),
    (1, 2, 3, 4, 5),
)


class Pool:
    """Arguments: right ones by the name of the operator, odd ones of any kind."""

    def __init__(self, dtype: Any, numbers: random.Random) -> None:
        self.dtype, self.numbers = dtype, numbers

    def floats(self, *shape: int) -> Tensor:
        """Ordinary numbers."""
        return facula.randn(shape, dtype=facula.float32).to(self.dtype)

    def whole(self, high: int, *shape: int, dtype: Any = facula.int64) -> Tensor:
        """Integers in [0, high)."""
        return facula.randint(0, high, shape).to(dtype)

    def quantized(self, *shape: int, dtype: Any = None) -> Tensor:
        """A quantized tensor, of one scale for all or, now and then, of a scale a channel."""
        dtype = dtype or facula.quint8
        x = facula.randn(shape)
        if shape and shape[0] and self.numbers.random() < 0.2:
            scales, zeros = facula.rand(shape[0]).double() + 0.1, facula.zeros(shape[0]).long()
            return facula.quantize_per_channel(x, scales, zeros, 0, dtype)
        return facula.quantize_per_tensor(x, 0.05, 3 if dtype is not facula.qint8 else 0, dtype)

    def packed(self, kind: str) -> Any:
        """Weights as the products take them."""
        quantized = facula.ops.quantized
        if kind == "linear":
            return quantized.linear_prepack(
                facula.quantize_per_tensor(facula.randn(4, 6), 0.1, 0, facula.qint8),
                facula.randn(4),
            )
        if kind == "linear16":
            return quantized.linear_prepack_fp16(facula.randn(4, 6), facula.randn(4))
        if kind.startswith("embedding"):
            weight = facula.randn(8, 8)
            return getattr(quantized, f"embedding_bag_{kind[9:]}_prepack")(weight)
        spatial = int(kind[-2])
        weight = facula.quantize_per_tensor(
            facula.randn(4, 4, *[3] * spatial), 0.1, 0, facula.qint8
        )
        ones, zeros = [1] * spatial, [0] * spatial
        middle = (zeros,) if "transpose" in kind else ()
        pack = getattr(quantized, f"{kind}_prepack")
        return pack(weight, facula.randn(4), ones, zeros, *middle, ones, 1)

    def odd(self, value: Any) -> Any:
        """Something else in the place of an argument."""
        n = self.numbers
        chance = n.random()
        if isinstance(value, Tensor) and not value.is_quantized and chance < 0.5:
            return self.odd_tensor(value)
        if isinstance(value, Tensor) and chance < 0.75:
            return self.fresh_tensor()
        if isinstance(value, (list, tuple)) and value and chance < 0.6:
            changed = list(value)
            changed[n.randrange(len(changed))] = self.odd(changed[0])
            return changed
        if chance > 0.95:
            return self.fresh_tensor()
        return n.choice(ODD_NUMBERS)

    def odd_tensor(self, x: Tensor) -> Tensor:
        """The tensor with other elements, another layout, dtype or size."""
        n = self.numbers
        kind = n.randrange(6)
        if kind == 0 and x.numel():
            x = x.clone()
            flat = x.view(-1) if x.is_contiguous() else x.reshape(-1)
            odd = [
                v for v in ODD_NUMBERS if isinstance(v, (int, float)) and v == v and abs(v) < 2**31
            ]
            odd += [float("nan"), float("inf")] if x.dtype.is_floating_point else [2**31 - 1]
            flat[n.randrange(flat.numel())] = (
                n.choice(odd) if x.dtype.is_floating_point else int(n.choice(odd[:10]))
            )
            return flat.reshape(x.shape)
        if kind == 1:
            return LAYOUTS[n.choice(list(LAYOUTS))](x)
        if kind == 2:
            names = "float32 float64 float16 bfloat16 int64 int32 int8 uint8 bool complex64"
            return x.to(getattr(facula, n.choice(names.split())))
        if kind == 3 and x.dim():
            return x.narrow(n.randrange(x.dim()), 0, 0)
        if kind == 4:
            return x.unsqueeze(0) if n.random() < 0.5 or not x.dim() else x[0] if x.shape[0] else x
        return facula.cat([x, x], 0) if x.dim() else x.reshape(1)

    def fresh_tensor(self) -> Tensor:
        """A tensor that has nothing to do with the call."""
        n, shape = self.numbers, self.numbers.choice(SHAPES)
        kind = n.randrange(5)
        if kind == 0:
            return self.floats(*shape)
        if kind == 1:
            return (
                facula.randint(-(2**40), 2**40, shape)
                if n.random() < 0.5
                else self.whole(3, *shape)
            )
        return self.quantized(*shape, dtype=n.choice((facula.quint8, facula.qint8, facula.qint32)))


def _by_name(name: str, p: Pool) -> tuple[Any, ...] | None:  # noqa: PLR0911
    """A right call of what needs more than tensors of one shape."""
    library, _, short = name.partition("::")
    q, f, w = p.quantized, p.floats, p.whole
    if library == "torchvision":
        boxes = facula.rand(5, 4).to(p.dtype) * 6
        boxes[:, 2:] += boxes[:, :2]
        rois, byte = facula.cat([w(2, 5, 1).to(p.dtype), boxes], 1), facula.uint8
        channels = w(4, 5, 1, 2, 2, dtype=facula.int32)
        deformed = (f(2, 4, 6, 6), f(4, 4, 3, 3), f(2, 18, 4, 4), f(2, 9, 4, 4), f(4))
        return {
            "nms": (boxes, f(5), 0.5), "box_iou_rotated": (f(5, 5), f(3, 5)),
            "roi_align": (f(2, 4, 8, 8), rois, 0.7, 2, 2, 2, True),
            "_roi_align_backward": (f(5, 4, 2, 2), rois, 0.7, 2, 2, 2, 4, 8, 8, 2, True),
            "ps_roi_align": (f(2, 4, 8, 8), rois, 0.7, 2, 2, 2),
            "_ps_roi_align_backward": (f(5, 1, 2, 2), rois, channels, 0.7, 2, 2, 2, 2, 4, 8, 8),
            "qnms": (w(255, 5, 4, dtype=facula.uint8), w(255, 5, dtype=facula.uint8), 0.5),
            "qroi_align": (
                w(255, 1, 4, 8, 8, dtype=byte), w(1, 5, 5, dtype=byte), 0.1, 3, 1.0, 0, 1.0, 2, 2, 2, True
            ),
            "deform_conv2d": (*deformed, 1, 1, 0, 0, 1, 1, 1, 1, True),
            "_deform_conv2d_backward": (f(2, 4, 4, 4), *deformed, 1, 1, 0, 0, 1, 1, 1, 1, True),
            "roi_pool": (f(2, 4, 8, 8), rois, 0.7, 2, 2),
            "_roi_pool_backward": (f(5, 4, 2, 2), rois, w(64, 5, 4, 2, 2, dtype=facula.int32), 0.7, 2, 2, 2, 4, 8, 8),
            "ps_roi_pool": (f(2, 4, 8, 8), rois, 0.7, 2, 2),
            "_ps_roi_pool_backward": (f(5, 1, 2, 2), rois, channels, 0.7, 2, 2, 2, 4, 8, 8),
        }.get(short)  # fmt: skip
    if library in ("audio", "torchaudio"):
        lengths, nine, three = (facula.tensor(n).int() for n in ([5, 4], [9], [3]))
        targets, last = w(5, 2, 3, dtype=facula.int32), facula.tensor([3, 2]).int()
        return {
            "recursion": (f(2, 3, 9), f(3, 2)),
            "overdrive": (f(2, 9), f(2, 9), f(2), f(2)),
            "rnnt_loss_forward": (f(2, 5, 4, 6), targets, lengths, last, 5, -1.0, True),
            "forced_align": (f(1, 9, 5), targets[:1] % 4 + 1, nine, three, 0),
            "_lfilter_core_loop": (f(2, 3, 9), f(3, 3), facula.zeros(2, 3, 11, dtype=p.dtype)),
            "_overdrive_core_loop": (f(2, 9), f(2, 9), f(2), f(2), f(2, 9)),
        }.get(short)  # fmt: skip
    if short.startswith("linear"):
        if "prepack" in short:
            return (f(4, 6) if "fp16" in short else q(4, 6, dtype=facula.qint8), facula.randn(4))
        weight = p.packed("linear16" if "fp16" in short and "fp32" not in short else "linear")
        if "unpack" in short:
            return (weight,)
        rest: tuple[Any, ...] = (False,) if "dynamic" in short and "fp16" not in short else ()
        if "dynamic" in short or "input_q" in short:
            return (
                (facula.randn(3, 6), 0.1, 3, weight)
                if "input_q" in short
                else (facula.randn(3, 6), weight, *rest)
            )
        return (q(3, 6), weight, 0.1, 4, *((0.1,) if "leaky" in short else ()))
    if short.startswith("conv"):
        kind = next(
            k
            for k in (f"conv{t}{d}d" for t in ("_transpose", "") for d in (1, 2, 3))
            if short.startswith(k)
        )
        spatial = int(kind[-2])
        if short.endswith("_prepack"):
            ones, zeros = [1] * spatial, [0] * spatial
            middle = (zeros,) if "transpose" in kind else ()
            return (
                q(4, 4, *[3] * spatial, dtype=facula.qint8),
                facula.randn(4),
                ones,
                zeros,
                *middle,
                ones,
                1,
            )
        weight = p.packed(kind)
        if short in (kind, f"{kind}_relu"):
            return (q(2, 4, *[6] * spatial), weight, 0.1, 4)
        return (
            (facula.randn(2, 4, *[6] * spatial), weight, False) if "dynamic" in short else (weight,)
        )
    if short.startswith("embedding"):
        if "unpack" in short or short.endswith("prepack"):
            if short in ("embedding_bag_unpack", "embedding_bag_prepack"):
                table = facula.quantize_per_channel(
                    facula.randn(8, 6), facula.rand(8) + 0.1, facula.zeros(8), 0, facula.quint8
                )
                return (
                    (table,)
                    if "un" not in short
                    else (facula.ops.quantized.embedding_bag_prepack(table),)
                )
            return (
                (facula.randn(8, 6),)
                if "unpack" not in short
                else (p.packed("embedding" + short.split("_")[2]),)
            )
        bits = "4bit" if "4bit" in short else "byte"
        table = p.packed("embedding" + bits)
        if not short.endswith("rowwise_offsets"):
            packed = facula.quantize_per_channel(
                facula.randn(8, 6),
                facula.rand(8) + 0.1,
                facula.zeros(8),
                0,
                facula.quint8 if bits == "byte" else facula.quint4x2,
            )
            table = facula.ops.quantized.embedding_bag_prepack(packed)
        if "_bag_" not in short:
            return (table, w(8, 7), False)
        return (
            table,
            w(8, 7),
            facula.tensor([0, 2, 2, 5]),
            False,
            0,
            False,
            facula.rand(7),
            None,
            False,
        )
    return None


def _right_call(name: str, p: Pool) -> tuple[Any, ...]:
    """A call that works, or nearly so: what the names of the parameters say."""
    call = _by_name(name, p)
    if call is not None:
        return call
    n = p.numbers
    quantized = name.startswith("quantized::")
    values: list[Any] = []
    named: dict[str, Callable[[], Any]] = {
        "dtype": lambda: n.choice((facula.quint8, facula.qint8, facula.qint32, facula.int8, facula.uint8)),
        "out_dtype": lambda: facula.float32, "quant_min": lambda: 0, "quant_max": lambda: 127, "axis": lambda: 0,
        "ch_axis": lambda: 0, "eps": lambda: 1e-5, "dim": lambda: 0, "p": lambda: 0.5, "num_groups": lambda: 2,
        "normalized_shape": lambda: [4, 4], "kernel_size": lambda: [2, 2] if "2d" in name else [2],
        "stride": lambda: [1, 1] if "2d" in name else [1], "padding": lambda: [0, 0] if "2d" in name else [0],
        "dilation": lambda: [1, 1] if "2d" in name else [1], "low": lambda: 0, "high": lambda: 255,
        "innerKTiles": lambda: 2, "qGroupSize": lambda: 32, "zero_point": lambda: 3, "output_zero_point": lambda: 3,
        "scales": lambda: facula.rand(2) + 0.1, "zero_points": lambda: facula.zeros(2).int(),
        "qb": lambda: p.quantized(2, 4, 4, 4), "mat2": lambda: p.whole(9, 4, 4).to(facula.int8),
        "running_min": lambda: facula.zeros(1), "running_max": lambda: facula.ones(1),
        "observer_on": lambda: facula.tensor([1]), "fake_quant_on": lambda: facula.tensor([1]),
        "fake_quant_enabled": lambda: facula.tensor([1]),
    }  # fmt: skip
    shape = (
        (2, 4, 4)
        if any(d in name for d in ("1d", "matmul"))
        else (2, 4, 4, 4, 4)
        if "3d" in name
        else (2, 4, 4, 4)
    )
    for parameter in TABLE[name].definition.schema.parameters:
        if parameter.name in named:
            made = named[parameter.name]()
            is_tensor = parameter.type == "Tensor" and not isinstance(made, Tensor)
            values.append(facula.tensor([made]) if is_tensor else made)
        elif parameter.is_list and parameter.type == "Tensor":
            values.append([p.quantized(2, 4), p.quantized(3, 4)])
        elif parameter.type == "Tensor" and parameter.name in ("weight", "bias", "mean", "var"):
            values.append(facula.rand(4) + 0.1)
        elif parameter.type == "Tensor" and parameter.name == "scale":
            values.append(facula.tensor([0.1]))
        elif parameter.type == "Tensor" or parameter.name in ("tensor", "self"):
            values.append(
                p.quantized(*shape) if quantized or n.random() < 0.3 else p.floats(*shape)
            )
        elif parameter.type == "bool":
            values.append(n.random() < 0.5)
        elif parameter.type == "int":
            values.append(2)
        else:
            values.append(0.1)
    return tuple(values)


def _run(name: str, args: tuple[Any, ...]) -> None:
    """The call, its result looked at, and its gradients."""
    result = TABLE[name](*args)
    for x in result if isinstance(result, (tuple, list)) else (result,):
        if isinstance(x, Tensor):
            repr(x)
            if x.is_quantized:
                x.dequantize().sum()
    leaves = [
        x.detach().requires_grad_()
        for x in args
        if isinstance(x, Tensor) and x.dtype.is_floating_point and not x.is_quantized
    ]
    if leaves:
        it = iter(leaves)
        again = [
            next(it)
            if isinstance(x, Tensor) and x.dtype.is_floating_point and not x.is_quantized
            else x
            for x in args
        ]
        result = TABLE[name](*again)
        for x in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(x, Tensor) and x.requires_grad:
                facula.autograd.grad(x.sum(), leaves, allow_unused=True, retain_graph=True)


def cases(name: str, dtype_name: str, seed: int, guesses: int) -> Iterator[Case]:
    """Right calls, and ten times as many as `guesses` with odd arguments."""
    for number in range(2 + 10 * guesses):
        numbers = seeded(seed, name, dtype_name, number)
        facula.manual_seed(numbers.randrange(1 << 30))
        pool = Pool(getattr(facula, dtype_name), numbers)
        try:
            args = list(_right_call(name, pool))
            for _ in range(0 if number < 2 else numbers.choice((1, 1, 2))):
                if args:
                    place = numbers.randrange(len(args))
                    args[place] = pool.odd(args[place])
            text = ", ".join(map(told, args))
        except Exception as error:  # what cannot be made is no case
            if number < 2:
                yield f"right call of {name}", partial(_fail, error)
            continue
        yield f"{number}: {name}({text})", partial(_run, name, tuple(args))


def _fail(error: Exception) -> None:
    raise AssertionError(f"the right call cannot be made: {error!r}")


__all__ = ["DTYPES", "NAMES", "cases", "described"]
