"""Models for the versions of ONNX's operators from 11 to 16: onnxruntime computes what the model does."""

import onnx
import pytest
from onnx_support import Calls, same

import facula
from facula import nn
from facula.nn import functional as F

facula.manual_seed(3)
IMAGE, ROWS, MATRIX = facula.randn(2, 3, 8, 8), facula.randn(2, 3, 4), facula.randn(3, 5)
PLACES = facula.tensor([[0, 2], [1, 4], [3, 3]])
MODELS = {
    "images": (
        nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Hardswish(), nn.MaxPool2d(2),
                      nn.Flatten(), nn.Linear(36, 5)),
        (IMAGE,),
    ),
    "transformer": (nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), (facula.randn(2, 5, 8),)),
    "recurrent": (nn.LSTM(4, 6, 2, bidirectional=True), (facula.randn(5, 2, 4),)),
    "norms": (nn.Sequential(nn.LayerNorm((8, 8)), nn.GroupNorm(1, 3), nn.GELU()), (IMAGE,)),
    "softmax along any dimension": (Calls(lambda x: F.softmax(x, 1) + F.log_softmax(x, 0)), (ROWS,)),
    "triangles": (Calls(lambda x: x.tril(1) + x.triu(-1)), (MATRIX,)),
    "pieces": (
        Calls(lambda x: facula.cat([c.sum((0, 2)).unsqueeze(0) for c in x.split([1, 2], 1)], 1).squeeze(0)),
        (ROWS,),
    ),
    "other sizes": (
        Calls(lambda x: F.interpolate(x, scale_factor=2.0, mode="bilinear") + F.interpolate(x, size=(16, 16))),
        (IMAGE,),
    ),
    "attention": (
        Calls(lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True)),
        (facula.randn(1, 2, 4, 8),),
    ),
    "comparisons": (
        Calls(lambda x: (x <= 0.0, x >= 0.0)),
        (facula.tensor([-1.0, 0.0, 2.0, float("nan")]),),
    ),
    "places": (Calls(lambda x, i: x.scatter(1, i, 1.0).gather(1, i)), (MATRIX, PLACES)),
}  # fmt: skip


@pytest.mark.parametrize("version", [11, 12, 13, 14, 15, 16])
@pytest.mark.parametrize("name", MODELS)
def test_a_model_of_an_older_version_computes_the_same(name, version) -> None:
    model, args = MODELS[name]
    program = same(model.eval(), args, opset_version=version)
    assert program.model_proto.opset_import[0].version == version
    assert program.model_proto.ir_version == onnx.helper.find_min_ir_version_for(
        program.model_proto.opset_import
    )


def test_sizes_that_change() -> None:
    layer = MODELS["transformer"][0].eval()
    batch = facula.export.Dim("batch", min=1, max=64)
    calls = [(facula.randn(n, 5, 8),) for n in (2, 7)]
    same(layer, *calls, opset_version=11, dynamic_shapes=({0: batch},))


@pytest.mark.parametrize(
    ("function", "args", "version", "said"),
    [
        (lambda x, i: x.scatter_add(1, i, x[:, :2]), (MATRIX, PLACES), 13, "pass opset_version=16"),
        (
            lambda x, g: F.grid_sample(x, g, align_corners=False),
            (IMAGE, facula.zeros(2, 4, 4, 2)),
            12,
            "an opset_version that has GridSample was required",
        ),
        (lambda x: x + 1, (MATRIX,), 10, "an opset_version from 11 to 23 was required"),
    ],
)
def test_what_an_older_version_has_not_is_said(function, args, version, said) -> None:
    with pytest.raises(facula.onnx.OnnxExporterError, match=said):
        facula.onnx.export(Calls(function), args, opset_version=version)
