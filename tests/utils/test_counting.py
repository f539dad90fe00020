"""Floating-point operations are counted by operator and by module, forward and backward."""

import pytest

import facula
from facula import nn
from facula.utils.flop_counter import (
    FlopCounterMode,
    register_flop_formula,
    sdpa_flop_count,
)
from facula.utils.module_tracker import ModuleTracker


def test_a_network_forward_and_backward():
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 10))
    with FlopCounterMode(display=False) as counter:
        net(facula.randn(2, 3, 8, 8)).sum().backward()
    convolution, linear = 2 * 2 * 8 * 3 * 9 * 36, 2 * 2 * 288 * 10
    counts = {name: sum(ops.values()) for name, ops in counter.get_flop_counts().items()}
    assert counts["Sequential.0"] == 2 * convolution  # the image needs no gradient
    assert counts["Sequential.3"] == 3 * linear
    assert counter.get_total_flops() == counts["Global"] == 2 * convolution + 3 * linear
    assert counts["Sequential"] == counts["Global"]
    assert "Sequential.3" in counter.get_table() and "100.00%" in counter.get_table()


def test_a_formula_of_ones_own():
    op = facula.ops.aten.sin

    @register_flop_formula(op)
    def sines(shape, out_shape=None):
        return 7 * shape[0]

    with FlopCounterMode(display=False) as counter:
        facula.sin(facula.ones(3))
    assert counter.get_flop_counts()["Global"] == {op: 21}


def test_formulas_of_one_counter_get_shapes_or_tensors():
    seen = []

    def raw(*args, out_val):
        seen.append((args[0].shape, out_val.shape))
        return out_val.numel()

    raw._get_raw = True
    x = facula.ones(4, 5)
    for formula, count in ((lambda a, b, out_shape: a[0] + out_shape[1], 9), (raw, 20)):
        mapping = {facula.ops.aten.add: formula}
        with FlopCounterMode(display=False, custom_mapping=mapping) as counter:
            x + x
        assert counter.get_total_flops() == count
    assert seen == [((4, 5), (4, 5))]


def test_attention_by_its_shapes():
    query, few, bad = (2, 8, 3, 4), (2, 2, 5, 4), (2, 3, 5, 4)
    scores, values = 2 * 2 * 8 * 3 * 5 * 4, 2 * 2 * 8 * 3 * 5 * 4
    assert sdpa_flop_count(query, few, few) == scores + values
    with pytest.raises(AssertionError, match="queries, keys and values that fit"):
        sdpa_flop_count(query, bad, bad)


def test_what_a_counter_refuses_and_says():
    with pytest.raises(ValueError, match="OpOverloadPacket"):
        register_flop_formula(facula.ops.aten.cos.default)(lambda x, out_shape: 1)
    with pytest.warns(UserWarning, match="not needed"):
        FlopCounterMode(nn.Linear(1, 1))


def test_modules_that_are_running():
    seen = []

    class Inner(nn.Module):
        def forward(self, x):
            seen.append(set(tracker.parents))
            return x * 2

    with ModuleTracker() as tracker:
        nn.Sequential(Inner())(facula.ones(1, requires_grad=True)).backward()
        assert not tracker.is_bw
    assert seen == [{"Global", "Sequential", "Sequential.0"}]
    assert tracker.parents == {"Global"}


def test_modules_have_ended_after_the_backward_pass():
    with ModuleTracker() as tracker:
        # no gradient of the input is asked for, so that nothing else says where the modules end
        nn.Sequential(nn.Linear(2, 1))(facula.ones(1, 2)).sum().backward()
        assert tracker.parents == {"Global"}
