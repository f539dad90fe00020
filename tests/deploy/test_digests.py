"""The digest of weights: two sums of mixed words, whatever the length and the number of threads.

The oracle is the definition, a product for each word, in integers of NumPy.
"""

import numpy as np
import pytest

import facula
from facula.deploy.model import digest_of


def defined(content: bytes) -> str:
    """The digest as it is defined: words of eight bytes, numbered from 1, the last one filled up with zeros."""
    words = np.frombuffer(content + bytes(-len(content) % 8), "<u8")
    number = np.arange(1, len(words) + 1, dtype=np.uint64)
    mixed = (words ^ number * np.uint64(0x9E3779B97F4A7C15)) * np.uint64(0xFF51AFD7ED558CCD)
    mixed ^= mixed >> np.uint64(32)
    sums = [
        int(mixed.sum()) + len(content),
        int((mixed * (2 * number + 1)).sum()) - len(content) - 1,
    ]
    whole = (1 << 64) - 1
    first, second = (total & whole for total in sums)
    first = (first ^ first >> 29) * 0xBF58476D1CE4E5B9 & whole
    second = (second ^ second >> 31) * 0x94D049BB133111EB & whole
    return f"w{first:016x}{second:016x}"


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 63, 65536, 65537, 131071, 1_000_003])
@pytest.mark.parametrize("threads", [1, 3])
def test_the_digest_of_weights_is_the_one_of_its_definition(length: int, threads: int) -> None:
    content = np.random.default_rng(length).bytes(length)
    before = facula.get_num_threads()
    facula.set_num_threads(threads)
    try:
        assert digest_of(content) == defined(content)
    finally:
        facula.set_num_threads(before)


def test_words_that_change_places_have_another_digest() -> None:
    content = np.random.default_rng(0).bytes(4096)
    turned = content[8:16] + content[:8] + content[16:]
    assert digest_of(content) != digest_of(turned)
    assert digest_of(content) != digest_of(content + b"\0")
