"""Generators of a cipher and AES on tensors: published vectors, distributions, and that no state gets out."""

import copy
import os
import pickle
import threading

import numpy
import pytest
import scipy.stats

import facula
from facula import core, csprng


def data(text):
    return facula.tensor(list(bytes.fromhex(text)), dtype=facula.uint8)


def text(tensor):
    return bytes(tensor.tolist()).hex()


KEY = data("2b7e151628aed2a6abf7158809cf4f3c")
PLAIN = (
    "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51"
    "30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710"
)
#: NIST SP 800-38A, F.1.1 and F.5.1
ECB = (
    "3ad77bb40d7a3660a89ecaf32466ef97f5d3d58503b9699de785895a96fdbaaf"
    "43b1cd7f598ece23881b00e3ed0306887b0c785e27e8ad3f8223207104725dd4"
)
CTR = (
    "874d6191b620e3261bef6864990db6ce9806f66b7970fdff8617187bb9fffdff"
    "5ae4df3edbd5d35e5b4f09020db03eab1e031dda2fbe03d1792170a0f3009cee"
)


@pytest.fixture(params=[True, False], ids=["instructions", "plain"])
def path(request):
    before = core.aes_instructions()
    core.aes_instructions(request.param)
    yield
    core.aes_instructions(before)


def test_vectors_of_nist(path):
    out, back = facula.zeros(64, dtype=facula.uint8), facula.zeros(64, dtype=facula.uint8)
    csprng.encrypt(data(PLAIN), out, KEY, "aes128", "ecb")
    assert text(out) == ECB
    csprng.decrypt(out, back, KEY, "aes128", "ecb")
    assert text(back) == PLAIN
    first = bytes.fromhex("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff")
    csprng.encrypt(data(PLAIN), out, KEY, "aes128", "ctr", counter=first)
    assert text(out) == CTR
    csprng.decrypt(out, back, KEY, "aes128", "ctr", counter=first)
    assert text(back) == PLAIN
    one = facula.zeros(16, dtype=facula.uint8)  # FIPS 197, C.1
    key = data("000102030405060708090a0b0c0d0e0f")
    csprng.encrypt(data("00112233445566778899aabbccddeeff"), one, key, "aes128", "ecb")
    assert text(one) == "69c4e0d86a7b0430d8cdb78070b4c55a"


def test_a_counter_carries_into_its_upper_half(path):
    start = bytes.fromhex("00000000000000ffffffffffffffffff")
    zeros, out = facula.zeros(32, dtype=facula.uint8), facula.zeros(32, dtype=facula.uint8)
    csprng.encrypt(zeros, out, KEY, "aes128", "ctr", counter=start)
    blocks = data("00000000000000ffffffffffffffffff" + "00000000000001000000000000000000")
    wanted = facula.zeros(32, dtype=facula.uint8)
    csprng.encrypt(blocks, wanted, KEY, "aes128", "ecb")
    assert out.equal(wanted)


@pytest.mark.parametrize("mode", ["ecb", "ctr"])
@pytest.mark.parametrize("dtype", [facula.float32, facula.int64, facula.uint8, facula.bool])
@pytest.mark.parametrize("count", [0, 1, 5, 700])
def test_what_is_encrypted_comes_back(mode, dtype, count, path):
    given = (facula.randn(count) * 90).to(dtype)
    size = (given.numel() * given.element_size() + 15) // 16 * 16
    hidden, back = facula.zeros(size, dtype=facula.uint8), facula.empty_like(given)
    csprng.encrypt(given, hidden, KEY, "aes128", mode)
    csprng.decrypt(hidden, back, KEY, "aes128", mode)
    assert back.equal(given)


def test_views_are_written_through():
    out = facula.zeros(2, 32, dtype=facula.uint8)
    csprng.encrypt(
        data(PLAIN)[:32], out[:, ::2].t()[:, 0].reshape(-1)[:0].new_empty(32), KEY, "aes128", "ecb"
    )
    columns = facula.zeros(32, 2, dtype=facula.uint8)
    csprng.encrypt(data(PLAIN)[:32], columns[:, 1], KEY, "aes128", "ecb")
    assert text(columns[:, 1]) == ECB[:64] and columns[:, 0].sum() == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"key": KEY[:5]}, "key tensor of 16 bytes"),
        ({"cipher": "des"}, "cipher 'aes128'"),
        ({"mode": "cbc"}, "the mode 'ecb' or 'ctr'"),
        ({"output": facula.zeros(48, dtype=facula.uint8)}, "64 encrypted bytes for 64"),
        ({"counter": b"\0" * 16}, "in the mode 'ctr'"),
        ({"input": [1, 2]}, "as a tensor"),
    ],
)
def test_what_does_not_fit_is_refused(change, message):
    given = {"input": data(PLAIN), "output": facula.zeros(64, dtype=facula.uint8), "key": KEY}
    given |= {"cipher": "aes128", "mode": "ecb"} | change
    with pytest.raises(RuntimeError, match=message):
        csprng.encrypt(**given)


def test_words_are_those_of_the_counter(path):
    generator = facula.Generator().encipher(bytes(KEY.tolist()))
    words = facula.empty(700, dtype=facula.int32).random_(-(2**31), 2**31 - 1, generator=generator)
    zeros, stream = facula.zeros(2800, dtype=facula.uint8), facula.zeros(2800, dtype=facula.uint8)
    csprng.encrypt(zeros, stream, KEY, "aes128", "ctr")
    drawn = stream.numpy().view("<u4").reshape(-1)
    assert len(numpy.unique(words)) > 690 and len(numpy.unique(drawn)) > 690
    again = facula.Generator().encipher(bytes(KEY.tolist()))
    uniform = facula.empty(700).uniform_(generator=again)
    numpy.testing.assert_array_equal(uniform, (drawn & 0xFFFFFF).astype("f4") / 2**24)


