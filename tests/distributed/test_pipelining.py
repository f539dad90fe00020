"""Pipelines: every schedule gives the gradients of one process; orders, their files and pictures."""

from __future__ import annotations

import xml.etree.ElementTree as xml
from collections import Counter

import pytest
import ranks

import facula
from facula import nn
from facula.distributed.pipelining import orders, timeline
from facula.distributed.pipelining._backward import InputBackward
from facula.distributed.pipelining.actions import Action, Kind, compute_of, read_csv, write_csv
from facula.distributed.pipelining.microbatch import (
    TensorChunkSpec,
    merge_chunks,
    split_args_kwargs_into_chunks,
)


def run(program: str, size: int = 2) -> list:
    return ranks.run(program, size, script="pipeline_programs.py")


def test_schedules_give_the_gradients_of_one_process():
    for found in run("schedules"):
        assert len(found) == 16 and all(good for _, _, good in found), found


def test_orders_from_files_run(tmp_path):
    for found in run(f"files {tmp_path}"):
        assert len(found) == 8 and all(good for _, _, good in found), found


def test_stages_that_are_copied_or_cut():
    for found in run("wrapped", 4):
        assert len(found) == 20 and all(found)


def test_marks_specs_and_errors():
    for found in run("cut"):
        assert found[:5] == [2, 2, True, True, True]
        for text, part in zip(
            found[5],
            (
                "a stage was required",
                "stages [",
                "two stages for each of 2 ranks",
                "as many stages as ranks",
                "'none'",
            ),
            strict=True,
        ):
            assert part in text and "hint:" in text


EVERY = [
    ("GPipe", 1), ("1F1B", 1), ("LoopedBFS", 2), ("LoopedBFS", 3), ("Interleaved1F1B", 2),
    ("Interleaved1F1B", 3), ("InterleavedZeroBubble", 2), ("ZBVZeroBubble", 2), ("DualPipeV", 2),
]  # fmt: skip


@pytest.mark.parametrize(("name", "each"), EVERY)
def test_orders_are_whole_and_nobody_waits_forever(name, each):
    for size in (1, 2, 3, 4, 8):
        for count in (2 * size, 4 * size):
            order = timeline.get_schedule_ops(name, size, count, each)
            done = Counter(a[:3] for actions in order.values() for a in compute_of(actions))
            assert set(done.values()) == {1}
            for stage in range(each * size):
                for number in range(count):
                    assert done[stage, Kind.FORWARD, number] == 1
                    halves = (
                        done[stage, Kind.BACKWARD_INPUT, number],
                        done[stage, Kind.BACKWARD_WEIGHT, number],
                    )
                    assert (done[stage, Kind.FULL_BACKWARD, number], *halves) in (
                        (1, 0, 0),
                        (0, 1, 1),
                    )
            style = "v" if name in ("ZBVZeroBubble", "DualPipeV") else "loop"
            found = timeline.spans(order, each * size, style)
            assert len(found) == sum(done.values())


def test_how_long_ranks_wait():
    """The parts that the papers give: with p ranks, m micro-batches, v stages on each rank, and a backward of twice
    the forward's time."""
    p, m, v = 4, 8, 2

    def idle(name, each):
        order = timeline.get_schedule_ops(name, p, m, each)
        return timeline.idle(timeline.spans(order, p * each, "v" if "ZBV" in name else "loop"))

    assert idle("GPipe", 1) == pytest.approx((p - 1) / (m + p - 1))
    assert idle("1F1B", 1) == pytest.approx((p - 1) / (m + p - 1))
    assert idle("Interleaved1F1B", v) == pytest.approx((p - 1) / (v * m + p - 1))
    # weights' gradients fill two thirds of what is waited
    assert idle("InterleavedZeroBubble", v) == pytest.approx((p - 1) / (3 * v * m + p - 1))
    assert idle("ZBVZeroBubble", 2) <= idle("InterleavedZeroBubble", v) + 1e-12


def test_known_orders():
    found = timeline.get_schedule_ops("1F1B", 2, 3)
    assert [str(a) for a in found[0]] == ["0F0", "0F1", "0B0", "0F2", "0B1", "0B2"]
    found = timeline.get_schedule_ops("ZBVZeroBubble", 2, 2)
    assert [str(a) for a in found[0]] == [
        "0F0", "0F1", "3F0", "3I0", "3W0", "3F1", "3I1", "3W1", "0I0", "0W0", "0I1", "0W1"
    ]  # fmt: skip
    assert orders.stage_ranks(2, 4, "v") == {0: 0, 1: 1, 2: 1, 3: 0}
    with pytest.raises(ValueError, match="a multiple of 3 stages"):
        orders.stage_ranks(3, 4, "v")
    with pytest.raises(ValueError, match="multiple of the number of rounds"):
        orders.interleaved(2, 4, 5)
    with pytest.raises(ValueError, match="at least 4 micro-batches"):
        orders.dual_pipe_v(2, 2)


