"""Plans: what is predicted is what real ranks hold and exchange; ranks that are not there."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import pytest
import ranks

import facula
from facula import distributed as dist
from facula.distributed import plan
from facula.distributed.planning import LINKS, MODELS, Layout, Link, predicted, read_links
from facula.distributed.planning.links import link_of, seconds
from facula.distributed.planning.models import Decoder
from facula.distributed.planning.prediction import simulated
from facula.distributed.traffic import Traffic, counting

TINY = MODELS["tiny"]


@pytest.fixture
def world():
    dist.init_process_group("fake", store=dist.HashStore(), rank=5, world_size=4096)
    yield
    dist.destroy_process_group()


@pytest.mark.parametrize("size", [2, 4])
def test_what_is_predicted_is_what_ranks_exchange(size):
    """With layers that are cut and computed again, the second step was an error."""
    for found in ranks.run("measured", size, script="planning_programs.py"):
        assert len(found) == {2: 6, 4: 7}[size]
        for kinds, predicted_kinds, sizes, predicted_sizes in found:
            assert kinds and kinds == predicted_kinds and sizes == predicted_sizes


def test_ranks_that_are_not_there(world):
    assert (dist.get_rank(), dist.get_world_size()) == (5, 4096)
    x = facula.arange(4.0)
    with counting() as traffic:
        dist.all_reduce(x)
        dist.all_reduce(facula.empty(1000, device="meta"))
        parts = [facula.empty(4) for _ in range(4096)]
        dist.all_gather(parts, x)
        dist.barrier()
        assert dist.new_group([5, 6]).size() == 2
        dist.send(facula.empty(3, device="meta"), 7)
        dist.recv(facula.empty(3), 7)
    assert x.tolist() == [0, 1, 2, 3] == parts[9].tolist()
    kinds = traffic.kinds()
    assert kinds["all_reduce"] == (2, 4016) and kinds["all_gather"] == (1, 4096 * 16)
    assert kinds["send"] == (1, 12) and kinds["barrier"] == (1, 0)
    assert traffic.total("all_reduce").sent == pytest.approx(4016 * 2 * 4095 / 4096)
    objects: list = [None] * 4096
    dist.all_gather_object(objects, {"a": 1})
    assert objects[4095] == {"a": 1}


def test_worlds_that_are_too_large():
    with pytest.raises(ValueError, match="at most 4096 ranks were required"):
        dist.init_process_group("fake", store=dist.HashStore(), rank=0, world_size=4097)
    assert not dist.is_initialized()


def test_real_engines_refuse_tensors_without_elements():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        with pytest.raises(NotImplementedError, match="tensors with elements were required"):
            dist.all_reduce(facula.empty(3, device="meta"))
    finally:
        dist.destroy_process_group()


def count(config):
    """Parameters of the model, by the formulas of its layers."""
    per_layer = (
        config.width * config.width * 2
        + 2 * config.width * config.width * config.shared_heads // config.heads
    )
    per_layer += 3 * config.width * config.hidden + 2 * config.width
    return config.depth * per_layer + 2 * config.words * config.width + config.width


def test_published_sizes():
    """Of the models' own tables."""
    want = {"llama-8b": 8_030_261_248, "llama-70b": 70_553_706_496}
    for name, total in want.items():
        assert count(MODELS[name]) == total
    with facula.device("meta"):
        model = Decoder(MODELS["llama-8b"])
    assert sum(p.numel() for p in model.parameters()) == want["llama-8b"]


