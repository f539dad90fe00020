"""Weights are packed once and never stale; what follows a product is part of it; images keep one order."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import facula
from facula import nn
from facula.compiler import backend, metrics, tuning
from facula.compiler.graph import OBSERVERS


class Block(nn.Module):
    """A residual block, a depthwise convolution, and rows behind it."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)
        self.norm = nn.BatchNorm2d(channels)
        self.deep = nn.Conv2d(channels, channels, 3, padding=1, groups=channels)
        self.rows, self.more = nn.Linear(channels, channels), nn.Linear(channels, channels)

    def forward(self, x: Any) -> Any:
        x = self.first(x)
        y = (self.norm(self.conv(x)) + x).relu()
        z = nn.functional.leaky_relu(self.deep(y), 0.3)
        rows = z.flatten(2).transpose(1, 2)
        return nn.functional.gelu(self.rows(rows), approximate="tanh"), self.more(rows) + rows


#: functions behind a product whose second operand is a number or the product again
OPERANDS: dict[str, Callable[[Any], Any]] = {
    "times": lambda y: y * 2,
    "plus": lambda y: y + 1.5,
    "less": lambda y: 3 - y,
    "over": lambda y: y / 3,
    "squared": lambda y: y * y,
    "twice": lambda y: y + y,
    "power": lambda y: y**2,
}


def block(channels: int = 20) -> Any:
    """A block in evaluation, with statistics that matter."""
    facula.manual_seed(3)
    made = Block(channels).eval()
    made.norm.running_mean.normal_()
    made.norm.running_var.uniform_(0.5, 2.0)
    return made


def close(got: Any, want: Any, tolerance: float = 1e-5) -> None:
    """Assert that results have one geometry and about the same elements."""
    for a, b in zip(got, want, strict=True):
        assert a.shape == b.shape and a.stride() == b.stride()
        assert (a - b).abs().max().item() <= tolerance * max(1.0, b.abs().max().item())


@pytest.mark.parametrize("mode", [None, "max-autotune"])
def test_products_take_what_follows_them(mode: str | None) -> None:
    net, x = block(), facula.randn(2, 20, 9, 7)
    wrappers: list[str] = []
    see = lambda wrapper, kernels: wrappers.append(wrapper)  # noqa: E731
    OBSERVERS.append(see)
    try:
        with facula.no_grad():
            close(facula.compile(net, mode=mode)(x), net(x))
    finally:
        OBSERVERS.remove(see)
    text = "".join(wrappers)
    assert all(name in text for name in ("'relu:f32'", "'gelu.tanh:f32'", "'leaky_relu"))
    assert "batch_norm" not in text and "_add_" not in text


@pytest.mark.parametrize("name", OPERANDS)
@pytest.mark.parametrize("layer", ["linear", "images"])
@pytest.mark.parametrize("training", [False, True])
def test_functions_of_two_operands_are_no_functions_of_one(
    layer: str, name: str, training: bool
) -> None:
    function = OPERANDS[name]
    if layer == "linear":
        net, x = nn.Linear(12, 20), facula.randn(6, 12)
        product = x.numpy() @ net.weight.detach().numpy().T + net.bias.detach().numpy()
    else:
        net, x = nn.Conv2d(12, 20, 1), facula.randn(2, 12, 4, 5)
        weight = net.weight.detach().numpy()[:, :, 0, 0]
        product = np.einsum("oc,nchw->nohw", weight, x.numpy())
        product += net.bias.detach().numpy()[:, None, None]
    with facula.set_grad_enabled(training):
        got = facula.compile(lambda x: function(net(x)))(x)
    np.testing.assert_allclose(got.detach().numpy(), function(product), rtol=1e-4, atol=1e-5)


def test_weights_are_packed_once() -> None:
    net, x = block(), facula.randn(2, 20, 9, 7)
    compiled = facula.compile(net)
    with facula.no_grad():
        compiled(x)
        count = backend.prepack_count()
        close(compiled(x + 1), net(x + 1))
        assert backend.prepack_count() == count


