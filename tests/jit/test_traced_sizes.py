"""Sizes that a traced program asks for are asked for again with other inputs."""

from __future__ import annotations

import copy
import io

import pytest

import facula
from facula import jit, nn

F = nn.functional


def half(x):  # type: ignore[no-untyped-def]
    return x[:, : x.size(1) // 2] * 2


def made(x):  # type: ignore[no-untyped-def]
    n, c = x.shape[:2]
    return facula.zeros(n + 1, c) + facula.arange(c) + facula.full((1, c), 2.0)


def unpacked(x):  # type: ignore[no-untyped-def]
    first, *rest = x.size()
    return x.reshape(first * rest[0], *rest[1:]).sum(0), x.new_ones(x.shape)


def counted(x):  # type: ignore[no-untyped-def]
    return x.flatten() / x.numel() + x.nelement() - len(x.shape)


def spread(x):  # type: ignore[no-untyped-def]
    y = x.mean(1, keepdim=True).expand(-1, x.size(1), -1)
    values, indices = x.max(0)
    return (
        F.interpolate(x, size=[x.shape[-1] * 2]),
        y + values,
        indices.view(values.size(0) * 2 // 2, -1),
    )


def written(x):  # type: ignore[no-untyped-def]
    y = facula.zeros(x.size(0), x.size(1), x.size(2))
    y[:, 1:] = x[:, : x.size(1) - 1]
    y.add_(x.size(0) % 3)
    return y


@pytest.mark.parametrize("function", [half, made, unpacked, counted, spread, written])
def test_other_sizes_give_what_the_function_gives(function):  # type: ignore[no-untyped-def]
    traced = jit.trace(function, facula.randn(2, 4, 4))
    buffer = io.BytesIO()
    traced.save(buffer)
    buffer.seek(0)
    loaded = jit.load(buffer)
    for shape in ((2, 4, 4), (5, 4, 4), (3, 6, 4)):
        x = facula.randn(*shape)
        expected = function(x)
        for one in (traced, loaded):
            found = one(x)
            pairs = (
                [(found, expected)]
                if isinstance(found, facula.Tensor)
                else zip(found, expected, strict=True)
            )
            assert all(facula.allclose(a, b) for a, b in pairs)


def test_modules_that_flatten_serve_other_batches():
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8, 3))

    class Viewed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = net
            self.attention = nn.MultiheadAttention(4, 2, batch_first=True)

        def forward(self, x):  # type: ignore[no-untyped-def]
            y = x.view(x.size(0), -1, 4)
            return self.net(x) + self.attention(y, y, y)[0].sum()

    module = Viewed().eval()
    traced = jit.trace(module, facula.randn(2, 1, 4, 4))
    x = facula.randn(6, 1, 4, 4)
    assert facula.allclose(traced(x), module(x), atol=1e-5)


def test_what_python_decides_is_a_constant():
    def grown(x):  # type: ignore[no-untyped-def]
        for _ in range(x.size(0)):
            x = x + 1
        return x if x.size(0) > 1 else x * 0

    traced = jit.trace(grown, facula.zeros(2))
    assert traced(facula.zeros(5)).tolist() == [2] * 5


def test_nothing_of_the_trace_stays_behind():
    kept = []

    def keeps(x):  # type: ignore[no-untyped-def]
        kept.append((x, x.size(0)))
        return x * 2

    result = jit.trace(keeps, facula.ones(3))(facula.ones(2))
    assert type(result) is facula.Tensor
    inner, size = kept[0]
    assert inner.shape == (3,) and type(inner.shape[0]) is int and size + 1 == 4


def test_dictionaries_of_tensors_are_inputs():
    def total(inputs, scale):  # type: ignore[no-untyped-def]
        return {"sum": (inputs["a"] + inputs["b"]) * scale, "size": inputs["a"].size(0) * scale}

    given = {"a": facula.ones(2), "b": facula.full((2,), 3.0)}
    traced = jit.trace(total, (given, facula.tensor(2.0)), strict=False)
    other = {"a": facula.ones(4), "b": facula.zeros(4)}
    found = traced(other, facula.tensor(3.0))
    assert found["sum"].tolist() == [3] * 4 and float(found["size"]) == 12


def test_a_trace_that_depends_on_python_is_refused():
    def loops(x):  # type: ignore[no-untyped-def]
        for _ in range(x.size(0)):
            x = -x
        return x

    with pytest.raises(jit.TracingCheckError, match="Graphs differed across invocations"):
        jit.trace(loops, facula.randn(3, 4), check_inputs=[facula.randn(4, 4)])

    calls = []

    def remembers(x):  # type: ignore[no-untyped-def]
        calls.append(facula.full((1,), float(len(calls))))
        return x + calls[-1].clone().numpy().item()

    with pytest.warns(jit.TracerWarning, match="NumPy array"):
        with pytest.raises(jit.TracingCheckError):
            jit.trace(remembers, facula.randn(3))


def test_results_of_no_fixed_form_are_told():
    x = facula.ones(2)
    with pytest.raises(RuntimeError, match="Encountering a dict at the output"):
        jit.trace(lambda x: {"a": x}, x)
    with pytest.warns(jit.TracerWarning, match="Encountering a list at the output"):
        jit.trace(lambda x: [x, x + 1], x)
    for wrong in (lambda x: [1, 2], lambda x: [[x]], lambda x: {"a": 0.5}):
        with pytest.raises(RuntimeError, match="Only tensors"):
            jit.trace(wrong, x, strict=False)
    found = jit.trace(lambda x: {"a": (x, x + 1)}, x, strict=False)(x)
    assert found["a"][1].tolist() == [2, 2]
    hooked = nn.ReLU()
    hooked.register_full_backward_hook(lambda *a: None)
    with pytest.raises(ValueError, match="backward hooks assigned"):
        jit.trace(hooked, x)


def test_loaded_modules_can_be_copied():
    buffer = io.BytesIO()
    jit.trace(nn.Linear(2, 1), facula.ones(1, 2)).save(buffer)
    buffer.seek(0)
    loaded = jit.load(buffer)
    copied = copy.deepcopy(loaded)
    with facula.no_grad():
        copied.weight.zero_()
    x = facula.ones(1, 2)
    assert copied(x).item() == copied.bias.item() and loaded.weight.abs().sum() > 0
