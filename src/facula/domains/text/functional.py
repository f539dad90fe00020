"""Functions of lists of numbers and words."""

from __future__ import annotations

from typing import Any

from facula import core, nn
from facula.core.errors import fail

__all__ = ["add_token", "str_to_int", "to_tensor", "truncate"]


def _deep(input: core.Tensor) -> bool:
    return bool(input) and isinstance(input[0], list)


def to_tensor(
    input: core.Tensor, padding_value: int | None = None, dtype: core.dtype = core.int64
) -> Any:
    """Numbers, or lists of numbers, as a tensor; the shorter lists are filled up."""
    if not _deep(input):
        return core.tensor(input, dtype=dtype)
    if padding_value is None:
        if len({len(row) for row in input}) > 1:
            required, hint = "lists of one length were required", "padding_value fills shorter ones"
            fail(ValueError, "to_tensor", required, sorted({len(row) for row in input}), hint=hint)
        return core.tensor(input, dtype=dtype)
    rows = [core.tensor(row, dtype=dtype) for row in input]
    return nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=float(padding_value))


def truncate(input: core.Tensor, max_seq_len: int) -> Any:
    """Lists cut off behind so many entries."""
    return [row[:max_seq_len] for row in input] if _deep(input) else input[:max_seq_len]


def add_token(input: core.Tensor, token_id: object, begin: bool = True) -> Any:
    """An entry before, or behind, each list."""
    if _deep(input):
        return [add_token(row, token_id, begin) for row in input]
    return [token_id, *input] if begin else [*input, token_id]


def str_to_int(input: Any) -> Any:
    """Whole numbers that are written as words."""
    return [str_to_int(each) for each in input] if isinstance(input, list) else int(input)
