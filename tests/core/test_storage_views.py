"""Views share memory, copies do not; strides, offsets and contiguity say where elements lie."""

import numpy as np
import pytest

import facula

VIEWS = {
    "transpose": lambda x: x.transpose(0, 2),
    "permute": lambda x: x.permute(2, 0, 1),
    "select": lambda x: x.select(1, 1),
    "index": lambda x: x[0, :, 1],
    "slice": lambda x: x[:, ::2, 1:],
    "ellipsis": lambda x: x[..., 2],
    "none": lambda x: x[None, 1],
    "view": lambda x: x.view(6, 4),
    "flatten": lambda x: x.flatten(),
    "reshape": lambda x: x.reshape(4, 6),
    "unsqueeze": lambda x: x.unsqueeze(1),
    "squeeze": lambda x: x[:1].squeeze(),
    "narrow": lambda x: x.narrow(2, 1, 2),
    "expand": lambda x: x[:, :1].expand(2, 5, 4),
    "diagonal": lambda x: x.diagonal(0, 1, 2),
    "unfold": lambda x: x.unfold(2, 2, 1),
    "as_strided": lambda x: x.as_strided((3, 2), (2, 1), 1),
    "split": lambda x: x.split(2, 2)[1],
    "chunk": lambda x: x.chunk(2, 0)[1],
    "unbind": lambda x: x.unbind(1)[2],
    "movedim": lambda x: x.movedim(0, 2),
    "mT": lambda x: x.mT,
    "swapaxes": lambda x: x.swapaxes(0, 1),
    "unflatten": lambda x: x.unflatten(2, (2, 2)),
    "view_as": lambda x: x.view_as(facula.empty(8, 3)),
    "expand_as": lambda x: x[:1].expand_as(x),
    "detach": lambda x: x.detach(),
    "data": lambda x: x.data,
    "view_dtype": lambda x: x.view(facula.int32),
}


@pytest.mark.parametrize("view", VIEWS)
def test_views_share_storage(view):
    x = facula.arange(24, dtype=facula.float32).view(2, 3, 4)
    v = VIEWS[view](x)
    assert v.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    before = x.clone()
    version = x._version
    target = v[0] if v.dim() else v
    # one element is written through the view, so that overlapping views may be written too
    while target.dim():
        target = target[0]
    target.fill_(99)
    changed = (x.view(facula.int32) != before.view(facula.int32)).sum().item()
    assert changed == 1
    if view == "data":
        assert x._version == version
    else:
        assert x._version == version + 1 == v._version


COPIES = {
    "clone": lambda x: x.clone(),
    "flatten": lambda x: x.transpose(0, 1).flatten(),
    "reshape": lambda x: x.transpose(0, 1).reshape(24),
    "contiguous": lambda x: x.transpose(0, 1).contiguous(),
    "index": lambda x: x[[0, 1]],
    "mask": lambda x: x[x > 3],
    "to": lambda x: x.to(facula.float64),
    "to copy": lambda x: x.to(facula.float32, copy=True),
    "repeat": lambda x: x.repeat(1, 1, 1),
    "tensor": lambda x: facula.tensor(x.tolist()),
}


@pytest.mark.parametrize("copy", COPIES)
def test_copies_do_not_share(copy):
    x = facula.arange(24, dtype=facula.float32).view(2, 3, 4)
    c = COPIES[copy](x)
    before = c.clone()
    x.fill_(-1)
    assert facula.equal(c, before)


def test_what_needs_no_copy_is_the_same_object():
    x = facula.ones(2, 3)
    assert x.contiguous() is x and x.to(facula.float32) is x and x.float() is x
    assert x.cpu() is x and x.requires_grad_() is x and x.type_as(x) is x
    assert x.expand(2, 3) is not x and x.view(2, 3) is not x


def test_strides_follow_numpy():
    a = np.zeros((4, 5, 6), dtype=np.float32)
    x = facula.from_numpy(a)
    steps = [
        (lambda t: t.transpose(0, 2) if isinstance(t, facula.Tensor) else t.transpose(2, 1, 0)),
        (lambda t: t[1:]),
        (lambda t: t[:, ::2]),
        (lambda t: t[..., 1]),
        (lambda t: t[None]),
    ]
    base = x.data_ptr()
    for step in steps:
        a, x = step(a), step(x)
        assert tuple(x.shape) == a.shape
        assert tuple(s * 4 for s in x.stride()) == tuple(
            s if n != 1 else x.stride(i) * 4
            for i, (s, n) in enumerate(zip(a.strides, a.shape, strict=True))
        )
        assert x.data_ptr() == a.__array_interface__["data"][0]
        assert x.storage_offset() * 4 == x.data_ptr() - base


