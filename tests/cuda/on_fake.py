"""What must hold on a CUDA device, run on a fake one: `python on_fake.py` prints the outcome of each function as JSON.

Takes: the names of functions; none means all. Gives: a line of JSON, name -> "" or what failed.
Keeps true: the driver is a fake, kernels run in NumPy (`fake_triton`); all above them is what runs on a device. A
process of its own, since a device that was registered stays. The oracle of a device is the processor, whose own
oracles are NumPy and SciPy (`tests/ops`).
"""

from __future__ import annotations

import copy
import gc
import json
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import facula
from facula import core, nn
from facula.devices.cuda.host import HostFallbackWarning
from facula.testing.samples import Samples, map_tensors

sys.path.insert(0, str(Path(__file__).parents[1] / "ops"))

import fake_cuda  # noqa: E402
from operator_cases import EVERY, POINTWISE, admits, calls, tensors_in  # noqa: E402

BACKEND, FAKE = fake_cuda.backend(devices=2)
facula.backends.register("cuda", BACKEND)
TOLERANCE = {"f32": 3e-5, "f64": 1e-9, "bf16": 2e-2, "f16": 5e-3, "c64": 3e-5}


def there(value: Any) -> Any:
    """Tensors of arguments on the device."""
    return map_tensors(lambda t: t.detach().to("cuda"), value)


def same(found: Any, wanted: Any) -> None:
    """Both have the same dtype, shape and elements."""
    assert found.device == core.device("cuda", 0), found.device
    found = found.detach().cpu()
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    tolerance = TOLERANCE.get(wanted.dtype.code, 0)
    if wanted.dtype.code in ("bf16", "f16"):
        found, wanted = found.float(), wanted.float()
    wanted = wanted.detach()
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=tolerance, atol=tolerance)


def failed_kernel() -> BaseException | None:
    """What went wrong inside of the fake."""
    found, FAKE.failed = getattr(FAKE, "failed", None), None
    return found


# --- operators
def _agrees(name: str, dtype: Any) -> None:
    """Samples of an operator give on the device what they give on the processor."""
    op = facula.ops.TABLE[name]
    definition = op.definition
    for args, kwargs in calls(name, Samples(dtype))[:4]:
        tensors = tensors_in((args, kwargs))
        if not tensors or any(
            t.device.type != "cpu" or t.layout != facula.strided for t in tensors
        ):
            continue
        try:
            wanted = op(*args, **kwargs)
        except (RuntimeError, TypeError, ValueError, NotImplementedError):
            continue  # a sample that this dtype has no answer for
        if definition.random:
            continue
        found = op(*there(args), **there(kwargs))
        for one, other in zip(tensors_in(found), tensors_in(wanted), strict=True):
            same(one, other)


def _all_agree(dtype: Any, kind: str, every: int) -> None:
    names = [n for n in EVERY if n not in POINTWISE or admits(n, kind)]
    if kind != "float":
        names = [n for n in names if n in POINTWISE]
    BACKEND.host.set_mode("allow")
    wrong = {}
    for name in names[::every]:
        if facula.ops.TABLE[name].definition.kind == "view":
            continue
        try:
            _agrees(name, dtype)
        except Exception as error:
            wrong[name] = str(failed_kernel() or error)[:300]
    BACKEND.host.set_mode("warn")
    assert not wrong, wrong


def operators_in_float32() -> None:
    _all_agree(facula.float32, "float", 1)


def operators_in_other_floats() -> None:
    _all_agree(facula.float64, "float", 4)
    _all_agree(facula.bfloat16, "float", 4)
    _all_agree(facula.float16, "float", 7)


def operators_on_integers_bools_and_complex_numbers() -> None:
    _all_agree(facula.int64, "int", 1)
    _all_agree(facula.uint8, "int", 3)
    _all_agree(facula.bool, "bool", 1)
    _all_agree(facula.complex64, "complex", 2)


def strides_and_broadcasting() -> None:
    x, y = Samples()(6, 5), Samples(seed=1)(5)
    for f in (
        lambda x, y: x.t() + x.t() * 2.5,
        lambda x, y: x[::2, 1::3] * y[1::3],
        lambda x, y: x.flip(0) - y,
        lambda x, y: x.unsqueeze(1) * x.unsqueeze(0),
        lambda x, y: x.expand(3, 6, 5).sum((0, 2)),
        lambda x, y: x.t().contiguous(),
    ):
        same(f(there(x), there(y)), f(x, y))


