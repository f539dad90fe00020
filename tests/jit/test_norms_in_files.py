"""Normalisations of each image, and weights of halves, in scripts and in files."""

import io

import pytest

import facula
from facula import nn


@pytest.mark.parametrize("how", ["script", "trace"])
@pytest.mark.parametrize("norm,shape", [
    (nn.InstanceNorm1d(4), (2, 4, 5)),
    (nn.InstanceNorm2d(4, affine=True, track_running_stats=True), (2, 4, 5, 3)),
    (nn.InstanceNorm3d(4, affine=True), (2, 4, 2, 3, 2)),
])  # fmt: skip
def test_norms_of_images_are_graphs(norm, shape, how):
    facula.manual_seed(1)
    x, norm = facula.randn(*shape), norm.eval()
    made = facula.jit.script(norm) if how == "script" else facula.jit.trace(norm, x)
    assert made.inlined_graph.findNode("prim::PythonOp") is None
    buffer = io.BytesIO()
    facula.jit.save(made, buffer)
    buffer.seek(0)
    again = facula.jit.load(buffer)
    assert "torch.instance_norm(" in again.code
    centred = (x - x.mean(tuple(range(2, x.dim())), keepdim=True)).flatten(2)
    wanted = (centred / (centred.square().mean(2, keepdim=True) + 1e-5).sqrt()).reshape(shape)
    if norm.track_running_stats:
        wanted = x / (1 + 1e-5) ** 0.5
    for each in (made, again):
        assert facula.allclose(each(x), wanted, atol=1e-5)
    if how == "script":
        assert facula.allclose(made(x[0]), wanted[0], atol=1e-5)
        with pytest.raises(ValueError, match="as many dimensions as the norm has"):
            made(facula.rand(3))


def resized(x):
    return x.resize_(1, 2)


def test_sizes_one_by_one():
    assert facula.jit.script(resized)(facula.rand(2)).shape == (1, 2)


def test_weights_beyond_halves_are_the_largest_of_these():
    weight = facula.full((2, 2), 1e9)
    with pytest.warns(UserWarning, match="FOUND weight out of range"):
        packed = facula.ops.quantized.linear_prepack_fp16(weight, None)
    assert facula.ops.quantized.linear_unpack_fp16(packed)[0].tolist() == [[65504.0] * 2] * 2