def test_a_model_of_70_billion_parameters_on_1024_ranks():
    """The figures that follow from sizes alone; two layers of it stand for all."""
    config = replace(MODELS["llama-70b"], depth=2)
    layout = Layout(data=128, tensor=8, length=1024, dtype=facula.bfloat16)
    found = predicted(config, layout)
    total = count(config)
    assert found.parameters == total
    # pieces of 4 bytes, and twice as much for AdamW; norms are not cut along tensor ranks
    assert total * 4 / 1024 <= found.memory.parameters <= total * 4 / 1024 * 1.01
    assert found.memory.gradients == found.memory.parameters
    assert 2 * found.memory.parameters <= found.memory.states <= 2 * found.memory.parameters + 400
    # parameters are gathered in 2 bytes, twice but for the root; gradients are reduced in 4
    gathered = found.traffic.total("all_gather_into_tensor").payload
    reduced = found.traffic.total("reduce_scatter").payload
    layers = total - 2 * config.words * config.width - config.width
    root = 2 * config.words * config.width
    assert gathered == pytest.approx((2 * layers + root) * 2 / 8, rel=0.01)
    assert reduced == pytest.approx(total * 4 / 8, rel=0.01)
    # 6 operations for each parameter in a product and token, and those of attention
    products = (total - config.words * config.width - 5 * config.width) * 6 * layout.length / 8
    assert found.flops == products + 2 * 6 * layout.length**2 * config.width / 8


def test_computing_again_keeps_less_and_takes_longer():
    plain = predicted(TINY, Layout(data=2, batch=4, length=64))
    again = predicted(TINY, Layout(data=2, batch=4, length=64, recompute=True))
    assert again.memory.kept < plain.memory.kept and again.flops == pytest.approx(
        4 / 3 * plain.flops
    )
    assert again.memory.parameters == plain.memory.parameters


def test_what_backward_keeps_grows_with_micro_batches_under_way():
    kept = [
        simulated(TINY, Layout(pipeline=4, batch=8, microbatches=8, length=16), stage)[0].kept
        for stage in range(1, 4)
    ]
    assert kept[0] > kept[1] and kept[0] == pytest.approx(kept[1] * 3 / 2, rel=0.01)


def test_links(tmp_path):
    path = tmp_path / "links.json"
    path.write_text(json.dumps([{"ranks": 64, "bandwidth": 1e9, "latency": 1e-5},
                                {"ranks": 8, "bandwidth": 1e10, "latency": 1e-6}]))  # fmt: skip
    links = read_links(path)
    assert links == (Link(8, 1e10, 1e-6), Link(64, 1e9, 1e-5))
    assert link_of(links, [8, 15]).ranks == 8 and link_of(links, [7, 8]).ranks == 64
    traffic = Traffic()
    traffic.counted("all_reduce", list(range(4)), [facula.empty(1000)])
    assert seconds(traffic, links)[0, 1, 2, 3] == pytest.approx(2 * 1e-6 + 6000 / 1e10)
    for text in ("", "[]", "3", '[{"ranks": 0, "bandwidth": 1, "latency": 1}]', '[{"a": 1}]'):
        path.write_text(text)
        with pytest.raises(ValueError, match="a table of links was required"):
            read_links(path)
    assert LINKS[0].ranks == 8


def test_layouts_that_do_not_fit():
    for layout in (
        Layout(strategy="none"), Layout(tensor=3), Layout(pipeline=3), Layout(batch=3, microbatches=2),
        Layout(data=0), Layout(tensor=0), Layout(pipeline=0), Layout(microbatches=0), Layout(length=0),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"^\[plan\]"):
            predicted(TINY, layout)
    for flops in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match=r"^\[plan\] a positive number of operations"):
            predicted(TINY, Layout(length=8), flops=flops)


def test_the_command():
    line = [sys.executable, "-m", "facula.distributed.plan", "tiny", "--data", "2", "--pipeline", "2",
            "--batch", "2", "--microbatches", "2", "--length", "8"]  # fmt: skip
    text = subprocess.run(line, capture_output=True, text=True, check=True).stdout
    assert text.startswith(
        "tiny: 197,184 parameters on 4 ranks (data 2, tensor 1, pipeline 2; fsdp2)"
    )
    for part in (
        "memory of a rank",
        "reduce_scatter",
        "send",
        "waiting in the pipeline",
        "tokens a second",
    ):
        assert part in text
    assert plan.table("x", predicted(TINY, Layout(length=8))).startswith("x: ")
