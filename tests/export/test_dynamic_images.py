"""Programs of images whose heights and widths may change: they stay symbols, and give what the module gives."""

import io
import math

import numpy as np
import pytest

import facula
from facula.export import Dim, export
from facula.ops.conv.resample import _scaled

D = Dim.DYNAMIC
F = facula.nn.functional


class _Calling(facula.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def _image(*shape):
    return facula.arange(math.prod(shape)).float().sin().reshape(shape)


_CHANGES = {
    "doubled": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
    "nearest": lambda x: F.interpolate(x, scale_factor=1.5),
    "smaller": lambda x: F.interpolate(x, scale_factor=(0.5, 0.25), mode="area"),
    "to its own size": lambda x: F.interpolate(x[..., ::2, ::2], size=x.shape[2:], mode="bicubic"),
    "transposed convolution": facula.nn.ConvTranspose2d(4, 3, 3, stride=2, output_padding=1),
    "flat and back": lambda x: x.flatten(2).transpose(1, 2).reshape(x.shape),
}


@pytest.mark.parametrize("name", _CHANGES)
def test_heights_and_widths_stay_symbols(name):
    module = _Calling(_CHANGES[name])
    program = export(module, (_image(2, 4, 8, 12),), dynamic_shapes=({0: D, 2: D, 3: D},))
    file = io.BytesIO()
    facula.export.save(program, file)
    file.seek(0)
    made = [program, program.run_decompositions(), facula.export.load(file)]
    for shape in (
        (2, 4, 8, 12),
        (3, 4, 20, 8),
        (5, 4, 9, 16),
    ):  # higher than wide, and wider than high
        x = _image(*shape)
        for one in made:
            assert facula.equal(one.module()(x), module(x)), (name, shape)


@pytest.mark.parametrize("shape", [(2, 4, 12, 4), (3, 4, 2, 8)])
def test_pixels_become_channels_at_every_even_size(shape):
    half = {2: 2 * Dim("h", min=1, max=50), 3: 2 * Dim("w", min=1, max=50)}
    module = _Calling(lambda x: F.pixel_unshuffle(x, 2))
    program = export(module, (_image(2, 4, 4, 6),), dynamic_shapes=({0: D, **half},))
    x = _image(*shape)
    n, c, h, w = shape
    expected = x.numpy().reshape(n, c, h // 2, 2, w // 2, 2).transpose(0, 1, 3, 5, 2, 4)
    assert np.array_equal(program.module()(x).numpy(), expected.reshape(n, 4 * c, h // 2, w // 2))


def test_batch_norm_is_exported_in_training_with_sizes_that_change():
    module = facula.nn.BatchNorm2d(4)
    program = export(module, (_image(2, 4, 8, 8),), dynamic_shapes=({0: D, 2: D, 3: D},))
    x = _image(3, 4, 5, 9)
    values = x.numpy().transpose(1, 0, 2, 3).reshape(4, -1)
    run = program.module()
    result = run(x).detach().numpy().transpose(1, 0, 2, 3).reshape(4, -1)
    scaled = (values - values.mean(1, keepdims=True)) / np.sqrt(values.var(1, keepdims=True) + 1e-5)
    assert np.allclose(result, scaled, atol=1e-5)
    assert np.allclose(run.get_buffer("running_mean").numpy(), 0.1 * values.mean(1), atol=1e-6)


def test_factors_of_symbols_round_down_as_floats_do():
    env = facula.fx.shape_env.ShapeEnv(duck_shape=False)
    for factor in (2.0, 0.5, 1.5, 0.75, 2 / 3, 1.1, 0.1, 3.0):
        for size in (2, 5, 9, 10, 90, 1000, 12345):
            symbol = env.create_symint(size)
            assert int(_scaled(symbol, factor)) == math.floor(size * factor), (factor, size)
    kept = _scaled(env.create_symint(10), 1.5)
    assert sorted(kept.expr.value({str(s): n for s in kept.expr.free_symbols}) for n in (7, 8)) == [
        10,
        12,
    ]