@pytest.mark.parametrize(
    "shape, strides, contiguous",
    [
        ((2, 3), (3, 1), True),
        ((2, 3), (1, 2), False),
        ((2, 1), (1, 7), True),
        ((1, 3), (99, 1), True),
        ((0, 3), (1, 1), True),
        ((), (), True),
        ((2, 2), (2, 2), False),
    ],
)
def test_contiguity(shape, strides, contiguous):
    x = facula.zeros(200).as_strided(shape, strides)
    assert x.is_contiguous() is contiguous
    assert x.contiguous().is_contiguous()


def test_channels_last():
    x = facula.arange(2 * 3 * 4 * 5).view(2, 3, 4, 5).float()
    y = x.to(memory_format=facula.channels_last)
    assert y.stride() == (60, 1, 15, 3) and facula.equal(x, y)
    assert y.is_contiguous(memory_format=facula.channels_last) and not y.is_contiguous()
    assert (y + 1).is_contiguous(memory_format=facula.channels_last)
    assert y.clone().stride() == y.stride() and facula.empty_like(y).stride() == y.stride()
    assert y.contiguous().stride() == x.stride()


def test_view_forms_and_sizes():
    x = facula.arange(24)
    assert x.view(2, -1).shape == (2, 12) and x.view((4, 6)).shape == (4, 6)
    assert x.view(2, 3, 4).view(-1).shape == (24,)
    assert facula.zeros(0, 3).view(3, 0).shape == (3, 0)
    assert facula.zeros(()).view(1, 1).shape == (1, 1)
    t = x.view(2, 3, 4).transpose(1, 2)
    assert t.view(2, 1, 4, 3).shape == (2, 1, 4, 3)
    with pytest.raises(RuntimeError, match="stride"):
        t.view(24)
    for wrong in ((5, -1), (-1, -1), (5, 5)):
        with pytest.raises(RuntimeError):
            x.view(wrong)
    with pytest.raises(RuntimeError, match="-1|ambiguous"):
        facula.zeros(0).view(-1, 0)


def test_view_as_another_dtype():
    x = facula.tensor([1.0, -2.0])
    assert x.view(facula.int32).tolist() == [0x3F800000, -0x40000000]
    assert x.view(facula.uint8).shape == (8,)
    assert facula.equal(x.view(facula.uint8).view(facula.float32), x)
    z = facula.view_as_complex(facula.tensor([[1.0, 2.0], [3.0, 4.0]]))
    assert z.tolist() == [1 + 2j, 3 + 4j] and facula.view_as_real(z).tolist() == [[1, 2], [3, 4]]
    z.imag.mul_(10)
    assert z.tolist() == [1 + 20j, 3 + 40j]


def test_in_place_geometry():
    x = facula.arange(6.0).view(2, 3)
    y = x.t()
    assert x.t_() is x and x.shape == (3, 2) and facula.equal(x, y)
    assert x.unsqueeze_(0).shape == (1, 3, 2) and x.squeeze_().shape == (3, 2)
    assert x.transpose_(0, 1).is_contiguous()


def test_resize_and_set():
    x = facula.arange(6.0)
    x.resize_(2, 2)
    assert x.tolist() == [[0, 1], [2, 3]] and x.untyped_storage().nbytes() == 24
    x.resize_(3, 4)
    assert x.flatten()[:6].tolist() == [0, 1, 2, 3, 4, 5]
    y = facula.zeros(2)
    y.set_(x)
    assert y.shape == (3, 4) and y.data_ptr() == x.data_ptr()
    y.set_(x.untyped_storage(), 1, (2,), (2,))
    assert y.tolist() == [1, 3]


def test_is_set_to_and_base():
    x = facula.zeros(3, 4)
    v = x[1:]
    w = v[:, 1:]
    assert v._base is x and w._base is x and x._base is None
    assert v._is_view() and not x._is_view()
    assert x.detach()._base is None


def test_overlapping_copies_are_as_if_buffered():
    """A copy within one storage reads everything before it writes."""
    x = facula.arange(10.0)
    x[1:] = x[:-1].clone()
    assert x.tolist() == [0, *range(9)]
    y = facula.arange(12.0).view(3, 4)
    y[:, 0].add_(y[:, 1])
    assert y[:, 0].tolist() == [1, 9, 17]
    z = facula.arange(6.0)
    z[::2].mul_(z[1::2])
    assert z.tolist() == [0, 1, 6, 3, 20, 5]
