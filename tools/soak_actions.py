"""What the soak does: random operators, graphs, views, writes, hooks, threads, collections, forks, pickles.

Takes: seconds, a seed, a folder (as JSON, the one argument).
Gives: a line of figures; an exception (status 1) where a value is wrong.
Keeps true: tensors that live from one action to others lie in one pool of bounded size; an exception
that an operator raises on its arguments is part of the program.
"""

from __future__ import annotations

import copy
import ctypes
import gc
import io
import json
import math
import os
import pickle
import random
import resource
import sys
import threading
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

from guarded_child import Progress
from sweep import FAULTS
from sweep_cases import DTYPES, NAMES, Case, cases, told

import facula
from facula import core
from facula.core import Tensor

POOL = 48
SMOOTH: tuple[Callable[..., Tensor], ...] = (
    lambda x, y: x * y, lambda x, y: x + y, lambda x, y: x.sin() - y, lambda x, y: (x @ y.mT).tanh(),
    lambda x, y: facula.cat([x, y], 0)[: len(x)], lambda x, y: facula.where(x > 0, x, y),
    lambda x, y: x.softmax(-1) + y.mean(0), lambda x, y: facula.stack([x, y]).amax(0),
    lambda x, y: facula.nn.functional.layer_norm(x, x.shape[-1:]) * y.sigmoid(),
    lambda x, y: x[:, facula.tensor([3, 1, 2, 0])] * y.cumsum(1), lambda x, y: x.flip(0).exp().log1p() + y,
)  # fmt: skip


def near(a: Tensor, b: Tensor) -> bool:
    """Two ways to one gradient: equal but for roundings of the largest element, where it is finite."""
    bound = a.abs().max().item()
    return not math.isfinite(bound) or (a - b).abs().max().item() <= 1e-3 * bound + 1e-5


