"""What stands in state dictionaries of quantized layers, checked before it is used.

Takes: values out of a state dictionary, which may come from a file. Gives: the numbers and tensors that they should
be. Keeps true: anything else is an error that names the entry.
"""

from __future__ import annotations

from typing import Any, NoReturn

from facula import core
from facula.core.errors import fail

__all__ = ["number_in", "weight_and_bias"]


def _refuse(key: str, required: str, got: object) -> NoReturn:
    kind = type(got).__name__
    shape = f" of shape {list(got.shape)}" if isinstance(got, core.Tensor) else ""
    fail(RuntimeError, "load_state_dict", f"{required} was required as {key}", kind + shape,
         hint="the file is damaged, or of another layer")  # fmt: skip


def number_in(state: Any, key: str, kind: type) -> Any:
    """An entry that is a number, or a tensor of one, taken out of the dictionary."""
    value = state.pop(key)
    single = isinstance(value, core.Tensor) and value.numel() == 1 and value.device.type == "cpu"
    if not single and type(value) not in (int, float):
        _refuse(key, "a number", value)
    try:
        return kind(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        _refuse(key, "a real number" if kind is float else "a whole number", value)


def weight_and_bias(key: str, value: Any) -> tuple[core.Tensor, core.Tensor | None]:
    """An entry that is a weight and a bias, or a weight and None."""
    pair = value if isinstance(value, (tuple, list)) and len(value) == 2 else (None, None)
    weight, bias = pair
    if not isinstance(weight, core.Tensor) or not isinstance(bias, (core.Tensor, type(None))):
        _refuse(key, "a pair of a weight and a bias", value)
    return weight, bias
