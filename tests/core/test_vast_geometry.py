"""Sizes, strides and offsets whose products leave 64 bits: refused, never wrapped around to small ones.

They were checked after multiplying in 64 bits, so that a stride of 2**61 passed and read far outside.
"""

import numpy as np
import pytest

import facula

H = 2**61


def thousand():
    return facula.ones(1000)


def storage():
    return thousand().untyped_storage()


REFUSED = {
    "a stride": lambda: thousand().as_strided((2,), (H,)),
    "a sum of strides": lambda: thousand().as_strided((3, 3), (H, H // 2)),
    "strides of 0 in 64 bits": lambda: thousand().as_strided((2, 2), (2**62, 2**62)),
    "a product": lambda: thousand().as_strided((2**33,), (2**31,)),
    "an offset": lambda: thousand().as_strided((2,), (1,), H),
    "an offset of 0 in 64 bits": lambda: thousand().as_strided((2,), (1,), 2**62),
    "the last offset": lambda: thousand().as_strided((2,), (1,), 2**63 - 1),
    "in place": lambda: thousand().as_strided_((2,), (H,)),
    "copied": lambda: facula.as_strided_copy(thousand(), (2,), (H,)),
    "scattered": lambda: facula.as_strided_scatter(thousand(), facula.ones(2), (2,), (H,)),
    "on meta": lambda: facula.ones(3, device="meta").as_strided((2,), (H,)),
    "set_ with a stride": lambda: facula.empty(0).set_(storage(), 0, (2,), (H,)),
    "set_ with a longer stride": lambda: facula.empty(0).set_(storage(), 0, (2,), (2**70,)),
    "set_ with an offset": lambda: facula.empty(0).set_(storage(), H, (2,), (1,)),
    "set_ with an offset of 0": lambda: facula.empty(0).set_(storage(), 2**62, (2,), (1,)),
    "empty_strided": lambda: facula.empty_strided((2,), (H,)),
    "empty_strided of 0": lambda: facula.empty_strided((2, 2), (2**62, 2**62)),
    "new_empty_strided": lambda: thousand().new_empty_strided((2**33,), (2**31,)),
    "expanded": lambda: facula.ones(1, 1).expand(2**32, 2**32),
    "expanded once": lambda: facula.ones(1).expand(2**62),
    "broadcast": lambda: facula.broadcast_to(facula.ones(1), (2**31, 2**31)),
    "repeated": lambda: facula.ones(1000).repeat(2**32, 2**32),
    "tiled": lambda: facula.ones(1).tile((2**33, 2**33)),
    "outer": lambda: facula.outer(facula.ones(1).expand(2**40), facula.ones(1).expand(2**40)),
    "counts": lambda: facula.repeat_interleave(facula.full((4,), 2**62)),
    "counts of entries": lambda: facula.ones(4).repeat_interleave(facula.full((4,), 2**62)),
    "padding": lambda: facula.nn.functional.max_pool1d(facula.ones(1, 1, 4), 2**62, padding=H),
    "bytes": lambda: storage().resize_(-5),
    "a dimension": lambda: thousand().softmax(2**40),
    "a dimension of a sum": lambda: thousand().sum(2**40),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_refused(name):
    with pytest.raises((RuntimeError, IndexError), match=r"^\[\w+\] ") as caught:
        REFUSED[name]()
    assert "hint: " in str(caught.value)


def test_buffers_are_not_read_behind_their_end():
    memory = bytearray(16)
    for count in (2**62, 2**62 + 1, 5):
        with pytest.raises(ValueError, match=r"^\[frombuffer\] a buffer of"):
            facula.frombuffer(memory, dtype=facula.float32, count=count)
    assert facula.frombuffer(memory, dtype=facula.float32, count=4).shape == (4,)


def test_what_fits_is_taken():
    x = facula.arange(1000.0)
    assert x.as_strided((2, 2), (500, 499)).tolist() == [[0, 499], [500, 999]]
    assert x.as_strided((0, 5), (H, H), 7).shape == (0, 5)
    assert facula.ones(1).expand(2**50).shape == (2**50,)
    assert facula.empty(0).set_(x.untyped_storage(), 998, (2,), (1,)).tolist() == [998, 999]
    assert facula.zeros(2**60, 0).expand(2**60, 0).numel() == 0
    assert facula.repeat_interleave(facula.tensor([2, 0, 1])).tolist() == [0, 0, 2]


@pytest.mark.parametrize("show", [lambda t: t.numpy(), np.asarray, np.from_dlpack])
def test_shown_memory_outlives_the_tensor_that_showed_it(show):
    """The array named the tensor, which could go to another storage and free what was shown."""
    x = facula.full((100_000,), 3.0)
    array = show(x)
    x.set_(facula.ones(3))
    others = [facula.zeros(100_000) for _ in range(4)]
    assert (array == 3).all() and len(others) == 4
    x.data = facula.ones(2)
    assert array.sum() == 300_000


def test_shown_bytes_are_not_moved():
    x = storage()
    shown = memoryview(x)
    with pytest.raises(RuntimeError, match="not resizable"):
        x.resize_(10**6)
    assert bytes(shown[:4]) == np.float32(1).tobytes()


def test_no_kernel_writes_to_memory_that_nobody_may_write_to():
    """An optimizer's step changed a `bytes` object, and ended the process where a file was mapped."""
    content = b"abcdabcd"
    with pytest.warns(UserWarning, match="not writable"):
        shared = facula.frombuffer(content, dtype=facula.float32)
    parameter = facula.nn.Parameter(shared)
    parameter.grad = facula.ones(2)
    for optimizer in (facula.optim.SGD([parameter], lr=1.0), facula.optim.Adam([parameter])):
        with pytest.raises(RuntimeError, match="may be written to was required as 'param'"):
            optimizer.step()
    with pytest.raises(RuntimeError, match="may be written to was required as 'result"):
        facula.core.kernel("neg:f32")((shared, facula.ones(2)), (), (), total=2)
    assert content == bytes([97, 98, 99, 100] * 2)
