"""Losses and alignments of sequences of labels."""

from __future__ import annotations

import dataclasses
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.table.registry import TABLE, F

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


@dataclasses.dataclass
class TokenSpan:
    """Where a label is said.

    Args:
        token: the label.
        start: its first step.
        end: the step behind its last.
        score: the mean of the scores between.

    Example:
        >>> from facula.audio.functional import TokenSpan
        >>> len(TokenSpan(token=3, start=2, end=5, score=0.5))
        3
    """

    token: int
    start: int
    end: int
    score: float

    def __len__(self) -> int:
        """How many steps."""
        return self.end - self.start


def merge_tokens(tokens: core.Tensor, scores: core.Tensor, blank: int = 0) -> list[TokenSpan]:
    """Runs of equal labels as one each, those of the blank left out.

    Args:
        tokens: the label of each step, as of `forced_align`.
        scores: the score of each step.
        blank: the label of nothing.

    Raises:
        ValueError: they are not one row each, of one length.

    Example:
        >>> import facula
        >>> steps, scores = facula.tensor([0, 2, 2, 0, 1]), facula.tensor([0.0, 1.0, 0.5, 0.0, 1.0])
        >>> [(s.token, s.start, s.end, s.score) for s in facula.audio.functional.merge_tokens(steps, scores)]
        [(2, 1, 3, 0.75), (1, 4, 5, 1.0)]
    """
    if tokens.dim() != 1 or tokens.shape != scores.shape:
        required = "labels and scores of one dimension and one length were required"
        got = f"{list(tokens.shape)} and {list(scores.shape)}"
        fail(ValueError, "merge_tokens", required, got, hint="tokens[0] is the first of a batch")
    labels, spans, start = tokens.tolist(), [], 0
    for end in range(1, len(labels) + 1):
        if end == len(labels) or labels[end] != labels[start]:
            if labels[start] != blank:
                score = float(scores[start:end].mean())
                spans.append(TokenSpan(labels[start], start, end, score))
            start = end
    return spans