def dtypes_that_meet() -> None:
    x, n, h = Samples()(4), facula.arange(4), Samples(facula.bfloat16)(4)
    for f in (
        lambda x, n, h: x + n,
        lambda x, n, h: n + 1.5,
        lambda x, n, h: h * x,
        lambda x, n, h: h + 1,
        lambda x, n, h: n / 3,
        lambda x, n, h: n // -3,
        lambda x, n, h: x + facula.tensor(2.0, dtype=facula.float64),
    ):
        same(f(there(x), there(n), there(h)), f(x, n, h))


def numbers_are_arguments_of_kernels() -> None:
    x = facula.arange(5.0)
    y = there(x)
    same(y * 7.25, x * 7.25)
    plans, launched = len(BACKEND._plans), len(FAKE.modules)
    for number in (8.5, 9.75, -3.25, float("inf"), 1e-30):
        same(y * number, x * number)
    assert (len(BACKEND._plans), len(FAKE.modules)) == (plans, launched)


def sizes_are_arguments_of_kernels() -> None:
    modules = None
    for size in (5, 6, 7):
        x = facula.arange(float(size * 3)).reshape(3, size)
        same(there(x).sum(1), x.sum(1))
        same((there(x) * 2.5).exp().t() + 1, (x * 2.5).exp().t() + 1)
        modules = modules or len(FAKE.modules)
    assert len(FAKE.modules) == modules


def long_rows_are_cut() -> None:
    x = Samples()(3, 40000, low=-1, high=2)
    for f in (
        lambda x: x.sum(1), lambda x: x.amax(), lambda x: x.mean(), lambda x: x.argmin(1),
        lambda x: x.var(1), lambda x: (x > 1.5).any(1), lambda x: x.sum(0)[:9],
    ):  # fmt: skip
        same(f(there(x)), f(x))


def extremes_keep_nan() -> None:
    x = facula.tensor([[1.0, float("nan"), 3.0], [2.0, 1.0, 2.0]])
    for f in (lambda x: x.amax(1), lambda x: x.argmax(1), lambda x: x.max(1).indices):
        same(f(there(x)), f(x))


def empty_tensors() -> None:
    x = facula.empty(0, 3)
    for f in (lambda x: x + 1, lambda x: x.sum(0), lambda x: x.sum(), lambda x: x @ x.t()):
        same(f(there(x)), f(x))


def products() -> None:
    for shape in ((3, 4, 5), (70, 33, 65), (1, 1, 1), (130, 17, 200)):
        m, k, n = shape
        a, b, c = Samples()(m, k), Samples(seed=1)(n, k), Samples(seed=2)(n)
        for f in (
            lambda a, b, c: a @ b.t(),
            lambda a, b, c: nn.functional.linear(a, b, c),
            lambda a, b, c: facula.addmm(c, a, b.t(), beta=0.5, alpha=2),
            lambda a, b, c: a.expand(2, *a.shape) @ b.t().expand(2, *b.t().shape),
            lambda a, b, c: a[:, ::2] @ b[:, ::2].t(),
        ):
            same(f(there(a), there(b), there(c)), f(a, b, c))
        half = a.bfloat16(), b.bfloat16()
        same(there(half[0]) @ there(half[1]).t(), half[0] @ half[1].t())


# --- memory
def copies() -> None:
    x = Samples()(4, 6)
    y = x.to("cuda")
    assert y.device == core.device("cuda:0") and str(y.device) == "cuda:0"
    same(y.t(), x.t())
    same(y[1:, ::2], x[1:, ::2])
    same(y.double(), x.double())
    same(y.to(facula.int32), x.to(facula.int32))
    into = facula.zeros(6, 4, device="cuda")
    into.t().copy_(x)
    same(into, x.t().contiguous())
    host = facula.zeros(6, 4, dtype=facula.float64)
    host.copy_(y.t())
    np.testing.assert_array_equal(host.numpy(), x.t().double().numpy())
    same(y.to("cuda:1").to("cuda:0"), x)


