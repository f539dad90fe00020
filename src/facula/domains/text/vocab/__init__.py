"""Words and their numbers.

Takes: words with their frequencies, or texts. Gives: `Vocab`, and tables of vectors for words (`Vectors`).
Keeps true: a word has one number, and numbers have no gaps.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from facula import core, nn
from facula.core.errors import fail
from facula.ops.table.registry import F

from ..datasets import text_lines

__all__ = ["Vectors", "Vocab", "build_vocab_from_iterator", "vocab"]


class Vocab(nn.Module):
    """Words in the order of their numbers; called with words, gives numbers."""

    def __init__(self, tokens: Iterable[str] = ()) -> None:
        super().__init__()
        self._words = list(tokens)
        self._numbers = {word: i for i, word in enumerate(self._words)}
        self._default: int | None = None
        if len(self._numbers) != len(self._words):
            twice = [word for word, count in Counter(self._words).items() if count > 1]
            required, hint = "words that differ were required", "leave out repeats"
            fail(RuntimeError, "Vocab", required, f"{twice[0]!r} twice", hint=hint)

    def forward(self, tokens: list[str]) -> list[int]:
        return self.lookup_indices(tokens)

    def __len__(self) -> int:
        return len(self._words)

    def __contains__(self, token: str) -> bool:
        return token in self._numbers

    def __getitem__(self, token: str) -> int:
        found = self._numbers.get(token, self._default)
        if found is None:
            required = "a word of the vocabulary was required"
            hint = "set_default_index(number) says what the others are"
            fail(RuntimeError, "Vocab", required, f"Token {token} not found", hint=hint)
        return found

    def set_default_index(self, index: int | None) -> None:
        """The number of words that are not in the vocabulary; None makes them errors."""
        self._default = index

    def get_default_index(self) -> int | None:
        """The number of words that are not in the vocabulary."""
        return self._default

    def insert_token(self, token: str, index: int) -> None:
        """A new word at a number; those from there on move up."""
        if not 0 <= index <= len(self._words) or token in self._numbers:
            required = f"a new word, and a number from 0 to {len(self._words)}, were required"
            fail(
                RuntimeError,
                "Vocab",
                required,
                f"{token!r} at {index}",
                hint="append_token() adds at the end",
            )
        self._words.insert(index, token)
        self._numbers = {word: i for i, word in enumerate(self._words)}

    def append_token(self, token: str) -> None:
        """A new word behind the last."""
        if token in self._numbers:
            required, hint = "a new word was required", "it is in the vocabulary already"
            fail(RuntimeError, "Vocab", required, f"Token {token}", hint=hint)
        self._numbers[token] = len(self._words)
        self._words.append(token)

    def lookup_token(self, index: int) -> str:
        """The word of a number."""
        if not 0 <= index < len(self._words):
            required, hint = f"a number below {len(self._words)} was required", "numbers begin at 0"
            fail(RuntimeError, "Vocab", required, index, hint=hint)
        return self._words[index]

    def lookup_tokens(self, indices: list[int]) -> list[str]:
        """The words of numbers."""
        return [self.lookup_token(index) for index in indices]

    def lookup_indices(self, tokens: list[str]) -> list[int]:
        """The numbers of words."""
        return [self[token] for token in tokens]

    def get_stoi(self) -> dict[str, int]:
        """All words and their numbers."""
        return dict(self._numbers)

    def get_itos(self) -> list[str]:
        """All words in the order of their numbers."""
        return list(self._words)


def vocab(
    ordered_dict: dict[str, int],
    min_freq: int = 1,
    specials: list[str] | None = None,
    special_first: bool = True,
) -> Vocab:
    """A vocabulary of words with their frequencies, in their order; `specials` come first, or last."""
    special = list(specials or [])
    words = [w for w, count in ordered_dict.items() if count >= min_freq and w not in special]
    return Vocab(special + words if special_first else words + special)


def build_vocab_from_iterator(
    iterator: Iterable[Iterable[str]],
    min_freq: int = 1,
    specials: list[str] | None = None,
    special_first: bool = True,
    max_tokens: int | None = None,
) -> Vocab:
    """A vocabulary of the words of texts, the most frequent first, equally frequent ones in the order of letters."""
    counts: Counter[str] = Counter()
    for words in iterator:
        counts.update(words)
    for word in specials or []:
        counts.pop(word, None)
    ordered = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    if max_tokens is not None:
        room = max_tokens - len(specials or [])
        if room < 0:
            required = f"room for {len(specials or [])} special words was required"
            fail(
                ValueError,
                "build_vocab_from_iterator",
                required,
                max_tokens,
                hint="max_tokens counts them",
            )
        ordered = ordered[:room]
    return vocab(dict(ordered), min_freq, specials, special_first)


def _numbers(values: list[str]) -> list[float]:
    """The numbers of a line; none where one of them is no number."""
    try:
        return [float(value) for value in values]
    except ValueError:
        return []


class Vectors:
    """A vector for each word, out of a text file of this machine: a word and its numbers in each line."""

    def __init__(self, name: Any, unk_init: Callable[[Any], Any] | None = None) -> None:
        self.itos: list[str] = []
        rows: list[list[float]] = []
        path = os.fspath(name)
        for number, line in enumerate(text_lines("Vectors", path), 1):
            word, *values = line.rstrip().split(" ")
            if number == 1 and len(values) == 1:
                continue  # fastText begins with two sizes
            rows.append(_numbers(values))
            if not rows[-1] or len(rows[-1]) != len(rows[0]):
                required, got = "a word and its numbers were required", f"{path}, line {number}"
                fail(RuntimeError, "Vectors", required, got, hint="each line has as many numbers")
            self.itos.append(word)
        self.stoi = {word: i for i, word in enumerate(self.itos)}
        self.vectors = core.tensor(rows)
        self.dim = self.vectors.shape[1] if rows else 0
        self.unk_init = unk_init or F.zeros_like

    def __getitem__(self, token: str) -> Any:
        if token in self.stoi:
            return self.vectors[self.stoi[token]]
        return self.unk_init(core.empty((self.dim,)))

    def __len__(self) -> int:
        return len(self.itos)

    def get_vecs_by_tokens(self, tokens: Any, lower_case_backup: bool = False) -> Any:
        """The vector of a word, or of each of several."""
        words = [tokens] if isinstance(tokens, str) else tokens
        if lower_case_backup:
            words = [word if word in self.stoi else word.lower() for word in words]
        found = F.stack([self[word] for word in words])
        return found[0] if isinstance(tokens, str) else found
