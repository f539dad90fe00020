"""Results that go past the caches: whatever their sizes and alignment, every element arrives."""

from __future__ import annotations

import pytest

import facula
from facula.lower.loops import non_temporal
from tests.inductor.support import check


@pytest.fixture(autouse=True)
def _everything_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(non_temporal, "LARGE", 1)
    facula.manual_seed(1)


def _sends(program) -> bool:
    return "fk_stream(" in program.c_source


@pytest.mark.parametrize("shape", [(5000,), (7, 1031), (3, 5, 257), (40000,)])
@pytest.mark.parametrize("dtype", [facula.float32, facula.float64, facula.bfloat16])
def test_elementwise_results_arrive(shape, dtype) -> None:
    x, y = facula.randn(shape).to(dtype), facula.randn(shape).to(dtype)
    program = check(lambda x, y: (x + y) * 2, x, y, tolerance=1e-6)
    assert _sends(program) == (dtype.itemsize * shape[-1] >= non_temporal.RUN)


def test_results_that_begin_within_a_line_arrive() -> None:
    x = facula.randn(9, 333)
    assert _sends(check(lambda x: (x[:, 1:] + 1, facula.cat([x + 2, x * 3], 1)), x))


@pytest.mark.parametrize("length", [300, 1024, 5001])
def test_rows_that_are_swept_arrive(length) -> None:
    def centred(x):
        return x - x.mean(1, True)

    assert _sends(check(centred, facula.randn(12, length), tolerance=1e-6))


def test_what_waits_for_arithmetic_is_stored_as_usual() -> None:
    assert not _sends(check(lambda x: x.exp() + 1, facula.randn(5000), tolerance=1e-6))


def test_what_the_kernel_reads_itself_is_stored_as_usual() -> None:
    x = facula.randn(64, 512)
    assert not _sends(check(lambda x: x.t().contiguous() + 1, x))


def test_dynamic_graphs_have_one_text_for_all_sizes() -> None:
    assert not _sends(check(lambda x: x + 1, facula.randn(5000), options={"dynamic": True}))
