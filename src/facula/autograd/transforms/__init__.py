"""Function transforms: `vmap`, `grad`, `vjp`, `jvp` and what is made of them.

Re-exports the transforms, and gives `autograd.grad(is_grads_batched=True)` its batched backward.
Keeps true: transforms nest in any order.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.autograd.transforms.forward import hessian, jacfwd, jvp, linearize
from facula.autograd.transforms.functional import debug_unwrap, functionalize
from facula.autograd.transforms.gradients import grad, grad_and_value, jacrev, vjp
from facula.autograd.transforms.reverse import gradients
from facula.autograd.transforms.vmapping import vmap
from facula.core.errors import fail

__all__ = """debug_unwrap functionalize grad grad_and_value hessian jacfwd jacrev jvp linearize vjp
vmap""".split()


def check_used(found: tuple, allow_unused: bool) -> None:
    """Raise for an input without a gradient, unless that is allowed."""
    for i, gradient in enumerate(found):
        if gradient is None and not allow_unused:
            fail(
                RuntimeError,
                "grad",
                (
                    "inputs that the outputs depend on were required: One of the differentiated "
                    f"Tensors (input {i}) appears to not have been used in the graph"
                ),
                hint="pass allow_unused=True if this is intended",
            )


def seen_backward(
    outputs: tuple, grads: tuple, retain: bool, create_graph: bool, inputs: tuple, allow: bool
) -> tuple:
    """A backward run of tensors as the active transforms see them."""
    found = gradients(outputs, grads, inputs, retain, create_graph)
    check_used(found, allow)
    return found


def batched_backward(
    outputs: tuple, grads: tuple, retain: bool, create_graph: bool, inputs: tuple, allow: bool
) -> tuple:
    """A backward run for a batch of gradients; those of the inputs have the batch in front."""
    outer = list(core.interpreters())
    present: list[bool] = []
    given = [g for g in grads if g is not None]

    def one(*rows: Any) -> tuple:
        values = iter(rows)
        row = tuple(None if g is None else next(values) for g in grads)
        if all(isinstance(t, core.Tensor) for t in (*outputs, *inputs)):
            found = gradients(outputs, row, inputs, retain, create_graph, outer)
        else:
            found = core.run_backward(outputs, row, retain, create_graph, inputs, True, False)
        check_used(found, allow)
        present[:] = [f is not None for f in found]
        return tuple(f for f in found if f is not None)

    results = iter(vmap(one, randomness="same")(*given))
    return tuple(next(results) if there else None for there in present)
