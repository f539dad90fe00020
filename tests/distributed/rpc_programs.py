"""What workers do in `test_rpc.py`: each function's result is printed as JSON."""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from typing import Any

from joined import error_of
from ranks import DEADLINE

import facula
from facula import nn
from facula.distributed import rpc
from facula.distributed.pipeline.sync import Pipe, pop, skippable, stash
from facula.distributed.rpc import api, requests
from facula.distributed.rpc.agent import Agent
from facula.futures import Future


def begin(seconds: float = 60) -> int:
    """Join the workers."""
    rank = int(os.environ["RANK"])
    options = rpc.TensorPipeRpcBackendOptions(rpc_timeout=seconds)
    rpc.init_rpc(f"w{rank}", rank=rank, rpc_backend_options=options)
    return rank


def without_grpc() -> Any:
    """One worker's installation lacks gRPC."""
    if os.environ["RANK"] == os.environ["WITHOUT_GRPC"]:
        sys.modules["grpc"] = None  # type: ignore[assignment]
    start = time.monotonic()
    return [*error_of(begin), time.monotonic() - start]


class Counter:
    """Something that has a state."""

    alive = 0

    def __init__(self, start: int) -> None:
        self.value = start
        Counter.alive += 1

    def __del__(self) -> None:
        Counter.alive -= 1

    def add(self, number: int) -> int:
        self.value += number
        return self.value


def alive() -> int:
    return Counter.alive


def boom(text: str) -> None:
    raise KeyError(text)


