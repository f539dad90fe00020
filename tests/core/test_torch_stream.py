"""PyTorch's stream: its numbers bit for bit (`tools/make_random_vectors.py`), its states, compiled as eager."""

import copy
import json
import pickle
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import facula

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from make_random_vectors import drawn  # noqa: E402 - it lies in tools

VECTORS = json.loads((ROOT / "tests" / "oracles" / "random_vectors.json").read_text())


@pytest.fixture(autouse=True)
def stream():
    """PyTorch's stream, and facula's own afterwards."""
    facula.random.set_stream("torch")
    yield
    facula.random.set_stream("facula")


# ---------------------------------------------------------------- numbers


@pytest.mark.filterwarnings("ignore:Length of split")
@pytest.mark.parametrize("name", VECTORS)
def test_numbers_and_the_place_in_the_stream_are_pytorchs(name):
    call, results = VECTORS[name]["call"], VECTORS[name]["results"]
    got = {d: {n: drawn(facula, call, d, int(n)) for n in sizes} for d, sizes in results.items()}
    assert got == results


def test_words_are_those_of_the_twister():
    words = np.random.RandomState(7).randint(0, 2**32, size=3000, dtype=np.uint32)
    facula.manual_seed(7)
    assert facula.empty(3000, dtype=facula.int32).random_().tolist() == (words % 2**31).tolist()
    facula.manual_seed(7)
    single = np.float32(2.0**-24) * (words[:2500] & 0xFFFFFF).astype(np.float32)
    np.testing.assert_array_equal(facula.rand(2500).numpy(), single)
    facula.manual_seed(7)
    order = np.arange(100)
    for i in range(99):
        other = i + words[i] % (100 - i)
        order[[i, other]] = order[[other, i]]
    assert facula.randperm(100).tolist() == order.tolist()


def test_a_seed_counts_modulo_two_to_the_32_and_negative_ones_wrap():
    def draw(seed):
        facula.manual_seed(seed)
        return facula.initial_seed(), facula.rand(2).tolist()

    assert draw(5)[1] == draw(2**40 + 5)[1] and draw(-1)[0] == 2**64 - 1


@pytest.mark.parametrize("size", [3, 16, 40])
def test_what_is_not_contiguous_is_drawn_in_the_order_of_memory(size):
    facula.manual_seed(1)
    plain = facula.empty(size, 6).uniform_()
    facula.manual_seed(1)
    assert facula.equal(facula.empty(size, 6).t().uniform_(), plain.t())
    facula.manual_seed(1)
    assert facula.equal(facula.rand_like(facula.empty(size, 6).t()), plain.t())


def test_normal_numbers_come_in_pairs_of_which_one_waits():
    facula.manual_seed(0)
    three = facula.randn(3)
    facula.manual_seed(0)
    assert facula.equal(facula.cat([facula.randn(1) for _ in range(3)]), three)


# ---------------------------------------------------------------- states


def test_states_are_pytorchs_bytes():
    facula.manual_seed(3)
    facula.rand(5)
    state = facula.get_rng_state()
    fields = np.frombuffer(bytes(state.tolist())[:24], "<u8")
    assert state.shape == (5056,) and fields[0] == 3 and fields[2] == 5
    expected = facula.randn(30)
    facula.manual_seed(8)
    facula.set_rng_state(state)
    assert facula.equal(facula.randn(30), expected) and facula.initial_seed() == 3


def test_the_normal_number_that_waits_is_part_of_the_state():
    facula.randn(1)
    state = facula.get_rng_state()
    expected = facula.randn(1)
    facula.set_rng_state(state)
    assert facula.equal(facula.randn(1), expected)


@pytest.mark.parametrize("again", [copy.deepcopy, lambda g: pickle.loads(pickle.dumps(g))])  # noqa: S301
def test_copies_of_a_generator_go_on_alike(again):
    one = facula.Generator().manual_seed(4)
    facula.randn(7, generator=one)
    two = again(one)
    assert two.stream == "torch"
    assert facula.equal(facula.randn(7, generator=one), facula.randn(7, generator=two))


def test_a_fork_restores_the_stream():
    with facula.random.fork_rng():
        inside = facula.randn(5)
    assert facula.equal(inside, facula.randn(5))


def test_bytes_that_are_no_state_are_refused():
    with pytest.raises(RuntimeError, match="Invalid mt19937 state"):
        facula.set_rng_state(facula.zeros(5056, dtype=facula.uint8))
    with pytest.raises(RuntimeError, match="wrong size, got 16"):
        facula.set_rng_state(facula.zeros(16, dtype=facula.uint8))
    with pytest.raises(RuntimeError, match="does not use offset"):
        facula.Generator().get_offset()


# ---------------------------------------------------------------- kinds of streams


def test_a_generator_has_the_stream_that_was_set_when_it_was_made():
    theirs = facula.Generator()
    facula.random.set_stream("facula")
    ours = facula.Generator()
    assert (theirs.stream, ours.stream, facula.random.get_stream()) == ("torch", "facula", "facula")
    assert ours.get_state().shape == (16,)
    assert facula.equal(
        facula.rand(3, generator=theirs.manual_seed(0)),
        facula.rand(3, generator=facula.Generator(stream="torch").manual_seed(0)),
    )
    with pytest.raises(ValueError, match="'facula' or 'torch' was required"):
        facula.random.set_stream("numpy")


