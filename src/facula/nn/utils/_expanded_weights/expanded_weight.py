"""`ExpandedWeight`: a parameter whose gradient is kept for each entry of a batch.

Takes a parameter, and the size of the batch. Gives a tensor that stands for it in a module's forward.
Keeps true: results are those of the parameter; a backward pass puts `grad_sample`, one gradient an entry, on the
parameter and leaves its `grad` alone; what mixes entries of a batch is refused.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.core.errors import fail
from facula.namespaces.overrides import as_operator
from facula.nn.utils._expanded_weights.per_sample import SUPPORTED, run

__all__ = ["ExpandedWeight"]


class ExpandedWeight(core.Tensor):
    """A tensor in whose place an operator of a module computes gradients for each entry.

    Args:
        orig_weight: the parameter
        batch_size: how many entries there are
        loss_reduction: "sum" or "mean", by which the loss joins the entries
    """

    orig_weight: Any
    batch_size: int
    loss_reduction: str
    batch_first: bool
    allow_smaller_batches: bool

    @staticmethod
    def __new__(cls: Any, orig_weight: Any, batch_size: int, loss_reduction: str) -> Any:
        if not isinstance(orig_weight, core.Tensor):
            required = "a tensor was required: can only make Expanded Weights of Tensors"
            got = type(orig_weight).__name__
            fail(RuntimeError, "ExpandedWeight", required, got, "give a parameter of the module")
        if not orig_weight.requires_grad:
            required = "a tensor that requires grad was required for Expanded Weights"
            fail(RuntimeError, "ExpandedWeight", required, hint="orig_weight.requires_grad_()")
        made = core.Tensor._make_subclass(cls, orig_weight.detach(), True)
        made.orig_weight, made.batch_size = orig_weight, batch_size
        made.loss_reduction = loss_reduction
        made.batch_first, made.allow_smaller_batches = True, False
        return made

    @classmethod
    def __torch_function__(
        cls,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        operator, args = as_operator(func, args)
        if operator in SUPPORTED:
            return run(operator, args, kwargs or {})
        if getattr(func, "__name__", "") in (
            "__get__",
            "__set__",
            "__repr__",
            "dim",
            "size",
            "numel",
        ):
            return core.run_without_overrides(func, args, kwargs or {})
        names = ", ".join(sorted(op.definition.public_name for op in SUPPORTED))
        fail(
            RuntimeError,
            "ExpandedWeight",
            "Expanded Weights encountered but cannot handle function "
            f"{getattr(func, '__name__', func)}: an operator that works on each entry by itself was required",
            hint=f"one of {names}; func.vmap(func.grad(...)) differentiates any function for each entry",
        )

    def set_allow_smaller_batches(self, is_allow_smaller_batches: bool) -> None:
        """Say whether inputs may have fewer entries."""
        self.allow_smaller_batches = is_allow_smaller_batches

    def set_batch_first(self, is_batch_first: bool = True) -> None:
        """Say whether entries lie along the first dimension of inputs, or the second."""
        self.batch_first = is_batch_first
