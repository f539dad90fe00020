"""Functions with a gradient of their own that write to an input, in compiled programs."""

from __future__ import annotations

from typing import Any

import pytest

import facula


class Doubled(facula.autograd.Function):
    """Twice the input, in its place, with a gradient that is told apart from that of a product."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return 5 * grad


def of_a_result(x: Any) -> Any:
    y = x * 1
    Doubled.apply(y)
    return y


def of_a_written_one(x: Any) -> Any:
    y = x * 1
    y.add_(1)
    z = Doubled.apply(y)
    return z * 1 if z is y else None


def seen_through_a_view(x: Any) -> Any:
    y = x * 1
    shown = y.view(-1)
    Doubled.apply(y)
    return shown + 0


def of_a_part(x: Any) -> Any:
    y = x * 1
    Doubled.apply(y[:1])
    return y


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize(
    ("program", "values", "gradient"),
    [
        (of_a_result, [2, 4], [5, 5]),
        (of_a_written_one, [4, 6], [5, 5]),
        (seen_through_a_view, [2, 4], [5, 5]),
        (of_a_part, [2, 2], [5, 1]),
    ],
)
def test_the_gradient_is_the_function_s(
    program: Any, values: list[float], gradient: list[float], backend: str
) -> None:
    """Whatever shows the written elements has the function's gradient."""
    x = facula.tensor([1.0, 2.0], requires_grad=True)
    result = facula.compile(program, backend=backend)(x)
    result.sum().backward()
    assert result.tolist() == values and x.grad.tolist() == gradient
