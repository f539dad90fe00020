"""Random numbers: repeatable, the same for any number of threads, of the right distribution."""

import math
import subprocess
import sys

import numpy as np
import pytest

import facula


def test_seed_repeats():
    facula.manual_seed(5)
    first = [facula.rand(3), facula.randn(3), facula.randint(0, 9, (3,)), facula.randperm(5)]
    facula.manual_seed(5)
    second = [facula.rand(3), facula.randn(3), facula.randint(0, 9, (3,)), facula.randperm(5)]
    assert all(facula.equal(a, b) for a, b in zip(first, second, strict=True))
    assert facula.initial_seed() == 5
    facula.manual_seed(6)
    assert not facula.equal(facula.rand(3), first[0])


UNSEEDED = "import facula; print(facula.initial_seed(), facula.rand(3).tolist())"


def test_processes_that_nobody_seeds_draw_numbers_of_their_own():
    run = [sys.executable, "-c", UNSEEDED]
    environment = {"PYTHONPATH": ":".join(sys.path)}
    texts = [
        subprocess.run(run, capture_output=True, text=True, check=True, env=environment).stdout
        for _ in range(2)
    ]
    assert texts[0] != texts[1]
    seed, numbers = texts[0].split(maxsplit=1)
    facula.manual_seed(int(seed))
    assert numbers.strip() == str(facula.rand(3).tolist())


def test_state_round_trip():
    state = facula.get_rng_state()
    a = facula.rand(5)
    facula.set_rng_state(state)
    assert facula.equal(a, facula.rand(5)) and not facula.equal(a, facula.rand(5))
    with facula.random.fork_rng():
        inside = facula.rand(4)
    assert facula.equal(inside, facula.rand(4))


def test_generators_are_independent():
    one, two = facula.Generator().manual_seed(1), facula.Generator().manual_seed(1)
    facula.manual_seed(0)
    expected = facula.rand(3)
    facula.manual_seed(0)
    a = facula.rand(3, generator=one)
    assert facula.equal(a, facula.rand(3, generator=two)) and facula.equal(facula.rand(3), expected)
    saved = one.get_state()
    b = facula.randn(3, generator=one)
    one.set_state(saved)
    assert facula.equal(b, facula.randn(3, generator=one))


SCRIPT = """
import sys, facula
facula.set_num_threads(int(sys.argv[1]))
facula.manual_seed(3)
n = 300_001
parts = [facula.rand(n), facula.randn(n), facula.randint(0, 1000, (n,)).float(),
         facula.nn.functional.dropout(facula.ones(n), 0.3), facula.empty(n).exponential_(),
         facula.bernoulli(facula.full((n,), 0.4)), facula.randperm(n).float()]
print([hash(p.numpy().tobytes()) for p in parts])
"""


def test_any_number_of_threads_gives_the_same_numbers():
    environment = {"PYTHONHASHSEED": "0", "PYTHONPATH": ":".join(sys.path)}
    outputs = {
        subprocess.run([sys.executable, "-c", SCRIPT, str(threads)], capture_output=True, text=True,
                       env=environment, check=True, timeout=120).stdout
        for threads in (1, 2, 4)
    }  # fmt: skip
    assert len(outputs) == 1


N = 200_000


def moments(x):
    values = x.double().numpy()
    return values.mean(), values.var()


@pytest.mark.parametrize(
    "draw, mean, variance",
    [
        (lambda: facula.rand(N), 0.5, 1 / 12),
        (lambda: facula.randn(N), 0, 1),
        (lambda: facula.empty(N).uniform_(-2, 4), 1, 3),
        (lambda: facula.empty(N).normal_(3, 2), 3, 4),
        (lambda: facula.normal(facula.full((N,), 1.0), 0.5), 1, 0.25),
        (lambda: facula.empty(N).exponential_(2), 0.5, 0.25),
        (lambda: facula.empty(N).geometric_(0.25), 4, 12),
        (lambda: facula.bernoulli(facula.full((N,), 0.3)), 0.3, 0.21),
        (lambda: facula.randint(-5, 6, (N,)), 0, 10),
        (lambda: facula.empty(N).log_normal_(0, 0.5), math.exp(0.125), (math.exp(0.25) - 1) * math.exp(0.25)),
    ],
)  # fmt: skip
def test_mean_and_variance(draw, mean, variance):
    facula.manual_seed(11)
    m, v = moments(draw())
    assert abs(m - mean) < 6 * math.sqrt(variance / N)
    assert abs(v - variance) < 0.05 * variance


@pytest.mark.parametrize("name", ["rand", "randn"])
def test_distribution(name):
    """Kolmogorov and Smirnov's distance to the distribution function."""
    from scipy import stats

    facula.manual_seed(7)
    for dtype in (facula.float32, facula.float64):
        values = getattr(facula, name)(50_000, dtype=dtype).numpy()
        distribution = stats.uniform.cdf if name == "rand" else stats.norm.cdf
        assert stats.kstest(values, distribution).pvalue > 1e-4


def test_bounds():
    facula.manual_seed(2)
    for dtype in (facula.float16, facula.bfloat16, facula.float32, facula.float64):
        x = facula.rand(100_000, dtype=dtype)
        assert x.min() >= 0 and x.max() < 1
    y = facula.randint(3, 7, (10_000,))
    assert sorted(set(y.tolist())) == [3, 4, 5, 6]


def test_permutations_and_sampling():
    facula.manual_seed(1)
    p = facula.randperm(1000)
    assert sorted(p.tolist()) == list(range(1000)) and p.tolist() != list(range(1000))
    counts = np.bincount(
        facula.multinomial(facula.tensor([1.0, 2.0, 0.0, 7.0]), 50_000, replacement=True).numpy(),
        minlength=4,
    )
    np.testing.assert_allclose(counts / 50_000, [0.1, 0.2, 0, 0.7], atol=0.01)
    without = facula.multinomial(facula.ones(6), 6)
    assert sorted(without.tolist()) == list(range(6))


def test_dropout():
    facula.manual_seed(4)
    x = facula.ones(100_000, requires_grad=True)
    y = facula.nn.functional.dropout(x, 0.25)
    kept = (y != 0).float().mean().item()
    assert abs(kept - 0.75) < 0.01 and y.max().item() == pytest.approx(1 / 0.75)
    y.sum().backward()
    assert facula.equal(x.grad, y.detach())
    assert facula.equal(facula.nn.functional.dropout(x, 0.25, training=False), x)
    assert not facula.nn.functional.dropout(x, 1.0).any()


@pytest.mark.parametrize(
    "action",
    [
        lambda: facula.randint(5, 5, (2,)),
        lambda: facula.empty(2).uniform_(3, 1),
        lambda: facula.empty(2).normal_(0, -1),
        lambda: facula.empty(2).exponential_(0),
        lambda: facula.bernoulli(facula.tensor([1.5])),
        lambda: facula.multinomial(facula.tensor([1.0, -1.0]), 1),
        lambda: facula.multinomial(facula.ones(2), 3),
        lambda: facula.randperm(-1),
    ],
)
def test_errors(action):
    with pytest.raises((RuntimeError, ValueError)):
        action()
