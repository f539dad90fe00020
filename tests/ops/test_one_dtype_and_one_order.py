"""Operators that take tensors of one dtype, and results that lie as the argument does; both as in PyTorch."""

import numpy as np
import pytest

import facula
from facula.nn import functional as F

A, B = facula.ones(1, 3), facula.ones(1, 3, dtype=facula.float64)

REFUSED = {
    "isclose": (lambda: facula.isclose(A, B), "Float did not match Double"),
    "allclose": (lambda: facula.allclose(A, B), "Float did not match Double"),
    "cross": (lambda: facula.linalg.cross(A, B), "expected scalar type Float but found Double"),
    "cdist": (lambda: facula.cdist(A, B), "expected scalar type Float but found Double"),
    "bce": (lambda: F.binary_cross_entropy(A, B), "Found dtype Double but expected Float"),
    "prelu": (lambda: F.prelu(A, B[0]), "Type promoting not supported. Got Float and Double"),
    "layer_norm": (lambda: F.layer_norm(A, (3,), B[0]), "mixed dtype"),
    "group_norm": (lambda: F.group_norm(A, 1, B[0]), "mixed dtype"),
    "batch_norm": (lambda: F.batch_norm(facula.ones(2, 3), B[0], B[0]), "mixed dtype"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_two_dtypes_are_refused(name):
    call, message = REFUSED[name]
    with pytest.raises(RuntimeError, match=message):
        call()


def test_half_precision_beside_parameters_of_single():
    x = facula.rand(2, 4).bfloat16()
    w = facula.rand(4)
    assert F.layer_norm(x, (4,), w).dtype is facula.bfloat16
    assert F.group_norm(x, 2, w).dtype is facula.bfloat16


def test_batches_without_elements_are_not_looked_at():
    m = facula.nn.BatchNorm1d(3)
    assert m(facula.ones(0, 3, dtype=facula.float64)).shape == (0, 3)


IMAGES = facula.rand(2, 3, 4, 5).to(memory_format=facula.channels_last)

CALLS = {
    "flip": (lambda x: x.flip(1, -1), lambda a: np.flip(a, (1, 3))),
    "flip of rows": (lambda x: x.flip(2), lambda a: np.flip(a, 2)),
    "roll": (lambda x: x.roll((1, -2), (1, 3)), lambda a: np.roll(a, (1, -2), (1, 3))),
    "sort": (lambda x: x.sort(1)[0], lambda a: np.sort(a, 1)),
    "sort of columns": (lambda x: x.sort(-1)[0], lambda a: np.sort(a, -1)),
    "positions": (lambda x: x.sort(2)[1], lambda a: np.argsort(a, 2, kind="stable")),
    "msort": (lambda x: x.msort(), lambda a: np.sort(a, 0)),
}


@pytest.mark.parametrize("name", CALLS)
def test_channels_stay_last(name):
    call, plain = CALLS[name]
    found = call(IMAGES)
    assert found.is_contiguous(memory_format=facula.channels_last)
    assert np.array_equal(found.numpy(), plain(IMAGES.numpy()))
    other = call(IMAGES.contiguous())
    assert other.is_contiguous()
    assert facula.equal(other, found)


@pytest.mark.parametrize("name", CALLS)
def test_compiled_programs_keep_them_too(name):
    call, plain = CALLS[name]
    found = facula.compile(call)(IMAGES)
    assert np.array_equal(found.numpy(), plain(IMAGES.numpy()))


def test_rolled_without_dimensions():
    assert np.array_equal(IMAGES.roll(7).numpy(), np.roll(IMAGES.numpy(), 7))


class Repeated(facula.nn.Module):
    def forward(self, x, counts):
        return facula.repeat_interleave(x, counts, dim=0) * 2


@pytest.mark.parametrize("strict", [False, True])
def test_rows_are_repeated_by_counts_that_a_program_computes(strict):
    """The number of rows follows from elements: exported programs find it when they run."""
    x, counts = facula.arange(6.0).reshape(3, 2), facula.tensor([2, 0, 3])
    exported = facula.export.export(Repeated(), (x, counts), strict=strict)
    for program in (exported, exported.run_decompositions({})):
        for other in (counts, facula.tensor([1, 1, 5])):
            found = program.module()(x, other)
            assert np.array_equal(found.numpy(), 2 * np.repeat(x.numpy(), other.numpy(), 0))
    known = facula.repeat_interleave(x.to("meta"), counts.to("meta"), 0, output_size=5)
    assert known.shape == (5, 2)
