"""Words out of text, and runs of words.

Takes: strings. Gives: lists of words. Keeps true: nothing is fetched; libraries are asked for when they are named.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

from facula.core.errors import fail

__all__ = ["get_tokenizer", "ngrams_iterator"]

#: what is set apart, and what is dropped, of English text
_ENGLISH = [
    (re.compile(pattern), to)
    for pattern, to in (
        (r"'", " '  "), (r'"', ""), (r"\.", " . "), (r"<br \/>", " "), (r",", " , "), (r"\(", " ( "),
        (r"\)", " ) "), (r"\!", " ! "), (r"\?", " ? "), (r"[;:]", " "), (r"\s+", " "),
    )
]  # fmt: skip


def basic_english(line: str) -> list[str]:
    """Lower case, with most marks as words of their own."""
    line = line.lower()
    for pattern, to in _ENGLISH:
        line = pattern.sub(to, line)
    return line.split()


def get_tokenizer(tokenizer: Any, language: str = "en") -> Callable[[str], list[str]]:
    """A function from text to words: `None` (split at spaces), "basic_english", a function, or "spacy", "moses",
    "toktok", "revtok", "subword" by the libraries of these names."""
    if tokenizer is None:
        return str.split
    if callable(tokenizer):
        return tokenizer
    if tokenizer == "basic_english":
        if language != "en":
            required = "the language 'en' was required (Basic normalization is only available for Enlish(en))"
            fail(
                ValueError, "get_tokenizer", required, repr(language), hint="use another tokenizer"
            )
        return basic_english
    return _of_library(tokenizer, language)


def _of_library(name: str, language: str) -> Any:
    places = {
        "spacy": "spacy",
        "moses": "sacremoses",
        "toktok": "nltk.tokenize.toktok",
        "revtok": "revtok",
    }
    if name not in places:
        required = "the name of a tokenizer was required (Requested tokenizer not supported)"
        hint = f"None, 'basic_english', {', '.join(map(repr, places))}, or a function"
        fail(ValueError, "get_tokenizer", required, repr(name), hint=hint)
    try:
        module: Any = import_module(places[name])
    except ModuleNotFoundError:
        root = places[name].partition(".")[0]
        required, hint = f"the library {root!r} was required", f"pip install {root}"
        fail(ModuleNotFoundError, "get_tokenizer", required, "none installed", hint=hint)
    if name == "spacy":
        pipeline = module.load(language)
        return lambda text: [token.text for token in pipeline.tokenizer(text)]
    return {
        "moses": lambda: module.MosesTokenizer(language).tokenize,
        "toktok": lambda: module.ToktokTokenizer().tokenize,
        "revtok": lambda: module.tokenize,
    }[name]()


def ngrams_iterator(token_list: list[str], ngrams: int) -> Iterator[str]:
    """The words, then all runs of two words, and so on up to `ngrams` words."""
    yield from token_list
    for size in range(2, ngrams + 1):
        for begin in range(len(token_list) - size + 1):
            yield " ".join(token_list[begin : begin + size])
