"""Numbers that depend on sizes, beside tensors: one program serves all sizes, as eager computes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest

import facula
from facula import nn
from facula.capture.guards import by_sizes

SIZES = (9, 10, 12, 14, 19, 23)


class Numbers(nn.Module):
    """A function of a tensor and its number of rows."""

    def __init__(self, function: Callable[[Any, int], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(x, x.shape[0])


PROGRAMS: dict[str, tuple[Callable[[], Any], Any, bool]] = {
    "quotient": (lambda: Numbers(lambda x, n: x.sin() / n + n * 2), facula.float32, True),
    "double": (lambda: Numbers(lambda x, n: x * (n - 1)), facula.float64, True),
    "integers": (lambda: Numbers(lambda x, n: x * n // 3 + n), facula.int64, False),
    "int32": (lambda: Numbers(lambda x, n: x * n - n), facula.int32, False),
    "comparison": (lambda: Numbers(lambda x, n: x < n), facula.int64, False),
    "choice": (lambda: Numbers(lambda x, n: facula.where(x > 0.5, x, n)), facula.float32, True),
    "mean": (lambda: Numbers(lambda x, n: x.mean(0).sin()), facula.float32, True),
    "var": (lambda: Numbers(lambda x, n: x.var(0).sin()), facula.float32, True),
    "std": (lambda: Numbers(lambda x, n: x.std(0, correction=0).sin()), facula.float32, True),
    "batch norm": (lambda: nn.BatchNorm1d(5), facula.float32, True),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_program_serves_all_sizes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make, dtype, trains = PROGRAMS[name]
    alone = []
    compiled_by = by_sizes.compiled_by
    monkeypatch.setattr(
        by_sizes, "compiled_by", lambda *given: (alone.append(1), compiled_by(*given))[1]
    )
    module, reference = make(), make()
    compiled = facula.compile(module, dynamic=True)
    for n in SIZES:
        values = (facula.arange(5.0 * n).reshape(n, 5) * 37 % 11) / 3
        found = []
        for call in (compiled, reference):
            x = values.to(dtype).requires_grad_(trains)
            y = call(x)
            if trains:
                (y * y).sum().backward()
            found.append((y.detach(), x.grad) if trains else (y,))
        for got, want in zip(*found, strict=True):
            assert got.dtype == want.dtype
            numpy.testing.assert_allclose(got.numpy(), want.numpy(), rtol=2e-5, atol=2e-5)
    assert len(alone) == 2  # the first size and the second; then one program for all
