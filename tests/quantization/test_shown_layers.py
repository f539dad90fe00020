"""Layers of integers print their sizes, not the elements that are packed."""

import facula
from facula import nn


def test_a_model_of_integers_prints_a_line_for_each_layer():
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
    lines = repr(facula.ao.quantization.quantize_dynamic(model, {nn.Linear})).splitlines()
    assert lines == [
        "Sequential(",
        "  (0): DynamicQuantizedLinear(in_features=16, out_features=32, dtype=facula.qint8, "
        "qscheme=facula.per_tensor_affine)",
        "  (1): ReLU()",
        "  (2): DynamicQuantizedLinear(in_features=32, out_features=4, dtype=facula.qint8, "
        "qscheme=facula.per_tensor_affine)",
        ")",
    ]


def test_tables_and_images_too():
    for layer in (facula.ao.nn.quantized.Embedding(4, 8), facula.ao.nn.quantized.Conv2d(1, 2, 3)):
        shown = repr(layer)
        assert "\n" not in shown and "tensor" not in shown.replace("per_tensor", "")
