"""Files whose heights and widths may change, and those whose sizes follow from elements: masks, positions."""

from __future__ import annotations

import math

import pytest

import facula
from facula.export import Dim
from facula.onnx import OnnxExporterError
from tests.onnx.onnx_support import Calls, same

D = Dim.DYNAMIC
F = facula.nn.functional


def image(*shape):
    return facula.arange(math.prod(shape)).float().sin().reshape(shape)


_IMAGES = {
    "bilinear": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
    "corners": lambda x: F.interpolate(x, scale_factor=1.5, mode="bilinear", align_corners=True),
    "nearest": lambda x: F.interpolate(x, scale_factor=2),
    "size": lambda x: F.interpolate(x[..., ::2, ::2], size=x.shape[2:], mode="bilinear"),
    "pixels": lambda x: F.pixel_shuffle(x, 2),
    "transposed": facula.nn.ConvTranspose2d(4, 3, 3, stride=2, padding=1, output_padding=1),
}


@pytest.mark.parametrize("opset", [18, 11])
@pytest.mark.parametrize("name", _IMAGES)
def test_heights_and_widths_change(name, opset):
    shapes = (({0: D, 2: D, 3: D},),)
    calls = [(image(*s),) for s in ((2, 4, 6, 8), (3, 4, 10, 4))]
    same(Calls(_IMAGES[name]), *calls, dynamic_shapes=shapes, opset_version=opset)


def _boxes(x):
    score = x[:, 4].sigmoid()
    keep = score > 0.55
    kept, scores = x[keep], score[keep]
    return kept[:, :2] * 2, scores, facula.cat([kept, scores[:, None]], 1), kept.sum()


def _written(x):
    x = x.clone()
    x[x > 0.5] = 9.0
    return x


_ELEMENTS = {
    "mask": lambda x: x[x > 0.3],
    "product": lambda x: x[x > 0.3] * x[x > 0.3],
    "broadcast mask": lambda x: facula.masked_select(x, x[:1] > 0),
    "rows": lambda x: x[x[:, 0] > 0].sort(0),
    "columns": lambda x: x[:, x[0] > 0],
    "positions": lambda x: facula.nonzero(x > 0.5),
    "number": lambda x: facula.nonzero(x.sum() > -1e9),
    "where": lambda x: facula.where(x > 0.2),
    "boxes": _boxes,
    "written": _written,
}


@pytest.mark.parametrize("opset", [18, 11])
@pytest.mark.parametrize("name", _ELEMENTS)
def test_sizes_follow_from_elements(name, opset):
    calls = [(image(6, 8),), ((image(11, 8) * 1.3).cos(),), (-facula.ones(4, 8),)]
    same(Calls(_ELEMENTS[name]), *calls, dynamic_shapes=(({0: D},),), opset_version=opset)


def test_such_a_size_as_a_number_is_refused():
    with pytest.raises(OnnxExporterError, match="sizes that follow from the sizes of inputs"):
        facula.onnx.export(Calls(lambda x: x[x > 0].shape[0] * x.sum()), (image(6, 8),))
