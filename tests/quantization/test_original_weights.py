"""`convert_fx(keep_original_weights=True)` keeps the floats that function calls packed."""

import pytest

import facula
from facula import nn
from facula.nn import functional as F
from facula.quantization import QConfigMapping, default_dynamic_qconfig, get_default_qconfig_mapping
from facula.quantization.quantize_fx import convert_fx, prepare_fx


class Functions(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.bias = nn.Parameter(facula.randn(3, 4)), nn.Parameter(facula.randn(3))
        self.second = nn.Parameter(facula.randn(2, 3))

    def forward(self, x):
        return F.linear(F.linear(x, self.first, self.bias), self.second)


@pytest.mark.parametrize("static", [True, False])
def test_floats_are_kept_by_the_name_of_what_they_were_packed_to(static):
    model, x = Functions().eval(), facula.randn(5, 4)
    mapping = (
        get_default_qconfig_mapping("x86")
        if static
        else QConfigMapping().set_global(default_dynamic_qconfig)
    )
    prepared = prepare_fx(model, mapping, (x,))
    prepared(x)
    kept = convert_fx(prepared, keep_original_weights=True).original_weights_lookup
    assert list(kept) == ["_packed_weight_0", "_packed_weight_1"]
    (first, bias), (second, nothing) = kept.values()
    assert first.tolist() == model.first.tolist()
    assert bias.tolist() == model.bias.tolist()
    assert second.tolist() == model.second.tolist()
    assert nothing is None
    assert not hasattr(convert_fx(prepared), "original_weights_lookup")
