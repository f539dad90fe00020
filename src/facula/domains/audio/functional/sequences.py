"""Losses and alignments of sequences of labels."""

from __future__ import annotations

from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.registry import TABLE, F

from .. import definitions as _definitions

assert _definitions is not None


def rnnt_loss(
    logits: core.Tensor,
    targets: core.Tensor,
    logit_lengths: core.Tensor,
    target_lengths: core.Tensor,
    blank: int = -1,
    clamp: float = -1,
    reduction: str = "mean",
    fused_log_softmax: bool = True,
) -> Any:
    """The negative log-probability of the targets over all ways a transducer says them. [Graves 2012]"""
    if reduction not in ("none", "mean", "sum"):
        required, hint = (
            "the reduction 'none', 'mean' or 'sum' was required",
            "'mean' is the default",
        )
        fail(ValueError, "rnnt_loss", required, repr(reduction), hint=hint)
    blank = logits.shape[-1] + blank if blank < 0 else blank
    given = (logits, targets, logit_lengths, target_lengths, blank, clamp, fused_log_softmax)
    costs = TABLE["torchaudio::rnnt_loss_forward"](*given)[0]
    return costs if reduction == "none" else costs.mean() if reduction == "mean" else costs.sum()


def forced_align(
    log_probs: core.Tensor,
    targets: core.Tensor,
    input_lengths: object = None,
    target_lengths: Any = None,
    blank: int = 0,
) -> tuple[Any, Any]:
    """The label of each step on the best path through the targets, and its log-probability."""
    batch = log_probs.shape[0]
    if input_lengths is None:
        input_lengths = F.full((batch,), log_probs.shape[1], dtype=core.int64)
    if target_lengths is None:
        target_lengths = F.full((batch,), targets.shape[1], dtype=core.int64)
    given = (log_probs, targets, input_lengths, target_lengths, blank)
    paths, scores = TABLE["torchaudio::forced_align"](*given)
    return paths, scores.gather(2, paths.to(core.int64).unsqueeze(2)).squeeze(2)


def edit_distance(seq1: Any, seq2: Any) -> int:
    """How many insertions, deletions and replacements lead from one sequence to another."""
    row = list(range(len(seq2) + 1))
    for i, a in enumerate(seq1, 1):
        before, row[0] = row[0], i
        for j, b in enumerate(seq2, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (a != b))
    return row[-1]
