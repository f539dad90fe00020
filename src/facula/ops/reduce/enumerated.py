"""Losses of the top level, whose reduction is a number: 0 none, 1 mean, 2 sum.

Takes: the arguments of the functions in `nn.functional`. Gives: what these give.
Keeps true: nothing is computed here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.layers.loss import REDUCTIONS
from facula.ops.table.registry import F, composite


def _define(schema: str, function: str, *, broadcasts: bool = False) -> None:
    """`facula.function` with the schema's arguments, the last but keyword-only ones a reduction.

    broadcasts: tensors of other numbers of dimensions are taken, which the function below `nn.functional` refuses
    """
    made: list[Any] = []

    def loss(*args: object) -> Any:
        given = dict(zip((p.name for p in made[0].schema.parameters), args, strict=True))
        number = given["reduction"]
        if number not in (0, 1, 2):
            fail(
                ValueError,
                function,
                "a reduction of 0, 1 or 2 was required",
                number,
                hint="0 is 'none', 1 'mean', 2 'sum'",
            )
        given["reduction"] = REDUCTIONS[number]
        if broadcasts:
            tensors = {n: v for n, v in given.items() if isinstance(v, core.Tensor)}
            given.update(zip(tensors, F.broadcast_tensors(*tensors.values()), strict=True))
        target: Callable[..., Any] = getattr(F, function)
        return target(**given)

    loss.__name__ = function
    loss.__doc__ = f"`nn.functional.{function}` with 0, 1 or 2 for no reduction, mean or sum."
    operator = composite(schema, names=(function,), out=False)(loss)
    made.append(operator.definition)


for _function, _arguments in (
    (
        "binary_cross_entropy_with_logits",
        "Tensor input, Tensor target, Tensor? weight=None, Tensor? pos_weight=None, int reduction=1",
    ),
    (
        "cosine_embedding_loss",
        "Tensor input1, Tensor input2, Tensor target, float margin=0.0, int reduction=1",
    ),
    ("hinge_embedding_loss", "Tensor input, Tensor target, float margin=1.0, int reduction=1"),
    ("kl_div", "Tensor input, Tensor target, int reduction=1, *, bool log_target=False"),
    (
        "margin_ranking_loss",
        "Tensor input1, Tensor input2, Tensor target, float margin=0.0, int reduction=1",
    ),
    (
        "poisson_nll_loss",
        "Tensor input, Tensor target, bool log_input, bool full, float eps, int reduction",
    ),
    (
        "triplet_margin_loss",
        "Tensor anchor, Tensor positive, Tensor negative, float margin=1.0, float p=2.0, "
        "float eps=1e-06, bool swap=False, int reduction=1",
    ),
):
    _define(
        f"{_function}_by_number({_arguments}) -> Tensor",
        _function,
        broadcasts=_function == "margin_ranking_loss",
    )