WRITES = {
    "in place": lambda p: p.mul_(2),
    "through data": lambda p: p.data.mul_(2),
    "through a kept alias": lambda p: p.kept.mul_(2),
    "through numpy": lambda p: p.detach().numpy().__imul__(2),
    "other memory": lambda p: setattr(p, "data", p.data * 2),
}


@pytest.mark.parametrize("way", WRITES)
def test_every_write_to_a_weight_is_seen(way: str) -> None:
    net, x = block(), facula.randn(2, 20, 9, 7)
    for parameter in net.parameters():
        parameter.kept = parameter.data
    compiled = facula.compile(net)
    with facula.no_grad():
        compiled(x)
        for parameter in net.parameters():
            WRITES[way](parameter)
            close(compiled(x), net(x))
        net.norm.running_var.add_(1)
        close(compiled(x), net(x))


def test_another_tensor_in_the_place_of_a_weight_is_seen() -> None:
    net, x = block(), facula.randn(2, 20, 9, 7)
    compiled = facula.compile(net)
    with facula.no_grad():
        compiled(x)
        net.conv.weight = nn.Parameter(facula.randn(20, 20, 3, 3))
        close(compiled(x), net(x))


def test_training_takes_functions_and_residuals_into_products() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.wide, self.narrow = nn.Linear(16, 48), nn.Linear(48, 16)

        def forward(self, x: Any) -> Any:
            return self.narrow(self.wide(x).relu()) + x

    facula.manual_seed(1)
    net, x = Net(), facula.randn(8, 16)
    wrappers: list[str] = []
    observer = lambda wrapper, text: wrappers.append(wrapper)  # noqa: E731
    OBSERVERS.append(observer)
    try:
        result = facula.compile(net)(x)
        result.square().sum().backward()
    finally:
        OBSERVERS.remove(observer)
    found = [net.wide.weight.grad, net.narrow.bias.grad, result.detach()]
    net.zero_grad()
    want = net(x)
    want.square().sum().backward()
    close(found, [net.wide.weight.grad, net.narrow.bias.grad, want.detach()])
    forward = next(text for text in wrappers if "_linear_epilogue" in text)
    assert forward.count("_linear_epilogue") == 2 and "run" not in forward


def test_freezing_can_be_switched_off() -> None:
    net, x = block(), facula.randn(2, 20, 9, 7)
    with facula.no_grad():
        count = backend.prepack_count()
        close(facula.compile(net, options={"freezing": False})(x), net(x))
        assert backend.prepack_count() == count


@pytest.mark.parametrize("dtype", [facula.float32, facula.float64, facula.bfloat16, facula.float16])
@pytest.mark.parametrize("shape", [(5, 3, 70), (2, 300, 33), (3, 1, 1)])
def test_packed_rows(dtype: Any, shape: tuple[int, int, int]) -> None:
    rows, inner, features = shape
    from facula.ops.table.registry import F

    x, w = facula.randn(rows, inner, dtype=dtype), facula.randn(features, inner, dtype=dtype)
    b, r = facula.randn(features, dtype=dtype), facula.randn(rows, features, dtype=dtype)
    got = F._linear_epilogue(x, F._linear_pack(w), b, r, features, "", ())
    want = nn.functional.linear(x.double(), w.double(), b.double()) + r.double()
    tolerance = {2: 2e-2, 4: 1e-5, 8: 1e-12}[x.element_size()]
    assert got.dtype is dtype
    assert (got.double() - want).abs().max().item() <= tolerance * want.abs().max().item()


