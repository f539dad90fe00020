"""Results follow the order of channels last that an image's strides show, with or without gaps.

Takes: images in several layouts. Gives: nothing. Keeps true: the layouts of results are PyTorch's, and
the elements are those of the contiguous image.
"""

import pytest

import facula

F = facula.nn.functional
LAST = facula.channels_last
CALLS = {
    "nearest": lambda x: F.interpolate(x, scale_factor=2),
    "bilinear": lambda x: F.interpolate(x, size=(5, 5), mode="bilinear"),
    "bicubic": lambda x: F.interpolate(x, size=(5, 5), mode="bicubic"),
    "area": lambda x: F.interpolate(x, size=(2, 2), mode="area"),
    "pixel_shuffle": lambda x: F.pixel_shuffle(x, 2),
    "pixel_unshuffle": lambda x: F.pixel_unshuffle(x, 2),
    "channel_shuffle": lambda x: F.channel_shuffle(x, 2),
    "group_norm": lambda x: F.group_norm(x, 2),
    "batch_norm": lambda x: F.batch_norm(x, None, None, training=True),
    "max_pool2d": lambda x: F.max_pool2d(x, 2),
    "avg_pool2d": lambda x: F.avg_pool2d(x, 2),
    "adaptive_max_pool2d": lambda x: F.adaptive_max_pool2d(x, 2),
    "reflect": lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect"),
    "constant": lambda x: F.pad(x, (1, 1, 1, 1)),
    "conv2d": lambda x: F.conv2d(x, facula.ones(4, 8, 3, 3)),
    "conv_transpose2d": lambda x: F.conv_transpose2d(x, facula.ones(8, 4, 3, 3)),
}
CUTS = {
    "whole": lambda x: x,
    "sliced": lambda x: x[:, :, 1:-1, 1:-1],
    "every second": lambda x: x[:, :, ::2, ::2],
}


def image():
    return facula.arange(2 * 8 * 12 * 12.0).view(2, 8, 12, 12).sin()


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("name", CALLS)
def test_the_order_is_kept(name, cut):
    x = CUTS[cut](image())
    last = CUTS[cut](image().contiguous(memory_format=LAST))
    wanted, found = CALLS[name](x), CALLS[name](last)
    assert found.is_contiguous(memory_format=LAST)
    assert wanted.is_contiguous()
    facula.testing.assert_close(found, wanted, check_stride=False)


def test_an_image_without_a_batch_is_contiguous_again():
    x = image().contiguous(memory_format=LAST)[0][None]
    assert F.interpolate(x, scale_factor=2).is_contiguous()
    assert F.max_pool2d(x, 2).is_contiguous()


@pytest.mark.parametrize("name", ["nearest", "bilinear", "reflect", "group_norm"])
def test_gradients(name):
    x = image().double()[:1, :, :4, :4]
    last = x.contiguous(memory_format=LAST)
    results = []
    for t in (x, last):
        t = t.detach().clone().requires_grad_()
        out = CALLS[name](t)
        (out * facula.arange(out.numel()).view(out.shape)).sum().backward()
        results.append(t.grad)
    facula.testing.assert_close(*results, check_stride=False)
