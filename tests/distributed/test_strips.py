"""Tensors that are sent as if they lay behind each other, and steps of optimizers on pieces of parameters."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import facula
from facula import core, nn
from facula import distributed as dist
from facula.distributed.fsdp import fully_shard, leaf, pages
from facula.distributed.strips import Strip
from facula.distributed.tensor import Replicate, Shard, distribute_tensor, dtensor


@pytest.fixture
def mesh() -> Iterator[Any]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield dist.init_device_mesh("cpu", (1,))
    dist.destroy_process_group()


def strip(sizes: list[int], holes: set[int], first: float) -> tuple[Strip, np.ndarray]:
    """A strip of counted numbers, with zeros where there is no tensor, and what it is in NumPy."""
    parts: list[Any] = []
    whole: list[Any] = []
    for number, size in enumerate(sizes):
        values = np.arange(size, dtype=np.float32) + 100 * number + first
        parts.append((None if number in holes else facula.from_numpy(values.copy()), size))
        whole.append(np.zeros_like(values) if number in holes else values)
    return Strip(parts, facula.float32), np.concatenate(whole)


def test_parts_of_strips():
    made, want = strip([3, 1, 0, 4, 2], {1}, 1)
    for start in range(len(want) + 1):
        for stop in range(start, len(want) + 3):
            part = made[start:stop]
            assert part.numel() == len(want[start:stop])
            np.testing.assert_array_equal(part.joined().numpy(), want[start:stop])


@pytest.mark.parametrize("other", [[3, 1, 0, 4, 2], [10], [1, 2, 3, 4], [5, 5]])
def test_strips_take_the_elements_of_others(other: list[int]):
    source, want = strip(other, {1}, 7)
    target, before = strip([3, 1, 0, 4, 2], {3}, 1000)
    target.copy_(source)
    expected = want.copy()
    expected[4:8] = before[4:8]  # nobody wants them
    np.testing.assert_array_equal(target.joined().numpy(), expected)
    target.copy_(facula.from_numpy(-want))
    expected = -want
    expected[4:8] = 0
    np.testing.assert_array_equal(target.joined().numpy(), expected)


def test_strips_convert():
    target = facula.empty(3, dtype=facula.float64)
    Strip([(facula.ones(2), 2), (None, 1)], facula.float32).copy_to(target)
    assert target.tolist() == [1.0, 1.0, 0.0]


# ---------------------------------------------------------------- optimizers


def adam(p: np.ndarray, grads: list[np.ndarray], lr: float, decay: float) -> np.ndarray:
    """AdamW, as the paper writes it."""
    m, v = np.zeros_like(p), np.zeros_like(p)
    for t, g in enumerate(grads, 1):
        p = p - lr * decay * p
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        p = p - lr * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
    return p


def momentum(p: np.ndarray, grads: list[np.ndarray], lr: float, decay: float) -> np.ndarray:
    """SGD with momentum 0.9."""
    held = np.zeros_like(p)
    for g in grads:
        held = 0.9 * held + g + decay * p
        p = p - lr * held
    return p


@pytest.mark.parametrize("foreach", [None, False])
@pytest.mark.parametrize("kind", ["AdamW", "SGD"])
def test_steps_are_taken_on_the_pieces(
    mesh: Any, monkeypatch: pytest.MonkeyPatch, kind: str, foreach: bool | None
):
    """A step was a chain of operators on distributed tensors for each parameter: 30 launches and more."""
    draw = np.random.default_rng(1)
    start = [draw.standard_normal(shape) for shape in ((6, 5), (5,), (2, 3, 4))]
    shown = [
        nn.Parameter(distribute_tensor(facula.from_numpy(p), mesh, [place]))
        for p, place in zip(start, (Shard(0), Replicate(), Shard(1)), strict=True)
    ]
    make: Any = facula.optim.AdamW if kind == "AdamW" else facula.optim.SGD
    more = {} if kind == "AdamW" else {"momentum": 0.9}
    optimizer = make(shown, lr=0.1, weight_decay=0.01, foreach=foreach, **more)
    grads = [[draw.standard_normal(p.shape) for p in start] for _ in range(4)]
    seen: list[Any] = []
    whole = dtensor._run
    for number, row in enumerate(grads):
        for p, g in zip(shown, row, strict=True):
            p.grad = distribute_tensor(facula.from_numpy(g), mesh, p.placements)
        before = [(p._version, p.to_local()._version) for p in shown]
        if number:  # the first one makes states
            monkeypatch.setattr(dtensor, "_run", lambda *args: seen.append(args) or whole(*args))
        optimizer.step()
        monkeypatch.undo()
        assert all(
            p._version > a and p.to_local()._version > b
            for p, (a, b) in zip(shown, before, strict=True)
        )
    assert not seen
    oracle = adam if kind == "AdamW" else momentum
    for i, p in enumerate(start):
        want = oracle(p, [row[i] for row in grads], 0.1, 0.01)
        np.testing.assert_allclose(shown[i].full_tensor().detach().numpy(), want, rtol=1e-12)


def test_a_gradient_that_lies_otherwise_goes_by_operators(mesh: Any):
    value = np.arange(6.0).reshape(2, 3)
    p = nn.Parameter(distribute_tensor(facula.from_numpy(value.copy()), mesh, [Shard(0)]))
    p.grad = distribute_tensor(facula.ones(2, 3, dtype=facula.float64), mesh, [Replicate()])
    facula.optim.SGD([p], lr=0.5).step()
    np.testing.assert_array_equal(p.full_tensor().detach().numpy(), value - 0.5)


def test_pieces_that_are_written_to_while_they_are_gathered_are_gathered_again(mesh: Any):
    """Whole parameters were those from before."""
    model = fully_shard(nn.Linear(2, 2, bias=False), mesh=mesh)
    handle = model.unshard(async_op=True)
    with facula.no_grad():
        model.weight.fill_(3.0)
    handle.wait()
    assert model.weight.tolist() == [[3.0, 3.0], [3.0, 3.0]]


def resident() -> int:
    """Bytes of this process in memory."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * mmap.PAGESIZE


