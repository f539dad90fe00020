"""What other threads do while a program is compiled or runs backward does not change what comes out."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy
import pytest

import facula
from facula import core


class Other:
    """Another thread that stands in the middle of a backward run from `begin` to `end`."""

    def __init__(self) -> None:
        self.inside, self.done = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self._run)

    def begin(self, *args: Any) -> None:
        self.thread.start()
        assert self.inside.wait(60)

    def end(self) -> None:
        self.done.set()
        self.thread.join()

    def _run(self) -> None:
        y = facula.ones(3, requires_grad=True) * 2
        y.register_hook(self._wait)
        y.sum().backward()

    def _wait(self, grad: Any) -> None:
        self.inside.set()
        assert self.done.wait(60)


@pytest.fixture
def other() -> Iterator[Other]:
    found = Other()
    yield found
    found.end()


def test_gradients_under_functionalize(other: Other) -> None:
    def function(x: Any) -> Any:
        part = x[:, :2].sum()
        part.register_hook(other.begin)  # before the gradient of the slice, which writes into zeros
        (found,) = facula.autograd.grad(part, x)
        return found

    x = facula.randn(3, 5).requires_grad_()
    want = numpy.zeros((3, 5))
    want[:, :2] = 1
    assert numpy.array_equal(facula.func.functionalize(function)(x).numpy(), want)


def test_gradients_of_what_is_compiled_by_several() -> None:
    def function(x: Any) -> Any:
        return x.sin() + x[:, : x.shape[1] // 2].sum()

    compiled, wrong = facula.compile(function), []

    def work(seed: int) -> None:
        for n in (4, 6, 9, 12, 7, 30):
            x = facula.randn(3, n, generator=facula.Generator().manual_seed(seed)).requires_grad_()
            compiled(x).sum().backward()
            want = numpy.cos(x.detach().numpy().astype("float64"))
            want[:, : n // 2] += 3 * n  # the sum stands in each of so many results
            if not numpy.allclose(x.grad.numpy(), want, rtol=1e-4):
                wrong.append((seed, n))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_the_run_under_way_is_the_threads_own(other: Other) -> None:
    numbers = []

    def hook(grad: Any) -> None:
        numbers.append(core.current_graph_task_id())
        other.begin()
        numbers.append(core.current_graph_task_id())

    y = facula.ones(2, requires_grad=True) * 3
    y.register_hook(hook)
    y.sum().backward()
    assert numbers[0] == numbers[1] != -1
    assert core.current_graph_task_id() == -1


def test_callbacks_belong_to_the_threads_own_run(other: Other) -> None:
    called: list[str] = []

    def hook(grad: Any) -> None:
        other.begin()
        core.queue_callback(lambda: called.append("here"))

    y = facula.ones(2, requires_grad=True) * 3
    y.register_hook(hook)
    y.sum().backward()
    assert called == ["here"]