@pytest.mark.parametrize("dtype", [facula.float32, facula.float64, facula.bfloat16])
@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize("groups", [1, 2])
def test_packed_images(dtype: Any, direct: bool, groups: int) -> None:
    from facula.ops.table.registry import F

    x = facula.randn(2, 36, 12, 11, dtype=dtype)
    w, b = facula.randn(40, 36 // groups, 3, 3, dtype=dtype), facula.randn(40, dtype=dtype)
    settings = ((1, 1), (1, 1), (1, 1), groups, (12, 11))
    panels = F._conv_pack(w, tuple(x.shape), *settings, direct)
    want = nn.functional.conv2d(x.double(), w.double(), b.double(), padding=1, groups=groups)
    tolerance = {2: 3e-2, 4: 1e-5, 8: 1e-12}[x.element_size()]
    for last in (False, True):
        got = F._conv_epilogue(x, panels, b, None, tuple(w.shape), *settings, last, direct, "", ())
        assert got.is_contiguous() is not last
        assert (got.double() - want).abs().max().item() <= tolerance * want.abs().max().item()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("columns", [7, 15, 16, 17, 24, 40, 63, 65, 72, 100])
@pytest.mark.parametrize("inner", [8, 1500])
@pytest.mark.parametrize("groups", [1, 3])
def test_columns_that_fill_no_vector(dtype: str, columns: int, inner: int, groups: int) -> None:
    """With a bias, a residual and a function behind the sum, of few and of many products."""
    from facula.ops.table.registry import F

    chance = np.random.default_rng(columns)
    x = chance.standard_normal((1, groups * inner, 5, 7))
    w = chance.standard_normal((groups * columns, inner, 1, 1))
    b, r = chance.standard_normal(len(w)), chance.standard_normal((1, len(w), 5, 7))
    parts = [
        u @ v
        for u, v in zip(w.reshape(groups, columns, -1), x.reshape(groups, inner, -1), strict=True)
    ]
    want = (np.concatenate(parts).reshape(r.shape) + b[:, None, None] + r).clip(0)
    image, weight, bias, more = (
        facula.tensor(t, dtype=getattr(facula, dtype)) for t in (x, w, b, r)
    )
    settings = ((1, 1), (0, 0), (1, 1), groups, (5, 7))
    last = facula.channels_last
    got = F._conv_epilogue(
        image.contiguous(memory_format=last), F._conv_pack(weight, x.shape, *settings, False), bias,
        more.contiguous(memory_format=last), w.shape, *settings, True, False,
        "relu:f64" if dtype == "float64" else "relu:f32", (),
    )  # fmt: skip
    tolerance = {"float32": 1e-5, "float64": 1e-13}[dtype] * abs(want).max()
    np.testing.assert_allclose(got.numpy(), want, rtol=0, atol=tolerance)
    if groups == 1:
        rows = image.flatten(2)[0].t().contiguous()
        flat = more.flatten(2)[0].t().contiguous()
        got = F._linear_epilogue(
            rows, F._linear_pack(weight[:, :, 0, 0]), bias, flat, columns,
            "relu:f64" if dtype == "float64" else "relu:f32", (),
        )  # fmt: skip
        np.testing.assert_allclose(got.numpy(), want.reshape(columns, -1).T, rtol=0, atol=tolerance)


class Chain(nn.Module):
    """Convolutions with batch norms, a skip and pooling between."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 16, 3, bias=False), nn.Conv2d(16, 16, 3, padding=1)
        self.n, self.m = nn.BatchNorm2d(16), nn.BatchNorm2d(16)
        self.pool, self.relu = nn.MaxPool2d(2), nn.ReLU(inplace=True)

    def forward(self, x: Any) -> Any:
        x = self.relu(self.n(self.a(x)))
        return self.pool(self.relu(self.m(self.b(x)) + x))


def test_training_keeps_images_channels_last_and_gives_eager_results() -> None:
    facula.manual_seed(0)
    net = Chain().double()
    x = facula.randn(4, 3, 14, 14, dtype=facula.float64)
    wanted = net(x)
    (wanted * wanted).sum().backward()
    grads = [p.grad.clone() for p in net.parameters()]
    net.zero_grad()
    wrappers: list[str] = []
    see = lambda wrapper, kernels: wrappers.append(wrapper)  # noqa: E731
    OBSERVERS.append(see)
    try:
        got = facula.compile(net)(x)
        (got * got).sum().backward()
    finally:
        OBSERVERS.remove(see)
    assert got.stride() == wanted.stride()
    close([got], [wanted], 1e-10)
    close([p.grad for p in net.parameters()], grads, 1e-9)
    assert "(4, 16, 12, 12), (2304, 1, 192, 16)" in "".join(wrappers)


def test_in_place_functions_behind_a_channels_last_batch_norm_have_gradients() -> None:
    conv, norm = nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8)
    x = facula.randn(2, 3, 6, 6).contiguous(memory_format=facula.channels_last)
    norm(conv(x)).relu_().sum().backward()
    assert conv.weight.grad is not None and norm.weight.grad is not None


def test_strides_that_a_program_asks_for_are_those_of_its_own_order() -> None:
    net = nn.Conv2d(3, 8, 3)

    def strided(x: Any) -> Any:
        y = net(x)
        return y.as_strided((2, 5), (1, 7), 3), net(y[:, :3]).flatten()

    x = facula.randn(2, 3, 9, 9)
    with facula.no_grad():
        close(facula.compile(strided)(x), strided(x))


def test_a_measured_choice_is_kept_on_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("FACULA_CACHE_DIR", str(tmp_path))
    runs: list[str] = []
    candidates = {name: (lambda name=name: runs.append(name)) for name in ("one", "other")}
    chosen = tuning.fastest("a test", candidates)
    assert chosen in candidates and len(runs) == 2 * (tuning.RUNS + 1)
    tuning._known.clear()
    assert tuning.fastest("a test", candidates) == chosen
    assert len(runs) == 2 * (tuning.RUNS + 1)


@pytest.mark.parametrize("other, chosen", [(0.99, "usual"), (0.98, "usual"), (0.9, "other")])
def test_a_lead_within_the_error_of_measurements_changes_no_choice(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any, other: float, chosen: str
) -> None:
    monkeypatch.setenv("FACULA_CACHE_DIR", str(tmp_path))
    now = [0.0]

    def takes(seconds: float) -> Callable[[], None]:
        def run() -> None:
            now[0] += seconds

        return run

    monkeypatch.setattr(tuning, "_clock", lambda: lambda: now[0])
    candidates = {"usual": takes(1.0), "other": takes(other)}
    assert tuning.fastest(f"a test of {other}", candidates) == chosen


def test_one_thread_is_measured_by_its_own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning.core, "get_num_threads", lambda: 1)
    assert tuning._clock() is time.thread_time
    monkeypatch.setattr(tuning.core, "get_num_threads", lambda: 2)
    assert tuning._clock() is time.perf_counter


def test_frozen_graphs_compile_fewer_calls() -> None:
    net = nn.Sequential(nn.Conv2d(8, 16, 3), nn.BatchNorm2d(16), nn.ReLU()).eval()
    with facula.no_grad():
        metrics.reset()
        facula.compile(net)(facula.randn(1, 8, 9, 9))
    assert metrics.extern_call_count == 1


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16"])
@pytest.mark.parametrize("space", [1, 2, 3])
def test_packed_convolutions_of_every_dtype(space: int, dtype: str) -> None:
    """Small whole numbers, so that sums are exact before they are rounded once."""
    kind = getattr(facula, dtype)
    convolve = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}[space]
    net = convolve(4, 6, 3, padding=1, stride=2).eval()
    random = np.random.default_rng(space)
    with facula.no_grad():
        for p in net.parameters():
            p.copy_(facula.tensor(random.integers(-3, 4, tuple(p.shape)).astype(float)))
        x = facula.tensor(random.integers(-3, 4, (2, 4, *(7, 6, 5)[:space]))).double()
        wanted = net.double()(x).to(kind)
        net, x = net.to(kind), x.to(kind)
        packed = backend.prepack_count()
        call = facula.compile(net, options={"freezing": True})
        for _ in range(2):
            assert facula.equal(call(x), wanted)
        assert backend.prepack_count() == packed + (space > 1)  # in one dimension they stay
