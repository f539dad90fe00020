"""Transforms of text as modules: words, numbers, tensors.

Takes: strings or lists. Gives: modules. Keeps true: files are this machine's.
"""

from __future__ import annotations

import re
from typing import Any

from facula import core, nn
from facula.core.errors import fail

from .._extras import extra
from . import functional as F

__all__ = [
    "AddToken", "LabelToIndex", "PadTransform", "RegexTokenizer", "Sequential", "SentencePieceTokenizer",
    "StrToIntTransform", "ToTensor", "TokenizerTransform", "Truncate", "VocabTransform",
]  # fmt: skip


class Sequential(nn.Sequential):
    """Transforms one after the other."""


class VocabTransform(nn.Module):
    """Words as numbers."""

    def __init__(self, vocab: Any) -> None:
        super().__init__()
        self.vocab = vocab

    def forward(self, input: core.Tensor) -> Any:
        if input and isinstance(input[0], list):
            return [self.vocab.lookup_indices(words) for words in input]
        return self.vocab.lookup_indices(input)


class ToTensor(nn.Module):
    """See `functional.to_tensor`."""

    def __init__(self, padding_value: int | None = None, dtype: core.dtype = core.int64) -> None:
        super().__init__()
        self.padding_value, self.dtype = padding_value, dtype

    def forward(self, input: core.Tensor) -> Any:
        return F.to_tensor(input, self.padding_value, self.dtype)


class Truncate(nn.Module):
    """See `functional.truncate`."""

    def __init__(self, max_seq_len: int) -> None:
        super().__init__()
        self.max_seq_len = max_seq_len

    def forward(self, x: core.Tensor) -> Any:
        return F.truncate(x, self.max_seq_len)


class AddToken(nn.Module):
    """See `functional.add_token`."""

    def __init__(self, token: object, begin: bool = True) -> None:
        super().__init__()
        self.token, self.begin = token, begin

    def forward(self, input: core.Tensor) -> Any:
        return F.add_token(input, self.token, self.begin)


class StrToIntTransform(nn.Module):
    """See `functional.str_to_int`."""

    def forward(self, input: core.Tensor) -> Any:
        return F.str_to_int(input)


class PadTransform(nn.Module):
    """Tensors filled up to a length along the last dimension."""

    def __init__(self, max_length: int, pad_value: int) -> None:
        super().__init__()
        self.max_length, self.pad_value = max_length, float(pad_value)

    def forward(self, x: core.Tensor) -> Any:
        missing = self.max_length - x.shape[-1]
        return nn.functional.pad(x, [0, missing], value=self.pad_value) if missing > 0 else x


class LabelToIndex(nn.Module):
    """Names of classes as numbers: the names of a list, or of a file's lines."""

    def __init__(
        self, label_names: list[str] | None = None, label_path: Any = None, sort_names: bool = False
    ) -> None:
        super().__init__()
        if (label_names is None) == (label_path is None):
            required = "either label_names or label_path was required"
            fail(
                ValueError,
                "LabelToIndex",
                required,
                "both or none",
                hint="label_names=['no', 'yes']",
            )
        if label_names is None:
            with open(label_path, encoding="utf-8") as file:
                label_names = [line.strip() for line in file if line.strip()]
        self.label_names = sorted(label_names) if sort_names else list(label_names)
        self._numbers = {name: i for i, name in enumerate(self.label_names)}

    def forward(self, labels: Any) -> Any:
        if isinstance(labels, list):
            return [self.forward(label) for label in labels]
        if labels not in self._numbers:
            hint = f"the labels are {', '.join(self.label_names[:8])}"
            fail(
                KeyError,
                "LabelToIndex",
                "a label that is known was required",
                repr(labels),
                hint=hint,
            )
        return self._numbers[labels]


class RegexTokenizer(nn.Module):
    """Text changed by patterns one after the other, then split at spaces."""

    def __init__(self, patterns_list: list[tuple[str, str]]) -> None:
        super().__init__()
        try:
            self.patterns = [(re.compile(pattern), to) for pattern, to in patterns_list]
        except re.error as error:
            hint = "the re module describes patterns"
            fail(
                ValueError, "RegexTokenizer", "regular expressions were required", error, hint=hint
            )

    def forward(self, line: Any) -> Any:
        if isinstance(line, list):
            return [self.forward(each) for each in line]
        for pattern, to in self.patterns:
            line = pattern.sub(to, line)
        return line.split()


class TokenizerTransform(nn.Module):
    """Byte-pair and other tokenizers of the library `tokenizers`, out of a file of this machine."""

    def __init__(self, path: Any, return_tokens: bool = False) -> None:
        super().__init__()
        library = extra("tokenizers", "TokenizerTransform")
        try:
            self.tokenizer = library.Tokenizer.from_file(str(path))
        except Exception as error:
            required, hint = "the file of a tokenizer was required", "tokenizer.json of the library"
            fail(RuntimeError, "TokenizerTransform", required, f"{path}: {error}", hint=hint)
        self.return_tokens = return_tokens

    def forward(self, input: core.Tensor) -> Any:
        if isinstance(input, list):
            return [self.forward(each) for each in input]
        found = self.tokenizer.encode(input)
        return found.tokens if self.return_tokens else found.ids


class SentencePieceTokenizer(nn.Module):
    """Pieces of words by sentencepiece, an extra, out of a model file of this machine."""

    def __init__(self, sp_model_path: Any) -> None:
        super().__init__()
        library = extra("sentencepiece", "SentencePieceTokenizer")
        try:
            self.model = library.SentencePieceProcessor(model_file=str(sp_model_path))
        except (OSError, RuntimeError) as error:
            required, hint = "the model file of sentencepiece was required", "check the path"
            got = f"{sp_model_path}: {error}"
            fail(RuntimeError, "SentencePieceTokenizer", required, got, hint=hint)

    def forward(self, input: core.Tensor) -> Any:
        return self.model.encode(input, out_type=str)
