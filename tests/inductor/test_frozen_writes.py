"""Compiled inference sees every write to a weight, whatever way it takes: against the eager module."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from typing import Any

import numpy
import pytest

import facula
from facula import core, nn
from facula._dynamo.utils import counters
from facula.compiler import backend

Writer = Callable[[], Any]


class Net(nn.Module):
    """Images and rows, with a norm between: all that is packed or folded."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(20, 20, 3, padding=1), nn.BatchNorm2d(20)
        self.rows = nn.Linear(20, 20)

    def forward(self, x: Any) -> Any:
        return self.rows(self.norm(self.conv(x)).relu().flatten(2).mT)


def made() -> tuple[Any, Any]:
    """A net in evaluation and its input."""
    facula.manual_seed(5)
    net = Net().eval()
    net.norm.running_mean.normal_()
    net.norm.running_var.uniform_(0.5, 2.0)
    return net.requires_grad_(False), facula.randn(2, 20, 9, 7)


def weights(net: Any) -> list[Any]:
    return [net.conv.weight, net.norm.running_mean, net.norm.weight, net.rows.weight, net.rows.bias]


def doubling(address: int, count: int) -> Writer:
    """Doubles numbers at an address, as C would."""
    floats = (ctypes.c_float * count).from_address(address)

    def write() -> None:
        for i in range(count):
            floats[i] = 2 * floats[i]

    return write


def on_bytes(view: Any) -> Writer:
    floats = memoryview(view).cast("B").cast("f")

    def write() -> None:
        for i in range(len(floats)):
            floats[i] = 2 * floats[i]

    return write


def through_memory_view_of_numpy(p: Any) -> Writer:
    return on_bytes(p.numpy().reshape(-1).view(numpy.uint8))


def stored(p: Any) -> Any:
    return p.untyped_storage()


def numbers_again(p: Any) -> Writer:
    """The storage's bytes as a list, written back doubled."""

    def write() -> None:
        doubled = (p.detach().reshape(-1) * 2).view(facula.uint8).tolist()
        stored(p).copy_(facula.UntypedStorage(doubled))

    return write


def one_byte_at_a_time(p: Any) -> Writer:
    def write() -> None:
        doubled = (p.detach().reshape(-1) * 2).view(facula.uint8).tolist()
        for i, byte in enumerate(doubled):
            stored(p)[i] = byte

    return write


def smaller_and_larger(p: Any) -> Writer:
    def write() -> None:
        kept, size = p.detach().clone(), stored(p).nbytes()
        stored(p).resize_(0)
        stored(p).resize_(size)
        p.data.copy_(kept * 2)

    return write


def in_a_child(p: Any) -> Writer:
    """Another process writes to shared memory."""
    p.share_memory_()

    def write() -> None:
        child = os.fork()
        if child == 0:
            floats = (ctypes.c_float * p.numel()).from_address(core.address_of(p))
            for i in range(p.numel()):
                floats[i] = 2 * floats[i]
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0

    return write


def by_an_optimizer(p: Any) -> Writer:
    """A step that takes the weight to its double."""
    optimizer = facula.optim.SGD([p], lr=1.0)

    def write() -> None:
        p.grad = -p.detach().clone()
        optimizer.step()

    return write


def loaded(p: Any) -> Writer:
    box = nn.ParameterList([p])
    return lambda: box.load_state_dict({"0": p.detach() * 2})


#: ways to write, each split in two: what the writer holds on to, and the write
WAYS: dict[str, Callable[[Any], Writer]] = {
    "in place": lambda p: lambda: p.mul_(2),
    "through data": lambda p: lambda: p.data.mul_(2),
    "through a kept alias": lambda p: (lambda a: lambda: a.mul_(2))(p.data),
    "through a detached view": lambda p: (lambda a: lambda: a.mul_(2))(p.detach().reshape(-1)),
    "out=": lambda p: lambda: facula.mul(p.detach().clone(), 2, out=p.data),
    "other memory": lambda p: lambda: setattr(p, "data", p.data * 2),
    "set_": lambda p: lambda: p.set_((p.detach() * 2).contiguous()),
    "an optimizer's step": by_an_optimizer,
    "load_state_dict": loaded,
    "data_ptr": lambda p: doubling(p.data_ptr(), p.numel()),
    "data_ptr of a view": lambda p: doubling(p.detach().reshape(-1)[:].data_ptr(), p.numel()),
    "const_data_ptr": lambda p: doubling(p.const_data_ptr(), p.numel()),
    "data_ptr of the storage": lambda p: doubling(stored(p).data_ptr(), p.numel()),
    "data_ptr of the typed storage": lambda p: doubling(p.storage().data_ptr(), p.numel()),
    "the storage's buffer": lambda p: on_bytes(stored(p)),
    "NumPy on the storage": lambda p: on_bytes(numpy.frombuffer(stored(p), numpy.uint8)),
    "copy_ of the storage": numbers_again,
    "items of the storage": one_byte_at_a_time,
    "another size of the storage": smaller_and_larger,
    "numpy()": through_memory_view_of_numpy,
    "numpy.asarray": lambda p: on_bytes(numpy.asarray(p).reshape(-1)),
    "the address of an array": lambda p: doubling(p.numpy().ctypes.data, p.numel()),
    "DLPack": lambda p: doubling(numpy.from_dlpack(p).ctypes.data, p.numel()),
    "another process": in_a_child,
}