def fills_and_creation() -> None:
    for dtype in (facula.float32, facula.bfloat16, facula.int8, facula.bool, facula.complex64):
        for value in (0, 1, 0.5) if dtype.is_floating_point else (0, 1):
            same(
                facula.full((3, 2), value, dtype=dtype, device="cuda"),
                facula.full((3, 2), value, dtype=dtype),
            )
    x = facula.zeros(4, 3, device="cuda")
    x[:, 1] = 2.5
    x.t()[2].fill_(-0.0)
    assert np.signbit(x.cpu().numpy()[:, 2]).all() and (x.cpu().numpy()[:, 1] == 2.5).all()
    same(facula.arange(5, device="cuda"), facula.arange(5))


def zeros_keep_their_signs() -> None:
    x = facula.tensor([0.0, -0.0, 1.0])
    for f in (
        lambda x: -x, lambda x: x * -1.0, lambda x: x.abs(), lambda x: x * facula.full_like(x, -0.0),
        lambda x: facula.where(x == 0, -0.0, x), lambda x: (-x).reshape(3, 1).amax(1), lambda x: x.neg().prod(0),
    ):  # fmt: skip
        assert (np.signbit(f(there(x)).cpu().numpy()) == np.signbit(f(x).numpy())).all()


def random_numbers_are_those_of_the_processor() -> None:
    facula.manual_seed(7)
    wanted = facula.randn(3, 4), facula.rand(2), facula.randint(0, 9, (5,))
    facula.manual_seed(7)
    found = [
        facula.randn(3, 4, device="cuda"), facula.rand(2, device="cuda"),
        facula.randint(0, 9, (5,), device="cuda"),
    ]  # fmt: skip
    for one, other in zip(found, wanted, strict=True):
        same(one, other)


def views_share_memory() -> None:
    x = facula.arange(6.0).reshape(2, 3)
    y = there(x)
    for part in (*y.unbind(1), *y.split([1, 1])):
        part += 1
        assert part._base is y
    same(y, x + 2)


def addresses_are_those_of_the_device() -> None:
    """They were 0, so that all tensors seemed to begin at one place."""
    x, y = facula.ones(4, 3, device="cuda"), facula.ones(2, device="cuda")
    block, _ = core.foreign_buffer(x)
    assert x.data_ptr() == x.untyped_storage().data_ptr() == block.pointer > 0
    assert x[1:].data_ptr() == x.view(12)[3:].data_ptr() == block.pointer + 12
    assert x[1:].untyped_storage().data_ptr() == x.detach().data_ptr() == block.pointer
    assert y.data_ptr() not in (0, x.data_ptr())
    assert facula.empty(0, device="cuda").data_ptr() == x[4:].data_ptr() == 0
    assert x.to("meta").data_ptr() == 0


def in_place_and_out() -> None:
    x = Samples()(4, 3)
    y = there(x)
    same(y.clone().mul_(2.5).add_(y), x.clone().mul_(2.5).add_(x))
    out = facula.empty(4, device="cuda")
    facula.sum(y, 1, out=out)
    same(out, x.sum(1))


def memory_is_counted_and_used_again() -> None:
    gc.collect()
    facula.cuda.empty_cache()
    before = facula.cuda.memory_allocated()
    x = facula.empty(1000, device="cuda")
    assert facula.cuda.memory_allocated() - before == 4096
    asked = FAKE.calls.count("cuMemAlloc_v2")
    del x
    assert facula.cuda.memory_allocated() == before
    facula.empty(1000, device="cuda")
    assert FAKE.calls.count("cuMemAlloc_v2") == asked
    assert facula.cuda.memory_reserved() > 0
    facula.cuda.empty_cache()
    assert facula.cuda.max_memory_allocated() >= facula.cuda.memory_allocated()


def too_much_memory() -> None:
    gc.collect()
    kept = facula.zeros(1 << 20, device="cuda")
    try:
        facula.empty(1 << 40, device="cuda")
    except facula.OutOfMemoryError as error:
        text = str(error)
        assert "CUDA out of memory" in text and "free of" in text and "hint:" in text
    else:
        raise AssertionError("no error")
    same(kept + 1, facula.ones(1 << 20))


# --- what is asked
def questions() -> None:
    assert facula.cuda.is_available() and facula.cuda.device_count() == 2
    assert facula.cuda.get_device_name(0) == "a fake device"
    assert facula.cuda.get_device_capability() == (9, 0)
    assert facula.cuda.get_device_properties(0).multi_processor_count == 132
    assert facula.cuda.is_bf16_supported()
    assert facula.cuda.current_device() == 0
    with facula.cuda.device(1):
        assert facula.zeros(2, device="cuda").device == core.device("cuda:1")
    free, total = facula.cuda.mem_get_info()
    assert 0 < free <= total
    facula.cuda.synchronize()
    try:
        facula.zeros(1, device="cuda:7")
    except RuntimeError as error:
        assert "invalid device ordinal" in str(error)
    else:
        raise AssertionError("no error")


