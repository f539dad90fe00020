"""Decomposed programs consist of operators that PyTorch has."""

import numpy as np
import pytest

import facula
from facula import export, nn
from facula.nn import functional as F

IMAGE = facula.randn(2, 3, 8, 8)


class Calls(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


def names(program):
    return [str(n.target) for n in program.graph.nodes if n.op == "call_function"]


CALLS = {
    "aten.convolution.default": lambda x: F.conv2d(x, IMAGE[:, :, :3, :3]),
    "aten.max_pool2d_with_indices.default": lambda x: F.max_pool2d(x, 2),
    "aten.avg_pool2d.default": lambda x: F.avg_pool2d(x, 2),
    "aten._softmax.default": lambda x: F.softmax(x, 1),
    "aten.var.correction": lambda x: x.var(1),
    "aten.linalg_vector_norm.default": lambda x: x.norm(dim=1),
    "aten.upsample_bilinear2d.default": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
    "aten.reflection_pad1d.default": lambda x: F.pad(x[0], (1, 1), mode="reflect"),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls_stand_under_pytorchs_names(name):
    module = Calls(CALLS[name])
    program = export.export(module, (IMAGE,)).run_decompositions()
    assert name in names(program)
    other = facula.randn(2, 3, 8, 8)
    np.testing.assert_allclose(
        program.module()(other).numpy(), module(other).numpy(), rtol=1e-5, atol=1e-5
    )


def test_what_programs_call_stays_without_a_rule():
    program = export.export(Calls(lambda x: F.softmax(x, 1)), (IMAGE,))
    assert names(program.run_decompositions({})) == ["aten.softmax.int"]


def test_running_statistics_are_written():
    module = nn.BatchNorm2d(3)
    program = export.export(module, (IMAGE,)).run_decompositions()
    ran = program.module()
    ran(IMAGE)
    # a tenth of the mean of what was seen
    wanted = 0.1 * IMAGE.numpy().mean((0, 2, 3))
    found = dict(ran.named_buffers())["running_mean"]
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-4, atol=1e-6)


def test_sizes_that_may_change_stay_symbols():
    sizes = {0: export.Dim("n", min=2), 2: export.Dim("h", min=4), 3: export.Dim("w", min=4)}
    module = Calls(lambda x: F.adaptive_avg_pool2d(F.max_pool2d(x, 2, padding=1), 2).var(1))
    program = export.export(module, (IMAGE,), dynamic_shapes=((sizes,),)).run_decompositions()
    other = facula.randn(3, 3, 11, 9)
    np.testing.assert_allclose(
        program.module()(other).numpy(), module(other).numpy(), rtol=1e-5, atol=1e-5
    )


def test_parts_of_one_tensor_come_out_of_one_split():
    module = Calls(lambda x: facula.chunk(x * 2, 2, 0))
    program = export.export(module, (IMAGE,)).run_decompositions()
    assert names(program).count("aten.split_with_sizes.default") == 1
    for found, wanted in zip(program.module()(IMAGE), (IMAGE[:1] * 2, IMAGE[1:] * 2), strict=True):
        np.testing.assert_array_equal(found.numpy(), wanted.numpy())
