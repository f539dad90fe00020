"""Operators that only other operators call: odd arguments raise, and nothing outside is touched.

They trusted their callers: called by name, as graphs and files may call them, wrong sizes or positions
read and wrote behind the ends of their operands, or ended the process.
"""

import pytest

import facula
from facula.ops.table.registry import F

ONE = ((1,), (0,), (1,), 1)


def i64(*values):
    return facula.tensor(values, dtype=facula.int64)


def rows(*shape):
    return facula.ones(*shape)


REFUSED = {
    "image of another rank": lambda: F._conv(rows(1, 2), rows(3, 2, 1), None, *ONE, (4,)),
    "channels": lambda: F._conv(rows(1, 3, 4), rows(3, 2, 1), None, *ONE, (4,)),
    "stride 0": lambda: F._conv(rows(1, 2, 4), rows(3, 2, 1), None, (0,), (0,), (1,), 1, (4,)),
    "groups 0": lambda: F._conv(rows(1, 2, 4), rows(3, 2, 1), None, (1,), (0,), (1,), 0, (4,)),
    "two strides": lambda: F._conv(rows(1, 2, 4), rows(3, 2, 1), None, (1, 1), (0,), (1,), 1, (4,)),
    "bias": lambda: F._conv(rows(1, 2, 4), rows(3, 2, 1), rows(2), *ONE, (4,)),
    "a weight of doubles": lambda: F._conv(rows(1, 2, 4), rows(3, 2, 1).double(), None, *ONE, (4,)),
    "windows elsewhere": lambda: F._conv(rows(1, 2, 4), rows(3, 2, 1), None, *ONE, (40,)),
    "input: dilation": lambda: F._conv_input(
        rows(1, 3, 4), rows(3, 2, 1), None, (1,), (0,), (0,), 1, (4,)
    ),
    "input: channels": lambda: F._conv_input(rows(1, 2, 4), rows(3, 2, 1), None, *ONE, (4,)),
    "input: bias": lambda: F._conv_input(rows(1, 3, 4), rows(3, 2, 1), rows(3), *ONE, (4,)),
    "weight: groups 0": lambda: F._conv_weight(
        rows(1, 3, 4), rows(1, 2, 4), (1,), (0,), (1,), 0, (1,)
    ),
    "weight: groups": lambda: F._conv_weight(rows(1, 3, 4), rows(1, 2, 4), *ONE[:3], 2, (1,)),
    "weight: batch": lambda: F._conv_weight(rows(2, 3, 4), rows(1, 2, 4), *ONE, (1,)),
    "weight: dtype": lambda: F._conv_weight(rows(1, 3, 4).half(), rows(1, 2, 4), *ONE, (1,)),
    "weight and bias": lambda: F._conv_weight_bias(
        rows(1, 3, 4), rows(1, 2, 4), (1,), (0,), (1,), 0, (1,)
    ),
    "plane sums: shapes": lambda: F._plane_scatter_add(rows(2, 4), i64(0, 1).view(1, 2), [4]),
    "plane sums: dtype": lambda: F._plane_scatter_add(rows(1, 2), rows(1, 2), [4]),
    "planes: dtype": lambda: F._plane_scatter(rows(1, 2), rows(1, 2).bool(), [4]),
    "plane values: rank": lambda: F._plane_gather(rows(2, 4), i64(0, 1), 1),
    "plane values: planes": lambda: F._plane_gather(rows(1, 4), i64(0, 1).view(2, 1), 1),
    "layer norm: statistics": lambda: F.layer_norm_backward(
        rows(3, 4), rows(3, 4), rows(3), rows(3), None, False
    ),
    "layer norm: too few": lambda: F.layer_norm_backward(
        rows(3, 4), rows(3, 4), rows(2, 1), rows(2, 1), None, False
    ),
    "layer norm: gradient": lambda: F.layer_norm_backward(
        rows(2, 4), rows(3, 4), rows(3, 1), rows(3, 1), None, False
    ),
    "layer norm: weight": lambda: F.layer_norm_backward(
        rows(3, 4), rows(3, 4), rows(3, 1), rows(3, 1), rows(5), True
    ),
    "layer norm: strides": lambda: F.layer_norm_backward(
        rows(3, 4), rows(3, 4), rows(1, 1).expand(3, 1), rows(3, 1), None, False
    ),
    "gathered rows: width": lambda: F._gather_scatter(
        rows(4, 10), i64(0, 1), rows(7, 5), i64(0, 1), "sum", True, "index_select", "scatter_reduce"
    ),
    "gathered rows: indices": lambda: F._gather_scatter(
        rows(4, 5), i64(0), rows(7, 5), i64(0, 1), "sum", True, "index_select", "scatter_reduce"
    ),
    "gathered rows: dtype": lambda: F._gather_scatter(
        rows(4, 5), rows(2), rows(7, 5), i64(0, 1), "sum", True, "index_select", "scatter_reduce"
    ),
    "logits: target": lambda: F.bce_logits_total(rows(3, 4), rows(3), True),
    "logits: longer target": lambda: F.bce_logits_total(rows(3), rows(3, 4), True),
    "squares: dtype": lambda: F.mse_total(rows(3), rows(3).double(), False),
    "bags: offsets": lambda: F._embedding_bag(rows(5, 3), i64(0, 1), i64(0, 9), None, 0, -1, False),
    "bags: negative offsets": lambda: F._embedding_bag(
        rows(5, 3), i64(0, 1), i64(-4, 2), None, 1, -1, False
    ),
    "bags: scales": lambda: F._embedding_bag(
        rows(5, 3), i64(0, 1, 2, 3), i64(0, 4), rows(3), 0, -1, False
    ),
    "bags: no offsets": lambda: F._embedding_bag(rows(5, 3), i64(0), i64(), None, 0, -1, False),
    "bags: vector": lambda: F._embedding_bag(rows(5), i64(0), i64(0, 1), None, 0, -1, False),
    "bags: positions": lambda: F._embedding_bag_max_backward(rows(2, 3), i64(0, 1), 5),
    "groups of channels": lambda: F.native_group_norm(rows(2, 4, 3), 7, None, None, 1e-5),
    "no groups of channels": lambda: F.native_group_norm(rows(2, 4, 3), 0, None, None, 1e-5),
    "no pixels": lambda: F._resample(rows(1, 2, 0), [4], 2, False, False, [0.0]),
    "no scales": lambda: F._resample(rows(1, 2, 3), [4], 2, False, False, []),
    "more than there are": lambda: F._topk_values(rows(2, 3), 1000000),
}


