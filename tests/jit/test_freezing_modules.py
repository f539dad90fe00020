"""Frozen modules: what stays an attribute, what becomes a constant, and that results stay."""

from __future__ import annotations

import io

import pytest

import facula
from facula import nn

C = facula._C


class Counts(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.seen = 11, facula.tensor([2.0]), [1]

    def forward(self, x):
        self.a = self.a + 1
        self.seen.append(2)
        return x * self.b + self.a + len(self.seen)

    @facula.jit.export
    def other(self, x):
        return x + self.b


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.counts, self.line, self.scale = Counts(), nn.Linear(2, 2), 3.0

    def forward(self, x):
        return self.counts(self.line(x)) * self.scale


def test_what_is_written_stays_and_the_rest_is_constant():
    module = facula.jit.script(Outer().eval())
    twin = facula.jit.script(Outer().eval())
    twin.load_state_dict(module.state_dict())
    frozen = facula.jit.freeze(module)
    seen = frozen._c
    assert seen.hasattr("counts") and not seen.hasattr("line") and not seen.hasattr("scale")
    assert seen.counts.hasattr("a") and seen.counts.hasattr("seen") and not seen.counts.hasattr("b")
    x = facula.ones(1, 2)
    for _ in range(3):
        want = twin(x)
        assert facula.allclose(frozen(x), want)


def test_names_that_are_asked_for_stay():
    module = facula.jit.script(Counts().eval())
    frozen = facula.jit.freeze(module, ["b", "other"])
    frozen.b.fill_(10.0)
    assert frozen.other(facula.ones(1)).tolist() == [11.0]
    with pytest.raises(AttributeError, match="unknown name"):
        facula.jit.freeze(module, ["nothing"])


class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = facula.arange(6.0)
        self.b = [self.a.view(2, 3)]

    def forward(self, x):
        self.b[0].add_(1)
        return self.a + x


def test_writes_through_a_list_to_shared_memory_are_refused():
    with pytest.raises(RuntimeError, match="overlaps"):
        facula.jit.freeze(facula.jit.script(Shared().eval()))


class Kept(nn.Module):
    def __init__(self):
        super().__init__()
        self.pair = (facula.zeros(2), "hi")

    def forward(self, x):
        self.pair[0].add_(x)
        return self.pair[0].sum()


def test_a_constant_that_is_written_keeps_what_was_written():
    frozen = facula.jit.freeze(facula.jit.script(Kept().eval()))
    assert [float(frozen(facula.ones(2))) for _ in range(3)] == [2.0, 4.0, 6.0]


@pytest.mark.parametrize(("layer", "norm", "shape"), [
    (lambda bias: nn.Conv1d(3, 4, 3, bias=bias), nn.BatchNorm1d, (2, 3, 9)),
    (lambda bias: nn.Conv2d(3, 4, 3, bias=bias), nn.BatchNorm2d, (2, 3, 9, 8)),
    (lambda bias: nn.Linear(3, 4, bias=bias), nn.BatchNorm1d, (5, 3)),
])  # fmt: skip
@pytest.mark.parametrize("bias", [True, False])
def test_normalisations_fold_into_the_layer_before(layer, norm, shape, bias):
    facula.manual_seed(0)
    module = nn.Sequential(layer(bias), norm(4), nn.Dropout(0.5)).eval()
    module[1].running_mean.uniform_(-1, 1)
    module[1].running_var.uniform_(1, 2)
    nn.init.uniform_(module[1].weight)
    frozen = facula.jit.freeze(facula.jit.script(module))
    assert not frozen.graph.findAllNodes("aten::batch_norm")
    x = facula.randn(shape)
    assert facula.allclose(frozen(x), module(x), atol=1e-5)
    file = io.BytesIO()
    facula.jit.save(frozen, file)
    file.seek(0)
    assert facula.allclose(facula.jit.load(file)(x), module(x), atol=1e-5)


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.by = nn.Conv2d(2, 3, 1), facula.tensor([1.0, 2.0, 3.0]).view(1, 3, 1, 1)

    def forward(self, x):
        return (self.conv(x) * self.by - 2.0) / 4.0


def test_sums_and_products_fold_into_the_convolution():
    module = Scaled().eval()
    frozen = facula.jit.freeze(facula.jit.script(module))
    assert [n.kind() for n in frozen.graph.nodes() if n.kind() != "prim::Constant"] == [
        "aten::conv2d"
    ]
    x = facula.randn(2, 2, 3, 3)
    assert facula.allclose(frozen(x), module(x), atol=1e-5)


@facula.jit.interface
class Adds(nn.Module):
    def one(self, x: facula.Tensor, k: int) -> facula.Tensor:
        pass


class Plus(nn.Module):
    def one(self, x: facula.Tensor, k: int) -> facula.Tensor:
        return x + k


class Times(nn.Module):
    def one(self, x: facula.Tensor, k: int) -> facula.Tensor:
        return x * k


class Other(nn.Module):
    def one(self, x: facula.Tensor) -> facula.Tensor:
        return x


class Uses(nn.Module):
    part: Adds

    def __init__(self, part):
        super().__init__()
        self.part = part

    def forward(self, x):
        return self.part.one(x, 3)


def test_modules_of_an_interface_are_exchanged_written_and_frozen():
    module = facula.jit.script(Uses(Plus()))
    x = facula.ones(2)
    assert module(x).tolist() == [4.0, 4.0]
    module.part = facula.jit.script(Uses(Times())).part
    assert module(x).tolist() == [3.0, 3.0]
    with pytest.raises(RuntimeError, match="is not compatible with interface"):
        facula.jit.script(Uses(Other()))
    file = io.BytesIO()
    facula.jit.save(module, file)
    file.seek(0)
    assert facula.jit.load(file)(x).tolist() == [3.0, 3.0]
    frozen = facula.jit.freeze(module.eval())
    assert not frozen.graph.findAllNodes("prim::CallMethod") and frozen(x).tolist() == [3.0, 3.0]