def sleep(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def end() -> None:
    os._exit(3)


def add_by(reference: Any, number: int) -> int:
    """Counts by a reference that came along."""
    return reference.rpc_sync().add(number)


@rpc.functions.async_execution
def later(value: int) -> Any:
    """Answers with a future's value."""
    future: Future = Future()
    future.set_result(value)
    return future.then(lambda done: done.value() * 2)


def triangle(depth: int) -> int:
    """Calls back and forth."""
    if depth == 0:
        return 0
    other = f"w{1 - rpc.get_worker_info().id}"
    return depth + rpc.rpc_sync(other, triangle, args=(depth - 1,))


def product(x: Any, y: Any) -> Any:
    """Uses a tensor twice, and calls back with it."""
    return rpc.rpc_sync("w0", facula.mul, args=(x, y)) + x


def calls() -> Any:
    rank, found = begin(), {}
    if rank == 0:
        x = facula.arange(4).to(facula.bfloat16)
        found["sum"] = rpc.rpc_sync("w1", facula.add, args=(x, x)).tolist()
        found["own"] = rpc.rpc_sync("w0", pow, args=(2, 3))
        found["nested"] = rpc.rpc_sync("w1", triangle, args=(6,))
        found["later"] = rpc.rpc_sync("w1", later, args=(4,))
        found["boom"] = error_of(rpc.rpc_sync, "w1", boom, args=("nothing",))
        found["late"] = error_of(rpc.rpc_sync, "w1", sleep, args=(2.0,), timeout=0.2)
        found["who"] = error_of(rpc.rpc_sync, "w7", boom, args=("x",))
        found["local"] = error_of(rpc.rpc_sync, "w1", lambda: 1)
        with rpc.wait_all():
            held = rpc.rpc_async("w1", sleep, args=(0.1,))
        found["waited"] = held.done()
    rpc.shutdown()
    found["after"] = error_of(rpc.rpc_sync, "w0", sleep)
    return found


def early() -> Any:
    """A worker is called when it still meets the others."""
    meet = Agent._meet

    def slowly(agent: Agent) -> Any:
        found = meet(agent)
        time.sleep(0.5 if agent.info.id else 0)
        return found

    Agent._meet = slowly  # type: ignore[method-assign]
    rank = begin()
    value = rpc.rpc_sync("w1", triangle, args=(2,)) if rank == 0 else None
    rpc.shutdown()
    return value


def gathering() -> Any:
    """Each worker's value on all of them, also of some of them; one that does not come is named."""
    gather = rpc.api._all_gather
    guarded = rpc.api._require_initialized(gather)
    before = error_of(guarded, 1)
    rank = begin()
    rounds = [guarded((rank, k)) for k in range(3)]
    tensor = gather(facula.full((2,), float(rank)))
    some = gather(rank * 10, {"w0", "w2"}) if rank != 1 else error_of(gather, 0, {"w0", "w2"})
    rpc.api._barrier()
    late = error_of(gather, 0, {"w0", "w1"}, 0.3) if rank == 0 else None
    rpc.shutdown()
    return {
        "before": before, "rounds": rounds, "sum": sum(t.sum().item() for t in tensor.values()),
        "some": some, "late": late, "after": rpc._is_current_rpc_agent_set(),
    }  # fmt: skip


def references() -> Any:
    rank, found = begin(), {}
    if rank == 0:
        counter = rpc.remote("w1", Counter, args=(5,))
        found["sync"] = counter.rpc_sync().add(1)
        found["there"] = rpc.rpc_sync("w2", add_by, args=(counter, 10))
        found["chain"] = counter.remote().add(100).to_here()
        found["owner"] = [counter.owner_name(), counter.is_owner(), counter._get_type().__name__]
        found["local"] = error_of(counter.local_value)
        found["pickle"] = error_of(__import__("pickle").dumps, counter)
        found["raises"] = error_of(rpc.remote("w2", boom, args=("far",)).to_here)
        mine = rpc.RRef(facula.ones(2))
        found["mine"] = rpc.rpc_sync("w1", mine.__class__.to_here, args=(mine,)).tolist()
        found["alive"] = rpc.rpc_sync("w1", alive)
        del counter
        end_of_waiting = time.monotonic() + 10
        while rpc.rpc_sync("w1", alive) and time.monotonic() < end_of_waiting:
            time.sleep(0.02)
        found["left"] = rpc.rpc_sync("w1", alive)
    rpc.shutdown()
    return found


class Collecting:
    """A lock: the collector runs where it is held."""

    def __init__(self, lock: Any) -> None:
        self.lock, self.times = lock, 0

    def __enter__(self) -> None:
        self.lock.acquire()
        self.times += 1
        gc.collect()

    def __exit__(self, *raised: Any) -> None:
        self.lock.release()


def rubbish() -> Any:
    """References that the collector finds where a pool of threads takes a call, which holds locks."""
    rank, found = begin(), {}
    if rank == 0:
        gc.freeze()
        gc.disable()
        threads = requests.agent().pool
        threads.lock = Collecting(threads.lock)  # type: ignore[assignment]
        for k in range(3):
            cycle = [rpc.remote("w1", Counter, args=(k,)), rpc.RRef(Counter(k))]
            cycle[0].rpc_sync().add(1)
            cycle.append(cycle)  # type: ignore[arg-type]
            del cycle
        end_of_waiting = time.monotonic() + 30
        while rpc.rpc_sync("w1", alive) + alive() and time.monotonic() < end_of_waiting:
            time.sleep(0.02)
        found["left"] = rpc.rpc_sync("w1", alive) + alive()
        found["collected"] = threads.lock.times > 3  # type: ignore[attr-defined]
    rpc.shutdown()
    return found


def gradients() -> Any:
    from facula.distributed import autograd
    from facula.distributed.nn.api.remote_module import RemoteModule
    from facula.distributed.optim import DistributedOptimizer

    rank, found = begin(), {}
    if rank == 0:
        x = facula.tensor([1.0, 2.0, 3.0], requires_grad=True)
        y = facula.tensor([2.0, 4.0, 6.0], requires_grad=True)
        with autograd.context() as number:
            loss = (rpc.rpc_sync("w1", product, args=(x, y)) * x).sum()  # x * (x * y + x)
            autograd.backward(number, [loss])
            grads = autograd.get_gradients(number)
            held = autograd._retrieve_context(number)
            found["context"] = isinstance(held, autograd.DistAutogradContext)
            found["context"] &= held._context_id() == number and held._known_worker_ids() == {1}
        found["x"] = (grads[x] - (2 * x * y + 2 * x).detach()).abs().max().item()
        found["y"] = (grads[y] - (x * x).detach()).abs().max().item()
        found["plain"] = x.grad is None
        found["closed"] = error_of(autograd.get_gradients, number)
        module = RemoteModule("w1/cpu", nn.Linear, args=(3, 1))
        optimizer = DistributedOptimizer(facula.optim.SGD, module.remote_parameters(), lr=0.01)
        losses = []
        for _ in range(5):
            with autograd.context() as number:
                loss = (module(x.detach()) - 1).pow(2).sum()
                autograd.backward(number, [loss])
                optimizer.step(number)
                losses.append(loss.item())
        found["falls"] = losses[-1] < losses[0]
        found["class"] = error_of(RemoteModule, "w1", Counter, (1,))
    rpc.shutdown()
    return found


def killed() -> Any:
    rank = begin()
    if rank == 1:
        time.sleep(600)
    future = rpc.rpc_async("w1", end)
    start = time.monotonic()
    found = [error_of(future.wait), error_of(rpc.rpc_sync, "w1", alive)]
    took = time.monotonic() - start
    found.append(error_of(rpc.shutdown))
    return [*found, took, time.monotonic() - start]


def failed() -> Any:
    """Worker 1's program fails while a request of worker 0 runs in it."""
    if begin() == 1:
        requests.agent().store.get("asked")
        raise ValueError("the program failed")
    future = rpc.rpc_async("w1", sleep, (DEADLINE,), timeout=0)
    requests.agent().store.set("asked", "1")
    start = time.monotonic()
    told = error_of(future.wait)
    rpc.shutdown(graceful=False)
    return [*told, time.monotonic() - start]


def layer(x: Any = None, p: Any = None) -> Any:
    """A module; or what arrived: kinds, and what requires gradients."""
    if x is None:
        made = nn.Linear(2, 2)
        made.bias.requires_grad_(False)
        return made
    return [type(x).__name__, x.requires_grad, x.is_leaf, type(p).__name__, p.requires_grad]


def modules() -> Any:
    """Modules and tensors that require gradients travel as they are."""
    rank, found = begin(), {}
    if rank == 0:
        got = rpc.rpc_sync("w1", layer)
        got(facula.ones(1, 2)).sum().backward()
        weight, bias = got.weight, got.bias
        found["module"] = [type(weight).__name__, weight.requires_grad, bias.requires_grad]
        found["gradient"] = got.weight.grad.tolist()
        given = facula.ones(2, requires_grad=True), nn.Parameter(facula.ones(2))
        found["given"] = rpc.rpc_sync("w1", layer, given)
        frozen = facula.ones(2), nn.Parameter(facula.ones(2), requires_grad=False)
        found["frozen"] = rpc.rpc_sync("w1", layer, frozen)
    rpc.shutdown()
    return found


def chained() -> Any:
    """Worker 2 dies, for which worker 1 ends; worker 0 only knows of worker 1."""
    rank = begin()
    if rank == 2:
        api._barrier()
        api.STATE.store.wait(
            ["all are through"]
        )  # who dies at once may take the barrier's answer along
        os._exit(1)
    if rank == 1:
        api._barrier()
        error_of(rpc.rpc_sync, "w2", time.sleep, (600,))
        os._exit(1)
    api._barrier()
    api.STATE.store.set("all are through", b"")
    return error_of(rpc.rpc_sync, "w1", time.sleep, (600,))


def patient() -> Any:
    """One is through long before the other, which is called meanwhile and works longer than a call may take."""
    rank = begin()
    rpc._set_rpc_timeout(3.0)
    api._LOOK = 0.1
    if rank == 1:
        for _ in range(80):
            rpc.rpc_sync("w0", pow, args=(2, 3), timeout=60)
            time.sleep(0.05)
    rpc.shutdown()
    return True


@skippable(stash=["early"])
class Early(nn.Module):
    def forward(self, x: Any) -> Any:
        yield stash("early", x)
        return x * 2


@skippable(pop=["early"])
class Late(nn.Module):
    def forward(self, x: Any) -> Any:
        return x + (yield pop("early"))


def pipe() -> Any:
    rpc.init_rpc("alone", rank=0, world_size=1)
    facula.manual_seed(0)
    layers = nn.Sequential(Early(), nn.Linear(3, 3), Late(), nn.Linear(3, 2))
    x = facula.randn(7, 3, requires_grad=True)
    want = layers[3](layers[1](x * 2) + x)
    grads = facula.autograd.grad(want.sum(), [x, *layers.parameters()])
    found = {}
    for kind in ("never", "except_last", "always"):
        x.grad = None
        layers.zero_grad()
        out = Pipe(layers, chunks=3, checkpoint=kind)(x).local_value()
        out.sum().backward()
        got = [x.grad, *(p.grad for p in layers.parameters())]
        pairs = zip([out, *got], [want, *grads], strict=True)
        found[kind] = max((a - b).abs().max().item() for a, b in pairs)
    found["unmatched"] = error_of(Pipe, nn.Sequential(Early(), nn.Linear(3, 3)))
    found["chunks"] = error_of(Pipe, nn.Sequential(nn.Linear(3, 3)), chunks=0)
    rpc.shutdown()
    return found


if __name__ == "__main__":
    import rpc_programs  # the module that both sides import functions from

    print(json.dumps(getattr(rpc_programs, sys.argv[1])()))