@pytest.mark.parametrize("name", REFUSED)
def test_odd_arguments_are_refused(name):
    with pytest.raises(RuntimeError, match=r"^\[[\w ]+(:f32)?\] .*required|^\[\w+\] ") as caught:
        REFUSED[name]()
    assert "hint: " in str(caught.value)


@pytest.mark.parametrize("bad", [-1, 4, 2**40, -(2**62)])
@pytest.mark.parametrize("dtype", [facula.float32, facula.bfloat16, facula.float64])
def test_positions_outside_of_a_plane_touch_nothing(bad, dtype):
    source = facula.tensor([[1.0, 2.0, 4.0]], dtype=dtype)
    places = i64(1, bad, 1).view(1, 3)
    assert F._plane_scatter_add(source, places, [4]).tolist() == [[0, 5, 0, 0]]
    assert F._plane_scatter(source, places, [4]).tolist() == [[0, 4, 0, 0]]
    values = facula.tensor([[3.0, 5.0, 7.0, 9.0]], dtype=dtype)
    assert F._plane_gather(values, places, 1).tolist() == [[5, 0, 5]]


@pytest.mark.parametrize("bad", [-1, 6, 2**40])
def test_positions_outside_of_a_plane_channels_last(bad):
    source = facula.arange(1.0, 9.0).reshape(1, 4, 1, 2).to(memory_format=facula.channels_last)
    places = facula.tensor([0, bad] * 4).reshape(1, 4, 1, 2)
    places = places.contiguous(memory_format=facula.channels_last)
    sums = F._plane_scatter_add(source, places, [2, 3])
    assert sums[0, :, 0, 0].tolist() == [1, 3, 5, 7] and sums.sum().item() == 16
    values = facula.arange(24.0).reshape(1, 4, 2, 3).to(memory_format=facula.channels_last)
    assert F._plane_gather(values, places, 2)[0, :, 0].tolist() == [
        [0, 0],
        [6, 0],
        [12, 0],
        [18, 0],
    ]


def test_positions_of_four_bytes():
    places = facula.tensor([[2, 0]], dtype=facula.int32)
    assert F._plane_scatter(facula.tensor([[5.0, 7.0]]), places, [3]).tolist() == [[7, 0, 5]]
