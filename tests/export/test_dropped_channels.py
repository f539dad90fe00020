"""Files keep that `dropout1d` and `dropout3d` of a single example drop whole channels."""

import io

import pytest

import facula
from facula import nn

#: dropout2d warns of three dimensions
pytestmark = pytest.mark.filterwarnings("ignore:dropout2d")
CASES = [
    (nn.Dropout1d, (256, 8)),
    (nn.Dropout1d, (2, 128, 8)),
    (nn.Dropout2d, (64, 4, 6)),
    (nn.Dropout2d, (2, 128, 2, 3)),
    (nn.Dropout3d, (256, 2, 3, 2)),
    (nn.Dropout3d, (2, 128, 2, 3, 2)),
]


class Dropping(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(x)


def assert_whole_channels(result, spatial):
    rows = result.flatten(-spatial)
    assert facula.equal(rows, rows[..., :1].expand_as(rows))
    assert set(result.unique().tolist()) == {0.0, 2.0}


def spatial_of(layer, shape):
    return 1 if len(shape) == 3 else int(layer.__name__[-2])


@pytest.mark.parametrize(("layer", "shape"), CASES)
@pytest.mark.parametrize("inplace", [False, True])
def test_script_files(layer, shape, inplace):
    file = io.BytesIO()
    facula.jit.save(facula.jit.script(Dropping(layer(0.5, inplace))), file)
    file.seek(0)
    x = facula.ones(shape)
    result = facula.jit.load(file)(x)
    assert_whole_channels(result, spatial_of(layer, shape))
    assert facula.equal(x, result) is inplace


@pytest.mark.parametrize(("layer", "shape"), CASES)
def test_files_of_exported_programs(layer, shape):
    file = io.BytesIO()
    facula.export.save(facula.export.export(Dropping(layer(0.5)), (facula.ones(shape),)), file)
    file.seek(0)
    result = facula.export.load(file).module()(facula.ones(shape))
    assert_whole_channels(result, spatial_of(layer, shape))