def test_whole_parameters_leave_memory_between_uses(mesh: Any, monkeypatch: pytest.MonkeyPatch):
    """Their storages were empty, and their memory stayed."""
    monkeypatch.setattr(leaf, "IDLE", 0)
    side = 3000  # 36 MB
    model = fully_shard(nn.Linear(side, side), mesh=mesh, reshard_after_forward=True)
    want = model.weight.to_local().detach().clone()
    bias = model.bias.to_local().detach().clone()
    for _ in range(2):
        model.unshard()
        assert facula.equal(model.weight.detach(), want)
        whole = resident()
        model.reshard()
        assert whole - resident() > 0.8 * 4 * side * side
    x = facula.ones(1, side)
    y = model(x).detach()[0, :5].numpy()
    np.testing.assert_allclose(y, want[:5].numpy().sum(1) + bias[:5].numpy(), rtol=1e-4, atol=1e-4)


def test_whole_parameters_between_uses_keep_so_much_memory_and_no_more(
    mesh: Any, monkeypatch: pytest.MonkeyPatch
):
    gave: list[int] = []
    whole = leaf.give_back
    forms = [leaf.Leaf([], (100 * n,), facula.float32, False) for n in (1, 2, 3)]
    monkeypatch.setattr(leaf, "give_back", lambda t: gave.append(t.numel()) or whole(t))
    monkeypatch.setattr(leaf, "IDLE", leaf._IDLE.bytes + 4 * 500)
    before = leaf._IDLE.bytes
    for form in forms:
        form.take()
        form.free()
    assert gave == [100] and leaf._IDLE.bytes == before + 4 * 500
    forms[1].take().fill_(2.0)
    assert leaf._IDLE.bytes == before + 4 * 300
    forms[0].take()
    forms[0].free()
    forms[0].free()  # nothing more
    assert gave == [100] and leaf._IDLE.bytes == before + 4 * 400
    forms[1].free()
    assert gave == [100, 300] and leaf._IDLE.bytes == before + 4 * 300
    del forms
    assert leaf._IDLE.bytes == before


def test_between_steps_a_rank_keeps_less_than_the_largest_unit(mesh: Any):
    """256 MiB of whole parameters stayed, and what steps had freed."""
    model = nn.Sequential(*[nn.Linear(2000, 2000, bias=False) for _ in range(6)])  # 16 MB each
    for layer in model:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    core.empty_cache()
    before, largest = leaf._IDLE.largest, 4 * 2000 * 2000
    leaf._IDLE.largest = largest
    try:
        for _ in range(2):
            model(facula.ones(2, 2000)).sum().backward()
            assert leaf._IDLE.bytes <= largest
            assert leaf._IDLE.bytes + core.memory_stats()["cached"] <= largest + leaf.SLACK
    finally:
        leaf._IDLE.largest = before


def test_a_form_that_is_gathered_has_the_pages_of_one_that_is_not(monkeypatch: pytest.MonkeyPatch):
    """Each form kept its own memory: twelve layers held that of twelve while two were in use."""
    monkeypatch.setattr(leaf, "_IDLE", leaf._Idle())
    count = 1 << 20  # 4 MB
    forms = [leaf.Leaf([], (count + n,), facula.float32, False) for n in (0, 3, 5)]
    for form in forms:  # each is written, and rests
        form.take().fill_(1.0)
        form.free()
    assert leaf._IDLE.bytes <= 4 * count + leaf.LEAST  # that of the first went on
    for number, form in enumerate(forms):
        before = resident()
        assert form.take().fill_(float(number)).eq(number).all()
        assert resident() - before < 3 << 20  # and what is compared with
        form.free()


def test_forms_of_other_sizes_share_pages_without_loss(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(leaf, "_IDLE", leaf._Idle())
    random = np.random.RandomState(3)
    forms = [leaf.Leaf([], (int(n),), facula.int32, False) for n in random.randint(1, 600_000, 12)]
    whole: dict[int, int] = {}
    for step in range(400):
        number = int(random.randint(len(forms)))
        form = forms[number]
        if number in whole:
            assert form.tensor.eq(whole.pop(number)).all()
            form.free()
        else:
            form.take().fill_(step)
            whole[number] = step
    assert leaf._IDLE.bytes == sum(leaf._IDLE.sizes.values())


def test_where_the_system_moves_no_pages_forms_have_new_ones(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(leaf, "_IDLE", leaf._Idle())
    monkeypatch.setattr(pages, "_mremap", lambda *args: pages._FAILED)
    first, second = (leaf.Leaf([], (1 << 18,), facula.float32, False) for _ in range(2))
    second.take().fill_(2.0)
    first.take().fill_(1.0)
    assert first.tensor.eq(1).all() and second.tensor.eq(2).all()
    assert leaf._IDLE.bytes == 0