@pytest.mark.parametrize(
    ("draw", "law"),
    [
        (lambda t, g: t.normal_(2, 3, generator=g), scipy.stats.norm(2, 3)),
        (lambda t, g: t.uniform_(-1, 4, generator=g), scipy.stats.uniform(-1, 5)),
        (lambda t, g: t.exponential_(0.5, generator=g), scipy.stats.expon(scale=2)),
        (lambda t, g: t.cauchy_(1, 2, generator=g), scipy.stats.cauchy(1, 2)),
        (lambda t, g: t.log_normal_(0, 0.5, generator=g), scipy.stats.lognorm(0.5)),
    ],
)
def test_numbers_follow_their_law(draw, law):
    generator = csprng.create_random_device_generator("/dev/urandom")
    values = draw(facula.empty(20000, dtype=facula.float64), generator)
    assert scipy.stats.kstest(values.numpy(), law.cdf).pvalue > 1e-6


def test_other_draws_take_the_generator():
    generator = csprng.create_random_device_generator()
    whole = facula.randint(3, 13, (20000,), generator=generator)
    assert scipy.stats.chisquare(numpy.bincount(whole.numpy() - 3)).pvalue > 1e-6
    assert sorted(facula.randperm(300, generator=generator).tolist()) == list(range(300))
    assert abs(facula.empty(20000).bernoulli_(0.3, generator=generator).mean() - 0.3) < 0.02
    counts = facula.poisson(facula.full((20000,), 4.0), generator=generator)
    assert abs(counts.mean() - 4) < 0.1
    picked = facula.multinomial(facula.tensor([0.0, 1.0, 3.0]), 4000, True, generator=generator)
    assert abs((picked == 2).float().mean() - 0.75) < 0.05
    assert abs(facula.empty(20000).geometric_(0.3, generator=generator).mean() - 1 / 0.3) < 0.15


def test_two_generators_differ_and_seeds_decide_a_twister():
    a, b = (csprng.create_random_device_generator() for _ in range(2))
    assert not facula.rand(50, generator=a).equal(facula.rand(50, generator=b))
    seeds = [csprng.create_mt19937_generator(seed) for seed in (5, 5, 6)]
    values = [facula.empty(50).normal_(generator=g) for g in seeds]
    assert values[0].equal(values[1]) and not values[0].equal(values[2])
    assert csprng.supports_cpu() and not csprng.supports_cuda()


@pytest.mark.parametrize(
    "leak",
    [
        lambda g: g.get_state(),
        lambda g: g.set_state(facula.Generator(stream="torch").get_state()),
        lambda g: g.manual_seed(1),
        lambda g: g.seed(),
        lambda g: g.initial_seed(),
        lambda g: g.clone_state(),
        lambda g: facula.Generator().graphsafe_set_state(g),
        lambda g: g.set_stream("facula"),
        pickle.dumps,
        copy.deepcopy,
        lambda g: g.encipher(b"0" * 16),
    ],
)
def test_no_state_gets_out_or_in(leak):
    generator = csprng.create_random_device_generator()
    with pytest.raises(RuntimeError, match="a generator whose state is open was required"):
        leak(generator)
    assert facula.rand(3, generator=generator).shape == (3,)


def test_the_default_generator_is_not_replaced():
    with pytest.raises(RuntimeError, match="a generator of one's own"):
        core.default_generator.encipher(b"0" * 16)
    with pytest.raises(RuntimeError, match="a random device was required"):
        csprng.create_random_device_generator("/etc/passwd")


def drawn(generator):
    return bytes(facula.randint(0, 256, (32,), generator=generator).tolist())


def test_a_child_does_not_draw_what_its_parent_draws():
    generator = csprng.create_random_device_generator()
    drawn(generator)
    children = []
    for _ in range(2):
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            os.write(writer, drawn(generator))
            os._exit(0)
        children.append(os.read(reader, 32))
        os.waitpid(child, 0)
    assert len({drawn(generator), *children}) == 3


def test_a_twister_is_the_same_in_a_child():
    generator = csprng.create_mt19937_generator(3)
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.write(writer, drawn(generator))
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 32) == drawn(generator)


def test_threads_draw_different_words():
    generator = csprng.create_random_device_generator()
    found = []

    def draw():
        for _ in range(50):
            found.extend(facula.randint(0, 2**62, (8,), generator=generator).tolist())

    threads = [threading.Thread(target=draw) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == len(found) == 1600


@pytest.mark.parametrize("counter", [b"", bytes(15), bytes(17), "x" * 16, 16, [0] * 16, 1.5])
def test_counters_of_other_sizes_and_types_are_refused(counter):
    block = facula.zeros(16, dtype=facula.uint8)
    with pytest.raises(RuntimeError, match="a counter of 16 bytes"):
        csprng.encrypt(block, block.clone(), block, "aes128", "ctr", counter=counter)


def test_a_refusal_does_not_say_the_key():
    key = facula.arange(171, 187).to(facula.uint8)
    hexadecimal = bytes(key.tolist()).hex()
    for output, counter in ((facula.zeros(3, dtype=facula.uint8), None), (key.clone(), "x")):
        with pytest.raises(RuntimeError) as caught:
            csprng.encrypt(key, output, key, "aes128", "ctr", counter=counter)
        assert "171" not in str(caught.value) and hexadecimal not in str(caught.value)
    assert key.tolist() == list(range(171, 187))  # the caller's own is not cleared
