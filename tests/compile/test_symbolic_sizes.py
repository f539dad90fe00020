"""A dynamic graph is compiled once for many sizes: other sizes need no trace, no lowering, no C.

What it gives is held against NumPy where the formula is short, and against eager (`compiled equals eager`)
for the rest; and every program is one of those that no trace or lowering is run for.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest

import facula
import facula.nn.functional as F
from facula import nn
from facula._dynamo.utils import counters
from facula.capture import events
from facula.capture.guards import by_sizes
from facula.compiler import metrics, pipeline
from facula.lower.aot import for_sizes

SIZES = (7, 9, 12, 5, 31, 33, 64, 17, 2, 3, 100, 257)


@pytest.fixture(autouse=True)
def afresh() -> None:
    facula._dynamo.reset()
    counters.clear()


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program for many sizes is made for each combination that none serves."""
    made = by_sizes.BySizes._made

    def eager_for_programs(self: Any, key: Any, inputs: Any) -> Any:
        self.unserved = 1
        return made(self, key, inputs)

    monkeypatch.setattr(by_sizes.BySizes, "_made", eager_for_programs)


@pytest.fixture
def lowerings(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Counts how many graphs were lowered."""
    count = [0]
    lowered = pipeline.lowered

    def counted(module: Any) -> Any:
        count[0] += 1
        return lowered(module)

    monkeypatch.setattr(pipeline, "lowered", counted)
    return count


@pytest.fixture
def heard() -> Iterator[list[events.Event]]:
    found: list[events.Event] = []

    def listen(event: events.Event) -> None:
        if event.kind == "symbolic sizes failed":
            found.append(event)

    events.LISTENERS.append(listen)
    yield found
    events.LISTENERS.remove(listen)


WEIGHT = facula.randn(16, 16, generator=facula.Generator().manual_seed(1))
NORM = nn.LayerNorm(16)
CONV = nn.Conv1d(16, 16, 3, padding=1)
EMBEDDING = nn.Embedding(50, 16)


def tree(x: Any) -> Any:
    causal = facula.ones(x.shape[1], x.shape[1], dtype=facula.bool).tril()
    return (x @ x.transpose(1, 2)).masked_fill(~causal, -1e9).softmax(-1) @ x


def heads(x: Any) -> Any:
    q = x.view(x.shape[0], x.shape[1], 4, 4).transpose(1, 2)
    return F.scaled_dot_product_attention(q, q, q, is_causal=True)


def overwritten(x: Any) -> Any:
    y = x.clone()
    y[:, 0] = 1
    y[:, 1:].mul_(3)
    return y


#: functions of a tensor of sizes (batch, n, 16)
PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "pointwise": lambda x: (x * 2 + 1).relu().exp().log1p(),
    "softmax and sum": lambda x: F.softmax(x, 1) + x.sum(1, keepdim=True),
    "product with its transpose": lambda x: x.transpose(1, 2).softmax(-1) @ x,
    "parts joined": lambda x: facula.cat([x, x[:, 1:], x.flip(1)], 1),
    "a range as long as a dimension": lambda x: x + facula.arange(x.shape[1]).view(1, -1, 1),
    "a mask": tree,
    "attention": heads,
    "means": lambda x: (x.mean(1), x.mean(), x.amax((0, 1))),
    "layer norm": NORM,
    "convolution": lambda x: CONV(x.transpose(1, 2)),
    "linear": lambda x: (x.reshape(-1, 16) @ WEIGHT, x.reshape(x.shape[0], -1)),
    "half of a dimension": lambda x: (x[:, : x.shape[1] // 2] * 2, x[:, ::2]),
    "padding": lambda x: F.pad(x, (1, 2, 3, 0)),
    "scans": lambda x: (x.cumsum(1), x.cumsum(2)),
    "orders": lambda x: (x.sort(1)[0], x.topk(2, 1)[0], x.argmax(1)),
    "gathers": lambda x: x[:, facula.arange(x.shape[1]).flip(0)],
    "writes": overwritten,
    "numbers as results": lambda x: (x.sum(), x.shape[1], x.shape[1] * 2),
    "views as results": lambda x: (x[:, 1:], x.transpose(0, 1), x.view(-1)),
    "chunks as results": lambda x: x.chunk(2, 1),
    "scaled": lambda x: x * x.shape[1] + 1 / x.shape[0],
    "pools": lambda x: (F.max_pool1d(x.transpose(1, 2), 2), F.interpolate(x, scale_factor=2.0)),
    "embedding": lambda x: EMBEDDING((x[:, :, 0].abs() * 10).long().clamp(max=49)),
    "outer difference": lambda x: x.unsqueeze(1) - x.unsqueeze(2),
    "stacked": lambda x: facula.stack([x, x * 2], -1).sum((0, 1)),
    "einsum": lambda x: facula.einsum("bnd,bmd->bnm", x, x),
    "loss": lambda x: F.cross_entropy(
        x.reshape(-1, 16), facula.arange(x.shape[0] * x.shape[1]) % 16
    ),
    "repeats": lambda x: (x.repeat(1, 2, 1), x.repeat_interleave(2, 1)),
    "filled": lambda x: (facula.full((x.shape[1],), 3.0), x.new_ones(x.shape[1], 2)),
    "windows": lambda x: x.unfold(1, 2, 1).sum(-1),
    "norms": lambda x: (F.normalize(x, dim=1), x.norm()),
    "triangles": lambda x: (x.tril(), x.diagonal(dim1=1, dim2=2)),
    "rolled": lambda x: (x.roll(1, 1), x.flip(1)),
    "halves": lambda x: (x.half().float() * 2, x.bfloat16() + 1),
    "a branch on a size": lambda x: x * 2 if x.shape[1] > 10 else x - 1,
}


def leaves(found: Any) -> list[Any]:
    return list(found) if isinstance(found, (tuple, list)) else [found]


def total(results: list[Any]) -> Any:
    """A number whose gradient is not the same everywhere."""
    wanted = [t for t in results if isinstance(t, facula.Tensor) and t.requires_grad]
    return sum(((t.float().flatten() * weights(t.numel())).sum() for t in wanted), start=0.0)


def weights(count: int) -> Any:
    return facula.arange(float(count)).sin()


def same(got: Any, want: Any) -> None:
    if isinstance(want, facula.Tensor):
        assert got.shape == want.shape and got.dtype is want.dtype
        assert got.stride() == want.stride()
        facula.testing.assert_close(got, want, rtol=1e-3, atol=1e-3, equal_nan=True)
    else:
        assert got == want


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("several", [False, True], ids=["one size changes", "two sizes change"])
@pytest.mark.parametrize("train", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_compiled_equals_eager_at_every_size(name: str, train: bool, several: bool) -> None:
    function = PROGRAMS[name]
    compiled = facula.compile(function)
    for n in SIZES:
        generator = facula.Generator().manual_seed(n)
        x = facula.randn(n % 5 + 2 if several else 3, n, 16, generator=generator)
        one, other = x.clone().requires_grad_(train), x.clone().requires_grad_(train)
        with facula.set_grad_enabled(train):
            got, want = leaves(compiled(one)), leaves(function(other))
            sums = total(got), total(want)
        for a, b in zip(got, want, strict=True):
            same(a, b)
        if isinstance(sums[1], facula.Tensor):
            for each in sums:
                each.backward()
            facula.testing.assert_close(one.grad, other.grad, rtol=1e-3, atol=1e-2)


def test_values_are_numpys(lowerings: list[int]) -> None:
    compiled = facula.compile(lambda x, y: (facula.tanh(x) * y).sum(1) + x.amax(1))
    random = numpy.random.default_rng(0)
    before = 0
    for k, n in enumerate((40, 44, 48, 52, 56, 41, 43, 45, 47, 49)):
        x, y = random.standard_normal((2, 4, n)).astype("float32")
        got = compiled(facula.from_numpy(x), facula.from_numpy(y)).numpy()
        want = (numpy.tanh(x.astype("float64")) * y).sum(1) + x.max(1)
        numpy.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
        if k == 4:
            before = lowerings[0]
    assert lowerings[0] == before > 0


def test_a_new_size_compiles_no_c(lowerings: list[int]) -> None:
    layer = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16))
    compiled = facula.compile(layer)

    def step(n: int) -> None:
        compiled(facula.randn(2, n, 8)).sum().backward()

    for n in (20, 24, 28, 30):
        step(n)
    units, graphs = metrics.compiled_units, lowerings[0]
    for n in (21, 22, 23, 25, 26, 27, 29):
        step(n)
    assert (metrics.compiled_units, lowerings[0]) == (units, graphs)
    assert not counters["stats"]["symbolic_sizes_failed"]


def test_every_second_combination_that_no_program_serves_makes_one() -> None:
    compiled = facula.compile(lambda x: x.exp().sum(0))
    kept = []
    made = by_sizes.BySizes.__init__

    def noted(self: Any, *args: Any) -> None:
        made(self, *args)
        kept.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(by_sizes.BySizes, "__init__", noted)
        for n in (5, 6):
            compiled(facula.ones(n, 4))
        (graph,) = kept
        counts = []
        for n in (7, 8, 9, 10):
            compiled(facula.ones(n, 4))
            counts.append(len(graph.symbolic))
    assert counts == [0, 1, 1, 1]


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize(
    ("function", "fits", "not_"),
    [
        (lambda x: x[:, 5] * 2, (9, 8, 7, 12), 4),
        (lambda x: x.view(3, 4, -1).sum(1), (8, 12, 16, 20), 27),
        (lambda x: x + facula.ones(3, 1).expand(3, x.shape[1]) * x[:, :6].sum(), (8, 9, 10, 7), 1),
        (lambda x: x.reshape(3, x.shape[1] // 2, 2).sum(1), (8, 12, 10, 20), 9),
    ],
)
def test_what_eager_refuses_is_refused(function: Any, fits: tuple, not_: int) -> None:
    compiled = facula.compile(function)
    for n in fits:
        facula.testing.assert_close(compiled(facula.ones(3, n)), function(facula.ones(3, n)))
    x = facula.ones(3, not_)
    try:
        want = function(x)
    except (RuntimeError, IndexError):
        with pytest.raises((RuntimeError, IndexError)):
            compiled(x)
    else:
        facula.testing.assert_close(compiled(x), want)


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[:, :6].sum(),
        lambda x: x[:, 2:6].exp().sum(1),
        lambda x: x[:, -6:].sum(1),
        lambda x: x[:, :50].cos().sum(),
        lambda x: x.diagonal().sum(),
        lambda x: facula.linalg.svdvals(x).sum(),
    ],
    ids=["start", "middle", "end", "longer than most", "diagonal", "singular values"],
)
def test_a_part_of_fixed_length_is_no_longer_than_what_is_there(function: Any) -> None:
    compiled = facula.compile(function)
    for n in (12, 40, 13, 5, 2, 3, 60, 4, 49, 51, 7):
        x = facula.randn(3, n, generator=facula.Generator().manual_seed(n))
        same(compiled(x), function(x))


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * (x.shape[1] & 1),
        lambda x: x * 2.0 ** (x.shape[1] % 5),
        lambda x: x + (x.shape[1] ^ 1) + (x.shape[1] << 1) + ~x.shape[1],
        lambda x: x[:, : x.shape[1] >> 1] + divmod(100, x.shape[1])[0],
    ],
    ids=["parity", "power", "bits", "halves"],
)
def test_bits_of_a_size_are_those_of_each_size(function: Any, heard: list[events.Event]) -> None:
    compiled = facula.compile(function)
    for n in (40, 41, 42, 100, 63, 64, 65, 7, 2, 3):
        same(compiled(facula.ones(3, n)), function(facula.ones(3, n)))
    assert not heard


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * (0.1 * x.shape[1] > 4.25),
        lambda x: x * ((0.1 * x.shape[1]) // 1),
        lambda x: x * int(100.0 / x.shape[1]),
        lambda x: x * ((1000.5 - x.shape[1]) // 10),
        lambda x: x * (7.5 % x.shape[1]),
        lambda x: x * (2.0 ** (x.shape[1] // 10)),
        lambda x: x * (400.0 // x.shape[1]),
        lambda x: x * (4.25 < x.shape[1] / 10) + (40.5 < x.shape[1]),
    ],
    ids=["times", "floor", "divided", "minus", "modulo", "power", "floordiv", "less"],
)
def test_a_float_meets_each_size(function: Any, heard: list[events.Event]) -> None:
    compiled = facula.compile(function)
    for n in (40, 41, 42, 43, 44, 50, 60, 70, 100, 5, 2, 3):
        same(compiled(facula.ones(3, n)), function(facula.ones(3, n)))
    assert not heard


@pytest.mark.usefixtures("at_once")
def test_numbers_and_sizes_change_together() -> None:
    def function(x: Any, n: int) -> Any:
        return facula.zeros(n, 3) + x.sum() * n, x[:n] + x[n - 1]

    compiled = facula.compile(function)
    for rows, n in ((4, 2), (5, 3), (6, 4), (9, 7), (12, 5), (12, 11), (30, 8)):
        x = facula.arange(rows * 2.0).view(rows, 2)
        for got, want in zip(compiled(x, n), function(x, n), strict=True):
            facula.testing.assert_close(got, want)


@pytest.mark.usefixtures("at_once")
def test_other_strides_are_another_program() -> None:
    def function(x: Any) -> Any:
        return (x * 2).sum(1), x + 1

    compiled = facula.compile(function)
    for n in (4, 5, 6, 7, 8):
        for x in (facula.randn(n, 6), facula.randn(6, n).t(), facula.randn(n, 12)[:, ::2]):
            for got, want in zip(compiled(x), function(x), strict=True):
                same(got, want)


@pytest.mark.usefixtures("at_once")
def test_a_gradient_that_does_not_arrive() -> None:
    def function(x: Any) -> Any:
        return x.exp(), x.sin() * 2

    compiled = facula.compile(function)
    for n in (4, 5, 6, 7, 8, 9):
        x = facula.linspace(0, 1, n).requires_grad_()
        compiled(x)[1].sum().backward()
        facula.testing.assert_close(x.grad, 2 * x.detach().cos())


@pytest.mark.usefixtures("at_once")
def test_dropout_draws_as_many_as_there_are() -> None:
    compiled = facula.compile(lambda x: F.dropout(x, 0.5))
    for n in (40, 50, 60, 70, 80):
        facula.manual_seed(n)
        got = compiled(facula.ones(n, 10))
        facula.manual_seed(n)
        want = compiled(facula.ones(n, 10))
        assert facula.equal(got, want)
        assert set(got.unique().tolist()) == {0.0, 2.0}
        assert 0.3 < (got == 0).float().mean() < 0.7


# ------------------------------------------------------------------ the trial


@pytest.mark.breaks("internal")
@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("what", ["same_graph", "_effects"])
def test_a_program_that_fails_its_trial_is_not_used(
    what: str, heard: list[events.Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = iter(range(1000))
    monkeypatch.setattr(for_sizes, what, lambda *args: what == "_effects" and next(wrong))
    compiled = facula.compile(lambda x: x.exp() * 2)
    for n in (4, 5, 6, 7):
        facula.testing.assert_close(compiled(facula.ones(n)), facula.ones(n).exp() * 2)
    assert len(heard) == 2 and all("TrialFailed" in event.cause for event in heard)
    assert counters["stats"]["symbolic_sizes_failed"] == 2


@pytest.mark.breaks("internal")
@pytest.mark.usefixtures("at_once")
def test_kernels_with_a_size_in_their_text_are_not_used(
    heard: list[events.Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    lowered = pipeline.lowered

    def fixed(module: Any) -> Any:
        """As if a size had slipped through: a number of a launch is that of the example."""
        found = lowered(module)
        found.unit.numbers = [[int.__int__(n) for n in numbers] for numbers in found.unit.numbers]
        return found

    monkeypatch.setattr(pipeline, "lowered", fixed)
    compiled = facula.compile(lambda x: (x.exp() * 2).sum(1))
    for n in (40, 50, 60, 70):
        got = compiled(facula.ones(3, n))
        numpy.testing.assert_allclose(got.numpy(), numpy.full(3, 2 * n * numpy.e), rtol=1e-5)
    assert heard


# ------------------------------------------------------------------ threads


@pytest.mark.usefixtures("at_once")
def test_new_sizes_in_several_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    made = by_sizes.BySizes._made
    inside, most = [], []

    def watched(self: Any, key: Any, inputs: Any) -> Any:
        inside.append(key)
        most.append(len(inside))
        time.sleep(0.005)
        try:
            return made(self, key, inputs)
        finally:
            inside.remove(key)

    monkeypatch.setattr(by_sizes.BySizes, "_made", watched)

    def function(x: Any) -> Any:
        return (x @ WEIGHT).softmax(1) + x[:, : x.shape[1] // 2].sum()

    compiled = facula.compile(function)
    faults: list[BaseException] = []

    def work(first: int) -> None:
        try:
            for n in range(first, first + 14):
                x = facula.randn(2, n, 16, generator=facula.Generator().manual_seed(n))
                same(compiled(x), function(x))
        except BaseException as fault:  # noqa: BLE001 - told to the test's own thread
            faults.append(fault)

    with facula.no_grad():
        threads = [threading.Thread(target=work, args=(3 + 3 * k,)) for k in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert not faults
    assert set(most) == {1}  # the modes of a trace are the process's


def test_inner_sizes_are_compared_with_what_the_graph_does_not_have() -> None:
    def choose(x: facula.Tensor, y: facula.Tensor, number: int) -> facula.Tensor:
        doubled = y * 2
        if doubled.shape[0] == number:
            return doubled
        return doubled + 1 if doubled.shape == x.shape else x - 1

    for dynamic in (None, True):
        facula.compiler.reset()
        compiled = facula.compile(choose, dynamic=dynamic)
        for sizes in ((3, 3, 9), (4, 4, 9), (3, 4, 4), (4, 4, 5), (5, 4, 3), (6, 6, 7), (7, 6, 6)):
            x, y = facula.rand(sizes[0]), facula.rand(sizes[1])
            doubled = y.numpy() * 2
            if sizes[1] == sizes[2]:
                want = doubled
            else:
                want = doubled + 1 if sizes[0] == sizes[1] else x.numpy() - 1
            numpy.testing.assert_array_equal(compiled(x, y, sizes[2]).numpy(), want)
