"""Policies of selective checkpoints that keep or compute again whatever they are asked about."""

import pytest

import facula
from facula.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)


@pytest.mark.parametrize("decision", list(CheckpointPolicy))
def test_one_decision_for_all_operators(decision):
    asked = []

    def policy(context, operator, *args, **kwargs):
        asked.append(operator)
        return decision

    facula.manual_seed(0)
    x = facula.randn(3, 4, dtype=facula.float64, requires_grad=True)
    w = facula.randn(4, 4, dtype=facula.float64, requires_grad=True)

    def block(x):
        h = (x @ w).tanh()
        return (h.detach() + h) * 2.0

    kept = checkpoint(
        block,
        x,
        use_reentrant=False,
        context_fn=lambda: create_selective_checkpoint_contexts(policy),
    )
    found = facula.autograd.grad((kept**2).sum(), [x, w])
    with facula.no_grad():  # the slope of (2 (c + h))**2 at c = h, by h
        h = (x @ w).tanh()
        inner = 2 * (4 * h) * 2 * (1 - h * h)
    assert facula.allclose(found[0], inner @ w.T)
    assert facula.allclose(found[1], x.T @ inner)
    assert asked
    assert not any("detach" in str(operator) for operator in asked)