class Soak:
    """The state of a run: random numbers and the pool of living tensors."""

    def __init__(self, seed: int, progress: Progress, folder: str) -> None:
        self.random = random.Random(seed)
        self.progress, self.folder, self.seed = progress, folder, seed
        self.pool: list[Tensor] = [facula.ones(4, 4) for _ in range(8)]
        self.counts = Counter[str]()

    def kept(self, value: Any) -> None:
        """Puts the tensors of a result among those that live on."""
        for x in value if isinstance(value, (tuple, list)) else [value]:
            if isinstance(x, Tensor) and x.numel() < 1 << 16 and x.device.type == "cpu":
                if len(self.pool) >= POOL:
                    self.pool[self.random.randrange(POOL)] = x
                else:
                    self.pool.append(x)

    def square(self) -> Tensor:
        """A 4x4 tensor: one of the pool or a new one."""
        n = self.random
        found = [x for x in self.pool if x.shape == (4, 4) and x.dtype == facula.float32]
        if found and n.random() < 0.5:
            return n.choice(found).detach()
        return facula.tensor([[n.uniform(-1, 1) for _ in range(4)] for _ in range(4)])

    # ---- actions ----

    def operator(self) -> None:
        """Some cases of one operator and dtype, as in the sweep."""
        name, dtype = self.random.choice(NAMES), self.random.choice(DTYPES[:12])
        series = cases(name, dtype, self.seed, guesses=2)
        for number, (text, action) in enumerate(series):
            if number >= 60:
                break
            if self.random.random() < 0.4:
                self.attempt((text, action), dtype)

    def attempt(self, case: Case, dtype: str) -> None:
        """One case; only what nobody meant is a fault."""
        self.progress.say(f"{dtype}: {case[0]}")
        self.counts["calls"] += 1
        try:
            case[1]()
        except FAULTS as error:
            if not str(error).startswith("["):
                raise
        except Exception:
            self.counts["refused"] += 1

    def graph(self) -> None:
        """A graph with branches, whose gradient is that of the same graph made again."""
        n, leaves = self.random, [self.square().clone().requires_grad_() for _ in range(3)]
        plan = [(n.choice(SMOOTH), n.random(), n.random()) for _ in range(n.randrange(3, 14))]
        fired: list[int] = []

        def build() -> Tensor:
            values: list[Tensor] = list(leaves)
            for function, first, second in plan:
                x, y = values[int(first * len(values))], values[int(second * len(values))]
                values.append(function(x, y) * 0.5)
                if first < 0.2 and values[-1].requires_grad:
                    values[-1].register_hook(lambda g: fired.append(1))
            return values[-1].square().sum() + sum(v.mean() for v in values[3:])

        handles = [x.register_post_accumulate_grad_hook(lambda p: fired.append(2)) for x in leaves]
        first = facula.autograd.grad(build(), leaves, create_graph=True, allow_unused=True)
        again = facula.autograd.grad(build(), leaves, allow_unused=True)
        for a, b in zip(first, again, strict=True):
            assert (a is None) == (b is None)
            assert a is None or near(a, b), (a, b)
        second = [g for g in first if g is not None and g.requires_grad]
        if second and n.random() < 0.5:
            sum(g.square().sum() for g in second).backward(retain_graph=n.random() < 0.3)
        if n.random() < 0.2:  # a hook that raises leaves nothing half done
            broken = build()
            broken.register_hook(lambda g: 1 / 0)
            try:
                broken.backward()
            except ZeroDivisionError:
                pass
        for handle in handles[: n.randrange(4)]:
            handle.remove()
        self.kept([x.grad for x in leaves])

    def views(self) -> None:
        """A chain of views, written through, against the same positions of a list of numbers."""
        n, base = self.random, facula.zeros(6, 8)
        positions = facula.arange(48).view(6, 8)
        view, where, chain = base, positions, []
        for _ in range(n.randrange(1, 5)):
            kind = n.choice(("t", "narrow", "step", "unsqueeze", "select", "unfold"))
            if kind == "select" and view.dim() < 2:
                continue
            size = view.shape[0]
            steps: dict[str, Callable[[Tensor], Tensor]] = {
                "t": lambda x: x.transpose(0, -1),
                "narrow": lambda x, size=size: x.narrow(0, size // 3, max(1, size // 2)),  # type: ignore[misc]
                "step": lambda x: x[::2],
                "unsqueeze": lambda x: x.unsqueeze(1),
                "select": lambda x, size=size: x.select(0, size - 1),  # type: ignore[misc]
                "unfold": lambda x, size=size: x.unfold(0, max(1, size // 2), max(1, size // 2)),  # type: ignore[misc]
            }
            view, where = steps[kind](view), steps[kind](where)
            chain.append(view)
        view.add_(2)
        n.choice((view.mul_, view.add_))(2)
        written = set(where.flatten().tolist())
        values = base.flatten().tolist()
        assert all((values[at] != 0) == (at in written) for at in range(48)), where
        leaf = facula.ones(6, 8, requires_grad=True)
        changed = leaf * 1
        changed[: n.randrange(1, 6)].mul_(3)
        changed[0] = 1.0
        changed.sum().backward()
        assert leaf.grad is not None and leaf.grad[0].tolist() == [0.0] * 8
        self.kept(chain)

    def write(self) -> None:
        """A write to a tensor of the pool, by a method, an index or the storage's size."""
        n, x = self.random, self.random.choice(self.pool)
        try:
            with facula.no_grad():
                n.choice((
                    lambda: x.zero_(), lambda: x.fill_(1), lambda: x.random_(0, 5),
                    lambda: x.copy_(x.clone()), lambda: x.detach()[..., :1].fill_(2),
                    lambda: x.detach().clone().resize_(n.randrange(9), n.randrange(9)).zero_(),
                    lambda: x.detach().set_(facula.ones(5)),
                ))()  # fmt: skip
        except (RuntimeError, IndexError):
            self.counts["refused"] += 1

    def collect(self) -> None:
        """A collection now, and others at odd moments."""
        gc.collect(self.random.randrange(3))
        gc.set_threshold(*self.random.choice(((700, 10, 10), (50, 2, 2), (7, 3, 3), (2000, 5, 5))))
        x = facula.ones(3, requires_grad=True)
        cycle = (x**3).sum()
        cycle.itself = cycle
        (x * 2).sum().backward(create_graph=True)

    def pickled(self) -> None:
        """Tensors through pickle, copy and files; the latter two keep shared memory shared."""
        n, x = self.random, self.random.choice(self.pool).detach()
        kind = n.randrange(3)
        if kind == 0:
            a, b = pickle.loads(pickle.dumps((x, x.view(x.shape))))
        elif kind == 1:
            a, b = copy.deepcopy([x, x.view(x.shape)])
        else:
            stream = io.BytesIO()
            facula.save([x, x.view(x.shape)], stream)
            stream.seek(0)
            a, b = facula.load(stream)
        assert a.dtype == x.dtype and a.shape == x.shape
        assert kind == 0 or a.numel() == 0 or a.data_ptr() == b.data_ptr(), (kind, told(x))
        self.kept(a)

    def threads(self) -> None:
        """Actions in several threads, that share the tensors of the pool."""
        failures: list[BaseException] = []

        def work(soak: Soak) -> None:
            try:
                for _ in range(4):
                    soak.one(THREADED)
            except BaseException as error:
                failures.append(error)

        others = [
            Soak(self.random.randrange(1 << 30), self.progress, self.folder) for _ in range(3)
        ]
        for soak in others:
            soak.pool = self.pool[:8] + soak.pool
        started = [threading.Thread(target=work, args=(soak,)) for soak in others]
        for thread in started:
            thread.start()
        for thread in started:
            thread.join()
        if failures:
            raise failures[0]
        x = facula.ones(1 << 18)
        assert (x + x).sum().item() == 1 << 19  # in the pool of threads
        for soak in others:
            self.counts.update(soak.counts)

    def forked(self) -> None:
        """A child that goes on from here, with threads of its own, and leaves."""
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                assert (facula.ones(1 << 18) * 2).sum().item() == 1 << 19
                for _ in range(3):
                    self.one(THREADED)
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        _, status = os.waitpid(child, 0)
        assert status == 0, f"a forked child ended with status {status}"

    def settings(self) -> None:
        """Numbers of threads, caches and their limits."""
        n = self.random
        n.choice((
            lambda: facula.set_num_threads(n.randrange(1, 5)), core.empty_cache,
            lambda: core.set_cache_limit(n.choice((0, 1 << 20, 1 << 28))), core.check_heap,
        ))()  # fmt: skip

    def one(self, kinds: dict[str, int]) -> None:
        """An action, chosen by weight."""
        (kind,) = self.random.choices(list(kinds), list(kinds.values()))
        self.progress.say(kind)
        self.counts[kind] += 1
        getattr(self, kind)()


THREADED = {"operator": 3, "graph": 5, "views": 4, "write": 4, "pickled": 2, "collect": 1}
EVERY = {**THREADED, "threads": 2, "forked": 1, "settings": 1}


def resident() -> int:
    """Bytes of this process in memory."""
    with open("/proc/self/statm") as stream:
        return int(stream.read().split()[1]) * resource.getpagesize()


def level(soak: Soak) -> tuple[int, int]:
    """Resident bytes and living storages, with nothing left to collect and an empty pool."""
    soak.pool = [facula.ones(4, 4) for _ in range(8)]
    core.set_cache_limit(1 << 28)
    facula.set_num_threads(2)
    gc.collect()
    core.empty_cache()
    ctypes.CDLL(None).malloc_trim(0)  # what is free in it is nobody's
    return resident(), core.memory_stats()["live"]


def main() -> None:
    task = json.loads(sys.argv[1])
    warnings.simplefilter("ignore")
    core.set_memory_limit(2 << 30)
    facula.manual_seed(task["seed"])
    soak = Soak(task["seed"], Progress(task["progress"]), task["folder"])
    begin, before = time.monotonic(), None
    while (spent := time.monotonic() - begin) < task["seconds"]:
        if before is None and spent > task["seconds"] / 3:
            before = level(soak)
        soak.one(EVERY)
    after, checked = level(soak), core.check_heap()
    names = {"resident before": (before or after)[0], "live before": (before or after)[1]}
    names |= {"resident": after[0], "live": after[1], "checked": checked}
    names["actions"] = sum(soak.counts[kind] for kind in EVERY)
    print("actions " + ", ".join(f"{count} {kind}" for kind, count in sorted(soak.counts.items())))
    print("figures " + json.dumps(names), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