def test_actions_as_text(tmp_path):
    for text in (
        "0F0",
        "12B3",
        "1I0",
        "1W2",
        "2SEND_F1",
        "3RECV_B0",
        "1UNSHARD",
        "(0F3;3B1)OVERLAP_F_B",
    ):
        assert str(Action.from_str(text)) == text
    assert Action.from_str("") is None and Action.from_str("0REDUCE_GRAD").microbatch_index is None
    for text in ("F0", "1X2", "1F0 1F1", "(0F1)"):
        with pytest.raises(RuntimeError, match="Invalid action string"):
            Action.from_str(text)
    order = timeline.get_schedule_ops("Interleaved1F1B", 2, 4, 2)
    write_csv(tmp_path / "order.csv", order)
    assert read_csv(tmp_path / "order.csv") == order
    assert (tmp_path / "order.csv").read_text().startswith("0F0,0F1,2F0,2F1,")


def test_messages_of_an_order():
    order = timeline.get_schedule_ops("GPipe", 2, 2)
    found = orders.with_messages(order, 2, lambda stage: stage)
    assert [str(a) for a in found[1]] == [
        "1RECV_F0", "1F0", "1RECV_F1", "1F1", "1B0", "1SEND_B0", "1B1", "1SEND_B1"
    ]  # fmt: skip
    stuck = {0: [Action.from_str("0B0"), Action.from_str("0F0")], 1: order[1]}
    with pytest.raises(RuntimeError, match="no ranks wait for each other"):
        orders.with_messages(stuck, 2, lambda stage: stage)


def test_pictures(tmp_path):
    order = timeline.get_schedule_ops("ZBVZeroBubble", 2, 4)
    timeline.visualize_schedule(order, tmp_path / "a.svg", "V & zero")
    root = xml.parse(tmp_path / "a.svg").getroot()
    boxes = root.findall("{http://www.w3.org/2000/svg}rect")
    assert len(boxes) == sum(len(actions) for actions in order.values())
    edges = sorted((float(b.get("y")), float(b.get("x")), float(b.get("width"))) for b in boxes)
    for (y, x, width), (z, a, _) in zip(edges, edges[1:], strict=False):
        assert y != z or a >= x + width - 1e-6
    assert "waiting" in root[0].text and "V & zero" in root[0].text


def test_micro_batches():
    x, y = facula.arange(8).reshape(4, 2), facula.arange(6).reshape(2, 3)
    parts, named = split_args_kwargs_into_chunks(
        (x, 5), {"y": y}, 2, None, {"y": TensorChunkSpec(1)}
    )
    assert parts[1][0].tolist() == [[4, 5], [6, 7]] and parts[0][1] == 5
    assert [n["y"].tolist() for n in named] == [[[0, 1], [3, 4]], [[2], [5]]]
    assert merge_chunks([n["y"] for n in named], TensorChunkSpec(1)).tolist() == y.tolist()
    both = merge_chunks([(x, 1), (x, 1)])
    assert both[0].shape == (8, 2) and both[1] == 1
    with pytest.raises(ValueError, match="a batch of at least 5"):
        split_args_kwargs_into_chunks((x,), {}, 5)


class Odd(nn.Module):
    """Weights that are used twice, once, after the last input, and not at all."""

    def __init__(self) -> None:
        super().__init__()
        self.twice, self.once = nn.Linear(3, 3), nn.Linear(3, 3)
        self.apart, self.unused = nn.Parameter(facula.ones(3)), nn.Parameter(facula.ones(2))
        self.both = nn.Parameter(facula.full((3,), 0.5))

    def forward(self, x, y):
        h = self.twice(self.once(self.twice(x)).tanh()) * (self.apart.exp() + self.both)
        return h * y + self.both, self.apart * 2


@pytest.mark.parametrize("detach_y", [False, True])
def test_two_halves_of_a_backward_pass(detach_y):
    """In float64 against the whole backward pass; the first half leaves alone what belongs to the second."""
    facula.manual_seed(0)
    module = Odd().double()
    x, y = (facula.randn(2, 3, dtype=facula.float64, requires_grad=True) for _ in "xy")
    if detach_y:
        y = y.detach()
    gradients = [facula.randn(2, 3, dtype=facula.float64), facula.randn(3, dtype=facula.float64)]
    facula.autograd.backward(list(module(x, y)), gradients)
    want = {n: p.grad for n, p in module.named_parameters()}
    inputs = [x] if detach_y else [x, y]
    want_inputs = [t.grad for t in inputs]
    module.zero_grad()
    x.grad = None
    half = InputBackward(module(x, y), gradients, inputs, {id(p) for p in module.parameters()})
    assert module.once.weight.grad is None and module.once.bias.grad is None
    half.weights()
    for name, p in module.named_parameters():
        assert (p.grad is None) == (want[name] is None), name
        assert p.grad is None or facula.allclose(p.grad, want[name], rtol=1e-12), name
    for got, expected in zip(half.inputs, want_inputs, strict=True):
        assert facula.allclose(got, expected, rtol=1e-12)
    assert x.grad is None