@pytest.mark.parametrize("held", ["before compiling", "after a call"])
@pytest.mark.parametrize("way", WAYS)
def test_a_write_is_seen(way: str, held: str) -> None:
    net, x = made()
    compiled = facula.compile(net)
    with facula.no_grad():
        if held == "after a call":
            compiled(x)
        writers = [WAYS[way](p) for p in weights(net)]
        compiled(x)
        for write in writers * 2:  # a pointer that was handed out serves again
            before = net(x)
            write()
            wanted = net(x)
            assert not facula.allclose(before, wanted)
            facula.testing.assert_close(compiled(x), wanted, rtol=1e-4, atol=1e-4)


def foreign_array(values: Any) -> tuple[Any, Writer]:
    array = values.numpy().copy()
    return facula.from_numpy(array), lambda: array.__imul__(2)


def foreign_buffer(values: Any) -> tuple[Any, Writer]:
    memory = bytearray(values.numpy().tobytes())
    return facula.frombuffer(memory, dtype=facula.float32).view(values.shape), on_bytes(memory)


def foreign_capsule(values: Any) -> tuple[Any, Writer]:
    array = values.numpy().copy()
    return facula.from_dlpack(array), lambda: array.__imul__(2)


def mapped_file(values: Any, folder: Any) -> tuple[Any, Writer]:
    path = folder / "weight.bin"
    path.write_bytes(values.numpy().tobytes())
    count = values.numel()
    mapped = facula.from_file(str(path), shared=True, size=count, dtype=facula.float32)

    def write() -> None:
        numbers = numpy.memmap(path, numpy.float32, "r+", shape=(count,))
        numbers *= 2
        numbers.flush()

    return mapped.view(values.shape), write


@pytest.mark.parametrize("kind", ["array", "buffer", "capsule", "file"])
def test_memory_of_others_is_never_frozen(kind: str, tmp_path: Any) -> None:
    makers: dict[str, Any] = {
        "array": foreign_array,
        "buffer": foreign_buffer,
        "capsule": foreign_capsule,
        "file": lambda values: mapped_file(values, tmp_path),
    }
    net, x = made()
    with facula.no_grad():
        values, write = makers[kind](net.rows.weight.clone())
        net.rows.weight = nn.Parameter(values, requires_grad=False)
        compiled = facula.compile(net)
        for _ in range(2):
            facula.testing.assert_close(compiled(x), net(x), rtol=1e-4, atol=1e-4)
            write()
        facula.testing.assert_close(compiled(x), net(x), rtol=1e-4, atol=1e-4)


def test_a_weight_with_a_pointer_is_left_alone_and_the_others_are_frozen() -> None:
    net, x = made()
    net.rows.weight.data_ptr()
    with facula.no_grad():
        count = backend.prepack_count()
        compiled = facula.compile(net)
        compiled(x)
        assert backend.prepack_count() == count + 1  # the convolution's
        compiled(x)
        assert backend.prepack_count() == count + 1


def test_a_pointer_that_comes_later_costs_one_more_graph() -> None:
    counters["inductor"].clear()
    net, x = made()
    compiled = facula.compile(net)
    with facula.no_grad():
        compiled(x)
        assert backend.prepack_count() == 2
        net.conv.weight.data_ptr()
        for _ in range(3):
            compiled(x)
    assert backend.prepack_count() == 2 and counters["inductor"]["weights_not_frozen"] == 1


def test_what_only_looks_at_memory_is_no_writer(tmp_path: Any) -> None:
    """Saving, copying, comparing and printing hand out no address."""
    net, x = made()
    for p in weights(net):
        assert p.is_set_to(p)
        assert p.untyped_storage() == p.untyped_storage() and hash(p.storage())
        p.tolist(), repr(p), p.clone(), p.untyped_storage().tolist(), p.untyped_storage().clone()
    facula.save(net.state_dict(), tmp_path / "net.pt")
    facula.load(tmp_path / "net.pt")
    assert all(core.write_counts([p]) is not None for p in weights(net))
    read = facula.load(tmp_path / "net.pt")
    assert all(core.write_counts([p]) is not None for p in read.values())


def test_an_address_is_no_reason_not_to_resize() -> None:
    t = facula.arange(4)
    t.data_ptr(), t.untyped_storage().data_ptr()
    assert t.resize_(8).shape == (8,)
