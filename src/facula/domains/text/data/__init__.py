"""Words out of text, and how good a translation is."""

from .metrics import bleu_score
from .utils import get_tokenizer, ngrams_iterator

__all__ = ["bleu_score", "get_tokenizer", "ngrams_iterator"]
