"""How good a translation is."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from facula.core.errors import fail

__all__ = ["bleu_score"]


def _counts(words: Sequence[str], most: int) -> Counter[tuple[str, ...]]:
    """How often each run of words comes; a word may hold spaces itself."""
    runs = (
        tuple(words[begin : begin + size])
        for size in range(1, most + 1)
        for begin in range(len(words) - size + 1)
    )
    return Counter(runs)


def _checked_weights(weights: Sequence[float] | None, max_n: int) -> Sequence[float]:
    if max_n < 1:
        required, hint = "n-grams of at least one word were required", "4 is the usual one"
        fail(ValueError, "bleu_score", required, max_n, hint=hint)
    weights = [1 / max_n] * max_n if weights is None else weights
    if len(weights) != max_n:
        required = f"{max_n} weights were required (weights must be equal to max_n)"
        fail(ValueError, "bleu_score", required, len(weights), hint="leave them out for equal ones")
    return weights


def _check_references(candidates: int, references: list[Sequence[Sequence[str]]]) -> None:
    if candidates != len(references):
        required = (
            f"references for each of {candidates} candidates were required (The length of "
            "candidate and reference corpus should be the same)"
        )
        hint = "a list of references for each"
        fail(ValueError, "bleu_score", required, len(references), hint=hint)
    for row, texts in enumerate(references):
        if not len(texts):
            required, hint = "a reference for each candidate was required", "leave it out"
            fail(ValueError, "bleu_score", required, f"none in row {row}", hint=hint)


def bleu_score(
    candidate_corpus: Iterable[Sequence[str]],
    references_corpus: Iterable[Sequence[Sequence[str]]],
    max_n: int = 4,
    weights: Sequence[float] | None = None,
) -> float:
    """How many n-grams of translations stand in their references, up to `max_n` words. [Papineni et al. 2002]"""
    weights = _checked_weights(weights, max_n)
    candidates, references = list(candidate_corpus), list(references_corpus)
    _check_references(len(candidates), references)
    right, total = [0] * max_n, [0] * max_n
    length = wanted = 0
    for words, texts in zip(candidates, references, strict=True):
        length += len(words)
        wanted += min((abs(len(words) - len(text)), len(text)) for text in texts)[1]
        known: Counter[tuple[str, ...]] = Counter()
        for text in texts:
            known |= _counts(text, max_n)
        for gram, count in (_counts(words, max_n) & known).items():
            right[len(gram) - 1] += count
        for n in range(max_n):
            total[n] += max(len(words) - n, 0)
    if not min(right):
        return 0.0
    score = sum(w * math.log(r / t) for w, r, t in zip(weights, right, total, strict=True))
    return math.exp(min(1 - wanted / length, 0) + score)