def streams_and_events() -> None:
    stream = facula.cuda.Stream()
    start, end = (facula.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    with facula.cuda.stream(stream):
        assert facula.cuda.current_stream() == stream
        facula.ones(3, device="cuda") * 2
    assert facula.cuda.current_stream() == facula.cuda.default_stream()
    end.record()
    end.synchronize()
    assert start.elapsed_time(end) == 1.5 and end.query()
    facula.cuda.current_stream().wait_stream(stream)
    try:
        start.elapsed_time(facula.cuda.Event())
    except ValueError as error:
        assert "enable_timing" in str(error)
    else:
        raise AssertionError("no error")


# --- the processor in the place of a kernel
def the_host_is_visible() -> None:
    x = facula.tensor([3.0, 1.0, 2.0])
    facula.cuda.set_host_fallback("warn")
    BACKEND.host.calls.clear()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(2):
            same(there(x).sort().values, x.sort().values)
    told = [w for w in told if w.category is HostFallbackWarning]
    assert len(told) == 1 and "the processor computes it" in str(told[0].message)
    assert facula.cuda.host_fallbacks()["sort"] == 2
    facula.cuda.set_host_fallback("error")
    try:
        there(x).sort()
    except NotImplementedError as error:
        assert "set_host_fallback" in str(error)
    else:
        raise AssertionError("no error")
    finally:
        facula.cuda.set_host_fallback("warn")


# --- errors
def errors_are_those_of_the_processor() -> None:
    x = there(Samples()(3, 4))
    for call, kind, words in (
        (lambda: x + facula.zeros(3, 4), RuntimeError, "same device"),
        (lambda: x @ x, RuntimeError, "hint:"),
        (lambda: x + facula.zeros(5, device="cuda"), RuntimeError, "hint:"),
        (lambda: x.sum(7), IndexError, "hint:"),
        (lambda: nn.functional.embedding(there(facula.tensor([9])), x), IndexError, "out of range"),
        (lambda: x.index_select(0, there(facula.tensor([5]))), IndexError, "out of"),
        (lambda: nn.functional.cross_entropy(x, there(facula.tensor([0, 1, 8]))), IndexError, "bounds"),
        (lambda: facula.cuda.set_host_fallback("never"), ValueError, "hint:"),
    ):  # fmt: skip
        try:
            call()
        except kind as error:
            assert words in str(error), error
        else:
            raise AssertionError(f"no error: {words}")


# --- gradients and training
def gradients() -> None:
    x, w = Samples()(5, 4, low=0.1), Samples(seed=1)(4, 4, low=0.1)
    for f in (
        lambda x, w: (x @ w).tanh().sum(),
        lambda x, w: (x.softmax(-1).log() * w[:1]).mean(),
        lambda x, w: nn.functional.layer_norm(x, (4,), w[0], w[1]).pow(2).sum(),
        lambda x, w: (x.std(0) + x.amax(0)).sum() * w.prod(),
        lambda x, w: nn.functional.gelu(x * w[0]).logsumexp(1).sum(),
        lambda x, w: facula.cat([x, w]).gather(1, facula.zeros(9, 1, dtype=facula.int64, device=x.device)).sum(),
    ):  # fmt: skip
        here = [t.clone().requires_grad_() for t in (x, w)]
        away = [there(t).requires_grad_() for t in (x, w)]
        f(*here).backward()
        f(*away).backward()
        for one, other in zip(away, here, strict=True):
            if other.grad is not None:
                same(one.grad, other.grad)


class Block(nn.Module):
    """Attention and a feed-forward network."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )

    def forward(self, x: Any) -> Any:
        batch, length, width = x.shape
        parts = self.qkv(self.first(x)).reshape(batch, length, 3, 2, width // 2)
        q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
        found = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(found.transpose(1, 2).reshape(batch, length, width))
        return x + self.feed(self.second(x))


class Words(nn.Module):
    """A small language model."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(11, 8), nn.Embedding(6, 8)
        self.block, self.head = Block(8), nn.Linear(8, 11)

    def forward(self, tokens: Any) -> Any:
        x = self.words(tokens) + self.places(facula.arange(tokens.shape[1], device=tokens.device))
        return self.head(self.block(x))


def _losses(model: Any, tokens: Any, targets: Any, make: Any) -> list[float]:
    steps, found = make(model.parameters()), []
    for _ in range(3):
        steps.zero_grad()
        loss = nn.functional.cross_entropy(model(tokens).flatten(0, -2), targets.flatten())
        loss.backward()
        steps.step()
        found.append(loss.item())
    return found


def _trains(model: Any, tokens: Any, targets: Any, make: Any) -> None:
    away = copy.deepcopy(model).to("cuda")
    wanted = _losses(model, tokens, targets, make)
    found = _losses(away, there(tokens), there(targets), make)
    np.testing.assert_allclose(found, wanted, rtol=1e-4)
    assert found[-1] < found[0]


def a_language_model_trains_without_the_host() -> None:
    facula.manual_seed(0)
    tokens, targets = facula.randint(0, 11, (2, 6)), facula.randint(0, 11, (2, 6))
    facula.cuda.set_host_fallback("error")
    try:
        for make in (
            lambda p: facula.optim.AdamW(p, lr=0.01),
            lambda p: facula.optim.SGD(p, lr=0.1, momentum=0.9),
        ):
            _trains(Words(), tokens, targets, make)
    finally:
        facula.cuda.set_host_fallback("warn")


def a_network_of_convolutions_trains() -> None:
    facula.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(27, 4)
    )  # fmt: skip
    images, targets = facula.randn(4, 1, 8, 8), facula.randint(0, 4, (4,))
    facula.cuda.set_host_fallback("allow")
    try:
        _trains(model, images, targets, lambda p: facula.optim.SGD(p, lr=0.1))
    finally:
        facula.cuda.set_host_fallback("warn")


