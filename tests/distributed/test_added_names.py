"""Further names of `torch.distributed`: guarded exchange, queues, optimizers that are told gradients, tables."""

from __future__ import annotations

import copy
import datetime

import numpy as np
import pytest
import ranks

import facula
from facula import distributed as dist
from facula import nn
from facula.distributed import optim
from facula.distributed.optim.functional import KINDS
from facula.distributed.optim.utils import register_functional_optim
from facula.distributed.remote_device import _remote_device


def run(program: str, size: int = 2) -> list:
    return ranks.run(program, size, script="added_programs.py")


def test_a_failure_is_one_on_all_ranks():
    for rank, found in enumerate(run("exchange")):
        assert found["one"] == [10, int(rank == 1)] and found["all"] == [0, 10]
        for name in ("failed", "some failed", "elsewhere", "no value"):
            assert found[name][0] == "RuntimeError", name
        assert "at stage reading" in found["failed"][1] and "lost" in found["failed"][1]
        assert "rank 1 failed: KeyError" in found["some failed"][1]
        assert "rank 1 is at stage stage 1" in found["elsewhere"][1]
        assert found["kinds"][0] == "TypeError" and "index 1" in found["kinds"][1]


def test_a_queue_gives_each_value_once():
    (first, left, answer), (second, _, _) = run("queues")
    assert sorted(first + second) == list(range(20)) and left == 0 and answer == "from 1"
    assert first == sorted(first) and second == sorted(second)


@pytest.mark.parametrize("kind", ["hash", "prefix", "file"])
def test_queues_of_stores(kind, tmp_path):
    store = dist.FileStore(str(tmp_path / "s")) if kind == "file" else dist.HashStore()
    store = dist.PrefixStore("p", store) if kind == "prefix" else store
    before = store.num_keys()
    for value in ("a", "b"):
        store.queue_push("q", value)
    assert store.queue_len("q") == 2
    assert [store.queue_pop("q"), store.queue_pop("q", block=False)] == [b"a", b"b"]
    assert store.num_keys() == before and store.queue_len("q") == 0
    with pytest.raises(dist.QueueEmptyError, match="queue 'q'"):
        store.queue_pop("q", block=False)
    store.set_timeout(datetime.timedelta(seconds=0.02))
    with pytest.raises(dist.DistStoreError, match="within 0.02 s"):
        store.queue_pop("q")


def test_buckets_are_updated_while_others_are_exchanged():
    owned = []
    for apart, buckets, states in run("interleaved"):
        assert apart < 1e-12 and buckets > 1
        owned.append(states)
    assert sum(owned) == 6 and min(owned) > 0


def test_a_module_keeps_pieces():
    for apart, forward, gathers in run("kept"):
        assert apart < 1e-13 and forward == 0 and gathers


def test_tables_of_pieces():
    found = run("shown", 4)
    grid, rows, line = found[0]["texts"]
    assert grid.splitlines() == [
        "pieces",
        "         Col 0-2  Col 3-4",
        "-------  -------  -------",
        "Row 0-1  cpu:0    cpu:1",
        "Row 2-3  cpu:2    cpu:3",
    ]
    assert rows.splitlines()[3:] == ["Row 0-1  cpu:0, cpu:2", "Row 2-3  cpu:1, cpu:3"]
    assert line.splitlines()[-1].split("  ")[1:] == ["cpu:0, cpu:1", "cpu:2, cpu:3"]
    for told in found:
        assert told["deep"][0] == "RuntimeError" and told["piece"]
        assert "begins at [(0, 0)]" in told["none"][1] or "begins at [(2, 0)]" in told["none"][1]
    assert [told["texts"] for told in found[1:]] == [["", "", ""]] * 3


def test_a_rank_stops_and_the_others_wait():
    (_, passed, nothing), (_, also, text) = run("stopped")
    assert passed == also == 3 and nothing == ""
    assert "rank 1 stops" in text and "dist.breakpoint(rank=1, skip=2)" in text
    assert "(Pdb) 3" in text


# ------------------------------------------------------------------ one process


OPTIONS = {
    facula.optim.SGD: {"lr": 0.1, "momentum": 0.9, "nesterov": True},
    facula.optim.Adam: {"lr": 0.1, "amsgrad": True, "weight_decay": 0.1},
    facula.optim.RMSprop: {"lr": 0.1, "momentum": 0.5, "centered": True},
}


@pytest.mark.parametrize("kind", sorted(KINDS, key=lambda kind: kind.__name__))
def test_optimizers_that_are_told_gradients(kind):
    options = OPTIONS.get(kind, {"lr": 0.1})
    facula.manual_seed(0)
    params = [nn.Parameter(facula.randn(3, dtype=facula.float64)) for _ in range(2)]
    plain, one_by_one = copy.deepcopy(params), copy.deepcopy(params)
    told, single = KINDS[kind](params, **options), optim.as_functional_optim(kind, **options)
    usual = kind(plain, **options)
    for step in range(3):
        gradients = [facula.randn(3, dtype=facula.float64) for _ in params]
        if step == 1:
            gradients[1] = None
        for p, grad in zip(plain, gradients, strict=True):
            p.grad = grad
        usual.step()
        told.step(gradients)
        for p, grad in zip(one_by_one, gradients, strict=True):
            single.step_param(p, grad)
    for p, q, r in zip(plain, params, one_by_one, strict=True):
        np.testing.assert_array_equal(p.detach().numpy(), q.detach().numpy())
        np.testing.assert_array_equal(p.detach().numpy(), r.detach().numpy())
        assert q.grad is None
    with pytest.raises(ValueError, match="2 gradients"):
        told.step([None])
    with pytest.raises(ValueError, match="empty"):
        KINDS[kind]([], **options)