def test_small_calls_that_are_kept_follow_the_stream():
    x = facula.ones(9)

    def draw(stream):
        facula.random.set_stream(stream)
        facula.manual_seed(0)
        return [facula.nn.functional.dropout(x, 0.5).tolist() for _ in range(4)]

    first = {stream: draw(stream) for stream in ("torch", "facula")}
    assert first["torch"] != first["facula"]
    assert all(draw(stream) == first[stream] for stream in ("torch", "facula", "torch"))


def test_threads_take_turns():
    generator = facula.Generator().manual_seed(0)
    parts = []

    def draw():
        for _ in range(20):
            parts.append(facula.rand(5000, generator=generator))

    threads = [threading.Thread(target=draw) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    whole = facula.rand(400_000, generator=generator.manual_seed(0))
    assert facula.equal(facula.cat(parts).sort()[0], whole.sort()[0])


# ---------------------------------------------------------------- compiled


def noisy(x):
    """Draws of several kinds, in an order."""
    a = facula.nn.functional.dropout(x, 0.3) + facula.rand(40)
    b = facula.randn_like(a) * facula.bernoulli(facula.full_like(a, 0.5))
    c = (
        facula.multinomial(facula.ones(6), 4, True).sum()
        + facula.poisson(facula.full((2,), 3.0)).sum()
    )
    return a * b + c + facula.randint(0, 5, (40,)) + facula.empty(40).exponential_()


def test_a_compiled_program_draws_as_in_eager():
    x = facula.ones(40)
    compiled = facula.compile(noisy)
    for _ in range(2):
        facula.manual_seed(2)
        expected = [noisy(x), noisy(x), facula.rand(2)]
        facula.manual_seed(2)
        got = [compiled(x), compiled(x), facula.rand(2)]
        facula.testing.assert_close(got, expected)
        assert facula.equal(got[2], expected[2])


def test_gradients_of_a_compiled_program_use_the_numbers_that_were_drawn():
    def loss(x):
        return (facula.nn.functional.dropout(x * 2, 0.4) * facula.randn(33)).sum()

    def gradient(f):
        x = facula.ones(33, requires_grad=True)
        facula.manual_seed(6)
        f(x).backward()
        return x.grad

    assert facula.equal(gradient(facula.compile(loss)), gradient(loss))


def test_a_checkpoint_draws_the_same_again_compiled_and_not():
    def block(x):
        return facula.nn.functional.dropout(x * x, 0.5).sin()

    def loss(x):
        return facula.utils.checkpoint.checkpoint(block, x, use_reentrant=False).sum()

    def gradient(f):
        x = facula.full((50,), 0.7, requires_grad=True)
        facula.manual_seed(6)
        f(x).backward()
        return x.grad

    plain = gradient(lambda x: block(x).sum())
    assert facula.equal(gradient(loss), plain)
    facula.testing.assert_close(gradient(facula.compile(loss)), plain)


def test_a_compiled_program_follows_a_change_of_the_stream():
    compiled = facula.compile(lambda x: facula.nn.functional.dropout(x, 0.5))
    x = facula.ones(64)
    for name in ("torch", "facula", "torch"):
        facula.random.set_stream(name)
        facula.manual_seed(1)
        expected = facula.nn.functional.dropout(x, 0.5)
        facula.manual_seed(1)
        assert facula.equal(compiled(x), expected)


def test_vmap_draws_for_all_entries_at_once():
    f = facula.vmap(lambda x: x + facula.rand(3), randomness="different")
    facula.manual_seed(1)
    got = f(facula.zeros(4, 3))
    facula.manual_seed(1)
    assert facula.equal(got, facula.rand(4, 3))


def test_attention_drops_as_its_parts_do():
    q = facula.zeros(2, 3, 8, 4)
    v = facula.eye(8).expand(2, 3, 8, 8)
    facula.manual_seed(1)
    got = facula.nn.functional.scaled_dot_product_attention(q, q, v, dropout_p=0.4)
    facula.manual_seed(1)
    expected = facula.nn.functional.dropout(facula.full((2, 3, 8, 8), 0.125), 0.4)
    facula.testing.assert_close(got, expected)


def test_whole_numbers_of_a_narrow_dtype_come_from_a_range_whose_roundings_stay_inside(stream):
    def drawn(low, high, dtype, count):
        return facula.randint(low, high, (count,), dtype=dtype).tolist()

    facula.manual_seed(3)
    far = [758374596608.0, 362851139584.0, 950721576960.0]
    assert drawn(-(2**40), 2**40, facula.float32, 3) == far
    facula.manual_seed(3)
    assert drawn(0, 513, facula.bfloat16, 4) == [13.0, 410.0, 416.0, 183.0]
    assert drawn(-4097, 5, facula.float16, 4) == [-1815.0, -3488.0, -3772.0, -4058.0]


@pytest.mark.parametrize("name", ["facula", "torch"])
def test_no_whole_number_is_rounded_to_the_end_of_its_range(name):
    generator = facula.Generator(stream=name)
    for dtype, digits in ((facula.float32, 24), (facula.float16, 11), (facula.bfloat16, 8)):
        high = 2 ** (digits + 1)
        x = facula.randint(high - 4, high, (200,), dtype=dtype, generator=generator)
        assert x.max() < high and x.min() >= high - 4
        y = facula.empty(200, dtype=dtype).random_(-high, 4 - high, generator=generator)
        assert y.max() < 4 - high and y.min() >= -high
