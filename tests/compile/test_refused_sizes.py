"""Assumptions about sizes are tried on other sizes: what an operator refuses does not hold, what is a
fault of the compiler comes to light."""

from __future__ import annotations

from typing import Any

import pytest

import facula
from facula import library
from facula.capture.values import sizes
from facula.capture.values.sizes import Facts, Replay
from facula.fx.experimental.symbolic_shapes import ConstraintViolationError

REFUSED = [RuntimeError, NotImplementedError, ValueError, TypeError, IndexError, AssertionError,
           ZeroDivisionError, OverflowError]  # fmt: skip
FAULTS = [AttributeError, KeyError, NameError, UnboundLocalError]


class World:
    """As much of a capture as facts need."""

    fakes: Any = None
    attached: Any = {}
    inputs: Any = ()


@pytest.mark.parametrize("kind", [*REFUSED, *FAULTS])
def test_only_refusals_are_answers(kind: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    def raising(number: Any, replay: Replay) -> Any:
        raise kind("of a replay")

    monkeypatch.setattr(sizes, "value_of_number", raising)
    facts = Facts(World(), [("number", True)])
    if kind in REFUSED:
        assert not facts.hold()
    else:
        with pytest.raises(kind):
            facts.hold()


def test_a_program_whose_operator_refuses_other_sizes() -> None:
    @library.custom_op("refused_sizes::halves", mutates_args=())
    def halves(x: facula.Tensor) -> facula.Tensor:
        return x[: len(x) // 2].clone()

    @halves.register_fake
    def _(x: facula.Tensor) -> facula.Tensor:
        assert len(x) % 2 == 0, "an even number of rows"
        return x.new_empty(len(x) // 2, *x.shape[1:])

    def program(x: facula.Tensor) -> facula.Tensor:
        y = halves(x)
        return y * 2 if y.shape[0] > 3 else y - 1

    compiled = facula.compile(program, dynamic=True)
    for rows in (8, 12, 4, 6, 16):
        x = facula.arange(float(rows))
        assert compiled(x).tolist() == program(x).tolist()


def test_a_size_outside_of_the_range_of_its_mark():
    x = facula.rand(8, 3)
    facula._dynamo.mark_dynamic(x, 0, min=2, max=5)
    with pytest.raises(ConstraintViolationError, match=r"max=5.*got 8"):
        facula.compile(lambda v: v.sin(), backend="eager")(x)