def compiled_programs() -> None:
    facula.cuda.set_host_fallback("error")
    try:
        x, w = Samples()(4, 5), Samples(seed=1)(5, 5)

        @facula.compile
        def rows(x: Any, w: Any) -> Any:
            return (x @ w).softmax(-1).sum(0), nn.functional.layer_norm(x * 2.5, (5,)).t()

        for one, other in zip(rows(there(x), there(w)), rows(x, w), strict=True):
            same(one, other)
        model = nn.Sequential(nn.Linear(5, 3), nn.GELU(), nn.Linear(3, 2))
        away = copy.deepcopy(model).to("cuda")
        fast = facula.compile(away)
        for count in (4, 3, 6):  # the second size makes a program for all
            x = Samples(seed=count)(count, 5)
            wanted, found = model(x).pow(2).mean(), fast(there(x)).pow(2).mean()
            same(found, wanted)
            model.zero_grad(), away.zero_grad()
            wanted.backward(), found.backward()
            for one, other in zip(away.parameters(), model.parameters(), strict=True):
                same(one.grad, other.grad)
    finally:
        facula.cuda.set_host_fallback("warn")


def compiled_programs_with_calls_that_no_kernel_has() -> None:
    facula.cuda.set_host_fallback("allow")
    try:
        x = Samples()(4, 5)
        fast = facula.compile(lambda x: (x + 1).digamma().sort(1).values * 2)
        same(fast(there(x)), fast(x))
    finally:
        facula.cuda.set_host_fallback("warn")


def files_and_printing() -> None:
    x = facula.arange(3.0)
    assert repr(there(x)) == "tensor([0., 1., 2.], device='cuda:0')"
    state = there({"x": x})
    same(state["x"], x)


CHECKS = {
    name: value
    for name, value in list(globals().items())
    if callable(value)
    and getattr(value, "__module__", "") == __name__
    and not name.startswith("_")
    and not isinstance(value, type)
    and name not in ("there", "same", "failed_kernel")
}


def main(names: list[str]) -> None:
    """Run functions, and print what became of them."""
    outcomes = {}
    for name in names or CHECKS:
        try:
            CHECKS[name]()
            outcomes[name] = ""
        except BaseException as error:
            inner = failed_kernel()
            shown = traceback.format_exception(error)
            shown += traceback.format_exception(inner) if inner is not None else []
            outcomes[name] = "".join(shown)[-6000:]
    print(json.dumps(outcomes))


if __name__ == "__main__":
    main(sys.argv[1:])