def test_kinds_of_optimizers(monkeypatch):
    with pytest.raises(ValueError, match="functional counterpart"):
        optim.as_functional_optim(facula.optim.LBFGS)
    monkeypatch.setattr("facula.distributed.optim.utils.KINDS", dict(KINDS))
    register_functional_optim(facula.optim.LBFGS, KINDS[facula.optim.SGD])
    assert optim.as_functional_optim(facula.optim.LBFGS, lr=1.0).param_group == {"params": []}


def test_steps_in_the_backward_pass():
    facula.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    model[0].weight = model[1].weight
    plain = copy.deepcopy(model)
    assert plain[0].weight is plain[1].weight
    usual = [facula.optim.SGD([plain[0].weight], lr=0.1), facula.optim.SGD([plain[0].bias], lr=0.5)]
    optim._apply_optimizer_in_backward(facula.optim.SGD, [model[0].weight], {"lr": 0.1})
    optim._apply_optimizer_in_backward(facula.optim.SGD, [model[0].bias], {"lr": 0.5})
    optim._apply_optimizer_in_backward(facula.optim.SGD, [model[1].bias], {"lr": 9.0}, False)
    x = facula.randn(2, 3)
    for _ in range(3):
        for one in (plain, model):
            one(x).sum().backward()
        for one in usual:
            one.step()
        plain.zero_grad()
        assert model[0].weight.grad is None and model[1].bias.grad is not None
    for p, q in zip(plain.parameters(), model.parameters(), strict=True):
        np.testing.assert_array_equal(p.detach().numpy(), q.detach().numpy())
    assert len(optim._get_in_backward_optimizers(model)) == 3


def test_states_under_names():
    facula.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    plain = copy.deepcopy(model)
    options = {"lr": 0.1, "momentum": 0.9}
    named = optim._NamedOptimizer(
        model.named_parameters(), facula.optim.SGD, module=model, **options
    )
    usual = facula.optim.SGD(plain.parameters(), **options)
    with pytest.raises(ValueError, match="not initialized"):
        named.load_state_dict(named.state_dict())
    before = [p.detach().clone() for p in model.parameters()]
    fresh = optim._NamedOptimizer(model.named_parameters(), facula.optim.SGD, **options)
    fresh.init_state()
    assert all((p == q).all() for p, q in zip(before, model.parameters(), strict=True))
    for one, optimizer in ((model, named), (plain, usual)):
        for _ in range(2):
            optimizer.zero_grad()
            one(facula.ones(1, 2)).square().sum().backward()
            optimizer.step()
    for p, q in zip(plain.parameters(), model.parameters(), strict=True):
        np.testing.assert_array_equal(p.detach().numpy(), q.detach().numpy())
    state = named.state_dict()
    names = ["0.weight", "0.bias", "1.weight", "1.bias"]
    assert list(state["state"]) == state["param_groups"][0]["params"] == names
    fresh.load_state_dict({**state, "param_groups": [{**state["param_groups"][0], "lr": 0.7}]})
    assert fresh.param_groups[0]["lr"] == 0.7
    for name, entry in fresh.state_dict()["state"].items():
        same = entry["momentum_buffer"] == state["state"][name]["momentum_buffer"]
        assert same.all()
    with pytest.raises(ValueError, match="not in the module"):
        named.add_param_group({"params": [facula.ones(1)]})
    extra = model.register_parameter("extra", nn.Parameter(facula.ones(1)))
    assert extra is None
    named.add_param_group({"params": model.extra, "lr": 0.5})
    assert named.state_dict()["param_groups"][1]["params"] == ["extra"]


@pytest.mark.parametrize(
    ("text", "worker", "rank", "device"),
    [
        ("cpu", None, None, "cpu"),
        ("cuda:0", None, None, "cuda:0"),
        ("trainer0/cuda:1", "trainer0", None, "cuda:1"),
        ("trainer0", "trainer0", None, "cpu"),
        ("rank:3/cpu", None, 3, "cpu"),
    ],
)
def test_devices_of_workers(text, worker, rank, device):
    made = _remote_device(text)
    assert (made.worker_name(), made.rank(), str(made.device())) == (worker, rank, device)
    assert made == _remote_device(text) and made != _remote_device("other/cpu")
    assert len({made, _remote_device(repr(made))}) == 1


@pytest.mark.parametrize("text", ["", "/cpu", "a/b/c", "a/nothing", "rank:x/cpu/y", "a/"])
def test_what_names_no_device(text):
    with pytest.raises(ValueError, match="Could not parse"):
        _remote_device(text)
