"""What quantized operators cannot mean: refused in one form, whatever the argument is."""

import pytest

import facula
from facula import ops

Q, D = ops.quantized, ops.quantized_decomposed
NAN, INF = float("nan"), float("inf")


def q(*shape, dtype=facula.quint8):
    return facula.quantize_per_tensor(facula.ones(shape), 0.1, 0, dtype)


def pack(kind, **changed):
    dims = int(kind[-2])
    given = {
        "weight": q(4, 4, *[3] * dims, dtype=facula.qint8), "bias": None, "stride": [1] * dims,
        "padding": [0] * dims, "output_padding": [0] * dims, "dilation": [1] * dims, "groups": 1,
    }  # fmt: skip
    given.update(changed)
    if "transpose" not in kind:
        del given["output_padding"]
    return getattr(Q, f"{kind}_prepack")(*given.values())


KINDS = [f"conv{t}{d}d" for t in ("", "_transpose") for d in (1, 2, 3)]
WRONG = {
    "groups": (0, -1, 3), "stride": ([0], [-1]), "padding": ([-1],), "dilation": ([0],), "bias": (facula.ones(3),),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", WRONG)
def test_geometry_that_no_convolution_has(kind, name):
    for value in WRONG[name]:
        wrong = value * int(kind[-2]) if isinstance(value, list) else value
        with pytest.raises(RuntimeError, match=rf"^\[quantized::{kind}_prepack\] .*{name}"):
            pack(kind, **{name: wrong})


PACKED = [
    *(f"{k}_{n}" for k in KINDS for n in "unpack stride padding output_padding dilation groups".split()),
    "linear_unpack", "linear_unpack_fp16", "embedding_bag_unpack",
]  # fmt: skip


@pytest.mark.parametrize("name", PACKED)
def test_what_was_never_packed(name):
    for value in (7, NAN, [1], "x", facula.ones(3), None):
        with pytest.raises(TypeError, match=rf"^\[quantized::{name}\] "):
            getattr(Q, name)(value)


def half():
    return Q.linear_prepack_fp16(facula.ones(4, 6), None)


def table():
    return facula.ones(3, 8)


REFUSED = {
    "a product with foreign parameters": lambda: Q.linear(q(3, 6), half(), 0.1, 0),
    "half a product with foreign parameters": lambda: Q.linear_dynamic_fp16(facula.ones(3, 6), 5),
    "rows of nothing": lambda: Q.embedding_byte(255, facula.tensor([0])),
    "bags of nothing": lambda: Q.embedding_bag_byte(255, facula.tensor([[0]])),
    "bags of a vector": lambda: Q.embedding_bag_byte_rowwise_offsets(
        facula.ones(3), facula.tensor([[0]])
    ),
    "a number as a table": lambda: Q.embedding_bag_2bit_prepack(facula.tensor(1.0)),
    "added nothing": lambda: Q.add_scalar(q(3), NAN),
    "added infinity": lambda: Q.add(q(3), INF),
    "added a list": lambda: Q.add_scalar(q(3), []),
    "multiplied by nothing": lambda: Q.mul_scalar(q(3), NAN),
    "a bound that is none": lambda: Q.clamp(q(3), NAN, None),
    "a word as bound": lambda: Q.clamp(q(3), "x", None),
    "a zero point that is none": lambda: Q.add(q(3), q(3), 0.1, NAN),
    "no zero point": lambda: Q.add(q(3), q(3), 0.1, None),
    "a list as scale": lambda: Q.mul(q(3), q(3), [2], 0),
    "a word as scale": lambda: facula.quantize_per_tensor(facula.ones(3), "x", 0, facula.quint8),
    "a list as dtype": lambda: facula.quantize_per_tensor(facula.ones(3), 0.1, 0, []),
    "a number to quantize": lambda: facula.quantize_per_tensor(3, 0.1, 0, facula.quint8),
    "fewer scales than tensors": lambda: facula.quantize_per_tensor(
        [facula.ones(3)] * 2, facula.ones(1), facula.zeros(2).int(), facula.quint8
    ),
    "a number to dequantize": lambda: facula.dequantize(3),
    "numbers to dequantize": lambda: facula.dequantize([1, 1]),
    "one integer for all": lambda: D.choose_qparams(facula.ones(3), 0, 0, 1e-5, facula.uint8),
    "one integer for both sides": lambda: D.choose_qparams_symmetric(
        facula.ones(3), 5, 5, 1e-5, facula.int8
    ),
    "no step": lambda: D.quantize_per_tensor(facula.ones(3), 0.0, 0, 0, 255, facula.uint8),
    "an axis outside": lambda: D.quantize_per_channel(
        facula.ones(2, 3), facula.ones(2), facula.zeros(2).int(), 5, 0, 255, facula.uint8
    ),
    "channels of a number": lambda: D.quantize_per_channel(
        facula.tensor(1.0), facula.ones(1), facula.zeros(1).int(), 0, 0, 255, facula.uint8
    ),
    "no slope below": lambda: Q.celu(q(3), 0.1, 0, 0.0),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_call_can_mean_is_refused_in_our_own_form(name):
    with pytest.raises((RuntimeError, TypeError, IndexError), match=r"^\[[\w:]+\] ") as caught:
        REFUSED[name]()
    assert "hint: " in str(caught.value)


def observe(low, high, symmetric):
    one = facula.tensor([1])
    limits = (facula.tensor([low]), facula.tensor([high]), facula.ones(1), facula.zeros(1).int())
    return facula.fused_moving_avg_obs_fake_quant(
        facula.tensor([-1.0, 2.0]), one, one, *limits[:2], *limits[2:], 0.1, 0, 0, 0, False, symmetric
    )  # fmt: skip


@pytest.mark.parametrize("symmetric", [False, True])
def test_observed_numbers_need_more_than_one_integer(symmetric):
    with pytest.raises(RuntimeError, match=r"^\[choose_qparams\] qmin must be strictly less"):
        observe(-1.0, 2.0, symmetric)


@pytest.mark.parametrize("kind", KINDS)
def test_sound_geometry_is_packed(kind):
    dims = int(kind[-2])
    packed = pack(kind, groups=2, bias=facula.ones(8 if "transpose" in kind else 4))
    assert getattr(Q, f"{kind}_groups")(packed) == 2
    assert getattr(Q, f"{kind}_stride")(packed) == [1] * dims
