"""How far the results of two models are apart: PyTorch's comparisons of `ao.ns.fx.utils`.

Takes: two results, tensors or equal structures of such, quantized or not. Gives: the ratio of signal and noise, the
normalized error, and the cosine between them. Keeps true: integers are compared as the numbers that they stand for.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import facula
from facula import core

__all__ = ["compute_cosine_similarity", "compute_normalized_l2_error", "compute_sqnr"]


def maybe_dequantize_first_two_tensor_args_and_handle_tuples(
    f: Callable[..., Any],
) -> Callable[..., Any]:
    """A comparison that takes quantized tensors, and lists and tuples of tensors; None where there are no numbers."""

    @wraps(f)
    def compare(*args: Any, **kwargs: Any) -> Any:
        a, b, *rest = args
        if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
            return [compare(x, y, *rest, **kwargs) for x, y in zip(a, b, strict=False)]
        if not (isinstance(a, core.Tensor) and isinstance(b, core.Tensor)):
            return None
        a, b = (x.dequantize() if x.is_quantized else x for x in (a, b))
        if not (a.is_floating_point() and b.is_floating_point()):
            return None  # indices, for example: they are no measure of anything
        return f(*(x.float() if x.dtype is core.float16 else x for x in (a, b)), *rest, **kwargs)

    return compare


@maybe_dequantize_first_two_tensor_args_and_handle_tuples
def compute_sqnr(x: core.Tensor, y: core.Tensor) -> Any:
    """The ratio of signal and noise, in decibels.

    Args:
        x: what is right
        y: what is compared with it

    Example:
        >>> from facula.quantization.suite.errors import compute_sqnr
        >>> compute_sqnr(facula.tensor([3.0, 4.0]), facula.tensor([3.0, 4.5]))
        tensor(20.)
    """
    return 20 * facula.log10(facula.norm(x) / facula.norm(x - y))


@maybe_dequantize_first_two_tensor_args_and_handle_tuples
def compute_normalized_l2_error(x: core.Tensor, y: core.Tensor) -> Any:
    """The error's share of what is right.

    Args:
        x: what is right
        y: what is compared with it

    Example:
        >>> from facula.quantization.suite.errors import compute_normalized_l2_error
        >>> compute_normalized_l2_error(facula.tensor([3.0, 4.0]), facula.tensor([3.0, 4.5]))
        tensor(0.1000)
    """
    return facula.sqrt(((x - y) ** 2).sum() / (x**2).sum())


@maybe_dequantize_first_two_tensor_args_and_handle_tuples
def compute_cosine_similarity(x: core.Tensor, y: core.Tensor) -> Any:
    """The cosine of the angle between both.

    Args:
        x: what is right
        y: what is compared with it

    Example:
        >>> from facula.quantization.suite.errors import compute_cosine_similarity
        >>> compute_cosine_similarity(facula.tensor([3.0, 4.0]), facula.tensor([4.0, 3.0]))
        tensor([0.9600])
    """
    return facula.nn.functional.cosine_similarity(x.reshape(1, -1), y.reshape(1, -1))
