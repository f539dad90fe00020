"""Long runs keep their memory: training steps, exceptions, views, hooks and cycles leave nothing behind."""

import gc
import resource
import time
import weakref

import pytest

import facula
from facula import core
from facula.nn import functional as F


def resident():
    """Bytes of this process in memory."""
    with open("/proc/self/statm") as stream:
        return int(stream.read().split()[1]) * resource.getpagesize()


def test_training_loop():
    facula.manual_seed(0)
    model = facula.nn.Sequential(
        facula.nn.Linear(16, 64), facula.nn.LayerNorm(64), facula.nn.GELU(), facula.nn.Dropout(0.1),
        facula.nn.Linear(64, 4),
    )  # fmt: skip
    optimizer = facula.optim.AdamW(model.parameters(), lr=1e-3)
    x, target = facula.randn(32, 16), facula.randint(0, 4, (32,))
    live, memory, losses = [], [], []
    for step in range(2000):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), target)
        loss.backward()
        optimizer.step()
        if step % 200 == 199:
            losses.append(loss.item())
            live.append(core.memory_stats()["live"])
            memory.append(resident())
    assert losses[-1] < 0.5 * losses[0]
    assert len(set(live)) == 1
    assert memory[-1] - memory[1] < 2 << 20


def settled():
    """Collect garbage until nothing more goes."""
    for _ in range(100):
        before = core.memory_stats()["live"]
        time.sleep(0.01)
        if gc.collect() == 0 and core.memory_stats()["live"] == before:
            return


def grown(action, count):
    """Storages alive and bytes resident that `count` runs add to those after a warm-up."""
    for _ in range(20):
        action()
    settled()  # what other tests left (cycles behind finalizers, threads that end) is not to be counted
    live, memory = core.memory_stats()["live"], resident()
    for _ in range(count):
        action()
    gc.collect()
    return core.memory_stats()["live"] - live, resident() - memory


def failing():
    x = facula.ones(100, requires_grad=True)
    y = (x * 2).exp()
    with pytest.raises(RuntimeError):
        y + facula.ones(7)
    with pytest.raises(RuntimeError):
        y.backward()


def second_order():
    x = facula.ones(20, requires_grad=True)
    (g,) = facula.autograd.grad((x**3).sum(), x, create_graph=True)
    g.sum().backward()


def graph_without_backward():
    x = facula.ones(50, requires_grad=True)
    for _ in range(10):
        x = x.sin() * 2


def views_written():
    x = facula.ones(10, requires_grad=True)
    y = x * 1
    y[2:5].mul_(3)
    y[0] = 1.0
    y.sum().backward()


def hooked():
    x = facula.ones(5, requires_grad=True)
    y = x * 2
    y.register_hook(lambda g: g * y.detach())
    x.register_post_accumulate_grad_hook(lambda p: None)
    y.sum().backward()


class Cube(facula.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.also = x
        return x**3

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * x**2 * g


def custom_function():
    x = facula.ones(5, requires_grad=True)
    Cube.apply(x * 2).sum().backward()
    Cube.apply(x)  # never run backward


def interchange():
    array = facula.ones(100).numpy()
    facula.from_dlpack(facula.from_numpy(array)).sum()
    facula.tensor(array.tolist())


def lists_of_operators():
    x = facula.randn(8, 8)
    facula.cat([x, x.t()]).sort(1)
    x[facula.randint(0, 8, (5,))].unique()
    facula.einsum("ij,jk->ik", x, x).topk(3)
    F.conv2d(facula.randn(1, 2, 6, 6), facula.randn(3, 2, 3, 3))


def checkpointed():
    x = facula.ones(10, requires_grad=True)
    facula.utils.checkpoint.checkpoint(
        lambda x: x.sin().exp(), x, use_reentrant=False
    ).sum().backward()


@pytest.mark.parametrize(
    "action",
    [failing, second_order, graph_without_backward, views_written, hooked, custom_function, interchange,
     lists_of_operators, checkpointed],
)  # fmt: skip
def test_repetition_leaves_nothing(action):
    live, memory = grown(action, 500)
    assert live == 0
    assert memory < 1 << 20


@pytest.mark.filterwarnings("ignore:.*will create a reference cycle")
def test_create_graph_cycles_are_collected():
    """A gradient with history that is stored in its leaf is a cycle; collecting garbage frees it."""
    gc.collect()
    live = core.memory_stats()["live"]
    for _ in range(50):
        x = facula.ones(100, requires_grad=True)
        (x**3).sum().backward(create_graph=True)
    del x
    gc.collect()
    assert core.memory_stats()["live"] == live


def test_cycles_through_attributes_and_modules():
    class Module(facula.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = facula.nn.Parameter(facula.ones(3))
            self.weight.owner = self
            self.hooked = self.weight.register_hook(lambda g: g * len(list(self.parameters())))

    module = Module()
    (module.weight * 2).sum().backward()
    gone = weakref.ref(module.weight)
    del module
    gc.collect()
    assert gone() is None


def test_a_tensor_in_its_own_graph_is_collected():
    x = facula.ones(3, requires_grad=True)
    y = x * 2
    y.itself = y
    node = y.grad_fn
    node.metadata["tensor"] = y
    gone = weakref.ref(y)
    del x, y, node
    gc.collect()
    assert gone() is None
